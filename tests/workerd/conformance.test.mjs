// The ports' conformance suites inside workerd: the same checks that hold the native fakes.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { assertNoPanic, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
before(async () => {
  hermod = await startHermod({ bundle: "probes", demo: false });
});
after(async () => assertNoPanic(await hermod.stop()));

async function report(path) {
  const answer = await hermod.request("GET", `/__probe/${path}?run=${unique("run")}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}

function assertHeld(checks, least) {
  assert.deepEqual(checks.filter((check) => !check.held), []);
  assert.ok(checks.length >= least, `only ${checks.length} checks ran`);
}

describe("conformance", () => {
  for (const [port, least] of [["sql", 30], ["clock", 4], ["entropy", 2], ["object", 4], ["queue", 6]]) {
    test(`${port} on the platform`, async () => assertHeld(await report(`conformance/${port}`), least));
  }

  test("an object's memory is lost in a restart and its alarm is not", async () => {
    const run = unique("restart");
    const first = await hermod.request("GET", `/__probe/restart/before?run=${run}`);
    assertHeld(first.json, 2);
    await hermod.crash();
    const second = await hermod.request("GET", `/__probe/restart/after?run=${run}`);
    assertHeld(second.json, 1);
  });
});
