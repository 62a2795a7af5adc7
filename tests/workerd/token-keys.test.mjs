// The service's own token keys rotate: a new one signs while the old one verifies, then the old one is retired. Each
// test goes on from the state of the one before it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify } from "jose";
import { AUDIENCE, ISSUER, operatorToken } from "../../scripts/lib/tokens.mjs";
import { newKeyPair } from "../../scripts/lib/secrets.mjs";
import { assertNoPanic, assertProblem, startHermod, unique } from "./harness/hermod.mjs";

const OLD = "local-1";
const NEW = "local-2";

let hermod;
let oldKey;
const newKey = newKeyPair(NEW);
const tokens = {};
before(async () => {
  hermod = await startHermod();
  [oldKey] = hermod.secrets.token_keys.keys;
});
after(async () => assertNoPanic(await hermod.stop()));

/** One token of each kind that there is. */
const mintAll = async () => ({
  user: await hermod.token("user"), gateway: await hermod.token("gateway"), operator: await hermod.operator(),
});

/** What the service says to each of these tokens. */
const useAll = async ({ user, gateway, operator }) => [
  await hermod.chat(user, "hello"),
  await hermod.chat(gateway, { message: "hello", user_id: "demo-sender" }),
  await hermod.request("PUT", "/internal/families/family_00keys", { token: operator, key: unique("keys"), json: { status: "active" } }),
];

async function assertAllWork(all) {
  for (const answer of await useAll(all)) assert.equal(answer.status, 200, answer.text);
}

const kidsOf = (all) => Object.values(all).map((token) => decodeProtectedHeader(token).kid);

async function published() {
  const answer = await hermod.request("GET", "/.well-known/jwks.json");
  assert.equal(answer.status, 200);
  // The public half of a P-256 key has two coordinates, the private one a third number.
  for (const key of answer.json.keys) assert.deepEqual([typeof key.x, typeof key.y, key.d], ["string", "string", undefined]);
  return answer.json;
}

const verify = (token, jwks) => jwtVerify(token, createLocalJWKSet(jwks), { issuer: ISSUER, audience: AUDIENCE });

async function restartWith(keys) {
  hermod.secrets.token_keys = { keys };
  await hermod.restart();
}

test("at first one key signs and is published", async () => {
  tokens.old = await mintAll();
  assert.deepEqual(kidsOf(tokens.old), [OLD, OLD, OLD]);
  await assertAllWork(tokens.old);
  assert.deepEqual((await published()).keys.map((key) => key.kid), [OLD]);
  // The key that comes next is not known yet.
  const early = { ...hermod.secrets, token_keys: { keys: [{ ...newKey, status: "signing" }] } };
  assertProblem(await hermod.request("GET", "/turns/turn_00keys", { token: await operatorToken(early) }), 401, "unauthenticated");
});

test("while the old key verifies, both count and the new one signs", async () => {
  const { private_pkcs8: _, ...publicHalf } = oldKey;
  await restartWith([{ ...publicHalf, status: "verifying" }, { ...newKey, status: "signing" }]);
  await assertAllWork(tokens.old);
  tokens.new = await mintAll();
  assert.deepEqual(kidsOf(tokens.new), [NEW, NEW, NEW]);
  await assertAllWork(tokens.new);

  const jwks = await published();
  assert.deepEqual(jwks.keys.map((key) => key.kid).sort(), [OLD, NEW]);
  for (const token of [tokens.old.user, tokens.new.user]) assert.equal((await verify(token, jwks)).payload.sub, "user_00demo");
});

test("once the old key is retired, its tokens are refused", async () => {
  const { private_pkcs8: _, ...publicHalf } = oldKey;
  await restartWith([{ ...publicHalf, status: "retired" }, { ...newKey, status: "signing" }]);
  for (const answer of await useAll(tokens.old)) assertProblem(answer, 401, "unauthenticated");
  await assertAllWork(tokens.new);

  // Whoever still has the old private key signs nothing that counts.
  const late = { ...hermod.secrets, token_keys: { keys: [{ ...oldKey, status: "signing" }] } };
  const operator = await operatorToken(late);
  assert.equal(decodeProtectedHeader(operator).kid, OLD);
  assertProblem((await useAll({ ...tokens.new, operator }))[2], 401, "unauthenticated");

  const jwks = await published();
  assert.deepEqual(jwks.keys.map((key) => key.kid), [NEW]);
  await assert.rejects(verify(tokens.old.user, jwks), { code: "ERR_JWKS_NO_MATCHING_KEY" });
  assert.equal((await verify(tokens.new.user, jwks)).payload.sub, "user_00demo");
});
