// One user's turns go one at a time in the order they came; other users do not wait for them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertNoPanic, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
before(async () => {
  hermod = await startHermod({ vars: { SCRIPTED_DELAY_MS: "15" } });
});
after(async () => assertNoPanic(await hermod.stop()));

test("twenty messages of one user beside twenty users", async () => {
  const busy = await hermod.newUser(unique("busy"));
  const others = [];
  for (let index = 0; index < 20; index += 1) others.push(await hermod.newUser(unique("calm")));

  const finished = [];
  const timed = async (name, person, message) => {
    const answer = await hermod.chat(person.token, message);
    finished.push(name);
    return answer;
  };
  const mine = Array.from({ length: 20 }, (_, index) => timed("busy", busy, `message ${index}`));
  const theirs = others.map((person) => timed("calm", person, "hello"));
  const answers = await Promise.all([...mine, ...theirs]);
  for (const answer of answers) assert.equal(answer.status, 200, answer.text);

  const turns = await hermod.query(
    "SELECT arrival_no, generation_started_at AS began, generation_completed_at AS ended, history_watermark AS seen, model_calls " +
      "FROM turns WHERE user_id = ?1 ORDER BY arrival_no", busy.user_id,
  );
  assert.deepEqual(turns.map((turn) => turn.arrival_no), Array.from({ length: 20 }, (_, index) => index + 1));
  for (const [index, turn] of turns.entries()) {
    assert.equal(turn.model_calls, 1);
    if (index > 0) assert.ok(turn.began >= turns[index - 1].ended, `turn ${index + 1} began before turn ${index} had ended`);
  }
  // Everyone else was done long before the last of the busy user's.
  assert.equal(finished.at(-1), "busy");
  assert.ok(finished.lastIndexOf("calm") < 39 - 3, finished.join(" "));
});

test("each message sees the answers before it", async () => {
  const person = await hermod.newUser(unique("memory"));
  const answers = await Promise.all(Array.from({ length: 8 }, (_, index) => hermod.chat(person.token, `number ${index}`)));
  const earlier = answers.map((answer) => Number(answer.json.reply.match(/earlier messages in this session: (\d+)/)[1]));
  assert.deepEqual(earlier.sort((one, other) => one - other), [0, 2, 4, 6, 8, 10, 12, 14]);
});

test("a line that is full is refused with a time to come back", async () => {
  const person = await hermod.newUser(unique("crowd"));
  const answers = await Promise.all(Array.from({ length: 60 }, (_, index) => hermod.chat(person.token, `crowd ${index}`)));
  const refused = answers.filter((answer) => answer.status === 503);
  assert.ok(answers.filter((answer) => answer.status === 200).length >= 32);
  assert.ok(refused.length > 0, "nothing was refused");
  for (const answer of refused) {
    assert.equal(answer.json.code, "line_full");
    assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
  }
});
