// The ports' conformance suites on the adapters that ship, inside workerd: D1, queues, Durable Objects, clock and
// randomness behave as the rules rely on, which is what their native stand-ins were made after.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertNoPanic, eventually, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
before(async () => {
  hermod = await startHermod({ bundle: "probes", demo: false });
});
after(async () => assertNoPanic(await hermod.stop()));

async function probe(path, query = {}, url = hermod.url) {
  const answer = await fetch(`${url}/__probe/${path}?${new URLSearchParams(query)}`);
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return JSON.parse(text);
}

/** Runs a suite: every check holds, and there are as many as there should be. */
async function holds(suite, atLeast, query = {}) {
  const report = await probe(`conformance/${suite}`, query);
  assert.deepEqual(report.filter((check) => !check.held), []);
  assert.ok(report.length >= atLeast, `only ${report.length} checks ran`);
}

const ask = async (object, what, url) =>
  (await probe("specimen", { object, ask: JSON.stringify(what) }, url)).map(([text]) => text);

test("the clock", () => holds("clock", 4));
test("the entropy", () => holds("entropy", 2));
test("the database", () => holds("sql", 80));
test("lost replies are read back from the database", () => holds("sql/read_back", 11));
test("the queue", () => holds("queue", 8, { run: unique("run") }));
test("the objects", () => holds("object", 4, { run: unique("run") }));

test("an object's restart loses its memory and keeps its alarm", async () => {
  const object = unique("restarted");
  await holds("object/before_restart", 2, { object, millis: 4000 });
  await hermod.crash();
  await holds("object/after_restart", 1, { object, millis: 90_000 });
});

test("two copies of one object know nothing of each other, and each alarm that is set rings in one of them", async () => {
  const object = unique("twice");
  const twin = await hermod.twin();
  assert.deepEqual(await ask(object, { work: { name: "one", millis: 1 } }), ["start:one", "end:one"]);
  assert.deepEqual(await ask(object, "notes", twin.url), []);
  await ask(object, { alarm: { at: Date.now() + 1000 } }, twin.url);
  const alarms = await eventually(async () => {
    const [first, second] = [await ask(object, "notes"), await ask(object, "notes", twin.url)];
    assert.deepEqual(first.filter((text) => text !== "alarm"), ["start:one", "end:one"]);
    assert.deepEqual(second.filter((text) => text !== "alarm"), []);
    const rung = [...first, ...second].filter((text) => text === "alarm");
    return rung.length > 0 && rung;
  }, { timeoutMs: 60_000, everyMs: 250, what: "the alarm" });
  assert.deepEqual(alarms, ["alarm"]);
});
