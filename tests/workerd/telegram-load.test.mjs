// A thousand chats at a hundred gateways, three messages each, and a Telegram that misbehaves at every twentieth call:
// every message is accounted for, and the ledger agrees with what the chats got.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertMessagesParse } from "../partners/telegram.mjs";
import { assertNoPanic, eventually } from "./harness/hermod.mjs";
import { startTelegram } from "./harness/telegram.mjs";

const GATEWAYS = Number(process.env.LOAD_GATEWAYS ?? 100);
const CHATS = Number(process.env.LOAD_CHATS ?? 10);
const MESSAGES = 3;
const FAULTS = ["flood", "proxy", "stall", "stall_unaccepted", "reset", "drop", "cut", "blocked", "no chat", "entities", "too long"];
const FIRST_CHAT = 620_000_000;

let telegram;
let hermod;
let front;
before(async () => {
  telegram = await startTelegram({ vars: { TELEGRAM_DEADLINE_MS: "1000", MODEL_PROVIDER: "scripted" }, front: { redeliver: { firstMs: 500, maxMs: 4000 } } });
  ({ hermod, front } = telegram);
});
after(async () => assertNoPanic(await telegram.stop()));

/** Runs `work` for each, eight at a time. */
async function each(list, work) {
  const left = [...list.entries()].reverse();
  await Promise.all(Array.from({ length: 8 }, async () => {
    for (let next = left.pop(); next; next = left.pop()) await work(next[1], next[0]);
  }));
}

async function setUp() {
  const people = [];
  await each(Array.from({ length: GATEWAYS }), async (_, number) => {
    const family_id = `family_00load${number}`;
    await hermod.put(`/internal/families/${family_id}`, { status: "active" });
    const gateway = await telegram.newGateway([family_id], `load${number}`);
    for (let n = 0; n < CHATS; n += 1) {
      const user_id = `user_00load${number}x${n}`;
      await hermod.put(`/internal/users/${user_id}`, { family_id, role: "guardian", status: "active" });
      people.push({ user_id, gateway, chat: await telegram.bind(gateway, user_id, FIRST_CHAT + number * 1000 + n) });
    }
  });
  return people;
}

const ROWS = `SELECT o.outbox_id, o.origin, o.status, o.provider_message_id, o.last_error_code, o.user_id, o.gateway_id, t.status AS turn_status
  FROM outbound_messages o LEFT JOIN turns t ON t.turn_id = o.turn_id`;
const count = async (sql) => (await hermod.query(`SELECT count(*) AS n FROM ${sql}`))[0].n;

/** Lets the sweep run until no turn and no row is open; says how far it is when it takes too long. */
async function quiet() {
  let open = {};
  try {
    await eventually(async () => {
      await telegram.sweep();
      open = { turns: await count("turns WHERE terminal_at IS NULL"), rows: await count("outbound_messages WHERE terminal_at IS NULL") };
      return open.turns + open.rows === 0;
    }, { timeoutMs: 600_000, everyMs: 2000 });
  } catch (error) {
    error.message += `: ${JSON.stringify(open)} are open`;
    throw error;
  }
}

test(`${GATEWAYS * CHATS} chats × ${MESSAGES} messages, 5 % faults: each is accounted for`, { timeout: 900_000 }, async () => {
  const began = Date.now();
  const people = await setUp();
  const ready = Date.now();
  front.faults.rates({ seed: 20261130, rate: 0.05, faults: FAULTS });
  const deliveries = people.flatMap(({ chat, gateway }) => Array.from({ length: MESSAGES }, (_, n) => front.say(chat, `message ${n + 1}`, { bot: gateway })));
  await Promise.all(deliveries.map(({ done }) => done));
  const taken = Date.now();
  await quiet();
  const over = Date.now();

  await assertEveryMessageIsAccountedFor(deliveries.length);
  const late = await assertLedgerIsTheRecord(people);
  const met = front.requests.filter(({ fault }) => fault && fault !== "limit").length;
  const limited = front.requests.filter(({ fault }) => fault === "limit").length;
  const { busiest } = front.limits;
  console.log(`    set up in ${ready - began} ms; ${deliveries.length} messages taken in ${taken - ready} ms, all over after ${over - ready} ms`);
  console.log(`    ${front.requests.length} calls, ${met} met a fault, ${limited} a limit, ${late} were heard too late; ${front.messages.length} messages in chats; at most ${busiest.bot_per_second} a second of one bot`);
  const counts = await hermod.query("SELECT status, delivery_status, error_code, count(*) AS n FROM turns GROUP BY 1, 2, 3 ORDER BY n DESC");
  for (const { status, delivery_status, error_code, n } of counts) console.log(`    ${n} × ${status}, delivery ${delivery_status}${error_code ? `, ${error_code}` : ""}`);
  assert.ok(late < deliveries.length * 0.05, `${late} answers were heard too late`);
  assert.ok(met > deliveries.length * 0.03, `${met} faults in ${deliveries.length}`);
  assert.ok(busiest.bot_per_second <= 31, `${busiest.bot_per_second} messages of one bot in a second`);
  await assertMessagesParse(front.messages.map(({ message }) => message));
});

/** Every update is on record; each became a turn with one answer and one end, or its chat was no longer anyone's. */
async function assertEveryMessageIsAccountedFor(messages) {
  assert.equal(await count("inbound_dedup"), messages);
  const turns = await count("turns WHERE origin = 'channel'");
  assert.equal(turns, await count("inbound_dedup WHERE disposition = 'turn'"));
  assert.equal(messages - turns, await count("inbound_dedup WHERE disposition = 'unlinked'"));
  const strays = `inbound_dedup d WHERE d.disposition = 'unlinked' AND NOT EXISTS
    (SELECT 1 FROM channel_addresses a WHERE a.gateway_id = d.gateway_id AND a.status = 'disabled')`;
  assert.equal(await count(strays), 0, "only a chat that was shut out is unknown");
  assert.equal(await count("turns WHERE terminal_at IS NULL"), 0);
  const replies = await hermod.query(`${ROWS} WHERE o.origin = 'channel'`);
  assert.equal(replies.length, turns, "one row for each answer");
  for (const row of replies) {
    assert.ok(["provider_accepted", "failed", "cancelled", "expired"].includes(row.status), `${row.outbox_id} is ${row.status}`);
    assert.equal(row.turn_status, row.status === "provider_accepted" ? "terminal_success" : "terminal_failure");
  }
}

const ATTEMPTS = `SELECT o.lane, o.gateway_id, o.user_id, a.outcome, a.provider_http_status AS http, a.provider_message_id, a.error_code, a.started_at
  FROM outbound_attempts a JOIN outbound_messages o ON o.outbox_id = a.outbox_id
  WHERE a.outcome <> 'not_started' ORDER BY a.started_at, o.lane_no`;
/** What may be on record for a call that met a fault; without one the provider's answer was heard, or came too late. */
const OUTCOMES = {
  flood: ["retry"], limit: ["retry"], proxy: ["retry"], entities: ["retry", "rejected"], "too long": ["rejected"], blocked: ["gone"], "no chat": ["gone"],
  stall: ["ambiguous"], stall_unaccepted: ["ambiguous"], reset: ["ambiguous"], drop: ["ambiguous"], cut: ["ambiguous"],
};

/** The call that each attempt made: the first after it was opened and before the next one into the same chat. */
function callsOf(tried, calls) {
  return tried.map(({ started_at }, n) => {
    const until = tried[n + 1]?.started_at ?? Infinity;
    const own = calls.filter(({ at }) => at >= started_at && at < until);
    assert.ok(own.length <= 1, `${own.length} calls for one attempt`);
    return own[0];
  });
}

/**
 * Into one chat goes one message at a time, so that the attempts on record and the calls that the front saw stand side
 * by side. Gives how many calls came or were answered too late to be heard.
 */
async function assertLedgerIsTheRecord(people) {
  const attempts = await hermod.query(ATTEMPTS);
  const chats = new Map(people.map(({ user_id, gateway, chat }) => [user_id, `${gateway}/${chat}`]));
  const lanes = new Map(attempts.filter(({ user_id }) => user_id !== null).map(({ lane, user_id }) => [lane, chats.get(user_id)]));
  const byChat = Map.groupBy(attempts, ({ lane }) => lanes.get(lane));
  const byCall = Map.groupBy(front.requests, ({ bot, chat_id }) => `${bot}/${chat_id}`);
  let [late, seen] = [0, 0];
  for (const [chat, tried] of byChat) {
    const calls = callsOf(tried, byCall.get(chat) ?? []);
    seen += calls.filter(Boolean).length;
    for (const [n, { outcome, http, provider_message_id, error_code }] of tried.entries()) {
      const call = calls[n];
      const is = `${outcome} ${error_code} on record for ${call ? (call.fault ?? "no fault") : "no call"} in ${chat}`;
      if (call?.fault && call.fault !== "limit" && outcome !== "ambiguous") assert.ok(OUTCOMES[call.fault].includes(outcome), is);
      else if (outcome === "accepted") assert.deepEqual([http, provider_message_id], [200, String(call?.message_id)], is);
      else if (outcome === "ambiguous" && !OUTCOMES[call?.fault]?.includes(outcome)) late += 1;
      else assert.ok(OUTCOMES[call?.fault]?.includes(outcome), is);
    }
  }
  assert.equal(seen, front.requests.length, "every call is that of an attempt on record");
  const [{ accepted }] = await hermod.query("SELECT count(*) AS accepted FROM outbound_messages WHERE status = 'provider_accepted'");
  assert.equal(attempts.filter(({ outcome }) => outcome === "accepted").length, accepted, "one accepted attempt for each accepted row");
  return late;
}
