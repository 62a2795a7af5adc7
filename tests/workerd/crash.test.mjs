// kill -9 of everything at the four points between a message and its answer, and a restart on the same state: each
// accepted turn ends exactly once, and no second answer is ever committed.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { assertNoPanic, eventually, startHermod, unique } from "./harness/hermod.mjs";
import { MODEL_VARS, serveModel } from "./harness/model.mjs";

let hermod;
let model;
before(async () => {
  const vars = { ...MODEL_VARS, MODEL_DEADLINE_MS: "2000", RUN_LEASE_SLACK_MS: "300", TURN_DEADLINE_MS: "60000" };
  hermod = await startHermod({ vars });
  model = serveModel(hermod.control);
});
after(async () => assertNoPanic(await hermod.stop()));

// Where it is killed, and how often the model may have been asked in the end.
const POINTS = [
  { name: "ingress_committed", calls: 1 },
  { name: "model_call_started", calls: 2 },
  { name: "model_replied", calls: 2 },
  { name: "assistant_stored", calls: 1 },
];

/** Runs a message into a checkpoint, kills everything there and starts it again. */
async function crashAt(name, person, question, key) {
  const hold = hermod.control.hold(name);
  const lost = hermod.chat(person.token, question, { key }).catch((error) => error);
  await hold.arrived;
  await hermod.crash();
  hold.release();
  assert.ok((await lost) instanceof Error, "the client of the killed process cannot have got an answer");
}

/** Asks again under the same key until the turn has an answer. */
const comeBack = (person, question, key) =>
  eventually(async () => {
    const answer = await hermod.chat(person.token, question, { key });
    assert.ok([200, 409, 503].includes(answer.status), answer.text);
    return answer.status === 200 && answer;
  }, { timeoutMs: 30_000, everyMs: 300, what: "the answer" });

async function assertEndedOnce(person, question, answer, calls) {
  const turnId = answer.json.turn_id;
  const turns = await hermod.query("SELECT turn_id, model_calls FROM turns WHERE user_id = ?1", person.user_id);
  assert.equal(turns.length, 1);
  assert.equal(turns[0].turn_id, turnId);
  assert.ok(turns[0].model_calls <= calls, `${turns[0].model_calls} model calls on record`);
  assert.ok(model.callsFor(question) <= calls, `${model.callsFor(question)} model calls made`);
  const answers = await hermod.query("SELECT role FROM messages WHERE turn_id = ?1 ORDER BY role", turnId);
  assert.deepEqual(answers.map((row) => row.role), ["assistant", "user"]);
  await eventually(async () => {
    const [row] = await hermod.query("SELECT status FROM turns WHERE turn_id = ?1", turnId);
    return row.status === "terminal_success";
  }, { what: "the end of the turn" });
  const ends = await hermod.query("SELECT event_type FROM turn_events WHERE turn_id = ?1 AND event_type LIKE 'turn_terminal%'", turnId);
  assert.deepEqual(ends.map((row) => row.event_type), ["turn_terminal_success"]);
  const again = await hermod.chat(person.token, question, { key: answer.key });
  assert.equal(again.json.reply, answer.json.reply);
}

for (const point of POINTS) {
  describe(`killed at ${point.name}`, () => {
    test("the client that comes back gets the one answer", async () => {
      const person = await hermod.newUser(unique("crash"));
      const [question, key] = [unique(`after ${point.name}`), unique("crash")];
      await crashAt(point.name, person, question, key);
      const answer = await comeBack(person, question, key);
      await assertEndedOnce(person, question, { ...answer, key }, point.calls);
    });

    test("nobody comes back, and the answer is there all the same", async () => {
      const person = await hermod.newUser(unique("gone"));
      const [question, key] = [unique(`alone after ${point.name}`), unique("gone")];
      await crashAt(point.name, person, question, key);
      const turnId = await eventually(async () => {
        await hermod.cron();
        const [turn] = await hermod.query("SELECT turn_id, status FROM turns WHERE user_id = ?1", person.user_id);
        return ["persisted", "terminal_success"].includes(turn?.status) && turn.turn_id;
      }, { timeoutMs: 30_000, everyMs: 500, what: "the answer on record" });
      const { json } = await hermod.request("GET", `/turns/${turnId}`, { token: person.token });
      assert.match(json.reply, new RegExp(`^answer \\d+ to ${question}$`));
      assert.ok(model.callsFor(question) <= point.calls);
      const answers = await hermod.query("SELECT role FROM messages WHERE turn_id = ?1 AND role = 'assistant'", turnId);
      assert.equal(answers.length, 1);
    });
  });
}

test("ten users killed in the middle of everything", async () => {
  const people = [];
  for (let index = 0; index < 10; index += 1) people.push(await hermod.newUser(unique("many")));
  const attempts = people.map((person, index) => ({ person, question: unique(`many ${index}`), key: unique("many") }));
  const lost = attempts.map(({ person, question, key }) => hermod.chat(person.token, question, { key }).catch(() => undefined));
  await eventually(async () => model.calls.length && (await hermod.query("SELECT count(*) AS turns FROM turns"))[0].turns, { everyMs: 5 });
  await hermod.crash();
  await Promise.all(lost);
  for (const { person, question, key } of attempts) {
    const answer = await comeBack(person, question, key);
    await assertEndedOnce(person, question, { ...answer, key }, 2);
  }
});
