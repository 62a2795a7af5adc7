// node dev.mjs run|stop|token … : the half of scripts/dev that talks to the running Worker.
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { mintFor, setUpDemo } from "./demo.mjs";
import { startProcess } from "./process.mjs";
import { ROOT } from "./runtime.mjs";
import { loadSecrets, secretVars, writePrivate } from "./secrets.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    state: { type: "string" },
    port: { type: "string", default: "8787" },
    var: { type: "string", multiple: true, default: [] },
    detach: { type: "boolean", default: false },
    bundle: { type: "string", default: "build" },
    "started-at": { type: "string" },
  },
});
const [command, who] = positionals;
const state = resolve(values.state);
const readyFile = join(state, "ready.json");
const logFile = join(state, "hermod.log");

function fail(message, ...next) {
  console.error(`error: ${message}`);
  for (const line of next) console.error(`       ${line}`);
  process.exit(1);
}

/** Whether the process lives and, where that can be seen, is one of ours: numbers of dead processes are given anew. */
const isAlive = (pid) => {
  try {
    process.kill(pid, 0);
    const commandLine = `/proc/${pid}/cmdline`;
    return !existsSync(commandLine) || readFileSync(commandLine, "utf8").includes("serve.mjs");
  } catch {
    return false;
  }
};

/** What ready.json says, if the Worker it describes is running. */
function running() {
  if (!existsSync(readyFile)) return undefined;
  const ready = JSON.parse(readFileSync(readyFile, "utf8"));
  return isAlive(ready.pid) ? ready : undefined;
}

function variables() {
  const vars = {};
  for (const entry of values.var) {
    const at = entry.indexOf("=");
    if (at < 1) fail(`--var takes KEY=VALUE, not ${entry}`);
    vars[entry.slice(0, at)] = entry.slice(at + 1);
  }
  return vars;
}

function tour(url, demo) {
  const token = demo.user.access_token;
  const chat = (extra, key, message) =>
    `curl -sS ${extra}-X POST ${url}/chat \\\n  -H 'Authorization: Bearer ${token}' \\\n` +
    `  -H 'Content-Type: application/json' -H 'Idempotency-Key: "${key}"' \\\n  -d '{"message":"${message}"}'`;
  return `
Hermod runs at ${url} (state in ${state}, log in ${logFile}). Try:

# Who is there
curl -sS ${url}/health/version

# One message, one answer; run it twice: the second answer is a replay of the first
${chat("-i ", "tour-1", "Hello, who are you?")}

# The same key with another message is refused
${chat("-i ", "tour-1", "Something else")}

# The answer as it is written
${chat("-N -H 'Accept: text/event-stream' ", "tour-2", "Tell me more")}

# What became of a turn (put its turn_id in)
curl -sS ${url}/turns/TURN_ID -H 'Authorization: Bearer ${token}'

# An identity token of the demo upstream for an access token
curl -sS -X POST ${url}/auth/token -H 'Authorization: Bearer ${demo.user.upstream_token}'

# Access tokens last an hour; a fresh one:
scripts/dev token user --state ${state}
`;
}

async function run() {
  const other = running();
  if (other) fail(`a Worker of this state is running already: ${other.url} (pid ${other.pid})`, `scripts/dev --stop --state ${state}`);
  mkdirSync(state, { recursive: true, mode: 0o700 });
  rmSync(readyFile, { force: true });
  const secrets = loadSecrets(state);
  // A short pause between the pieces of a scripted answer, so that a stream can be seen to be one.
  const vars = { ENVIRONMENT: "dev", SCRIPTED_DELAY_MS: "25", ...secretVars(secrets), ...variables() };
  const worker = await startProcess(
    { bundle: values.bundle, state, port: Number(values.port), vars, cron: true, log: logFile, echo: !values.detach },
    { output: values.detach ? logFile : undefined },
  ).catch((error) => fail(error.message.split("\n")[0], `The log: ${logFile}. Another --port helps when the port is taken.`));

  let ending = false;
  const end = async () => {
    ending = true;
    await worker.stop();
    rmSync(readyFile, { force: true });
    process.exit(0);
  };
  process.on("SIGINT", end);
  process.on("SIGTERM", end);

  let demo;
  try {
    demo = await setUpDemo(worker.url, secrets);
  } catch (error) {
    await worker.stop();
    fail(`the demo could not be set up: ${error.message}`, `The log: ${logFile}`);
  }
  writePrivate(readyFile, `${JSON.stringify({ url: worker.url, pid: worker.pid, demo }, null, 2)}\n`);
  console.log(tour(worker.url, demo));
  const bundle = JSON.parse(readFileSync(join(resolve(ROOT, values.bundle), "bundle.json"), "utf8"));
  const took = values["started-at"] ? ` in ${Math.round(Date.now() / 1000 - Number(values["started-at"]))} s` : "";
  console.log(`ready${took}; bundle ${bundle.gzipped_bytes.toLocaleString("en")} bytes gzipped, ${bundle.raw_bytes.toLocaleString("en")} raw`);
  if (values.detach) {
    worker.release();
    return;
  }
  console.log("Ctrl-C ends it. What the Worker logs follows.\n");
  worker.exited.then(() => {
    if (ending) return;
    rmSync(readyFile, { force: true });
    fail("the Worker's process ended by itself", `The log: ${logFile}`);
  });
}

async function stop() {
  const ready = running();
  if (!ready) {
    rmSync(readyFile, { force: true });
    console.log("nothing runs on this state");
    return;
  }
  process.kill(ready.pid, "SIGTERM");
  for (let waited = 0; waited < 50 && isAlive(ready.pid); waited += 1) await new Promise((next) => setTimeout(next, 100));
  try {
    process.kill(-ready.pid, "SIGKILL");
  } catch {
    // All of the group had ended.
  }
  rmSync(readyFile, { force: true });
  console.log(`stopped ${ready.url}`);
}

async function token() {
  const ready = running();
  if (!ready && !/^(operator|upstream:|assertion:)/.test(who ?? "")) {
    fail("nothing runs on this state, and only a running Worker issues that token", `scripts/dev --detach --state ${state}`);
  }
  console.log(await mintFor(who ?? "", ready?.url, loadSecrets(state)).catch((error) => fail(error.message)));
}

const commands = { run, stop, token };
await commands[command]();
