// A database that reports overload: requests are refused early and honestly, and let through again after a pause.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ROOT } from "../../scripts/lib/runtime.mjs";
import { assertNoPanic, assertProblem, eventually, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
let token;
before(async () => {
  hermod = await startHermod({ wrapper: join(ROOT, "tests/workerd/harness/overloaded.mjs") });
  token = await hermod.token("user");
});
after(async () => assertNoPanic(await hermod.stop()));

const setOverloaded = async (on) => (await hermod.request("GET", `/test/database?overloaded=${on ? 1 : 0}`)).json.batches;

test("an overloaded database closes the door, and it opens again by itself", async () => {
  const key = unique("k");
  assert.equal((await hermod.chat(token, "before")).status, 200);
  await setOverloaded(true);

  const first = await hermod.chat(token, "meanwhile", { key });
  assertProblem(first, 503, "overloaded");
  assert.ok(Number(first.headers.get("retry-after")) >= 1);

  await setOverloaded(true);
  for (let i = 0; i < 10; i += 1) assertProblem(await hermod.chat(token, "meanwhile", { key }), 503, "overloaded");
  assert.equal(await setOverloaded(true), 0, "refused requests must not reach the database");
  assert.equal((await hermod.request("GET", "/health/live")).status, 200);
  // What the database said last is believed for a second.
  await eventually(async () => (await hermod.request("GET", "/health/ready")).status === 503 || undefined, {
    everyMs: 200,
    what: "not ready",
  });

  await setOverloaded(false);
  const answer = await eventually(async () => {
    const again = await hermod.chat(token, "meanwhile", { key });
    return again.status === 503 ? undefined : again;
  }, { everyMs: 200, what: "an answer after the overload" });
  assert.equal(answer.status, 200, answer.text);
  // Nothing was stored for the refused ones, so this is the first and only run.
  assert.equal(answer.headers.get("idempotency-replayed"), null);
});
