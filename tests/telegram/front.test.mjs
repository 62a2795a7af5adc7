// The Bot API server of the tests, tested itself.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, afterEach, before, describe, test } from "node:test";
import { startBotApi } from "./bot-api.mjs";
import { ANSWERS, FAULTS, chance } from "./faults.mjs";
import { STRANGE, kinds } from "./updates.mjs";

const TOKEN = "100200300:synthetic-token";
const CHAT = 50001;
let front;
before(async () => {
  front = await startBotApi({ bots: { [TOKEN]: { gateway: "gateway_00sample", chats: [CHAT, -40001] } }, limits: { chat: false, bot: false } });
});
after(() => front.close());
afterEach(async () => {
  front.faults.clear();
  front.limits.set({ chat: false, bot: false });
  await front.start();
});

async function call(method, json, { token = TOKEN, signal, base = front.apiBase } = {}) {
  const answer = await fetch(`${base}/bot${token}/${method}`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(json), signal: signal ?? AbortSignal.timeout(5000),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, text, json: text.startsWith("{") ? JSON.parse(text) : undefined };
}
const send = (text, more = {}, options) => call("sendMessage", { chat_id: CHAT, text, ...more }, options);

async function control(name, json) {
  const answer = await fetch(`${front.controlUrl}/control/${name}`, json && { method: "POST", body: JSON.stringify(json) });
  return { status: answer.status, json: await answer.json() };
}

function assertRefused({ status, json }, code, description) {
  assert.equal(status, code);
  assert.deepEqual(json, { ok: false, error_code: code, description });
}

describe("sendMessage", () => {
  test("takes a message and shows it as Telegram does", async () => {
    const before = front.messagesOf(CHAT).length;
    const first = await send("  Good morning \n");
    assert.equal(first.status, 200);
    const { message_id, date, ...rest } = first.json.result;
    assert.ok(Math.abs(date - Date.now() / 1000) < 5);
    assert.deepEqual(rest, {
      from: { id: 100200300, is_bot: true, first_name: "Sample bot", username: "sample_hermod_bot" },
      chat: { id: CHAT, first_name: "Sample", username: "sample_50001", type: "private" },
      text: "Good morning",
    });
    assert.equal((await send("Good evening")).json.result.message_id, message_id + 1);
    const records = front.messagesOf(CHAT).slice(before);
    assert.deepEqual(records.map(({ sent }) => sent), ["  Good morning \n", "Good evening"]);
  });

  test("takes query, form, multipart and texts for numbers", async () => {
    const url = `${front.apiBase}/bot${TOKEN}/sendMessage`;
    const multipart = new FormData();
    multipart.set("chat_id", String(CHAT));
    multipart.set("text", "by multipart\nin two lines");
    const answers = await Promise.all([
      fetch(`${url}?chat_id=${CHAT}&text=by%20query`),
      fetch(url, { method: "POST", body: new URLSearchParams({ chat_id: String(CHAT), text: "by form" }) }),
      fetch(url, { method: "POST", body: multipart }),
    ]);
    const texts = await Promise.all(answers.map(async (answer) => (await answer.json()).result.text));
    assert.deepEqual(texts, ["by query", "by form", "by multipart\nin two lines"]);
  });

  test("refuses what Telegram refuses", async () => {
    assertRefused(await send("hi", {}, { token: "100200300:another" }), 401, "Unauthorized");
    assertRefused(await send("hi", {}, { token: "nonsense" }), 404, "Not Found");
    assertRefused(await call("sendNothing", {}), 404, "Not Found");
    assertRefused(await send(""), 400, "Bad Request: message text is empty");
    assertRefused(await send(" \n\t "), 400, "Bad Request: message text is empty");
    assertRefused(await call("sendMessage", { chat_id: CHAT }), 400, "Bad Request: message text is empty");
    assertRefused(await send("hi", { chat_id: "" }), 400, "Bad Request: chat_id is empty");
    assertRefused(await send("hi", { chat_id: 60006 }), 400, "Bad Request: chat not found");
    assertRefused(await send("hi", { parse_mode: "Word" }), 400, "Bad Request: unsupported parse_mode");
    assertRefused(await send("\ud83d"), 400, "Bad Request: strings must be encoded in UTF-8");
  });

  test("counts 4,096 UTF-16 units after trimming", async () => {
    assert.equal((await send(`  ${"😀".repeat(2048)}  `)).status, 200);
    assertRefused(await send(`${"😀".repeat(2048)}x`), 400, "Bad Request: message is too long");
    assert.equal((await send("x".repeat(4096))).status, 200);
    assert.equal((await send(`*${"x".repeat(4096)}*`, { parse_mode: "Markdown" })).status, 200);
  });

  test("reads markup, and says where it cannot", async () => {
    const shown = async (text, parse_mode) => {
      const { json } = await send(text, { parse_mode });
      return json.ok ? [json.result.text, ...(json.result.entities ?? []).map(({ type, offset, length }) => `${type} ${offset} ${length}`)] : json.description;
    };
    assert.deepEqual(await shown("a *b* _c_ `d` [e](http://x.example)", "Markdown"), ["a b c d e", "bold 2 1", "italic 4 1", "code 6 1", "text_link 8 1"]);
    assert.deepEqual(await shown("snake\\_case", "Markdown"), ["snake_case"]);
    assert.equal(await shown("Grüß *Gott", "Markdown"), "Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 7");
    assert.deepEqual(await shown("*b _i_*", "MarkdownV2"), ["b i", "bold 0 3", "italic 2 1"]);
    assert.equal(await shown("1.5", "MarkdownV2"), "Bad Request: can't parse entities: Character '.' is reserved and must be escaped with the preceding '\\'");
    assert.equal(await shown("so *far", "MarkdownV2"), "Bad Request: can't parse entities: Can't find end of Bold entity at byte offset 3");
    assert.deepEqual(await shown("<b>b <i>i</i></b> &lt;", "HTML"), ["b i <", "bold 0 3", "italic 2 1"]);
    assert.equal(await shown("<blink>x</blink>", "HTML"), "Bad Request: can't parse entities: Unsupported start tag \"blink\" at byte offset 0");
    assert.equal(await shown("<b>x", "HTML"), "Bad Request: can't parse entities: Can't find end tag corresponding to start tag \"b\"");
    assert.equal(await shown("<b>x</i>", "HTML"), "Bad Request: can't parse entities: Unmatched end tag at byte offset 4, expected \"</b>\", found \"</i>\"");
  });

  test("knows chats that block, moved or are gone", async () => {
    const where = (chat_id) => ({ chat_id });
    front.bot().chat(50002).blocked = true;
    front.bot().chat(50003).deactivated = true;
    front.bot().chat(-40002).migratedTo = -1000000040009;
    front.bot().chat(-1000000040009);
    assertRefused(await send("hi", where(50002)), 403, "Forbidden: bot was blocked by the user");
    assertRefused(await send("hi", where(50003)), 403, "Forbidden: user is deactivated");
    const moved = await send("hi", where(-40002));
    assert.deepEqual(moved.json.parameters, { migrate_to_chat_id: -1000000040009 });
    assert.equal((await send("hi", where(-1000000040009))).json.result.chat.type, "supergroup");
  });
});

describe("limits", () => {
  test("one message a second into a chat", async () => {
    front.limits.set({ chat: true });
    const chat_id = 50010;
    front.bot().chat(chat_id);
    assert.equal((await send("one", { chat_id })).status, 200);
    const second = await send("two", { chat_id });
    assert.equal(second.status, 429);
    assert.deepEqual(second.json.parameters, { retry_after: 1 });
    assert.equal(second.headers.get("retry-after"), "1");
    await new Promise((next) => setTimeout(next, 1000));
    assert.equal((await send("two", { chat_id })).status, 200);
  });

  test("thirty messages a second of a bot", async () => {
    await new Promise((next) => setTimeout(next, 1000));
    front.limits.set({ bot: true });
    const chats = Array.from({ length: 40 }, (_, index) => 51000 + index);
    for (const chat of chats) front.bot().chat(chat);
    const answers = await Promise.all(chats.map((chat_id) => send("hi", { chat_id })));
    assert.equal(answers.filter(({ status }) => status === 200).length, 30);
    assert.equal(answers.filter(({ status }) => status === 429).length, 10);
  });
});

describe("faults", () => {
  for (const { when, http, body } of ANSWERS) {
    test(`answers as written: ${when}`, async () => {
      front.faults.add({ fault: when, chat_id: CHAT });
      const before = front.messages.length;
      const first = await send("hi");
      assert.equal(first.status, http);
      assert.deepEqual(first.json ?? first.text, body);
      assert.equal(front.messages.length - before, when === "ok" ? 1 : 0);
      assert.equal((await send("hi")).json.ok, true);
    });
  }

  const broken = async (fault) => {
    front.faults.add({ fault });
    const before = front.messages.length;
    const failure = await send("hi", {}, { signal: AbortSignal.timeout(300) }).catch((error) => error.cause?.code ?? error.name);
    return [failure, front.messages.length - before];
  };

  test("a stall may come after the message was taken, or before", async () => {
    assert.deepEqual(await broken("stall"), ["TimeoutError", 1]);
    assert.deepEqual(await broken("stall_unaccepted"), ["TimeoutError", 0]);
  });

  test("a connection may break before the message was taken, or after", async () => {
    assert.deepEqual(await broken("reset"), ["ECONNRESET", 0]);
    assert.deepEqual((await broken("drop"))[1], 1);
    assert.deepEqual((await broken("cut"))[1], 1);
  });

  test("a slow answer is an answer", async () => {
    front.faults.add({ fault: "slow", after_ms: 50 });
    const began = Date.now();
    assert.equal((await send("hi")).status, 200);
    assert.ok(Date.now() - began >= 50);
  });

  test("they meet whom they are meant for, as often as said", async () => {
    front.faults.add({ fault: "flood", retry_after: 3, text: "unlucky", times: 2 });
    assert.equal((await send("lucky")).status, 200);
    assert.deepEqual((await send("unlucky")).json.parameters, { retry_after: 3 });
    assert.equal((await send("unlucky")).status, 429);
    assert.equal((await send("unlucky")).status, 200);
    assert.throws(() => front.faults.add({ fault: "boredom" }), /no such fault/);
  });

  test("a rate is kept, and the same seed meets the same calls", async () => {
    const run = async () => {
      front.faults.clear();
      front.faults.rates({ seed: 7, rate: 0.2, faults: ["flood", "proxy"] });
      const statuses = [];
      for (let n = 0; n < 200; n += 1) statuses.push((await send("hi")).status);
      return statuses;
    };
    const first = await run();
    const met = first.filter((status) => status !== 200).length;
    assert.ok(met > 20 && met < 60, `${met} of 200`);
    assert.deepEqual(await run(), first);
    const spread = Array.from({ length: 10_000 }, (_, n) => chance(`spread ${n}`));
    assert.ok(Math.abs(spread.reduce((sum, value) => sum + value) / 10_000 - 0.5) < 0.02);
  });

  test("stopped, it refuses connections; started again, it knows what it knew", async () => {
    const before = front.messages.length;
    await front.stop();
    // The first may still use the connection that was just closed.
    await assert.rejects(send("hi"));
    await assert.rejects(send("hi"), (error) => (error.cause?.code ?? error.cause?.errors?.[0]?.code) === "ECONNREFUSED");
    await front.start();
    assert.equal((await send("hi")).status, 200);
    assert.equal(front.messages.length, before + 1);
  });
});

describe("webhook", () => {
  let server;
  let received;
  let behave;
  let bot;
  before(async () => {
    server = createServer(async (request, reply) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      const call = { secret: request.headers["x-telegram-bot-api-secret-token"], update: JSON.parse(body) };
      received.push(call);
      reply.writeHead(await behave(call)).end("{}");
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const webhookUrl = `http://127.0.0.1:${server.address().port}/hook`;
    front.timing = { firstMs: 20, maxMs: 80 };
    bot = front.addBot("200300400:synthetic-hook", { gateway: "gateway_00hook", secret: "synthetic-secret", webhookUrl });
    [received, behave] = [[], () => 200];
  });
  after(() => server.close());
  afterEach(() => ([received, behave] = [[], () => 200]));

  test("an update is redelivered under its id, later and later, until it is taken", async () => {
    let left = 3;
    behave = () => (left-- > 0 ? 503 : 200);
    const { update_id, done, tries } = bot.say(70001, "/start ABC");
    assert.equal((await done).status, 200);
    assert.deepEqual(received.map(({ update }) => update.update_id), [update_id, update_id, update_id, update_id]);
    assert.deepEqual(tries.map(({ status }) => status), [503, 503, 503, 200]);
    assert.ok(tries[2].at - tries[1].at >= 40 && tries[3].at - tries[2].at >= 75);
    const { secret, update } = received[0];
    assert.equal(secret, "synthetic-secret");
    assert.deepEqual(update.message.entities, [{ type: "bot_command", offset: 0, length: 6 }]);
    assert.equal(update.message.from.id, update.message.chat.id);
  });

  test("one chat's updates go in order, other chats do not wait for them", async () => {
    let open;
    const held = new Promise((resolve) => (open = resolve));
    behave = async ({ update }) => (update.message.text === "slow" && (await held), 200);
    const slow = bot.say(70002, "slow");
    const behind = bot.say(70002, "behind");
    await bot.say(70003, "elsewhere").done;
    assert.deepEqual(received.map(({ update }) => update.message.text), ["slow", "elsewhere"]);
    open();
    await Promise.all([slow.done, behind.done]);
    assert.deepEqual(received.map(({ update }) => update.message.text), ["slow", "elsewhere", "behind"]);
    assert.deepEqual(slow.update.message.message_id + 1, behind.update.message.message_id);
  });

  test("no more connections at once than allowed", async () => {
    bot.webhook.set({ url: bot.webhook.url, secret: "synthetic-secret", connections: 3 });
    let [now, most] = [0, 0];
    behave = async () => {
      most = Math.max(most, (now += 1));
      await new Promise((next) => setTimeout(next, 20));
      now -= 1;
      return 200;
    };
    await Promise.all(Array.from({ length: 12 }, (_, index) => bot.say(71000 + index, "hi").done));
    assert.equal(most, 3);
    assert.equal(received.length, 12);
  });

  test("an update can be repeated at once, and forged", async () => {
    const { update_id, done } = bot.say(70004, "again");
    await done;
    const tries = await bot.repeat(update_id, 5);
    assert.deepEqual(tries.map(({ status }) => status), [200, 200, 200, 200, 200]);
    await bot.repeat(update_id, 1, { message: undefined });
    assert.deepEqual(received.map(({ update }) => update.update_id), Array(7).fill(update_id));
    assert.equal(received[6].update.message, undefined);
  });

  test("getUpdates is for bots without a webhook", async () => {
    const token = "200300400:synthetic-hook";
    assert.equal((await call("getUpdates", {}, { token })).status, 409);
    const info = await call("getWebhookInfo", {}, { token });
    assert.equal(info.json.result.url, bot.webhook.url);
    const { url, secret } = bot.webhook;
    assert.equal((await call("deleteWebhook", {}, { token })).json.result, true);
    const { update_id } = bot.say(70005, "fetched");
    const { json } = await call("getUpdates", { offset: update_id }, { token });
    assert.deepEqual(json.result.map(({ message }) => message.text), ["fetched"]);
    assert.deepEqual((await call("getUpdates", { offset: update_id + 1 }, { token })).json.result, []);
    assertRefused(await call("setWebhook", { url, secret_token: "two words" }, { token }), 400, "Bad Request: secret token contains unallowed characters");
    assertRefused(await call("setWebhook", { url: "http://far.example/x" }, { token }), 400, "Bad Request: bad webhook: an HTTPS URL must be provided for webhook");
    assert.equal((await call("setWebhook", { url, secret_token: secret }, { token })).json.ok, true);
    await bot.say(70005, "pushed").done;
    assert.equal(received.at(-1).secret, secret);
  });

  test("every kind of update goes through", async () => {
    for (const [, update] of [...kinds(), ...STRANGE]) await bot.say(70006, update).done;
    assert.equal(received.length, kinds().length + STRANGE.length);
    assert.equal(new Set(received.map(({ update }) => update.update_id)).size, received.length);
  });
});

describe("control", () => {
  test("tells what happened and takes orders", async () => {
    await control("forget", {});
    await control("fault", { fault: "blocked", chat_id: CHAT });
    assert.equal((await send("one")).status, 403);
    assert.equal((await send("two")).status, 200);
    const requests = (await control(`requests?chat_id=${CHAT}`)).json;
    assert.deepEqual(requests.map(({ text, http, fault }) => [text, http, fault]), [["one", 403, "blocked"], ["two", 200, undefined]]);
    const messages = (await control("messages")).json;
    assert.deepEqual(messages.map(({ sent }) => sent), ["two"]);
    const { json: state } = await control("state");
    assert.deepEqual([state.listening, state.messages, state.faults.names], [true, 1, FAULTS]);
    assert.equal((await control("nonsense")).status, 404);
    assert.match((await control("fault", { fault: "boredom" })).json.error, /no such fault/);
  });

  test("stops and starts the Bot API, being there itself all the time", async () => {
    await control("stop", {});
    assert.equal((await control("state")).json.listening, false);
    await assert.rejects(send("hi"));
    await control("start", {});
    assert.equal((await send("hi")).status, 200);
  });

  test("say waits for the reply", async () => {
    const said = control("say", { bot: "gateway_00sample", chat_id: CHAT, text: "hello", wait_ms: 2000 });
    await new Promise((next) => setTimeout(next, 50));
    await send("and hello to you");
    assert.equal((await said).json.reply, "and hello to you");
    const silent = await control("say", { bot: "gateway_00sample", chat_id: CHAT, text: "hello", wait_ms: 50 });
    assert.equal(silent.json.reply, null);
  });
});
