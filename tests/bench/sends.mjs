// Sends per second through the real consumer, against a plain one that replays the same batches and requests. The Bot
// API is a server that takes everything. State is in memory; runs alternate on the same rows, which are put back to
// waiting in between.
//
// There are many gateways with one wave of chats each, so that what is measured is the consumer and not Telegram's pace.
import { cpSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ROOT } from "../../scripts/lib/runtime.mjs";
import { eventually } from "../workerd/harness/hermod.mjs";
import { newBench, notes } from "./common.mjs";
import { median } from "./load.mjs";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "5" },
    gateways: { type: "string", default: "200" },
    "min-ratio": { type: "string", default: "0" },
  },
});
const [runs, gateways] = [Number(values.runs), Number(values.gateways)];
// One less than a wave takes: behind a full one the consumer looks for more at the gateway's pace, and that is not to be
// measured.
const CHATS = 5;
const QUEUES = { "hermod-sends": { maxBatchSize: 10, maxBatchTimeout: 0, maxRetries: 5 } };
const gatewayId = (at) => `gateway_00bench${at}`;
const token = (at) => `${at}:synthetic-token`;
const chatId = (at, chat) => 700_000_000 + at * CHATS + chat;

const { folder, startHermod, startBaseline, fail } = newBench();

/** A Bot API that takes every message; `requests` keeps what it was asked. */
async function startBotApi() {
  const api = { requests: [], keep: true, taken: 0 };
  const server = createServer(async (request, reply) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    api.taken += 1;
    if (api.keep) api.requests.push({ path: request.url, body: Buffer.concat(chunks).toString() });
    reply.writeHead(200, { "content-type": "application/json" }).end(`{"ok":true,"result":{"message_id":${api.taken}}}`);
  });
  server.keepAliveTimeout = 60_000;
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  api.base = `http://127.0.0.1:${server.address().port}`;
  api.close = () => (server.closeAllConnections(), server.close());
  return api;
}

/** Runs `work` for each number below `count`, eight at a time. */
async function each(count, work) {
  let next = 0;
  await Promise.all(Array.from({ length: 8 }, async () => {
    while (next < count) await work(next++);
  }));
}

async function settle(hermod) {
  await each(gateways, async (at) => {
    const family_id = `family_00bench${at}`;
    await hermod.put(`/internal/families/${family_id}`, { status: "active" });
    await hermod.put(`/internal/gateways/${gatewayId(at)}`, {
      scopes: ["chat"], channels: ["telegram"], families: [family_id], production: false, status: "active",
      assertion_jwk: hermod.secrets.gateway.public_jwk, webhook_secret: `synthetic-secret-${at}`, bot_token: token(at),
    });
    for (let chat = 0; chat < CHATS; chat += 1) {
      const user_id = `user_00bench${at}x${chat}`;
      await hermod.put(`/internal/users/${user_id}`, { family_id, role: "guardian", status: "active" });
      await hermod.put(`/internal/addresses/address_00bench${at}x${chat}`, {
        gateway_id: gatewayId(at), channel: "telegram", user_id, external_id: String(chatId(at, chat)), status: "active",
      });
    }
  });
}

/** One message from every chat; their answers wait in the outbox, because sending is switched off. */
async function fillOutbox(hermod) {
  await hermod.worker.query("INSERT INTO send_switches VALUES ('global', '', 0, 0)");
  await each(gateways * CHATS, async (number) => {
    const [at, chat] = [Math.floor(number / CHATS), number % CHATS];
    const who = { id: chatId(at, chat), first_name: "Synthetic" };
    const message = {
      message_id: 1, date: 1_783_728_000, text: "What is for dinner on Thursday, and who is cooking?",
      chat: { ...who, type: "private" }, from: { ...who, is_bot: false },
    };
    const answer = await fetch(`${hermod.url}/telegram/${gatewayId(at)}`, {
      method: "POST", body: JSON.stringify({ update_id: number + 1, message }),
      headers: { "content-type": "application/json", "x-telegram-bot-api-secret-token": `synthetic-secret-${at}` },
    });
    if (!answer.ok) throw new Error(`the webhook answered ${answer.status}: ${await answer.text()}`);
  });
  const waiting = async () => (await hermod.worker.query("SELECT count(*) AS n FROM outbound_messages"))[0].n;
  await eventually(async () => {
    if ((await waiting()) >= gateways * CHATS) return true;
    await hermod.worker.cron();
    return false;
  }, { timeoutMs: 300_000, everyMs: 500, what: "an answer for every chat" });
  // The orders that these answers gave rise to find the switch, and are gone.
  await new Promise((resolve) => setTimeout(resolve, 3000));
  await hermod.worker.query("DELETE FROM send_switches");
}

const RESET = [
  "DELETE FROM outbound_attempts",
  "DELETE FROM turn_events WHERE actor = 'sender'",
  "UPDATE turns SET status = 'delivery_pending', delivery_status = 'pending', terminal_at = NULL",
  `UPDATE outbound_messages SET status = 'pending', terminal_at = NULL, attempt_count = 0, provider_message_id = NULL,
     provider_accepted_at = NULL`,
  "UPDATE send_lanes SET next_at = 0",
  "DELETE FROM send_pacing",
];

/** Orders everything to be sent and waits until it is on record; gives the sends per second. */
async function measure(worker, queue, api) {
  for (const sql of RESET) await worker.query(sql);
  const bodies = Array.from({ length: gateways }, (_, at) => JSON.stringify({ v: "2", epoch: 1, kind: "deliver", gateway_id: gatewayId(at) }));
  const before = api.taken;
  const began = performance.now();
  for (let at = 0; at < bodies.length; at += 100) await worker.send(queue, bodies.slice(at, at + 100));
  const total = gateways * CHATS;
  await eventually(() => api.taken - before >= total, { timeoutMs: 120_000, everyMs: 5, what: "every message sent" });
  const open = "SELECT 1 FROM outbound_messages WHERE terminal_at IS NULL LIMIT 1";
  await eventually(async () => (await worker.query(open)).length === 0, { everyMs: 2, what: "every message settled" });
  const seconds = (performance.now() - began) / 1000;
  if (api.taken - before !== total) throw new Error(`${api.taken - before} requests for ${total} messages`);
  return total / seconds;
}

/** Claim, requests and settling of each gateway, out of what one run was recorded to do. */
function makeRecipe(batches, api) {
  const sql = [...new Set(batches.flatMap(({ statements }) => statements.map((statement) => statement.sql)))];
  const number = new Map(sql.map((text, at) => [text, at]));
  const plain = ({ statements }) => statements.map((statement) => ({ sql: number.get(statement.sql), binds: statement.binds }));
  const names = new Map(Array.from({ length: gateways }, (_, at) => [`/bot${token(at)}/sendMessage`, gatewayId(at)]));
  const waves = Object.fromEntries([...names.values()].map((name) => [name, { requests: [] }]));
  for (const batch of batches) {
    const name = batch.statements.flatMap(({ binds }) => binds).find((bind) => Object.hasOwn(waves, bind));
    const step = waves[name].claim ? "settle" : "claim";
    if (waves[name][step]) throw new Error(`more than two batches for ${name}`);
    waves[name][step] = plain(batch);
  }
  for (const { path, body } of api.requests) waves[names.get(path)].requests.push({ url: api.base + path, body });
  return { sql, waves };
}

async function record(state, api) {
  const log = join(folder, "recording.log");
  const options = { wrapper: join(ROOT, "tests/workerd/harness/recorder.mjs"), log, vars: { TELEGRAM_API_BASE: api.base } };
  const hermod = await startHermod(state, options);
  const before = notes(log).length;
  await measure(hermod.worker, "SENDS", api);
  await eventually(() => notes(log).length >= before + 2 * gateways, { what: "the notes of every batch" });
  const recipe = makeRecipe(notes(log).slice(before).filter(({ kind }) => kind === "batch"), api);
  await hermod.worker.stop();
  api.keep = false;
  return recipe;
}

async function main() {
  const state = join(folder, "hermod");
  const api = await startBotApi();
  const vars = { TELEGRAM_API_BASE: api.base };
  console.log(`filling the outbox: ${gateways} gateways with ${CHATS} chats each`);
  const filling = await startHermod(state, { vars });
  await settle(filling);
  await fillOutbox(filling);
  await filling.worker.stop();
  const recipe = await record(state, api);
  const counted = Object.values(recipe.waves)[0];
  console.log(`one wave: 2 batches, ${counted.claim.length + counted.settle.length} statements, ${counted.requests.length} requests`);
  cpSync(state, join(folder, "baseline"), { recursive: true });

  const hermod = await startHermod(state, { vars });
  const baseline = await startBaseline({ worker: "sends-baseline.mjs", state: join(folder, "baseline"), recipe, queues: QUEUES });
  const one = {
    hermod: () => measure(hermod.worker, "SENDS", api),
    baseline: () => measure(baseline, "hermod-sends", api),
  };
  const results = { hermod: [], baseline: [] };
  await one.hermod();
  await one.baseline();
  for (let run = 0; run < runs; run += 1) {
    for (const name of ["hermod", "baseline"]) {
      const perSecond = await one[name]();
      console.log(`${name.padEnd(9)} ${perSecond.toFixed(0).padStart(5)} sends/s`);
      results[name].push(perSecond);
    }
  }
  await hermod.worker.stop();
  await baseline.stop();
  api.close();
  const ratio = median(results.hermod) / median(results.baseline);
  console.log(`median of ${runs} alternating runs, ${gateways} gateways, ${gateways * CHATS} messages each:`);
  for (const name of ["hermod", "baseline"]) console.log(`  ${name.padEnd(9)} ${median(results[name]).toFixed(0)} sends/s`);
  console.log(`  ratio     ${(ratio * 100).toFixed(1)} %`);
  if (ratio < Number(values["min-ratio"])) {
    console.error(`error: below ${values["min-ratio"]}`);
    process.exitCode = 1;
  }
}

await main().catch(fail);
process.exit();
