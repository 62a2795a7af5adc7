// What the consumers do with messages that nobody can use: each is reported and finished with, and none takes the others
// of its batch with it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertNoPanic, eventually, startHermod } from "./harness/hermod.mjs";

let hermod;
before(async () => {
  hermod = await startHermod({ demo: false });
});
after(async () => assertNoPanic(await hermod.stop()));

const message = (id, body) => ({ id, body });
const logged = (event, queue) =>
  eventually(() => hermod.logText().split("\n").some((line) => line.includes(`"event":"${event}"`) && line.includes(queue)), { what: `${event} of ${queue}` });

test("dead letters are reported and finished with", async () => {
  for (const queue of ["hermod-jobs-dlq", "hermod-sends-dlq"]) {
    const outcome = await hermod.worker.queue(queue, [message("one", "{}"), message("two", 7)]);
    assert.deepEqual([...outcome.explicitAcks].sort(), ["one", "two"]);
    assert.deepEqual(outcome.retryMessages, []);
    await logged("dead_letter", queue);
  }
});

test("what cannot be read does not hold up what can", async () => {
  const order = JSON.stringify({ v: "2", epoch: 1, kind: "deliver", gateway_id: "gateway_00nobody" });
  const bodies = ["", "{", 5, null, { v: "2" }, '{"v":"9"}', order, JSON.stringify({ v: "1", epoch: 1, kind: "generate", user_id: "user_00a" })];
  const messages = bodies.map((body, at) => message(`message-${at}`, body));
  const outcome = await hermod.worker.queue("hermod-sends", messages);
  assert.equal(outcome.outcome, "ok");
  assert.deepEqual([...outcome.explicitAcks].sort(), messages.map(({ id }) => id).sort());
  await logged("message_undecodable", "hermod-sends");
});
