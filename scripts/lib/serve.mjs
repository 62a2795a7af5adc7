// The process that owns one running Worker: node serve.mjs '<JSON options>'. Started detached, so that it leads a
// process group which holds workerd too; killing the group is what a crash of the machine would be.
//
// Options: bundle, state, port, vars, wrapper, cron, log (a file), echo (print log lines too), checkpointUrl and outboundUrl (where the Worker's
// calls to its checkpoint binding and its outbound requests are sent, the original URL in `x-hermod-url`), front (a
// Telegram of our own beside the Worker: {bots: {token: {path, …}}}, see startFront).
// With an IPC channel it says {ready, url, applied, front} or {failed}, answers {id, call, argument}, and ends when the
// channel closes, unless it was told {call: "release"} before.
import { appendFileSync } from "node:fs";
import { startRuntime } from "./runtime.mjs";

const options = JSON.parse(process.argv[2]);
const send = (message) => process.connected && process.send(message);

// Headers of one connection say nothing about the next one.
const OF_CONNECTION = ["host", "connection", "keep-alive", "transfer-encoding", "content-length", "expect"];

function forwarder(target) {
  if (!target) return undefined;
  return async (request) => {
    const headers = new Headers(request.headers);
    for (const name of OF_CONNECTION) headers.delete(name);
    headers.set("x-hermod-url", request.url);
    // Node's fetch sets the length itself and fails on a second one.
    headers.delete("content-length");
    const body = ["GET", "HEAD"].includes(request.method) ? undefined : await request.arrayBuffer();
    const answer = await fetch(target, { method: request.method, headers, body, redirect: "manual" });
    const { Response } = await import("miniflare");
    const reply = new Headers(answer.headers);
    for (const name of ["content-encoding", ...OF_CONNECTION]) reply.delete(name);
    return new Response(answer.body, { status: answer.status, headers: reply });
  };
}

/** Starts the Bot API server of the tests and makes it the Worker's Telegram. */
async function startFront({ bots, ...more }) {
  const { startBotApi } = await import("../../tests/telegram/bot-api.mjs");
  const front = await startBotApi({ bots, ...more });
  return {
    url: front.controlUrl,
    api_base: front.apiBase,
    /** The Worker's address is known only when it runs; each bot's updates go to its `path` there. */
    pointAt(url) {
      for (const [token, { path, secret }] of Object.entries(bots)) front.bots.get(token).webhook.set({ url: url + path, secret });
    },
  };
}

const onLog = ({ level, message }) => {
  const line = `${level} ${message}\n`;
  if (options.log) appendFileSync(options.log, line);
  if (options.echo || !options.log) process.stdout.write(line);
};

let runtime;
let front;
try {
  if (options.front) front = await startFront(options.front);
  runtime = await startRuntime({
    ...options,
    vars: { ...(front && { TELEGRAM_API_BASE: front.api_base }), ...options.vars },
    onLog,
    checkpoint: forwarder(options.checkpointUrl),
    outbound: forwarder(options.outboundUrl),
  });
} catch (error) {
  send({ failed: String(error?.stack ?? error) });
  console.error(error);
  process.exit(1);
}

const calls = {
  query: async ({ sql, binds = [] }) => (await runtime.database.prepare(sql).bind(...binds).all()).results,
  cron: async ({ time } = {}) => runtime.runCron(time),
  send: async ({ binding, bodies }) =>
    void (await (await runtime.miniflare.getQueueProducer(binding)).sendBatch(bodies.map((body) => ({ body, contentType: "json" })))),
  // A date does not survive the way here.
  queue: async ({ name, messages }) =>
    (await runtime.miniflare.getWorker()).queue(name, messages.map((message) => ({ attempts: 1, ...message, timestamp: new Date() }))),
};

async function stop() {
  // workerd sometimes takes its time; nothing in it needs a farewell.
  setTimeout(() => process.exit(0), 3000).unref();
  await runtime.stop().catch(() => {});
  process.exit(0);
}
process.on("SIGTERM", stop);
process.on("SIGINT", stop);
if (process.send) {
  process.on("disconnect", stop);
  process.on("message", async ({ id, call, argument }) => {
    if (call === "stop") return stop();
    if (call === "release") return process.removeListener("disconnect", stop);
    try {
      send({ id, result: await calls[call](argument) });
    } catch (error) {
      send({ id, error: String(error?.message ?? error) });
    }
  });
}
front?.pointAt(runtime.url);
send({ ready: true, url: runtime.url, applied: runtime.applied, front: front && { url: front.url, api_base: front.api_base } });
