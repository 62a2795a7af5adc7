// A panic hurts the request it happens in and nobody else: others in flight go on, and so does the same user.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { eventually, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
before(async () => {
  const vars = { SCRIPTED_DELAY_MS: "150", MODEL_DEADLINE_MS: "3000", RUN_LEASE_SLACK_MS: "300", TURN_DEADLINE_MS: "20000" };
  hermod = await startHermod({ bundle: "probes", vars });
});
after(async () => {
  const text = await hermod.stop();
  assert.ok(text.includes("provoked at a checkpoint"), "the log says what panicked");
});

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
  const answer = await undisturbed(() => hermod.request("GET", "/__probe/panic"));
  assert.equal(answer.status, 500);
  assert.equal((await hermod.request("GET", "/health/ready")).status, 200);
});

test("in an object", async () => {
  const answer = await undisturbed(() => hermod.request("GET", "/__probe/panic/object"));
  assert.equal(answer.status, 500);
});

describe("in the middle of a turn", () => {
  for (const [name, disturbFirst] of [["ingress_committed", false], ["model_call_started", false], ["model_replied", true], ["assistant_stored", true]]) {
    test(`at ${name}: the same user's next message is answered, and the turn ends once`, async () => {
      const person = await hermod.newUser(unique("unlucky"));
      const key = unique("unlucky");
      const hurt = await undisturbed(() => {
        hermod.control.panic(name);
        return hermod.chat(person.token, "this one is hurt", { key });
      }, { disturbFirst });
      assert.ok(hurt.status >= 500, `${hurt.status} ${hurt.text}`);
      const next = await hermod.chat(person.token, "the next one");
      assert.equal(next.status, 200, next.text);
      const again = await eventually(async () => {
        const answer = await hermod.chat(person.token, "this one is hurt", { key });
        return answer.status === 200 && answer;
      }, { timeoutMs: 30_000, everyMs: 300, what: "the hurt turn's answer" });
      assert.match(again.json.reply, /you said: this one is hurt$/);
      const answers = await hermod.query(
        "SELECT count(*) AS answers FROM messages JOIN turns USING (turn_id) WHERE turns.user_id = ?1 AND role = 'assistant'", person.user_id,
      );
      assert.deepEqual(answers, [{ answers: 2 }]);
    });
  }
});
