// What the front answers and what it delivers is read by python-telegram-bot and by grammY as they read Telegram's own.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { Api, Bot, GrammyError, HttpError, webhookCallback } from "grammy";
import { startBotApi } from "../telegram/bot-api.mjs";
import { ANSWERS } from "../telegram/faults.mjs";
import { STRANGE, kinds } from "../telegram/updates.mjs";
import { PYTHON_TELEGRAM_BOT_VERSION, assertMessagesParse, grammyContext, pythonTelegramBot } from "./telegram.mjs";

const TOKEN = "100200300:synthetic-token";
const CHAT = 50001;
let front;
before(async () => {
  front = await startBotApi({ bots: { [TOKEN]: { gateway: "gateway_00sample", chats: [CHAT] } }, limits: { chat: false, bot: false } });
});
after(() => front.close());

const FAULTY = ANSWERS.filter(({ body }) => body.ok !== true).map(({ when }) => when);
const meet = (faults) => faults.forEach((fault) => front.faults.add({ fault, text: fault }));
const description = (when) => ANSWERS.find((answer) => answer.when === when).body.description;

test("python-telegram-bot raises for each answer what it raises for Telegram's", async () => {
  meet(FAULTY);
  const calls = FAULTY.map((fault) => ({ chat_id: CHAT, text: fault }));
  const { calls: raised, version } = await pythonTelegramBot({ api: front.apiBase, token: TOKEN, calls });
  assert.equal(version, PYTHON_TELEGRAM_BOT_VERSION);
  const byFault = Object.fromEntries(FAULTY.map((fault, index) => [fault, raised[index]]));
  assert.deepEqual(byFault.flood.slice(0, 1).concat(byFault.flood[1].retry_after), ["RetryAfter", 7]);
  assert.deepEqual(byFault.blocked, ["Forbidden", { message: description("blocked") }]);
  assert.deepEqual([byFault.supergroup[0], byFault.supergroup[1].new_chat_id], ["ChatMigrated", -1001557912345]);
  for (const when of ["entities", "too long", "no chat"]) {
    const [raised, { message }] = byFault[when];
    assert.deepEqual([raised, `Bad Request: ${message}`.toLowerCase()], ["BadRequest", description(when).toLowerCase()]);
  }
  assert.equal(byFault["bad token"][0], "InvalidToken");
  assert.equal(byFault.proxy[0], "NetworkError");
});

test("python-telegram-bot meets the front's own refusals, stalls and broken connections", async () => {
  for (const fault of ["stall", "drop", "reset", "cut"]) front.faults.add({ fault, text: `please ${fault}` });
  const calls = [
    { chat_id: CHAT, text: "fine" }, { chat_id: 60006, text: "nobody there" }, { chat_id: CHAT, text: "open *end", parse_mode: "Markdown" }, { chat_id: CHAT, text: " " },
    { chat_id: CHAT, text: "x".repeat(4097) }, ...["stall", "drop", "reset", "cut"].map((fault) => ({ chat_id: CHAT, text: `please ${fault}` })),
  ];
  const { calls: raised } = await pythonTelegramBot({ api: front.apiBase, token: TOKEN, calls });
  assert.deepEqual(raised[0][1].text, "fine");
  assert.deepEqual(raised.map(([name]) => name), ["Message", "BadRequest", "BadRequest", "BadRequest", "BadRequest", "TimedOut", "NetworkError", "NetworkError", "NetworkError"]);
});

test("grammY throws for each answer what it throws for Telegram's", async () => {
  const api = new Api(TOKEN, { apiRoot: front.apiBase });
  meet(FAULTY);
  for (const { when, body } of ANSWERS.filter(({ body }) => body.ok === false)) {
    await assert.rejects(api.sendMessage(CHAT, when), (error) => {
      assert.ok(error instanceof GrammyError);
      assert.deepEqual([error.error_code, error.description, error.parameters], [body.error_code, body.description, body.parameters ?? {}]);
      return true;
    });
  }
  await assert.rejects(api.sendMessage(CHAT, "proxy"), HttpError);
  front.faults.clear();
  const me = await api.getMe();
  assert.deepEqual([me.id, me.is_bot, me.username], [100200300, true, "sample_hermod_bot"]);
  const sent = await api.sendMessage(CHAT, "a *b*", { parse_mode: "Markdown" });
  assert.deepEqual([sent.text, sent.entities], ["a b", [{ type: "bold", offset: 2, length: 1 }]]);
});

test("every message that was accepted parses in both", async () => {
  front.faults.clear();
  const api = new Api(TOKEN, { apiRoot: front.apiBase });
  await api.sendMessage(CHAT, "Grüße 👩‍👩‍👧 *und* `mehr`", { parse_mode: "Markdown" });
  await api.sendMessage(CHAT, "<b>x</b> <a href=\"https://x.example/\">y</a>", { parse_mode: "HTML" });
  await assertMessagesParse(front.messages.map(({ message }) => message));
});

test("every kind of update parses in both", async () => {
  const samples = [...kinds(), ...STRANGE];
  const updates = samples.map(([, update], index) => ({ update_id: 1 + index, ...update }));
  const { updates: read } = await pythonTelegramBot({ updates });
  for (const [index, [name, update]] of samples.entries()) {
    const [kind] = Object.keys(update);
    const strange = STRANGE.some(([other]) => other === name);
    assert.deepEqual(read[index], [strange ? [] : [kind], strange ? Object.keys(update).map((field) => `.${field}`) : [], true], name);
    if (!strange) assert.deepEqual(grammyContext(updates[index])[toCamel(kind)], update[kind]);
  }
});

const toCamel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

test("a grammY bot behind its own webhook, with the secret, takes part in a conversation", async () => {
  const token = "100200301:synthetic-grammy";
  const bot = new Bot(token, { client: { apiRoot: front.apiBase } });
  bot.command("start", (context) => context.reply(`started ${context.match}`));
  bot.on("message:text", (context) => context.reply(`you said ${context.msg.text}`));
  const handle = webhookCallback(bot, "http", { secretToken: "synthetic-secret" });
  const server = createServer((request, reply) => handle(request, reply).catch(() => reply.writeHead(500).end()));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const hook = front.addBot(token, { gateway: "gateway_00grammy", webhookUrl: `http://127.0.0.1:${server.address().port}/`, secret: "synthetic-secret" });
    assert.equal((await hook.say(80001, "/start ABC").done).status, 200);
    assert.equal((await hook.say(80001, "hello").done).status, 200);
    assert.deepEqual(front.messagesOf(80001).map(({ sent }) => sent), ["started ABC", "you said hello"]);
    hook.webhook.secret = "wrong";
    const { tries } = hook.say(80001, "hello again");
    for (let waited = 0; waited < 100 && !tries.length; waited += 1) await new Promise((next) => setTimeout(next, 20));
    assert.equal(tries[0].status, 401);
    hook.webhook.drop();
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});
