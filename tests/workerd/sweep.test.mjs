// The cron event of the real bundle: what it ends, what it counts, and what it says in the log.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { assertNoPanic, eventually, startHermod } from "./harness/hermod.mjs";

let hermod;
before(async () => {
  hermod = await startHermod();
});
after(async () => assertNoPanic(await hermod.stop()));

/** What the log says of an event since `from`. */
const lines = (event, from = 0) =>
  hermod.logText().slice(from).split("\n").flatMap((line) => {
    const at = line.indexOf(`{"`);
    if (at < 0) return [];
    try {
      const fields = JSON.parse(line.slice(at));
      return fields.event === event ? [fields] : [];
    } catch {
      return [];
    }
  });

/** Runs the cron event as if the one before were long over; gives the lines it logged. */
async function cron() {
  await hermod.query("UPDATE service_leases SET token = NULL, held_until = NULL");
  const from = hermod.logText().length;
  await hermod.cron();
  const [funnel] = await eventually(() => lines("funnel", from).length > 0 && lines("funnel", from), { what: "the funnel's line" });
  const [sweep] = lines("sweep", from);
  return { sweep, funnel, faults: (event) => lines(event, from).length };
}

/** A turn whose answer waits in the outbox for a bot. */
async function waitingTurn(person, message) {
  const { json } = await hermod.chat(person.token, message);
  const turn = json.turn_id;
  const [{ now }] = await hermod.query("SELECT accepted_at AS now FROM turns WHERE turn_id = ?1", turn);
  await hermod.query(
    `UPDATE turns SET origin = 'channel', channel = 'telegram', gateway_id = 'gateway_00none', status = 'delivery_pending',
       delivery_status = 'pending', terminal_at = NULL WHERE turn_id = ?1`, turn);
  await hermod.query(
    `INSERT INTO outbound_messages (outbox_id, origin, turn_id, trace_id, family_id, user_id, channel, gateway_id,
       address_id, lane, lane_no, group_id, part_no, part_count, content_kind, content_ref, content_from, content_to,
       visibility_scope, subject_user_id, created_by_user_id, authorization_revision, idempotency_key, status, priority,
       not_before, expires_at, max_attempts, next_attempt_at, created_at, updated_at)
     SELECT 'out' || substr(turn_id, 5), 'channel', turn_id, trace_id, family_id, user_id, channel, gateway_id,
       'address_00none', turn_id, 1, turn_id, 1, 1, 'message', turn_id, 0, 1, 'user_private', user_id, user_id,
       authorization_revision, turn_id, 'quarantined', 100, ?2, ?2 + 86400000, 12, ?2, ?2, ?2 FROM turns WHERE turn_id = ?1`,
    turn, now);
  return turn;
}

const view = async (person, turn) => (await hermod.request("GET", `/turns/${turn}`, { token: person.token })).json;

describe("the minute's work", () => {
  test("a quiet service has nothing to end and nothing to report", async () => {
    const { sweep, funnel, faults } = await cron();
    assert.deepEqual(sweep, {
      event: "sweep", skipped: false, untaken: 0, woken: 0, repaired: 0, expired: 0, cancelled: 0, exhausted: 0,
      ordered: 0, failed: 0,
    });
    assert.deepEqual(funnel, {
      event: "funnel", unanswered: 0, unwritten: 0, undelivered: 0, quarantined: 0, broken_gateways: 0, oldest: null,
    });
    assert.equal(faults("funnel_not_empty"), 0);
  });

  test("a message that nothing could deliver for a day expires, and its turn says so", async () => {
    const person = await hermod.newUser();
    const turn = await waitingTurn(person, "is anybody there");
    await hermod.query("UPDATE outbound_messages SET created_at = created_at - 600000, not_before = 0, expires_at = 1, status = 'pending' WHERE turn_id = ?1", turn);
    const { sweep, funnel } = await cron();
    assert.deepEqual([sweep.expired, sweep.failed, funnel.undelivered], [1, 0, 0]);
    const seen = await view(person, turn);
    assert.equal(seen.status, "terminal_failure");
    assert.equal(seen.error.code, "delivery_expired");
    assert.match(seen.reply, /anybody/);
    assert.deepEqual(seen.deliveries.map(({ kind, part, parts, status, attempts }) => ({ kind, part, parts, status, attempts })), [
      { kind: "answer", part: 1, parts: 1, status: "expired", attempts: [] },
    ]);
    assert.deepEqual(seen.events.slice(-2).map((event) => [event.type, event.actor]), [
      ["delivery_terminal_failure", "sweep"], ["turn_terminal_failure", "sweep"],
    ]);
  });

  test("a turn that waits in vain is put right and reported", async () => {
    const person = await hermod.newUser();
    const turn = await waitingTurn(person, "hello");
    await hermod.query("UPDATE outbound_messages SET status = 'provider_accepted', terminal_at = 1 WHERE turn_id = ?1", turn);
    const { sweep, faults } = await cron();
    assert.deepEqual([sweep.repaired, sweep.failed, faults("turns_stranded")], [1, 0, 1]);
    assert.equal((await view(person, turn)).status, "terminal_success");
    assert.equal((await cron()).sweep.repaired, 0);
  });

  test("what is stuck is counted and reported", async () => {
    const person = await hermod.newUser();
    const turn = await waitingTurn(person, "hello");
    // Somebody holds it and never comes back with an answer.
    await hermod.query("UPDATE outbound_messages SET created_at = 1000, not_before = 1000, status = 'leased', lease_owner = 'x', lease_token = 'x', lease_expires_at = 9000000000000 WHERE turn_id = ?1", turn);
    const stuck = await cron();
    assert.deepEqual([stuck.funnel.undelivered, stuck.funnel.oldest], [1, "1970-01-01T00:00:01.000Z"]);
    assert.equal(stuck.faults("funnel_not_empty"), 1);
  });

  test("a second one at the same time leaves the work to the first", async () => {
    await cron();
    const from = hermod.logText().length;
    await hermod.cron();
    await eventually(() => lines("sweep", from).length > 0, { what: "the sweep's line" });
    assert.equal(lines("sweep", from)[0].skipped, true);
    assert.equal(lines("funnel", from).length, 0);
  });
});
