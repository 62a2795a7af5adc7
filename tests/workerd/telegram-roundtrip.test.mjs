// A message comes in from Telegram, its answer arrives in the chat, and both ledgers tell how.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertMessagesParse } from "../partners/telegram.mjs";
import { assertNoPanic, eventually, unique } from "./harness/hermod.mjs";
import { assertInOrder, newChatId, startTelegram } from "./harness/telegram.mjs";

let telegram;
let hermod;
let front;
let model;
before(async () => {
  telegram = await startTelegram({ vars: { TELEGRAM_DEADLINE_MS: "1000" } });
  ({ hermod, front, model } = telegram);
});
after(async () => assertNoPanic(await telegram.stop()));

const ROUND_TRIP = [
  "ingress_received", "ingress_authenticated", "identity_resolved", "engine_accepted", "generation_started", "generation_completed",
  "durable_write_completed", "outbox_enqueued", "send_claimed", "send_attempted", "provider_accepted", "turn_terminal_success",
];

test("a message goes in, its answer comes out, and both ledgers tell how", async () => {
  const person = await telegram.newPerson();
  const question = unique("hello");
  assert.equal((await person.say(question).done).status, 200);
  const turn = await telegram.settled(person, { sweep: false });
  assert.equal(turn.status, "terminal_success");
  assert.deepEqual([turn.origin, turn.channel, turn.delivery_status], ["channel", "telegram", "accepted"]);
  const [message, ...others] = person.messages();
  assert.deepEqual(others, []);
  assert.match(message.sent, new RegExp(`^answer \\d+ to ${question}$`));
  assertInOrder(await telegram.eventsOf(turn.turn_id), ROUND_TRIP);
  const [attempt, ...more] = await telegram.attemptsOf(turn.turn_id);
  assert.deepEqual(more, []);
  assert.deepEqual(
    [attempt.attempt_no, attempt.outcome, attempt.http, attempt.provider_message_id, attempt.error_code],
    [1, "accepted", 200, String(message.message.message_id), null],
  );
  const [row] = await telegram.rowsOf(turn.turn_id);
  assert.deepEqual([row.status, row.provider_message_id, row.attempt_count], ["provider_accepted", String(message.message.message_id), 1]);
  const { json } = await hermod.request("GET", `/turns/${turn.turn_id}`, { token: person.token });
  assert.deepEqual([json.status, json.reply], ["terminal_success", message.sent]);
});

test("with Telegram gone the answer waits and is tried again, and arrives when it is back", async () => {
  const person = await telegram.newPerson();
  await front.stop();
  assert.equal((await person.say("are you there?").done).status, 200);
  const turn = await eventually(async () => {
    const [turn] = await telegram.turnsOf(person);
    const [row] = turn ? await telegram.rowsOf(turn.turn_id) : [];
    return row?.status === "retry" && turn;
  }, { what: "a retry on record" });
  const [first] = await telegram.attemptsOf(turn.turn_id);
  assert.deepEqual([first.outcome, first.error_class, first.http], ["ambiguous", "transport", null]);
  await front.start();
  assert.equal((await telegram.settled(person)).status, "terminal_success");
  assert.equal(person.replies().length, 1);
  const attempts = await telegram.attemptsOf(turn.turn_id);
  assert.equal(attempts.at(-1).outcome, "accepted");
  assert.ok(attempts[1].started_at - first.finished_at >= 4000, "the first wait is five seconds, a fifth more or less");
});

test("the same update fifty times at once: one turn, one reply, the rest counted", async () => {
  const person = await telegram.newPerson();
  const bot = front.bot(person.gateway);
  const { url, secret } = bot.webhook;
  bot.webhook.set({ url: "", secret });
  const { update_id } = person.say("once only");
  bot.webhook.drop();
  Object.assign(bot.webhook, { url, secret });
  const tries = await bot.repeat(update_id, 50);
  assert.deepEqual(tries.map(({ status }) => status), Array(50).fill(200));
  await telegram.settled(person);
  assert.equal(person.replies().length, 1);
  const [dedup] = await hermod.query("SELECT duplicate_count, conflict_count, disposition FROM inbound_dedup WHERE gateway_id = ?1", person.gateway);
  assert.deepEqual({ ...dedup }, { duplicate_count: 49, conflict_count: 0, disposition: "turn" });
});

test("messages of one chat are answered one after another, in their order", async () => {
  const person = await telegram.newPerson();
  const questions = ["one", "two", "three"].map((word) => unique(word));
  for (const question of questions) person.say(question);
  await telegram.settled(person, { count: 3 });
  assert.deepEqual(person.replies().map((reply) => reply.replace(/^answer \d+ to /, "")), questions);
  const at = person.messages().map((record) => record.at);
  assert.ok(at[1] - at[0] >= 850 && at[2] - at[1] >= 850, `one a second, not ${at}`);
  assert.ok(!front.requests.some((request) => request.fault === "limit"), "no limit was met");
});

test("a switch that is off burns no attempt, and what waited goes when it is on again", async () => {
  const person = await telegram.newPerson();
  for (const path of [`gateway/${person.gateway}`, "channel/telegram", "global/all"]) {
    await hermod.put(`/internal/switches/${path}`, { enabled: false });
    const before = person.replies().length;
    person.say(unique(path));
    const row = await eventually(async () => {
      const last = (await telegram.turnsOf(person)).at(-1);
      const [row] = last ? await telegram.rowsOf(last.turn_id) : [];
      return row && row.terminal_at === null && row;
    }, { what: "the answer in the outbox" });
    for (let n = 0; n < 3; n += 1) await telegram.sweep();
    const [now] = await hermod.query("SELECT status, attempt_count FROM outbound_messages WHERE outbox_id = ?1", row.outbox_id);
    assert.deepEqual([now.status, now.attempt_count, person.replies().length], ["pending", 0, before], path);
    const key = unique("switch");
    const on = await hermod.request("PUT", `/internal/switches/${path}`, { token: await hermod.operator(), key, json: { enabled: true } });
    assert.equal(on.status, 200, on.text);
    await eventually(async () => (await telegram.sweep(), person.replies().length === before + 1), { what: `the answer after ${path} was on again` });
  }
});

const MIXED = ["Greetings to everybody, near and far. ", "Grüße aus Wien. ", "Καλημέρα σε όλους. ", "Доброе утро! ", "नमस्ते, आप कैसे हैं? ", "你好，世界。", "こんにちは、世界。", "👩‍👩‍👧‍👦🏳️‍🌈👍🏽 ", "e\u0301a\u0308o\u0302 ", "مرحبا بالعالم ", "\n\n"];

/** A text of exactly this many characters out of many scripts. */
function mixedText(characters) {
  let text = "";
  for (let n = 0; [...text].length < characters; n += 1) text += `${n} ${MIXED[n % MIXED.length]}`;
  const cut = [...text].slice(0, characters - 1).join("").trimEnd();
  return cut + ".".repeat(characters - [...cut].length);
}

test("an answer of 20,000 characters in many scripts arrives whole, in order, with no character cut", async () => {
  const person = await telegram.newPerson();
  const question = unique("at length");
  const text = mixedText(20_000);
  assert.equal([...text].length, 20_000);
  assert.ok(Buffer.byteLength(text) <= 48 * 1024, `${Buffer.byteLength(text)} bytes are more than an answer may have`);
  model.behave((asked) => (asked === question ? { text } : undefined));
  person.say(question);
  const turn = await telegram.settled(person, { timeoutMs: 90_000 });
  assert.equal(turn.status, "terminal_success");
  const parts = person.replies();
  assert.ok(parts.length >= 5 && parts.length <= 12, `${parts.length} parts`);
  for (const part of parts) {
    assert.ok(part.length <= 4096 && part.isWellFormed());
    assert.doesNotMatch(part, /^[\p{Mark}\u200d\p{EMod}]/u, "a part begins inside a character");
    assert.doesNotMatch(part, /\u200d$/u, "a part ends inside a character");
  }
  // Telegram cuts white space off both ends of a message: nothing else may be missing.
  const words = (value) => value.replace(/\s+/g, "");
  assert.equal(words(parts.join("")), words(text));
  assert.equal(words(person.messages().map(({ message }) => message.text).join("")), words(text));
  const rows = await telegram.rowsOf(turn.turn_id);
  assert.deepEqual(rows.map((row) => [row.part_no, row.part_count, row.status]), parts.map((_, index) => [index + 1, parts.length, "provider_accepted"]));
  assert.deepEqual(rows.map((row) => row.provider_message_id), person.messages().map(({ message }) => String(message.message_id)));
  model.behave(() => undefined);
});

test("a chat is linked by a code, unlinked by /stop, and hears once a day that it is unknown", async () => {
  const person = await telegram.newPerson();
  const chat = newChatId();
  const bot = front.bot(person.gateway);
  const said = async (words) => {
    const after = front.counter;
    assert.equal((await bot.say(chat, words).done).status, 200);
    return (await front.nextMessage(chat, { bot: person.gateway, after, timeoutMs: 10_000 }))?.sent;
  };
  assert.match(await said("hello"), /do not know you yet/);
  const link = await hermod.request("POST", "/channels/telegram/link", { token: person.token, key: unique("link") });
  assert.ok([200, 201].includes(link.status), link.text);
  assert.match(await said("/start WRONGCODE"), /cannot be used/);
  assert.match(await said(`/start ${link.json.code}`), /now linked/);
  assert.match(await said("hello again"), /^answer \d+ to hello again$/);
  assert.match(await said(`/start ${link.json.code}`), /cannot be used|linked/);
  assert.match(await said("/stop"), /no longer linked/);
  assert.equal((await bot.say(chat, "anyone?").done).status, 200);
  assert.equal(await front.nextMessage(chat, { bot: person.gateway, timeoutMs: 3000 }), undefined, "once a day is enough");
});

test("a model that fails leaves a notice in the chat, not silence", async () => {
  const person = await telegram.newPerson();
  const question = unique("failing");
  model.behave((asked) => (asked === question ? { status: 400 } : undefined));
  person.say(question);
  const turn = await telegram.settled(person);
  assert.deepEqual([turn.status, turn.error_code], ["terminal_failure", "generation_failed"]);
  await eventually(async () => (await telegram.sweep(), person.replies().length === 1), { what: "the notice" });
  assert.match(person.replies()[0], /could not answer/);
  model.behave(() => undefined);
});

test("everything that the chats got parses in python-telegram-bot and in grammY", async () => {
  await assertMessagesParse(front.messages.map(({ message }) => message));
});
