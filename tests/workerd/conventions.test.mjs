// Health, and the conventions every route keeps: what is refused, with which status and in which form.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertNoPanic, assertProblem, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
let token;
before(async () => {
  hermod = await startHermod();
  token = await hermod.token("user");
});
after(async () => assertNoPanic(await hermod.stop()));

test("live and ready answer", async () => {
  assert.equal((await hermod.request("GET", "/health/live")).status, 200);
  assert.equal((await hermod.request("GET", "/health/ready")).status, 200);
});

test("version says exactly what runs", async () => {
  const answer = await hermod.request("GET", "/health/version");
  assert.equal(answer.status, 200);
  const { readFileSync } = await import("node:fs");
  const bundle = JSON.parse(readFileSync("build/bundle.json", "utf8"));
  assert.equal(answer.json.git_commit, bundle.commit);
  assert.equal(answer.json.bundle_sha256, bundle.sha256);
  assert.match(answer.json.dependency_lock_sha256, /^[0-9a-f]{64}$/);
  assert.match(answer.json.build_time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
});

test("the old token route is gone, whatever the query says", async () => {
  for (const path of ["/token", "/token?user_id=user_00demo"]) {
    const answer = await hermod.request("GET", path);
    assert.equal(answer.status, 410);
    assert.equal(answer.json.code, "endpoint_removed");
    assert.equal(answer.json.error, "endpoint_removed");
    assert.equal(answer.headers.get("cache-control"), "no-store");
  }
});

test("the API description names every kind of thing", async () => {
  const answer = await hermod.request("GET", "/openapi.json");
  assert.equal(answer.status, 200);
  assert.match(answer.json.openapi, /^3\.1/);
  assert.ok(answer.json.paths["/chat"].post);
});

test("an unknown path is 404, and so are the doors of the test bundle", async () => {
  for (const path of ["/nothing/here", "/__probe/panic", "/__probe/conformance/sql"]) {
    assertProblem(await hermod.request("GET", path), 404, "not_found");
  }
});

test("a known path with another method is 405 and says which are allowed", async () => {
  const answer = await hermod.request("DELETE", "/chat", { token });
  assertProblem(answer, 405, "method_not_allowed");
  assert.equal(answer.headers.get("allow"), "POST");
});

test("what cannot be sent is 406", async () => {
  const options = { token, key: unique("k"), json: { message: "x" }, headers: { accept: "image/png" } };
  assertProblem(await hermod.request("POST", "/chat", options), 406, "not_acceptable");
});

test("a body that is not JSON by its type is 415", async () => {
  const options = { token, key: unique("k"), body: "message=x", headers: { "content-type": "application/x-www-form-urlencoded" } };
  assertProblem(await hermod.request("POST", "/chat", options), 415, "unsupported_media_type");
});

test("a body over 64 KiB is 413, with and without a length", async () => {
  const text = JSON.stringify({ message: "x".repeat(64 * 1024) });
  const headers = { "content-type": "application/json" };
  assertProblem(await hermod.request("POST", "/chat", { token, key: unique("k"), body: text, headers }), 413, "payload_too_large");
  const chunked = new Blob([text]).stream();
  const answer = await fetch(`${hermod.url}/chat`, {
    method: "POST", body: chunked, duplex: "half",
    headers: { ...headers, authorization: `Bearer ${token}`, "idempotency-key": `"${unique("k")}"` },
  });
  assert.equal(answer.status, 413);
});

test("broken JSON is 400, an unknown field 422", async () => {
  const headers = { "content-type": "application/json" };
  assertProblem(await hermod.request("POST", "/chat", { token, key: unique("k"), body: "{\"message\":", headers }), 400, "malformed_json");
  assertProblem(await hermod.request("POST", "/chat", { token, key: unique("k"), json: { message: "x", colour: 1 } }), 422, "invalid_body");
});

test("a missing key is 400", async () => {
  assertProblem(await hermod.chat(token, "x", { key: null }), 400, "idempotency_key_required");
});

test("a message over 16,000 bytes is 422 and one of 16,000 is taken", async () => {
  assertProblem(await hermod.chat(token, "x".repeat(16_001)), 422, "invalid_body");
  assert.equal((await hermod.chat(token, "x".repeat(16_000))).status, 200);
});

test("nothing personal may be cached, and the server names the request", async () => {
  const answer = await hermod.chat(token, "hello", { headers: { "x-request-id": "mine" } });
  assert.equal(answer.headers.get("cache-control"), "no-store");
  assert.notEqual(answer.headers.get("x-request-id"), "mine");
});

test("without a credential every protected route is 401 with a challenge", async () => {
  for (const [method, path] of [["POST", "/chat"], ["GET", "/turns/turn_00abc"], ["POST", "/turns/turn_00abc/ack"], ["PUT", "/internal/families/family_00x"],
    ["POST", "/internal/revocations"]]) {
    const answer = await hermod.request(method, path, { key: unique("k"), json: method === "GET" ? undefined : {} });
    assertProblem(answer, 401, "unauthenticated");
    assert.match(answer.headers.get("www-authenticate") ?? "", /^Bearer/);
  }
});
