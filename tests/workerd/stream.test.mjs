// POST /chat as a stream: the answer as it grows, and clients that leave in the middle of it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertNoPanic, eventually, startHermod, unique } from "./harness/hermod.mjs";
import { streamChat } from "./harness/sse.mjs";

const DELAY_MS = 200;

let hermod;
let token;
before(async () => {
  hermod = await startHermod({ vars: { SCRIPTED_DELAY_MS: String(DELAY_MS) } });
  token = await hermod.token("user");
});
after(async () => assertNoPanic(await hermod.stop()));

test("deltas arrive as they are made, and done says what was stored", async () => {
  const stream = await streamChat(hermod.url, token, "A message long enough to come back in several pieces, please.");
  assert.equal(stream.status, 200);
  assert.match(stream.headers["content-type"], /^text\/event-stream/);
  assert.equal(stream.headers["cache-control"], "no-store");
  const { events } = await stream.done;
  assert.equal(events[0].event, "turn");
  const deltas = events.filter((event) => event.event === "delta");
  assert.ok(deltas.length >= 4, `${deltas.length} deltas`);
  const spread = deltas.at(-1).at - deltas[0].at;
  assert.ok(spread >= DELAY_MS * (deltas.length - 1) * 0.7, `all deltas within ${Math.round(spread)} ms`);
  const done = events.at(-1);
  assert.equal(done.event, "done");
  assert.equal(deltas.map((event) => event.data.text ?? event.data).join(""), done.data.reply);
  assert.equal(done.data.turn_id, events[0].data.turn_id);

  // The same key in the other form gives the same document.
  const replay = await hermod.chat(token, "A message long enough to come back in several pieces, please.", { key: stream.key });
  assert.equal(replay.headers.get("idempotency-replayed"), "true");
  assert.deepEqual(replay.json, done.data);
});

test("the text is committed before done is sent", async () => {
  let stored;
  const stream = await streamChat(hermod.url, token, "Is it stored yet?", {
    onEvent: (event) => {
      if (event.event === "done") {
        stored = hermod.query("SELECT count(*) AS answers FROM messages WHERE turn_id = ?1 AND role = 'assistant'", event.data.turn_id);
      }
    },
  });
  await stream.done;
  assert.deepEqual(await stored, [{ answers: 1 }]);
});

test("a replay of a stream is a stream", async () => {
  const message = "Again, the same way.";
  const first = await streamChat(hermod.url, token, message);
  const { events } = await first.done;
  const again = await streamChat(hermod.url, token, message, { key: first.key });
  const replayed = (await again.done).events;
  assert.equal(again.headers["idempotency-replayed"], "true");
  assert.deepEqual(replayed.at(-1).data, events.at(-1).data);
});

test("a client that leaves does not lose its answer", async () => {
  const message = "I will be gone before you are done with this answer.";
  const stream = await streamChat(hermod.url, token, message, {
    onEvent: (event) => event.event === "delta" && stream?.destroy(),
  });
  await stream.done;
  assert.ok(!stream.events.some((event) => event.event === "done"));
  const { turn_id } = stream.events[0].data;
  const turn = await eventually(async () => {
    const { json } = await hermod.request("GET", `/turns/${turn_id}`, { token });
    return json.reply && json;
  }, { what: "the answer" });
  assert.match(turn.reply, /you said: I will be gone/);

  const again = await hermod.chat(token, message, { key: stream.key });
  assert.equal(again.status, 200, again.text);
  assert.equal(again.json.turn_id, turn_id);
  assert.equal(again.json.reply, turn.reply);
  const calls = await hermod.query("SELECT model_calls FROM turns WHERE turn_id = ?1", turn_id);
  assert.deepEqual(calls, [{ model_calls: 1 }]);
});

test("twenty that leave at once leave nothing behind", async () => {
  const person = await hermod.newUser(unique("leavers"));
  await Promise.all(Array.from({ length: 6 }, async (_, index) => {
    const stream = await streamChat(hermod.url, person.token, `leaver ${index}`);
    setTimeout(stream.destroy, 50 * index);
    await stream.done;
  }));
  await eventually(async () => {
    const [row] = await hermod.query("SELECT running_turn FROM user_heads WHERE user_id = ?1", person.user_id);
    const open = await hermod.query("SELECT turn_id FROM turns WHERE user_id = ?1 AND status IN ('accepted', 'processing', 'generated')", person.user_id);
    return row && row.running_turn === null && open.length === 0;
  }, { timeoutMs: 60_000, what: "the end of every turn" });
});
