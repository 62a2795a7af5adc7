// D1 answers "Network connection lost" after it committed, again and again: each message is still one turn with one
// answer and one model call, and the caller sees the result.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ROOT } from "../../scripts/lib/runtime.mjs";
import { assertNoPanic, startHermod, unique } from "./harness/hermod.mjs";
import { MODEL_VARS, serveModel } from "./harness/model.mjs";

let hermod;
let model;
before(async () => {
  const wrapper = join(ROOT, "tests/workerd/harness/flaky.mjs");
  hermod = await startHermod({ wrapper, vars: { ...MODEL_VARS, LOSE_EVERY: "3" } });
  model = serveModel(hermod.control);
});
after(async () => assertNoPanic(await hermod.stop()));

const losses = () => hermod.logText().split("a reply was lost").length - 1;

test("every message is answered once, whatever reply was lost", async () => {
  const people = [];
  for (let index = 0; index < 4; index += 1) people.push(await hermod.newUser(unique("lossy")));
  const before = losses();
  await Promise.all(people.map(async (person) => {
    for (let index = 0; index < 6; index += 1) {
      const question = unique("lossy question");
      const answer = await hermod.chat(person.token, question);
      assert.equal(answer.status, 200, answer.text);
      assert.match(answer.json.reply, new RegExp(`^answer \\d+ to ${question}$`));
      assert.equal(model.callsFor(question), 1);
    }
  }));
  assert.ok(losses() - before >= 20, `only ${losses() - before} replies were lost`);
  for (const person of people) {
    const turns = await hermod.query("SELECT count(*) AS turns, max(arrival_no) AS arrivals, sum(model_calls) AS calls FROM turns WHERE user_id = ?1", person.user_id);
    assert.deepEqual(turns, [{ turns: 6, arrivals: 6, calls: 6 }]);
    const messages = await hermod.query("SELECT role, count(*) AS count FROM messages WHERE user_id = ?1 GROUP BY role ORDER BY role", person.user_id);
    assert.deepEqual(messages, [{ role: "assistant", count: 6 }, { role: "user", count: 6 }]);
    const events = await hermod.query(
      "SELECT event_type, count(*) AS count FROM turn_events JOIN turns USING (turn_id) WHERE user_id = ?1 AND event_type IN ('engine_accepted', 'generation_completed') GROUP BY event_type ORDER BY event_type", person.user_id);
    assert.deepEqual(events, [{ event_type: "engine_accepted", count: 6 }, { event_type: "generation_completed", count: 6 }]);
  }
});

test("provisioning does each thing once", async () => {
  for (let index = 0; index < 6; index += 1) {
    const person = await hermod.newUser(unique("made"));
    await hermod.put(`/internal/users/${person.user_id}`, { family_id: person.family_id, role: "caregiver_limited", status: "active" });
    const [row] = await hermod.query("SELECT role, authorization_revision FROM users WHERE user_id = ?1", person.user_id);
    assert.deepEqual(row, { role: "caregiver_limited", authorization_revision: 2 });
  }
});

test("a client assertion whose use was recorded under a lost reply still gives one token at most", async () => {
  for (let index = 0; index < 4; index += 1) {
    const assertion = await hermod.token("assertion:gateway");
    const first = await hermod.request("POST", "/auth/token", { token: assertion });
    const second = await hermod.request("POST", "/auth/token", { token: assertion });
    assert.ok([200, 503].includes(first.status), first.text);
    assert.notEqual(second.status, 200);
  }
});
