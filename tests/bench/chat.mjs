// Throughput of POST /chat against the baseline: the same database work by a plain Worker. Both keep their state in
// memory, so that the program is measured and not the disk; runs alternate, so that a slow minute hurts both.
import { cpSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { demoRequests } from "../../scripts/lib/demo.mjs";
import { ROOT } from "../../scripts/lib/runtime.mjs";
import { eventually, newUser, request, unique } from "../workerd/harness/hermod.mjs";
import { newBench, notes } from "./common.mjs";
import { load, median } from "./load.mjs";
import { makeRecipe } from "./recipe.mjs";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "5" },
    seconds: { type: "string", default: "5" },
    users: { type: "string", default: "16" },
    "min-ratio": { type: "string", default: "0" },
  },
});
const { folder, startHermod, startBaseline, fail } = newBench();
const [runs, milliseconds, users] = [Number(values.runs), Number(values.seconds) * 1000, Number(values.users)];
const MESSAGE = JSON.stringify({ message: "What is for dinner on Thursday, and who is cooking?" });

const chat = (hermod, token) =>
  request(hermod.url, "POST", "/chat", { token, key: unique("bench"), body: MESSAGE, headers: { "content-type": "application/json" } });

const isAfter = (batch) => batch.statements.some(({ binds }) => JSON.stringify(binds).includes("response_committed"));

/** Provisions the users and records two turns of each, after some that fill the caches and the history. */
async function record(state) {
  const log = join(folder, "recording.log");
  const hermod = await startHermod(state, { wrapper: join(ROOT, "tests/workerd/harness/recorder.mjs"), log });
  for (const [path, body] of demoRequests(hermod.secrets)) await hermod.put(path, body);
  const people = [];
  for (let index = 0; index < users; index += 1) people.push(await newUser(hermod, `bench${index}`));
  const turn = async (person) => {
    const before = notes(log).length;
    const answer = await chat(hermod, person.token);
    if (answer.status !== 200) throw new Error(`POST /chat answered ${answer.status}: ${answer.text}`);
    // What runs after the answer is part of the turn; it ends with the record that the answer was taken.
    return eventually(() => {
      const turn = notes(log).slice(before);
      return turn.some(isAfter) && turn;
    }, { what: "the end of the turn" });
  };
  const recordings = [];
  let critical = 0;
  for (const person of people) {
    // The first turns make the conversation and fill what a prompt can hold of it.
    for (let index = 0; index < 3; index += 1) await turn(person);
    recordings.push([await turn(person), await turn(person)]);
    critical = recordings.at(-1)[1].filter((batch) => !isAfter(batch)).length;
  }
  await hermod.worker.stop();
  return { people, recipe: makeRecipe(recordings, critical) };
}

const report = (name, result) =>
  console.log(`${name.padEnd(9)} ${result.perSecond.toFixed(0).padStart(5)} requests/s, p50 ${result.p50.toFixed(1)} ms, p99 ${result.p99.toFixed(1)} ms, statuses ${JSON.stringify(result.statuses)}`);

async function main() {
  const state = join(folder, "hermod");
  console.log(`recording two turns of each of ${users} users`);
  const { people, recipe } = await record(state);
  cpSync(state, join(folder, "baseline"), { recursive: true });
  const statements = recipe.batches.reduce((total, batch) => total + batch.length, 0);
  console.log(`one turn: ${recipe.batches.length} batches (${recipe.critical} before the answer), ${statements} statements`);

  const hermod = await startHermod(state);
  const baseline = await startBaseline({ worker: "baseline.mjs", state: join(folder, "baseline"), recipe });
  const ofHermod = people.map(({ token }) => () => ({
    authorization: `Bearer ${token}`, "content-type": "application/json", "idempotency-key": `"${unique("load")}"`,
  }));
  const ofBaseline = people.map((_, index) => () => ({ "content-type": "application/json", "x-bench-user": String(index) }));
  const measure = {
    hermod: (time) => load(`${hermod.url}/chat`, ofHermod, MESSAGE, time),
    baseline: (time) => load(`${baseline.url}/chat`, ofBaseline, MESSAGE, time),
  };
  await measure.hermod(1500);
  await measure.baseline(1500);
  const results = { hermod: [], baseline: [] };
  for (let run = 0; run < runs; run += 1) {
    for (const name of ["hermod", "baseline"]) {
      const result = await measure[name](milliseconds);
      report(name, result);
      if (Object.keys(result.statuses).some((status) => status !== "200")) throw new Error(`${name} answered: ${result.refusal}`);
      results[name].push(result);
    }
  }
  await hermod.worker.stop();
  await baseline.stop();
  const middle = (name, field) => median(results[name].map((result) => result[field]));
  const ratio = middle("hermod", "perSecond") / middle("baseline", "perSecond");
  console.log(`median of ${runs} alternating runs, ${users} users:`);
  for (const name of ["hermod", "baseline"]) {
    console.log(`  ${name.padEnd(9)} ${middle(name, "perSecond").toFixed(0)} requests/s, p50 ${middle(name, "p50").toFixed(1)} ms, p99 ${middle(name, "p99").toFixed(1)} ms`);
  }
  console.log(`  ratio     ${(ratio * 100).toFixed(1)} %`);
  if (ratio < Number(values["min-ratio"])) {
    console.error(`error: below ${values["min-ratio"]}`);
    process.exitCode = 1;
  }
}

await main().catch(fail);
process.exit();
