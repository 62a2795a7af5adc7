// The provisioning routes: idempotent by key and by content, strict about what they are given.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertNoPanic, assertProblem, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
let operator;
before(async () => {
  hermod = await startHermod();
  operator = await hermod.operator();
});
after(async () => assertNoPanic(await hermod.stop()));

const put = (path, json, key = unique("put")) => hermod.request("PUT", path, { token: operator, key, json });

test("the same request twice is answered twice and done once", async () => {
  const key = unique("put");
  const first = await put("/internal/families/family_00twice", { status: "active" }, key);
  const second = await put("/internal/families/family_00twice", { status: "active" }, key);
  assert.ok(first.status === 200 || first.status === 201, first.text);
  assert.equal(second.status, first.status);
  assert.equal(second.headers.get("idempotency-replayed"), "true");
  assert.equal(first.headers.get("idempotency-replayed"), null);
  assert.deepEqual(second.json, first.json);
});

test("the same key with another body is 422", async () => {
  const key = unique("put");
  await put("/internal/families/family_00reuse", { status: "active" }, key);
  assertProblem(await put("/internal/families/family_00reuse", { status: "suspended" }, key), 422, "idempotency_key_reused");
});

test("the same content under another key changes nothing", async () => {
  const person = await hermod.newUser(unique("same"));
  const path = `/internal/users/${person.user_id}`;
  const body = { family_id: person.family_id, role: "guardian", status: "active" };
  await put(path, body);
  const [row] = await hermod.query("SELECT authorization_revision FROM users WHERE user_id = ?1", person.user_id);
  assert.equal(row.authorization_revision, 1);
  // The token issued before still works.
  assert.equal((await hermod.chat(person.token, "still here")).status, 200);
});

test("a change of role moves the revision by one", async () => {
  const person = await hermod.newUser(unique("role"));
  await put(`/internal/users/${person.user_id}`, { family_id: person.family_id, role: "child_member", status: "active" });
  const [row] = await hermod.query("SELECT role, authorization_revision FROM users WHERE user_id = ?1", person.user_id);
  assert.deepEqual(row, { role: "child_member", authorization_revision: 2 });
});

test("a user of a family that is not there is refused and not made", async () => {
  const answer = await put("/internal/users/user_00orphan", { family_id: "family_00nowhere", role: "guardian", status: "active" });
  assert.ok(answer.status >= 400 && answer.status < 500, answer.text);
  assert.deepEqual(await hermod.query("SELECT user_id FROM users WHERE user_id = 'user_00orphan'"), []);
});

test("bodies are taken strictly", async () => {
  for (const body of [{}, { status: "perhaps" }, { status: "active", extra: 1 }, [], "active", null]) {
    assertProblem(await put("/internal/families/family_00strict", body), 422, "invalid_body");
  }
  assert.deepEqual(await hermod.query("SELECT family_id FROM families WHERE family_id = 'family_00strict'"), []);
});

test("an id that is not one is 404 or 422, never stored", async () => {
  for (const id of ["family_01other-shard", "family_", "user_00x", "family_00%2e%2e", "x".repeat(200)]) {
    const answer = await put(`/internal/families/${id}`, { status: "active" });
    assert.ok([400, 404, 422].includes(answer.status), `${id}: ${answer.status}`);
  }
});

test("secrets and personal data are not in the tables in the clear", async () => {
  const [gateway] = await hermod.query("SELECT * FROM gateways");
  assert.ok(!JSON.stringify(gateway).includes(hermod.secrets.webhook_secret));
  const identities = await hermod.query("SELECT * FROM identities");
  assert.ok(identities.length >= 2 && !JSON.stringify(identities).includes("demo-person"));
  const addresses = await hermod.query("SELECT hex(external_sealed) AS sealed, external_hash FROM channel_addresses");
  assert.equal(addresses.length, 3);
  const inHex = Buffer.from("demo-sender").toString("hex").toUpperCase();
  assert.ok(!JSON.stringify(addresses).includes("demo-sender") && !addresses.some((row) => row.sealed.includes(inHex)));
});
