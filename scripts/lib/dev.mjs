// node dev.mjs run|stop|token|ledger|front … : the half of scripts/dev that talks to the running Worker.
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { GATEWAY_ID, mintFor, setUpDemo } from "./demo.mjs";
import { ledgerText } from "./ledger.mjs";
import { startProcess } from "./process.mjs";
import { ROOT } from "./runtime.mjs";
import { loadSecrets, secretVars, writePrivate } from "./secrets.mjs";
import { CHAT_ID, control, frontOptions, webhookPath } from "./telegram.mjs";
import { tour } from "./tour.mjs";

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
const [command, what] = positionals;
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

/** Where the demo's Telegram is, and what it takes to be it. */
const telegramOf = (worker, secrets, vars) => ({
  ...(worker.front ?? { api_base: vars.TELEGRAM_API_BASE }),
  gateway_id: GATEWAY_ID,
  webhook_url: worker.url + webhookPath(GATEWAY_ID),
  webhook_secret: secrets.webhook_secret,
  bot_token: secrets.bot_token,
  chat_id: CHAT_ID,
});

async function run() {
  const other = running();
  if (other) fail(`a Worker of this state is running already: ${other.url} (pid ${other.pid})`, `scripts/dev --stop --state ${state}`);
  mkdirSync(state, { recursive: true, mode: 0o700 });
  rmSync(readyFile, { force: true });
  const secrets = loadSecrets(state);
  // A short pause between the pieces of a scripted answer, so that a stream can be seen to be one.
  const vars = { ENVIRONMENT: "dev", SCRIPTED_DELAY_MS: "25", ...secretVars(secrets), ...variables() };
  // With a Telegram of its own, unless it was told of another.
  const front = vars.TELEGRAM_API_BASE === undefined ? frontOptions(secrets, GATEWAY_ID) : undefined;
  const worker = await startProcess(
    { bundle: values.bundle, state, port: Number(values.port), vars, front, cron: true, log: logFile, echo: !values.detach },
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
  const ready = { url: worker.url, pid: worker.pid, demo, telegram: telegramOf(worker, secrets, vars) };
  writePrivate(readyFile, `${JSON.stringify(ready, null, 2)}\n`);
  console.log(tour({ ...ready, state, log: logFile }));
  if (worker.front) console.log(`the demo's Telegram: ${worker.front.api_base}, its controls: ${worker.front.url}`);
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
  if (!ready && !/^(operator|upstream:|assertion:)/.test(what ?? "")) {
    fail("nothing runs on this state, and only a running Worker issues that token", `scripts/dev --detach --state ${state}`);
  }
  console.log(await mintFor(what ?? "", ready?.url, loadSecrets(state)).catch((error) => fail(error.message)));
}

async function ledger() {
  const text = await ledgerText(state, what).catch((error) => fail(error.message));
  console.log(text);
}

async function front() {
  const ready = running();
  if (!ready) fail("nothing runs on this state", `scripts/dev --detach --state ${state}`);
  if (!ready.telegram.url) fail("this one was told of another Telegram, which cannot be stopped from here");
  if (!["start", "stop", "state"].includes(what)) fail("front takes start, stop or state");
  const reply = await control(ready.telegram.url, what, what === "state" ? undefined : {});
  console.log(what === "state" ? JSON.stringify(reply, null, 2) : `${ready.telegram.api_base} ${what === "stop" ? "refuses connections" : "answers"}`);
}

const commands = { run, stop, token, ledger, front };
await commands[command]();
