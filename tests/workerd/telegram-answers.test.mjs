// Every answer that Telegram or what stands before it may give, from the Bot API server to the ledger.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ANSWERS } from "../telegram/faults.mjs";
import { assertNoPanic, eventually, unique } from "./harness/hermod.mjs";
import { startTelegram } from "./harness/telegram.mjs";

let telegram;
let hermod;
let front;
before(async () => {
  telegram = await startTelegram({ vars: { TELEGRAM_DEADLINE_MS: "600", TELEGRAM_PARSE_MODE: "Markdown" } });
  ({ hermod, front } = telegram);
});
after(async () => assertNoPanic(await telegram.stop()));

/** A new person's message, whose answer meets these faults one after another; gives the person. */
async function meeting(...faults) {
  const person = await telegram.newPerson();
  for (const fault of faults) front.faults.add({ chat_id: person.chat, bot: person.gateway, ...fault });
  assert.equal((await person.say(unique("tell")).done).status, 200);
  return person;
}

const attempts = async (turn) =>
  (await telegram.attemptsOf(turn.turn_id)).map(({ outcome, http, error_class, error_code }) => [outcome, http, error_class, error_code].filter((value) => value !== null).join(" "));
const addressOf = async (person) =>
  (await hermod.query("SELECT status FROM channel_addresses WHERE gateway_id = ?1 ORDER BY updated_at DESC", person.gateway))[0].status;
const requestsTo = (person) => front.requests.filter(({ bot, chat_id }) => bot === person.gateway && Number(chat_id) === person.chat);

/** It failed at once and for good. Whoever can still be reached then gets the notice that there is no answer. */
async function assertFailed(person, attempt, address) {
  const turn = await telegram.settled(person);
  assert.deepEqual([turn.status, turn.error_code, turn.delivery_status], ["terminal_failure", "delivery_failed", "failed"]);
  assert.deepEqual(await attempts(turn), [attempt]);
  assert.equal(await addressOf(person), address);
  await telegram.sweep();
  await sleep(1500);
  const [first, ...others] = requestsTo(person).map(({ text }) => text);
  assert.ok(first.startsWith("answer "));
  if (address === "disabled") assert.deepEqual(others, [], "nothing more is sent there");
  else {
    assert.equal(others.length, 1, "no further attempt");
    assert.match(others[0], /could not answer/);
  }
}

const ROWS = {
  flood: async () => {
    const began = Date.now();
    const person = await meeting({ fault: "flood" });
    const other = await hermod.newUser();
    await telegram.putGateway(person.gateway, [person.family_id, other.family_id]);
    const chat = await telegram.bind(person.gateway, other.user_id);
    await eventually(() => requestsTo(person).length === 1, { what: "the first attempt" });
    const refused = requestsTo(person)[0].at;
    front.say(chat, unique("me too"), { bot: person.gateway });
    const turn = await telegram.settled(person);
    await telegram.settled(other);
    assert.equal(turn.status, "terminal_success");
    assert.deepEqual(await attempts(turn), ["retry 429 rate_limit too_many_requests", "accepted 200"]);
    const [first] = await telegram.attemptsOf(turn.turn_id);
    assert.equal(first.retry_after_ms, 7000);
    const [again, elsewhere] = [requestsTo(person)[1].at, front.messagesOf(chat, person.gateway)[0].at];
    assert.ok(again - refused >= 6900, `${again - refused} ms until the next attempt`);
    assert.ok(elsewhere - refused >= 6900, `the gateway's other chat was served after ${elsewhere - refused} ms`);
    assert.ok(Date.now() - began < 45_000);
  },
  blocked: async () => assertFailed(await meeting({ fault: "blocked" }), "gone 403 destination blocked", "disabled"),
  supergroup: async () => {
    const person = await meeting({ fault: "supergroup" });
    const turn = await telegram.settled(person);
    assert.equal(turn.status, "terminal_success");
    assert.deepEqual((await telegram.attemptsOf(turn.turn_id)).map(({ http }) => http), [400, 200]);
    const moved = ANSWERS.find(({ when }) => when === "supergroup").body.parameters.migrate_to_chat_id;
    assert.equal(front.messagesOf(moved, person.gateway).length, 1);
    assert.equal(person.replies().length, 0);
    assert.equal(requestsTo(person).length, 1);
  },
  entities: async () => {
    const person = await meeting({ fault: "entities" });
    const turn = await telegram.settled(person);
    assert.equal(turn.status, "terminal_success");
    const sent = front.requests.filter(({ bot }) => bot === person.gateway);
    assert.deepEqual(sent.map(({ parse_mode, http }) => [parse_mode, http]), [["Markdown", 400], [undefined, 200]]);
    assert.equal(sent[0].text, sent[1].text);
  },
  "too long": async () => assertFailed(await meeting({ fault: "too long" }), "rejected 400 content message_too_long", "active"),
  "no chat": async () => assertFailed(await meeting({ fault: "no chat" }), "gone 400 destination chat_not_found", "disabled"),
  "bad token": async () => {
    const person = await meeting({ fault: "bad token" });
    const [row] = await eventually(async () => {
      const [turn] = await telegram.turnsOf(person);
      const rows = turn ? await telegram.rowsOf(turn.turn_id) : [];
      return requestsTo(person).length === 1 && rows[0] && rows[0].status !== "leased" && rows;
    }, { what: "the waiting row" });
    assert.ok(["pending", "retry"].includes(row.status), row.status);
    const status = async () => (await hermod.query("SELECT status FROM gateways WHERE gateway_id = ?1", person.gateway))[0].status;
    await eventually(async () => (await status()) === "broken", { what: "the broken gateway" });
    for (let n = 0; n < 3; n += 1) await telegram.sweep();
    await sleep(1000);
    assert.equal(requestsTo(person).length, 1, "nothing is sent with a token that is not known");
    assert.match(hermod.logText(), /gateway_broken|credential|unauthorized/);
    await telegram.putGateway(person.gateway, [person.family_id]);
    assert.equal((await telegram.settled(person)).status, "terminal_success");
    assert.equal(person.replies().length, 1);
  },
  proxy: async () => {
    const person = await meeting({ fault: "proxy" });
    const turn = await telegram.settled(person);
    assert.equal(turn.status, "terminal_success");
    assert.deepEqual(await attempts(turn), ["retry 502 provider server_error", "accepted 200"]);
    const [first, second] = await telegram.attemptsOf(turn.turn_id);
    assert.ok(second.started_at - first.finished_at >= 4000);
    assert.ok(!JSON.stringify(await hermod.query("SELECT * FROM outbound_attempts")).includes("html"), "the body is not stored");
    assert.ok(!hermod.logText().includes("<html>"));
  },
  ok: async () => {
    const person = await meeting({ fault: "ok" });
    const turn = await telegram.settled(person);
    const [row] = await telegram.rowsOf(turn.turn_id);
    assert.deepEqual([turn.status, row.status, row.provider_message_id], ["terminal_success", "provider_accepted", "4321"]);
  },
};

for (const { when } of ANSWERS) test(`Telegram answers: ${when}`, () => ROWS[when]());

test("Telegram takes the message, then stalls: ambiguous, again, and on record", async () => {
  const person = await meeting({ fault: "stall" });
  const turn = await telegram.settled(person);
  assert.equal(turn.status, "terminal_success");
  assert.deepEqual(await attempts(turn), ["ambiguous timeout stalled", "accepted 200"]);
  assert.equal(person.replies().length, 2, "the person sees it twice: nobody could know");
  assert.equal(person.replies()[0], person.replies()[1]);
  const [row] = await telegram.rowsOf(turn.turn_id);
  assert.equal(row.ambiguous_count, 1);
});

test("Telegram stalls every time: after the fourth nobody-knows it ends, and all of it is on record", async () => {
  const person = await meeting({ fault: "stall", text: "answer ", times: 50 });
  const [turn] = await eventually(async () => {
    // As if the waits between the attempts, up to a minute, were over.
    await hermod.query("UPDATE outbound_messages SET next_attempt_at = ?1 WHERE gateway_id = ?2 AND status = 'retry'", Date.now(), person.gateway);
    await telegram.sweep();
    const turns = await telegram.turnsOf(person);
    return turns[0]?.terminal_at && turns;
  }, { timeoutMs: 60_000, everyMs: 500, what: "the end of the turn" });
  assert.deepEqual([turn.status, turn.error_code, turn.delivery_status], ["terminal_failure", "delivery_failed", "failed"]);
  assert.deepEqual(await attempts(turn), Array(4).fill("ambiguous timeout stalled"));
  const [row] = await telegram.rowsOf(turn.turn_id);
  assert.deepEqual([row.status, row.attempt_count, row.ambiguous_count], ["failed", 4, 4]);
  assert.equal(person.replies().filter((text) => text.startsWith("answer ")).length, 4, "as often as it was tried, and no more");
  const { json } = await hermod.request("GET", `/turns/${turn.turn_id}`, { token: person.token });
  assert.equal(json.reply, person.replies()[0], "the answer is still there to read");
});

test("the connection breaks before the message is taken, or after", async () => {
  const before = await meeting({ fault: "reset" });
  const after = await meeting({ fault: "drop" });
  const turns = [await telegram.settled(before), await telegram.settled(after)];
  assert.deepEqual(turns.map(({ status }) => status), ["terminal_success", "terminal_success"]);
  for (const turn of turns) assert.deepEqual(await attempts(turn), ["ambiguous transport broke_off", "accepted 200"]);
  assert.deepEqual([before.replies().length, after.replies().length], [1, 2]);
});

test("a text that is no valid Markdown arrives as it is", async () => {
  const person = await telegram.newPerson();
  const question = "snake_case and 2 * 3";
  person.say(question);
  const turn = await telegram.settled(person);
  assert.equal(turn.status, "terminal_success");
  assert.match(person.messages()[0].message.text, /snake_case and 2 \* 3$/);
});
