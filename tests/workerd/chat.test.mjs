// POST /chat in its JSON form: one turn per key, one model call per turn, and what a turn says about itself later.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertNoPanic, assertProblem, eventually, startHermod, unique } from "./harness/hermod.mjs";
import { MODEL_VARS, serveModel } from "./harness/model.mjs";

let hermod;
let model;
let token;
before(async () => {
  hermod = await startHermod({ vars: { ...MODEL_VARS, MODEL_DEADLINE_MS: "4000", TURN_DEADLINE_MS: "8000" } });
  model = serveModel(hermod.control);
  token = await hermod.token("user");
});
after(async () => assertNoPanic(await hermod.stop()));

const readTurn = (turnId, who = token) => hermod.request("GET", `/turns/${turnId}`, { token: who });
const ack = (turnId, json, key = unique("ack"), who = token) =>
  hermod.request("POST", `/turns/${turnId}/ack`, { token: who, key, json });

test("a message is answered with everything that names the turn", async () => {
  const person = await hermod.newUser(unique("first"));
  const answer = await hermod.chat(person.token, "Hello");
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(Object.keys(answer.json).sort(), ["context_revision", "conversation_id", "reply", "session_id", "turn_id", "usage"]);
  assert.match(answer.json.turn_id, /^turn_00/);
  assert.match(answer.json.reply, /^answer \d+ to Hello$/);
  assert.deepEqual(answer.json.usage, {
    provider: "openai", model: "synthetic-1", input_tokens: 7, output_tokens: 3, cost_microunits: 13,
  });
});

test("the same key and body twice: one turn, one model call, the second marked as replayed", async () => {
  const key = unique("twice");
  const question = unique("Once only");
  const first = await hermod.chat(token, question, { key });
  const second = await hermod.chat(token, question, { key });
  assert.equal(first.headers.get("idempotency-replayed"), null);
  assert.equal(second.headers.get("idempotency-replayed"), "true");
  assert.deepEqual(second.json, first.json);
  assert.equal(model.callsFor(question), 1);
  const [{ turns }] = await hermod.query("SELECT count(*) AS turns FROM messages WHERE turn_id = ?1 AND role = 'assistant'", first.json.turn_id);
  assert.equal(turns, 1);
});

test("a bare and a quoted key are one key, and bodies are compared by meaning", async () => {
  const key = unique("canonical");
  const first = await hermod.chat(token, { message: "same", locale: "de-DE" }, { key });
  const headers = { "content-type": "application/json", "idempotency-key": key };
  const again = await hermod.request("POST", "/chat", { token, headers, body: ' { "locale":"de-DE",  "message":"sa\\u006de" } ' });
  assert.equal(again.headers.get("idempotency-replayed"), "true", again.text);
  assert.deepEqual(again.json, first.json);
});

test("twenty at once with one key are one turn", async () => {
  const key = unique("herd");
  const question = unique("herd question");
  const answers = await Promise.all(Array.from({ length: 20 }, () => hermod.chat(token, question, { key })));
  assert.equal(model.callsFor(question), 1);
  for (const answer of answers) assert.ok([200, 409].includes(answer.status), answer.text);
  const turnIds = new Set(answers.filter((answer) => answer.status === 200).map((answer) => answer.json.turn_id));
  assert.equal(turnIds.size, 1);
});

test("another body under the key is 422", async () => {
  const key = unique("other");
  await hermod.chat(token, "one body", { key });
  assertProblem(await hermod.chat(token, "another body", { key }), 422, "idempotency_key_reused");
  assertProblem(await hermod.chat(token, { message: "one body", locale: "fr-FR" }, { key }), 422, "idempotency_key_reused");
});

test("while the first runs: the same body is 409 with Retry-After, another is 422", async () => {
  const key = unique("running");
  const question = unique("slow one");
  const held = model.hold(question);
  const first = hermod.chat(token, question, { key });
  await held.arrived;
  const same = await hermod.chat(token, question, { key });
  assertProblem(same, 409, "turn_in_progress");
  assert.match(same.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
  assertProblem(await hermod.chat(token, "something else", { key }), 422, "idempotency_key_reused");
  held.release();
  assert.equal((await first).status, 200);
  assert.equal(model.callsFor(question), 1);
});

test("two users may use one key", async () => {
  const key = unique("shared");
  const [mine, theirs] = [await hermod.chat(token, "mine", { key }), await hermod.chat(await hermod.token("other_user"), "theirs", { key })];
  assert.notEqual(mine.json.turn_id, theirs.json.turn_id);
  assert.equal(theirs.headers.get("idempotency-replayed"), null);
});

test("a turn tells its life in order", async () => {
  const { json } = await hermod.chat(token, "for the record");
  const turn = await eventually(async () => {
    const answer = await readTurn(json.turn_id);
    assert.equal(answer.status, 200, answer.text);
    return answer.json.status === "terminal_success" && answer.json;
  });
  assert.equal(turn.turn_id, json.turn_id);
  assert.equal(turn.reply, json.reply);
  assert.deepEqual(turn.events.map((event) => event.event_type ?? event.type), [
    "engine_accepted", "context_selected", "generation_started", "generation_completed", "durable_write_started", "durable_write_completed",
    "response_commit_started", "response_committed", "turn_terminal_success",
  ]);
});

test("nobody else sees a turn", async () => {
  const { json } = await hermod.chat(token, "mine alone");
  assertProblem(await readTurn(json.turn_id, await hermod.token("other_user")), 404, "not_found");
  assertProblem(await ack(json.turn_id, { ack_type: "rendered", client_timestamp: new Date().toISOString() }, unique("ack"), await hermod.token("other_user")), 404, "not_found");
});

test("an acknowledgment is taken once", async () => {
  const { json } = await hermod.chat(token, "to be read");
  const body = { ack_type: "rendered", client_timestamp: "2026-01-02T03:04:05Z" };
  const key = unique("ack");
  const first = await ack(json.turn_id, body, key);
  assert.equal(first.status, 200, first.text);
  const again = await ack(json.turn_id, body, key);
  assert.equal(again.status, 200);
  await ack(json.turn_id, body);
  const [{ acks }] = await hermod.query("SELECT count(*) AS acks FROM turn_events WHERE turn_id = ?1 AND event_type = 'client_acknowledged'", json.turn_id);
  assert.equal(acks, 1);
  assertProblem(await ack(json.turn_id, { ack_type: "glanced", client_timestamp: "2026-01-02T03:04:05Z" }), 422, "invalid_body");
  assertProblem(await ack(json.turn_id, body, null), 400, "idempotency_key_required");
});

test("a conversation goes on, and a foreign one is not there", async () => {
  const person = await hermod.newUser(unique("talk"));
  const first = (await hermod.chat(person.token, "one")).json;
  const second = (await hermod.chat(person.token, { message: "two", conversation_id: first.conversation_id })).json;
  assert.equal(second.conversation_id, first.conversation_id);
  assert.equal(second.session_id, first.session_id);
  assertProblem(await hermod.chat(token, { message: "x", conversation_id: first.conversation_id }), 404, "not_found");
  assertProblem(await hermod.chat(token, { message: "x", conversation_id: "conv_00invented" }), 404, "not_found");
});

test("a model that fails ends the turn honestly, and the failure is replayed", async () => {
  const question = unique("failing");
  model.behave((asked) => (asked === question ? { status: 400 } : undefined));
  const key = unique("fail");
  const first = await hermod.chat(token, question, { key });
  assertProblem(first, 502, "generation_failed");
  const again = await hermod.chat(token, question, { key });
  assertProblem(again, 502, "generation_failed");
  assert.equal(again.headers.get("idempotency-replayed"), "true");
  assert.equal(again.json.new_key_required, true);
  assert.equal(model.callsFor(question), 1);
  const { events } = (await readTurn(first.json.turn_id)).json;
  const { metadata } = events.find(({ type }) => type === "generation_failed");
  assert.deepEqual(metadata, { error_code: "generation_failed", model_fault: "rejected" });
  model.behave(() => undefined);
});

test("a model that stalls is given up at its deadline", async () => {
  const question = unique("stalling");
  model.behave((asked) => (asked === question ? { stall: new Promise(() => {}) } : undefined));
  const began = Date.now();
  assertProblem(await hermod.chat(token, question), 504, "generation_timeout");
  assert.ok(Date.now() - began < 7000);
  model.behave(() => undefined);
});

test("no word of anyone stands in the tables or in the log in the clear", async () => {
  const word = "Zwetschgendatschi";
  const { json } = await hermod.chat(token, word);
  const tables = await hermod.query("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite%'");
  const inHex = Buffer.from(word).toString("hex").toUpperCase();
  for (const { name } of tables) {
    const columns = await hermod.query(`SELECT name FROM pragma_table_info('${name}')`);
    const text = columns.map((column) => `ifnull(hex(${column.name}), '')`).join(" || ");
    const [{ found }] = await hermod.query(`SELECT count(*) AS found FROM ${name} WHERE instr(${text}, '${inHex}') > 0`);
    assert.equal(found, 0, `${name} holds the message in the clear`);
  }
  const log = hermod.logText();
  for (const secret of [word, token, "synthetic-model-key", "user_00demo", json.conversation_id]) assert.ok(!log.includes(secret), `the log holds ${secret.slice(0, 20)}`);
});
