// kill -9 of everything at each of the nine points between a Telegram message and the record of its answer, and a
// restart on the same state: one turn, one end, and the reply in the chat once. Only where the provider had taken it
// and nobody could know may it be there twice, and then the attempts say so.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { assertNoPanic, unique } from "./harness/hermod.mjs";
import { startTelegram } from "./harness/telegram.mjs";

let telegram;
let hermod;
let model;
before(async () => {
  const vars = { MODEL_DEADLINE_MS: "2000", RUN_LEASE_SLACK_MS: "300", TELEGRAM_DEADLINE_MS: "2000" };
  telegram = await startTelegram({ vars });
  ({ hermod, model } = telegram);
});
after(async () => assertNoPanic(await telegram.stop()));

/** Sends a new person's message into a checkpoint, kills everything there and starts it again. */
async function crashAt(name) {
  const person = await telegram.newPerson();
  const question = unique(name);
  // What is enqueued is ordered to be sent at once: a sender must not get ahead of the kill.
  const sends = (enabled) => hermod.put(`/internal/switches/gateway/${person.gateway}`, { enabled });
  if (name === "outbox_enqueued") await sends(false);
  const hold = hermod.control.hold(name);
  const delivery = person.say(question);
  await hold.arrived;
  await telegram.crash();
  hold.release();
  if (name === "outbox_enqueued") await sends(true);
  return { person, question, delivery };
}

const LOST = ["ambiguous", "crash", "lease_lost"];
const ACCEPTED = ["accepted", null, null];

/** One turn, over, with the reply in the chat `replies` times and these attempts on record. */
async function assertOutcome({ person, question, delivery }, { calls, replies, attempts }) {
  const turn = await telegram.settled(person, { timeoutMs: 120_000 });
  assert.deepEqual([turn.status, turn.delivery_status, turn.error_code], ["terminal_success", "accepted", null]);
  assert.equal((await delivery.done).status, 200);
  assert.ok(turn.model_calls <= calls && model.callsFor(question) <= calls, `${model.callsFor(question)} calls of the model`);
  const sent = person.replies();
  assert.equal(sent.length, replies);
  assert.equal(new Set(sent).size, 1, "every copy is the same answer");
  assert.match(sent[0], new RegExp(`^answer \\d+ to ${question}$`));
  const found = (await telegram.attemptsOf(turn.turn_id)).map(({ outcome, error_class, error_code }) => [outcome, error_class, error_code]);
  assert.deepEqual(found, attempts);
  const ends = (await telegram.eventsOf(turn.turn_id)).filter((name) => name.startsWith("turn_terminal"));
  assert.deepEqual(ends, ["turn_terminal_success"]);
  const answers = await hermod.query("SELECT role FROM messages WHERE turn_id = ?1 ORDER BY role", turn.turn_id);
  assert.deepEqual(answers.map((row) => row.role), ["assistant", "user"]);
  const [row] = await telegram.rowsOf(turn.turn_id);
  assert.deepEqual([row.status, row.provider_message_id], ["provider_accepted", String(person.messages().at(-1).message.message_id)]);
}

const TWICE = "it arrives twice, and the attempts say why";
/** What must come of a kill at each point, in the order in which a message passes them. */
const POINTS = [
  ["ingress_committed", "the answer arrives once", { calls: 1, replies: 1, attempts: [ACCEPTED] }],
  ["model_call_started", "the answer arrives once", { calls: 2, replies: 1, attempts: [ACCEPTED] }],
  ["model_replied", "the answer arrives once", { calls: 2, replies: 1, attempts: [ACCEPTED] }],
  ["assistant_stored", "the answer arrives once", { calls: 1, replies: 1, attempts: [ACCEPTED] }],
  ["context_written", "the answer arrives once", { calls: 1, replies: 1, attempts: [ACCEPTED] }],
  ["outbox_enqueued", "the answer arrives once", { calls: 1, replies: 1, attempts: [ACCEPTED] }],
  ["send_claimed", "the attempt is closed as ambiguous, and the answer arrives once", { calls: 1, replies: 1, attempts: [LOST, ACCEPTED] }],
  ["provider_accepted", TWICE, { calls: 1, replies: 2, attempts: [LOST, ACCEPTED] }],
  ["before_settle", TWICE, { calls: 1, replies: 2, attempts: [LOST, ACCEPTED] }],
];

describe("killed, restarted, swept", () => {
  const crashed = {};
  // A turn is looked at after half a minute, a row of a dead sender after a minute: all wait for that together. The
  // last point comes first, so that nobody who was killed before can be the one who is held at the next.
  before(async () => {
    for (const [name] of POINTS.toReversed()) crashed[name] = await crashAt(name);
  });
  for (const [name, what, expected] of POINTS) test(`at ${name}: ${what}`, () => assertOutcome(crashed[name], expected));
});
