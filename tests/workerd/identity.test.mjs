// The exchange: who gets which token, what a token is worth after its owner changed, and upstreams that rotate keys.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { after, before, test } from "node:test";
import { GATEWAY_ID, UPSTREAM, USERS } from "../../scripts/lib/demo.mjs";
import { newKeyPair } from "../../scripts/lib/secrets.mjs";
import { clientAssertion, upstreamToken } from "../../scripts/lib/tokens.mjs";
import { assertNoPanic, assertProblem, startHermod, unique } from "./harness/hermod.mjs";

// The least time between two fetches of an upstream's keys.
const COOLDOWN_MS = 30_000;

let hermod;
before(async () => {
  hermod = await startHermod();
});
after(async () => assertNoPanic(await hermod.stop()));

const exchangeWith = (token, options = {}) => hermod.request("POST", "/auth/token", { token, ...options });
const identityOf = (who, overrides) => upstreamToken(hermod.secrets.upstream, { ...UPSTREAM, ...USERS[who] }, overrides);
const claimsOf = (token) => JSON.parse(Buffer.from(token.split(".")[1], "base64url"));

test("an identity token becomes an access token that says what the directory says", async () => {
  const answer = await exchangeWith(await identityOf("user"));
  assert.equal(answer.status, 200);
  assert.equal(answer.json.token_type, "Bearer");
  assert.equal(answer.json.expires_in, 3600);
  assert.equal(answer.json.user_id, "user_00demo");
  assert.equal(answer.json.family_id, "family_00demo");
  assert.equal(answer.headers.get("cache-control"), "no-store");
  const claims = claimsOf(answer.json.access_token);
  assert.equal(claims.sub, "user_00demo");
  assert.equal(claims.family_id, "family_00demo");
  assert.equal(claims.aud, "oimy-api");
  assert.equal(claims.auth, "user_jwt");
  assert.equal(claims.idp, "demo");
  assert.deepEqual(claims.roles, ["guardian"]);
  assert.ok(Array.isArray(claims.scope) && claims.scope.includes("chat"));
  assert.equal(claims.exp - claims.iat, 3600);
});

test("a body never chooses the subject", async () => {
  const answer = await exchangeWith(await identityOf("user"), { json: { user_id: "user_00other", sub: "other-person" } });
  assert.notEqual(answer.json.user_id, "user_00other");
});

test("an identity nobody provisioned gets nothing", async () => {
  const answer = await exchangeWith(await identityOf("user", { sub: "a-stranger" }));
  assert.ok([401, 403].includes(answer.status), answer.text);
});

test("the published keys verify an issued token", async () => {
  const { createLocalJWKSet, jwtVerify } = await import("jose");
  const keys = await hermod.request("GET", "/.well-known/jwks.json");
  assert.equal(keys.status, 200);
  for (const key of keys.json.keys) assert.equal(key.d, undefined);
  const verified = await jwtVerify(await hermod.token("user"), createLocalJWKSet(keys.json), { audience: "oimy-api" });
  assert.equal(verified.payload.sub, "user_00demo");
});

test("a client assertion becomes a service token, once", async () => {
  const assertion = await clientAssertion(hermod.secrets.gateway, GATEWAY_ID);
  const answer = await exchangeWith(assertion);
  assert.equal(answer.status, 200);
  assert.equal(answer.json.gateway_id, GATEWAY_ID);
  assert.equal(answer.json.expires_in, 600);
  const claims = claimsOf(answer.json.access_token);
  assert.equal(claims.auth, "gateway_service");
  assert.equal(claims.family_id, undefined);
  assertProblem(await exchangeWith(assertion), 401, "unauthenticated");
});

test("of twenty uses of one assertion at once, one succeeds", async () => {
  const assertion = await clientAssertion(hermod.secrets.gateway, GATEWAY_ID);
  const answers = await Promise.all(Array.from({ length: 20 }, () => exchangeWith(assertion)));
  assert.equal(answers.filter((answer) => answer.status === 200).length, 1);
  assert.equal(answers.filter((answer) => answer.status === 401).length, 19);
});

test("a bad assertion is refused", async () => {
  const now = Math.floor(Date.now() / 1000);
  const own = newKeyPair(hermod.secrets.gateway.kid);
  for (const assertion of [
    await clientAssertion(own, GATEWAY_ID),
    await clientAssertion(hermod.secrets.gateway, "gateway_00nobody"),
    await clientAssertion(hermod.secrets.gateway, GATEWAY_ID, { aud: "https://elsewhere.example" }),
    await clientAssertion(hermod.secrets.gateway, GATEWAY_ID, { exp: now + 3600 }),
    await clientAssertion(hermod.secrets.gateway, GATEWAY_ID, { iat: now - 900, exp: now - 600 }),
    await clientAssertion(hermod.secrets.gateway, GATEWAY_ID, { jti: "" }),
    await clientAssertion(hermod.secrets.gateway, GATEWAY_ID, { jti: undefined }),
    await clientAssertion(hermod.secrets.gateway, GATEWAY_ID, { sub: "gateway_00other" }),
  ]) {
    assertProblem(await exchangeWith(assertion), 401, "unauthenticated");
  }
});

test("a token is stale once its owner changed", async () => {
  const person = await hermod.newUser(unique("stale"));
  assert.equal((await hermod.chat(person.token, "before")).status, 200);
  await hermod.put(`/internal/users/${person.user_id}`, { family_id: person.family_id, role: "adult_member", status: "active" });
  assertProblem(await hermod.chat(person.token, "after"), 401, "token_stale");
  assertProblem(await hermod.request("GET", "/turns/turn_00nothere", { token: person.token }), 401, "token_stale");
});

test("a suspended user is out, and so is a suspended family", async () => {
  const [one, two] = [await hermod.newUser(unique("out")), await hermod.newUser(unique("out"))];
  await hermod.put(`/internal/users/${one.user_id}`, { family_id: one.family_id, role: "guardian", status: "suspended" });
  await hermod.put(`/internal/families/${two.family_id}`, { status: "suspended" });
  for (const person of [one, two]) assertProblem(await hermod.chat(person.token, "x"), 401, "token_stale");
});

test("scopes and roles decide what a token may do", async () => {
  const user = await hermod.token("user");
  assertProblem(
    await hermod.request("PUT", "/internal/families/family_00x", { token: user, key: unique("k"), json: { status: "active" } }),
    403, "insufficient_scope",
  );
  assertProblem(await hermod.chat(await hermod.token("operator"), "x"), 403, "insufficient_scope");
});

test("a user cannot speak for another", async () => {
  assertProblem(await hermod.chat(await hermod.token("user"), { message: "x", user_id: "user_00other" }), 403, "subject_mismatch");
});

test("an upstream rotates its key, then strangers come with a thousand made-up ones", async () => {
  const idp = unique("rotating").toLowerCase();
  const upstream = { issuer: `https://${idp}.example`, audience: "rotating", subject: "demo-person" };
  const jwksUrl = `https://${idp}.example/keys`;
  let keys = [newKeyPair("first")];
  let fetches = 0;
  let down = false;
  hermod.control.route(jwksUrl, () => {
    fetches += 1;
    if (down) return { status: 500 };
    return { headers: { "content-type": "application/json" }, body: { keys: keys.map((key) => key.public_jwk) } };
  });
  await hermod.put(`/internal/upstreams/${idp}`, {
    issuer: upstream.issuer, audience: upstream.audience, algorithms: ["ES256"], jwks_url: jwksUrl, status: "active",
  });
  await hermod.put(`/internal/users/user_00demo/identities/${idp}`, { subject: upstream.subject });

  const [first] = keys;
  assert.equal((await exchangeWith(await upstreamToken(first, upstream))).status, 200);
  assert.equal(fetches, 1);

  const second = newKeyPair("second");
  keys = [second];
  await sleep(COOLDOWN_MS + 500);
  assert.equal((await exchangeWith(await upstreamToken(second, upstream))).status, 200);
  assert.equal(fetches, 2);

  const began = Date.now();
  const stranger = async () => {
    const answer = await exchangeWith(await upstreamToken({ ...newKeyPair("x"), kid: randomUUID() }, upstream));
    return answer.status;
  };
  const statuses = [];
  for (let batch = 0; batch < 50; batch += 1) statuses.push(...(await Promise.all(Array.from({ length: 20 }, stranger))));
  assert.equal(statuses.length, 1000);
  assert.deepEqual([...new Set(statuses)], [401]);
  const allowed = 2 + Math.floor((Date.now() - began) / COOLDOWN_MS) + (Date.now() - began > COOLDOWN_MS ? 1 : 0);
  assert.ok(fetches <= allowed, `${fetches} fetches, ${allowed} allowed`);

  down = true;
  assert.equal((await exchangeWith(await upstreamToken(second, upstream))).status, 200);
});
