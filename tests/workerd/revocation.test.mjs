// Revocation times: what POST /internal/revocations makes stale, and that new tokens work soon after.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { GATEWAY_ID, UPSTREAM } from "../../scripts/lib/demo.mjs";
import { clientAssertion, upstreamToken } from "../../scripts/lib/tokens.mjs";
import { assertNoPanic, assertProblem, eventually, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
before(async () => {
  hermod = await startHermod();
});
after(async () => assertNoPanic(await hermod.stop()));

const revoke = (token, json, key = unique("revoke")) => hermod.request("POST", "/internal/revocations", { token, key, json });
const claimsOf = (token) => JSON.parse(Buffer.from(token.split(".")[1], "base64url"));

/** What every protected route says to a person's token. */
async function asPerson(token) {
  const { turn_id } = asPerson;
  const ack = { ack_type: "rendered", client_timestamp: "2026-01-02T03:04:05Z" };
  return [
    await hermod.chat(token, "hello"),
    await hermod.request("GET", `/turns/${turn_id}`, { token }),
    await hermod.request("POST", `/turns/${turn_id}/ack`, { token, key: unique("ack"), json: ack }),
  ];
}

/** The first token that an exchange gives again; in the very second of the revocation it is asked to come back. */
async function exchangeAgain(credential) {
  const answer = await eventually(async () => {
    const answer = await hermod.request("POST", "/auth/token", { token: await credential() });
    if (answer.status === 200) return answer;
    assertProblem(answer, 503, "unavailable");
    assert.equal(answer.headers.get("retry-after"), "1");
    return undefined;
  }, { timeoutMs: 3000, what: "an exchange after the revocation" });
  return answer.json.access_token;
}

test("a user's tokens, and nobody else's", async () => {
  const operator = await hermod.operator();
  const [one, two] = [await hermod.newUser(unique("out")), await hermod.newUser(unique("in"))];
  asPerson.turn_id = (await hermod.chat(one.token, "before")).json.turn_id;
  const began = Date.now();
  const answer = await revoke(operator, { scope: "user", user_id: one.user_id });
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(Object.keys(answer.json).sort(), ["scope", "tokens_valid_from", "user_id"]);
  assert.deepEqual([answer.json.scope, answer.json.user_id], ["user", one.user_id]);
  const at = Date.parse(answer.json.tokens_valid_from);
  assert.equal(new Date(at).toISOString(), answer.json.tokens_valid_from);
  assert.ok(at >= began - 50 && at <= Date.now() + 50, answer.json.tokens_valid_from);
  const [row] = await hermod.query("SELECT tokens_valid_from, authorization_revision FROM users WHERE user_id = ?1", one.user_id);
  assert.deepEqual(row, { tokens_valid_from: at, authorization_revision: 1 });

  for (const refused of await asPerson(one.token)) assertProblem(refused, 401, "token_stale");
  assert.equal((await hermod.chat(two.token, "still here")).status, 200);
  const subject = `person-${one.user_id.slice("user_00".length)}`;
  const fresh = await exchangeAgain(() => upstreamToken(hermod.secrets.upstream, { ...UPSTREAM, subject }));
  assert.ok(claimsOf(fresh).iat * 1000 >= at);
  for (const answered of await asPerson(fresh)) assert.equal(answered.status, 200, answered.text);
  for (const refused of await asPerson(one.token)) assertProblem(refused, 401, "token_stale");
});

test("a gateway's tokens", async () => {
  const before = await hermod.token("gateway");
  const say = (token) => hermod.chat(token, { message: "hello", user_id: "demo-sender" });
  assert.equal((await say(before)).status, 200);
  const answer = await revoke(await hermod.operator(), { scope: "gateway", gateway_id: GATEWAY_ID });
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual([answer.json.scope, answer.json.gateway_id], ["gateway", GATEWAY_ID]);
  assertProblem(await say(before), 401, "token_stale");
  const fresh = await exchangeAgain(() => clientAssertion(hermod.secrets.gateway, GATEWAY_ID));
  assert.equal((await say(fresh)).status, 200);
});

test("one key revokes once, and keeps a failure too", async () => {
  const operator = await hermod.operator();
  const person = await hermod.newUser(unique("once"));
  const [key, body] = [unique("revoke"), { scope: "user", user_id: person.user_id }];
  const first = await revoke(operator, body, key);
  const second = await revoke(operator, body, key);
  assert.equal(second.status, 200, second.text);
  assert.equal(second.headers.get("idempotency-replayed"), "true");
  assert.deepEqual(second.json, first.json);
  assertProblem(await revoke(operator, { scope: "gateway", gateway_id: GATEWAY_ID }, key), 422, "idempotency_key_reused");

  for (const [kind, id] of [["user", "user_00nobody"], ["gateway", "gateway_00nobody"]]) {
    const lost = { scope: kind, [`${kind}_id`]: id };
    const again = unique("revoke");
    const failure = await revoke(operator, lost, again);
    assertProblem(failure, 404, "not_found");
    assert.equal(failure.json.new_key_required, true);
    const replay = await revoke(operator, lost, again);
    assertProblem(replay, 404, "not_found");
    assert.equal(replay.headers.get("idempotency-replayed"), "true");
  }
});

test("only operators, with a key and a body of the right form", async () => {
  const operator = await hermod.operator();
  const body = { scope: "user", user_id: "user_00other" };
  assertProblem(await revoke(await hermod.token("user"), body), 403, "insufficient_scope");
  assertProblem(await revoke(undefined, body), 401, "unauthenticated");
  assertProblem(await revoke(operator, body, null), 400, "idempotency_key_required");
  for (const bad of [{}, [], ["all"], "all", null, { scope: "everyone" }, { scope: "user" }, { scope: "all", user_id: "user_00other" },
    { scope: "user", user_id: "family_00other" }, { ...body, extra: 1 }]) {
    assertProblem(await revoke(operator, bad), 422, "invalid_body");
  }
  assertProblem(await hermod.request("GET", "/internal/revocations", { token: operator }), 405, "method_not_allowed");
  const [row] = await hermod.query("SELECT max(tokens_valid_from) AS at FROM users WHERE user_id = 'user_00other'");
  assert.equal(row.at, 0);
});

// Last, because it ends every token there is.
test("everyone's tokens, the asking operator's among them", async () => {
  const [operator, user, gateway] = [await hermod.operator(), await hermod.token("user"), await hermod.token("gateway")];
  const [key, body] = [unique("revoke"), { scope: "all" }];
  asPerson.turn_id = (await hermod.chat(user, "before")).json.turn_id;
  const answer = await revoke(operator, body, key);
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(Object.keys(answer.json).sort(), ["scope", "tokens_valid_from"]);
  for (const refused of await asPerson(user)) assertProblem(refused, 401, "token_stale");
  assertProblem(await hermod.chat(gateway, { message: "hello", user_id: "demo-sender" }), 401, "token_stale");
  assertProblem(await hermod.request("PUT", "/internal/families/family_00late", { token: operator, key: unique("k"), json: { status: "active" } }), 401, "token_stale");
  assertProblem(await revoke(operator, body, key), 401, "token_stale");

  await new Promise((resolve) => setTimeout(resolve, 1000));
  for (const answered of await asPerson(await hermod.token("user"))) assert.equal(answered.status, 200, answered.text);
  // With a new token of the same operator the key tells what it did; nothing is revoked again.
  const replay = await revoke(await hermod.operator(), body, key);
  assert.equal(replay.status, 200, replay.text);
  assert.equal(replay.headers.get("idempotency-replayed"), "true");
  assert.deepEqual(replay.json, answer.json);
});
