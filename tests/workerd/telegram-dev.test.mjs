// What scripts/dev and docs/telegram.md tell people to type is typed here.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ROOT } from "../../scripts/lib/runtime.mjs";
import { loadSecrets } from "../../scripts/lib/secrets.mjs";
import { STRANGER_CHAT_ID } from "../../scripts/lib/telegram.mjs";
import { eventually, newState } from "./harness/hermod.mjs";
import { assertInOrder } from "./harness/telegram.mjs";

const state = newState();
const bundle = process.env.HERMOD_BUNDLE ?? join(ROOT, "build");
let ready;
let printed;

function run(command, args, { input, env = {} } = {}) {
  const child = spawn(command, args, { cwd: ROOT, env: { ...process.env, ...env } });
  const [out, errors] = [[], []];
  child.stdout.on("data", (data) => out.push(data));
  child.stderr.on("data", (data) => errors.push(data));
  child.stdin.end(input);
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, out: Buffer.concat(out).toString("utf8"), errors: Buffer.concat(errors).toString("utf8") })));
}
const dev = (...args) => run(process.execPath, ["scripts/lib/dev.mjs", ...args, "--state", state, "--bundle", bundle]);
async function shell(script, env) {
  const { code, out, errors } = await run("bash", ["-euo", "pipefail"], { input: script, env });
  assert.equal(code, 0, `${script}\n${out}${errors}`);
  return out;
}

before(async () => {
  const started = await dev("run", "--detach", "--port", "0");
  assert.equal(started.code, 0, started.errors);
  printed = started.out;
  ready = JSON.parse(readFileSync(join(state, "ready.json"), "utf8"));
});
after(async () => {
  assert.equal((await dev("stop")).code, 0);
  rmSync(state, { recursive: true, force: true });
});

/** The lines that the tour prints under a title which contains `words`. */
function tour(words) {
  const section = printed.split("\n\n").find((part) => part.startsWith("#") && part.split("\n")[0].includes(words));
  assert.ok(section, `no section about ${words}`);
  return section.split("\n").slice(1);
}
const ledger = async () => {
  const { code, out, errors } = await dev("ledger");
  assert.equal(code, 0, errors);
  return out.trimEnd();
};
const say = async (chat_id, text, more = {}) => {
  const answer = await fetch(`${ready.telegram.url}/control/say`, { method: "POST", body: JSON.stringify({ chat_id, text, ...more }) });
  return answer.json();
};

test("the tour's message goes in, its reply comes out, and both ledgers are printed", async () => {
  const reply = JSON.parse(await shell(tour("Telegram, played by")[0]));
  assert.match(reply.reply, /scripted answer[\s\S]*hello/);
  await eventually(async () => /terminal_success/.test(await ledger()), { what: "the end of the turn" });
  const lines = (await ledger()).split("\n");
  assertInOrder(lines.map((line) => line.trim().split(/\s+/)[1]), ["ingress_received", "outbox_enqueued", "send_claimed", "provider_accepted", "turn_terminal_success"]);
  assert.match(lines.at(-1), /^    attempt 1 .* accepted  HTTP 200$/);
  assert.ok(lines.some((line) => line.includes(`provider_accepted  message ${reply.message.message_id}`)), lines.join("\n"));
});

test("with the front stopped the answer goes to retry, and it is delivered after it comes back", async () => {
  const [stop, , , start] = tour("Without a Telegram");
  assert.match(stop, /^scripts\/dev front stop --state /);
  assert.match(start, /^scripts\/dev front start --state /);
  assert.equal((await dev("front", "stop")).code, 0);
  const silent = await say(ready.telegram.chat_id, "are you there?", { wait_ms: 3000 });
  assert.equal(silent.reply, null);
  await eventually(async () => /part 1 of 1  retry/.test(await ledger()), { what: "the retry" });
  assert.match(await ledger(), /attempt 1 .* ambiguous  transport\/broke_off/);
  const arrived = async () => {
    const answer = await fetch(`${ready.telegram.url}/control/messages?chat_id=${ready.telegram.chat_id}`);
    return (await answer.json()).some(({ sent }) => sent.includes("are you there?"));
  };
  assert.equal(await arrived(), false);
  assert.equal((await dev("front", "start")).code, 0);
  await eventually(arrived, { timeoutMs: 90_000, everyMs: 500, what: "the answer" });
  await eventually(async () => /terminal_success {2}delivery accepted/.test(await ledger()), { what: "the record of it" });
  assert.match((await ledger()).split("\n").at(-1), /attempt \d+ .* accepted  HTTP 200$/);
});

test("a stranger's chat is linked with a code", async () => {
  const [, link] = tour("A chat that is not known yet");
  assert.match((await say(STRANGER_CHAT_ID, "hello")).reply, /do not know you yet/);
  const { code } = JSON.parse(await shell(link));
  assert.match((await say(STRANGER_CHAT_ID, `/start ${code}`)).reply, /now linked/);
  assert.match((await say(STRANGER_CHAT_ID, "hello again")).reply, /scripted answer/);
});

test("the commands of docs/telegram.md set a bot up and link a chat", async () => {
  const text = readFileSync(join(ROOT, "docs/telegram.md"), "utf8");
  const blocks = [...text.matchAll(/^( *)```sh\n([\s\S]*?)^ *```/gm)].map(([, , block]) => block);
  assert.equal(blocks.length, 4);
  const secrets = loadSecrets(state);
  const env = {
    HERMOD: ready.url, GATEWAY: ready.telegram.gateway_id, FAMILY: ready.demo.user.family_id, OPERATOR_TOKEN: ready.demo.operator.access_token,
    USER_TOKEN: ready.demo.user.access_token, BOT_TOKEN: ready.telegram.bot_token, WEBHOOK_SECRET: `another-${"secret".repeat(3)}`,
    GATEWAY_JWK: JSON.stringify(secrets.gateway.public_jwk), TELEGRAM: ready.telegram.api_base,
  };
  await shell(blocks[0], env);
  const answers = await shell(blocks[1], env);
  assert.match(answers, /Webhook was set/);
  assert.ok(answers.includes(`${ready.url}/telegram/${ready.telegram.gateway_id}`));
  const { code } = JSON.parse(await shell(blocks[2], env));
  assert.match((await say(Number(STRANGER_CHAT_ID) + 1, `/start ${code}`)).reply, /now linked/);
  await shell(blocks[3], env);
  assert.equal((await say(ready.telegram.chat_id, "is it off?", { wait_ms: 3000 })).reply, null);
  assert.match(await ledger(), /part 1 of 1 {2}pending/);
  await shell(blocks[3].replace("false", "true"), env);
  assert.match((await say(ready.telegram.chat_id, "is it on?")).reply, /you said: is it o/);
});
