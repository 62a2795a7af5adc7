// The edges of the HTTP boundary: HEAD, CORS, trace context, limits, odd requests, and an unusable configuration.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertNoPanic, assertProblem, startHermod, unique } from "./harness/hermod.mjs";

const APP = "https://app.example";
let hermod;
before(async () => {
  hermod = await startHermod({ demo: false, vars: { CORS_ORIGINS: `${APP},http://localhost:3000` } });
});
after(async () => assertNoPanic(await hermod.stop()));

const preflight = (origin, method, headers) =>
  hermod.request("OPTIONS", "/chat", {
    headers: { origin, "access-control-request-method": method, ...(headers && { "access-control-request-headers": headers }) },
  });

test("HEAD is answered wherever GET is, without a body", async () => {
  const answer = await hermod.request("HEAD", "/health/live");
  assert.equal(answer.status, 200);
  assert.equal(answer.text, "");
  const refused = await hermod.request("HEAD", "/chat");
  assert.equal(refused.status, 405);
  assert.equal(refused.headers.get("allow"), "POST");
});

test("a method nobody knows is 405, and GET's resources allow HEAD", async () => {
  const answer = await hermod.request("PROPFIND", "/openapi.json");
  assertProblem(answer, 405, "method_not_allowed");
  assert.equal(answer.headers.get("allow"), "GET, HEAD");
});

test("a page of an allowed origin may call, others may not", async () => {
  const allowed = await preflight(APP, "POST", "authorization,content-type,idempotency-key");
  assert.equal(allowed.status, 204);
  assert.equal(allowed.headers.get("access-control-allow-origin"), APP);
  assert.equal(allowed.headers.get("access-control-allow-methods"), "POST");
  assert.equal(allowed.headers.get("access-control-allow-credentials"), null);
  for (const answer of [
    await preflight("https://evil.example", "POST"),
    await preflight(`${APP}.evil.example`, "POST"),
    await preflight("null", "POST"),
    await preflight(APP, "DELETE"),
    await preflight(APP, "POST", "x-forwarded-user"),
  ]) {
    assert.equal(answer.status, 204);
    assert.equal(answer.headers.get("access-control-allow-origin"), null);
    assert.equal(answer.headers.get("vary"), "Origin");
  }
});

test("answers to an allowed page can be read by it, problems too", async () => {
  const answer = await hermod.request("POST", "/chat", { headers: { origin: APP } });
  assertProblem(answer, 401, "unauthenticated");
  assert.equal(answer.headers.get("access-control-allow-origin"), APP);
  assert.match(answer.headers.get("access-control-expose-headers"), /Retry-After/);
  const other = await hermod.request("POST", "/chat", { headers: { origin: "https://evil.example" } });
  assert.equal(other.headers.get("access-control-allow-origin"), null);
});

test("a trace goes on under a span of our own, a damaged one starts anew", async () => {
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const traced = await hermod.request("GET", "/health/live", { headers: { traceparent: `00-${trace}-b7ad6b7169203331-01` } });
  assert.match(traced.headers.get("traceparent"), new RegExp(`^00-${trace}-(?!b7ad6b7169203331)[0-9a-f]{16}-01$`));
  const damaged = await hermod.request("GET", "/health/live", { headers: { traceparent: `00-${trace}-0000000000000000-01` } });
  assert.match(damaged.headers.get("traceparent"), /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
  assert.ok(!damaged.headers.get("traceparent").includes(trace));
});

test("every answer carries the headers that keep browsers out of trouble", async () => {
  for (const path of ["/health/live", "/nothing", "/token"]) {
    const { headers } = await hermod.request("GET", path);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("content-security-policy"), "default-src 'none'; frame-ancestors 'none'");
    assert.equal(headers.get("referrer-policy"), "no-referrer");
    assert.match(headers.get("x-request-id"), /^req_00[0-9a-z]{26}$/);
  }
});

test("paths that can be read in two ways are refused", async () => {
  for (const path of ["/turns/a%2Fb", "/turns/%00", "/turns/%ff", "/turns/a%5Cb", "/turns/%zz"]) {
    assertProblem(await hermod.request("GET", path), 400, "invalid_request");
  }
  for (const path of ["/health/live/", "//health/live", "/Health/live", "/health"]) {
    assertProblem(await hermod.request("GET", path), 404, "not_found");
  }
});

test("a credential of an odd form is 401", async () => {
  for (const authorization of ["Bearer", "Bearer ", "Basic dTpw", "bearer\ta.b.c", "Bearer a.b.c, Bearer a.b.c", `Bearer ${"x".repeat(9_000)}`]) {
    assertProblem(await hermod.request("POST", "/chat", { headers: { authorization } }), 401, "unauthenticated");
  }
});

test("an idempotency key of an odd form is 400", async () => {
  const token = await hermod.operator();
  for (const key of ["", " ", '"open', "two words", "k".repeat(256), "\u00e9"]) {
    const headers = { authorization: `Bearer ${token}`, "idempotency-key": key, "content-type": "application/json" };
    const answer = await hermod.request("PUT", "/internal/families/family_00odd", { headers, body: "{}" });
    assert.equal(answer.status, 400, JSON.stringify(key));
    assert.match(answer.json.code, /^idempotency_key_(required|invalid)$/);
  }
});

test("the log names routes by their pattern and holds no value of any path", async () => {
  const marker = unique("canary");
  await hermod.request("GET", `/turns/turn_00${marker}?secret=${marker}`);
  await hermod.request("GET", `/${marker}?secret=${marker}`);
  const text = hermod.logText();
  assert.ok(!text.includes(marker));
  assert.match(text, /"route":"GET \/turns\/\{turn_id\}","status":401,"code":"unauthenticated"/);
});

test("a sender over its limit is told when to come back, and health checks still answer", async () => {
  const limited = await startHermod({ demo: false, vars: { RATE_ADDRESS_PER_MIN: "5" } });
  try {
    const answers = [];
    for (let i = 0; i < 8; i += 1) answers.push(await limited.request("GET", "/openapi.json"));
    assert.deepEqual(answers.map((answer) => answer.status), [200, 200, 200, 200, 200, 429, 429, 429]);
    const last = answers.at(-1);
    assertProblem(last, 429, "rate_limited");
    const seconds = Number(last.headers.get("retry-after"));
    assert.ok(seconds >= 1 && seconds <= 60, String(seconds));
    assert.equal((await limited.request("GET", "/health/live")).status, 200);
    assert.equal((await limited.request("GET", "/health/ready")).status, 200);
  } finally {
    assertNoPanic(await limited.stop());
  }
});

test("with a configuration that cannot be used it lives, is not ready, and says which variable it was", async () => {
  const secret = "synthetic-secret-that-must-not-be-logged";
  const broken = await startHermod({ demo: false, vars: { TOKEN_KEYS: secret } });
  try {
    assert.equal((await broken.request("GET", "/health/live")).status, 200);
    for (const path of ["/health/ready", "/health/version", "/openapi.json", "/turns/turn_00x"]) {
      const answer = await broken.request("GET", path);
      assertProblem(answer, 503, "unavailable");
      assert.ok(Number(answer.headers.get("retry-after")) >= 1);
    }
    assert.match(broken.logText(), /"event":"settings_refused","about":"TOKEN_KEYS /);
    assert.ok(!broken.logText().includes(secret));
  } finally {
    assertNoPanic(await broken.stop());
  }
});
