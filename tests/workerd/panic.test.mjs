// A panic hurts the request it happens in and nobody else: others in flight go on, and so does the same user.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { assertProblem, eventually, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
let provoked = 0;
before(async () => {
  const vars = { SCRIPTED_DELAY_MS: "150", MODEL_DEADLINE_MS: "3000", RUN_LEASE_SLACK_MS: "300", TURN_DEADLINE_MS: "20000" };
  hermod = await startHermod({ bundle: "probes", vars });
});
after(async () => {
  const text = await hermod.stop();
  assert.ok(text.includes("provoked at a checkpoint"), "the log says what panicked");
  assert.equal(text.match(/panicked at/g).length, provoked, "panics in the log");
  assert.doesNotMatch(text, /hung and would never|RuntimeError/);
});

/** Panics at the edge or in an object. */
function panicNow(path) {
  provoked += 1;
  return hermod.request("GET", path);
}

/** Makes the next arrival at a checkpoint panic. */
function panicAt(name) {
  provoked += 1;
  hermod.control.panic(name);
}

const answersOf = async (person) => {
  const [{ answers }] = await hermod.query(
    "SELECT count(*) AS answers FROM messages JOIN turns USING (turn_id) WHERE turns.user_id = ?1 AND role = 'assistant'", person.user_id,
  );
  return answers;
};

/** Every turn of the person has ended, once, and with one answer. */
async function assertEndedOnce(person, turns) {
  await eventually(async () => {
    const rows = await hermod.query("SELECT status FROM turns WHERE user_id = ?1", person.user_id);
    return rows.length === turns && rows.every((row) => row.status === "terminal_success");
  }, { what: "the end of every turn" });
  const ends = await hermod.query(
    `SELECT count(*) AS ends FROM turns JOIN turn_events USING (turn_id)
     WHERE turns.user_id = ?1 AND event_type LIKE 'turn_terminal%' GROUP BY turns.turn_id`, person.user_id,
  );
  assert.deepEqual(ends.map((row) => row.ends), Array(turns).fill(1));
  assert.equal(await answersOf(person), turns);
}

/** Asks again under the same key until the turn has its answer. */
const comeBack = (person, question, key) =>
  eventually(async () => {
    const answer = await hermod.chat(person.token, question, { key });
    assert.ok([200, 409, 503].includes(answer.status), answer.text);
    return answer.status === 200 && answer;
  }, { timeoutMs: 30_000, everyMs: 300, what: "the hurt turn's answer" });

const callsStarted = () => hermod.control.reached.filter((name) => name === "model_call_started").length;
const arrive = (count) => eventually(() => callsStarted() >= count, { everyMs: 5, what: `${count} model calls` });

/**
 * Runs `disturb` while ten users' messages are being answered, and asserts that each got its answer. They start before
 * it or, where they would come to the place of the panic first, right after it.
 */
async function undisturbed(disturb, { disturbFirst = false } = {}) {
  const people = [];
  for (let index = 0; index < 10; index += 1) people.push(await hermod.newUser(unique("bystander")));
  const start = () => people.map((person) => hermod.chat(person.token, "a message that takes about a second to be answered"));
  const before = callsStarted();
  let result;
  let inFlight;
  if (disturbFirst) {
    result = disturb();
    await arrive(before + 1);
    inFlight = start();
  } else {
    inFlight = start();
    await arrive(before + 10);
    result = disturb();
  }
  for (const answer of await Promise.all(inFlight)) assert.equal(answer.status, 200, answer.text);
  return result;
}

test("at the edge", async () => {
  const answer = await undisturbed(() => panicNow("/__probe/panic"));
  assertProblem(answer, 500, "internal");
  assert.equal((await hermod.request("GET", "/health/ready")).status, 200);
});

test("in an object", async () => {
  const answer = await undisturbed(() => panicNow("/__probe/panic/object"));
  assertProblem(answer, 500, "internal");
});

test("twenty at once", async () => {
  const answers = await undisturbed(() => Promise.all(Array.from({ length: 20 }, () => panicNow("/__probe/panic"))));
  for (const answer of answers) assertProblem(answer, 500, "internal");
});

describe("in the middle of a turn", () => {
  for (const [name, disturbFirst] of [["ingress_committed", false], ["model_call_started", false], ["model_replied", true], ["assistant_stored", true]]) {
    test(`at ${name}: the same user's next message is answered, and the turn ends once`, async () => {
      const person = await hermod.newUser(unique("unlucky"));
      const key = unique("unlucky");
      const hurt = await undisturbed(() => {
        panicAt(name);
        return hermod.chat(person.token, "this one is hurt", { key });
      }, { disturbFirst });
      assertProblem(hurt, 503, "unavailable");
      const next = await hermod.chat(person.token, "the next one");
      assert.equal(next.status, 200, next.text);
      const again = await comeBack(person, "this one is hurt", key);
      assert.match(again.json.reply, /you said: this one is hurt$/);
      await assertEndedOnce(person, 2);
    });
  }

  test("a stream breaks off, and the answer is found later under its key", async () => {
    const person = await hermod.newUser(unique("streaming"));
    const key = unique("streaming");
    panicAt("model_call_started");
    const headers = { accept: "text/event-stream" };
    const broken = await hermod.chat(person.token, "this stream is hurt", { key, headers }).catch((error) => error);
    assert.ok(broken instanceof Error, `the stream ended as if nothing had happened: ${broken.text}`);
    const later = await comeBack(person, "this stream is hurt", key);
    assert.match(later.json.reply, /you said: this stream is hurt$/);
    await assertEndedOnce(person, 1);
  });

  test("nobody comes back, and the answer is on record all the same", async () => {
    const person = await hermod.newUser(unique("gone"));
    panicAt("model_call_started");
    assertProblem(await hermod.chat(person.token, "left alone"), 503, "unavailable");
    await eventually(async () => {
      const [turn] = await hermod.query("SELECT status FROM turns WHERE user_id = ?1", person.user_id);
      return ["persisted", "terminal_success"].includes(turn?.status);
    }, { timeoutMs: 60_000, everyMs: 500, what: "the answer on record" });
    assert.equal(await answersOf(person), 1);
  });
});
