// A Bot API server for tests and for the demo. It answers as Telegram does, keeps what it accepted, and can be told to
// misbehave in the ways that the real one and the network before it do. No dependency but Node.
import { createServer } from "node:http";
import { Bot } from "./bots.mjs";
import { controlRoutes } from "./control.mjs";
import { Faults } from "./faults.mjs";
import { Limits } from "./limits.mjs";
import { METHODS, composeMessage, findChat, readParameters } from "./methods.mjs";
import { Refused } from "./text.mjs";

const BODY_MAX = 1_000_000;
const NOT_FOUND = new Refused(404, "Not Found");
const UNAUTHORIZED = new Refused(401, "Unauthorized");

async function readBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > BODY_MAX) throw new Refused(413, "Request Entity Too Large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function answer(reply, status, body, headers = {}) {
  const isText = typeof body === "string";
  const type = isText ? "text/html" : "application/json";
  reply.writeHead(status, { "content-type": type, ...headers }).end(isText ? body : JSON.stringify(body));
}

const refuse = (reply, { code, body, parameters }) =>
  answer(reply, code, body, parameters?.retry_after ? { "retry-after": String(parameters.retry_after) } : {});

/** A listener that can be closed, so that connections are refused, and opened again on the same port. */
class Listener {
  constructor(handler, host) {
    Object.assign(this, { handler, host, server: undefined, port: 0 });
  }

  get open() {
    return this.server !== undefined;
  }

  async start(port = this.port) {
    if (this.open) return;
    const server = createServer(this.handler);
    server.keepAliveTimeout = 60_000;
    await new Promise((resolve, reject) => server.once("error", reject).listen(port, this.host, resolve));
    this.port = server.address().port;
    this.server = server;
  }

  async stop() {
    const server = this.server;
    if (!server) return;
    this.server = undefined;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }
}

export class BotApi {
  constructor({ host = "127.0.0.1", bots = {}, limits, redeliver, keep = Infinity } = {}) {
    Object.assign(this, { host, keep, timing: redeliver, bots: new Map(), requests: [], messages: [], waiting: new Set(), counter: 0 });
    this.faults = new Faults();
    this.limits = new Limits(limits);
    this.deliveries = [];
    const handler = (request, reply) =>
      this.handle(request, reply).catch((error) => {
        if (!reply.headersSent) refuse(reply, error instanceof Refused ? error : new Refused(500, `Internal Server Error: ${error.message}`));
        else reply.destroy();
      });
    // The second listener stays open when the first is closed, so that the front can be told to come back.
    this.api = new Listener(handler, host);
    this.control = new Listener(handler, host);
    for (const [token, options] of Object.entries(bots)) this.addBot(token, options);
  }

  /** What TELEGRAM_API_BASE is set to. */
  get apiBase() {
    return `http://${this.host}:${this.api.port}`;
  }

  get controlUrl() {
    return `http://${this.host}:${this.control.port}`;
  }

  addBot(token, options) {
    const onDelivery = (bot, { update_id }, last) => this.record(this.deliveries, { bot: bot.gateway, update_id, ...last });
    const bot = new Bot(token, options, { timing: this.timing, onDelivery });
    this.bots.set(token, bot);
    return bot;
  }

  /** The bot of a token or of a gateway; without either, the only one. */
  bot(name) {
    if (name === undefined && this.bots.size === 1) return this.bots.values().next().value;
    const found = this.bots.get(name) ?? [...this.bots.values()].find((bot) => bot.gateway === name);
    if (!found) throw new Error(name === undefined ? "say which bot: there are several" : `no such bot: ${name}`);
    return found;
  }

  record(list, entry) {
    list.push(entry);
    if (list.length > this.keep) list.shift();
  }

  async handle(request, reply) {
    const url = new URL(request.url, "http://front");
    const body = await readBody(request);
    if (url.pathname.startsWith("/control/")) return controlRoutes(this, request.method, url, body, (status, value) => answer(reply, status, value));
    const [, token, method] = url.pathname.match(/^\/bot([^/]+)\/([A-Za-z]+)$/) ?? [];
    if (!/^\d+:[A-Za-z0-9_-]+$/.test(token ?? "")) throw NOT_FOUND;
    const bot = this.bots.get(token);
    const parameters = readParameters(url, request.headers["content-type"] ?? "", body);
    const name = method.toLowerCase();
    const entry = { n: (this.counter += 1), at: Date.now(), bot: bot?.gateway, method, chat_id: parameters.chat_id, text: parameters.text, parse_mode: parameters.parse_mode };
    this.record(this.requests, entry);
    reply.once("close", () => Object.assign(entry, { http: reply.headersSent ? reply.statusCode : undefined }));
    if (!bot || bot.revoked) throw UNAUTHORIZED;
    if (name === "sendmessage") return this.sendMessage(bot, parameters, entry, reply);
    if (!METHODS[name]) throw NOT_FOUND;
    return answer(reply, 200, { ok: true, ...METHODS[name](bot, parameters) });
  }

  async sendMessage(bot, parameters, entry, reply) {
    const fault = this.faults.next({ bot, chatId: parameters.chat_id, text: parameters.text });
    if (fault) entry.fault = fault.fault;
    if (fault?.then === "say") return this.sayFault(bot, fault, parameters, entry, reply);
    if (fault && !fault.accept) return fault.then === "reset" ? reply.socket.resetAndDestroy() : undefined;
    const message = this.accept(bot, parameters, entry);
    if (fault?.then === "hang") return undefined;
    if (fault?.then === "close") return reply.socket.destroy();
    if (fault?.after_ms) await new Promise((next) => setTimeout(next, fault.after_ms));
    const body = { ok: true, result: message };
    if (fault?.then !== "cut") return answer(reply, 200, body);
    const text = JSON.stringify(body);
    reply.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
    return reply.write(text.slice(0, text.length / 2), () => reply.socket.destroy());
  }

  sayFault(bot, { http, body, headers }, parameters, entry, reply) {
    const moved = body?.parameters?.migrate_to_chat_id;
    // The chat it speaks of exists: what is sent there next arrives.
    if (moved !== undefined) bot.chat(moved);
    if (body?.ok) this.took(bot, parameters, entry, body.result);
    const told = body?.parameters?.retry_after;
    return answer(reply, http, body ?? "", { ...(told && { "retry-after": String(told) }), ...headers });
  }

  /** Takes a message if the chat, the text and the limits allow; gives it as the chat shows it. */
  accept(bot, parameters, entry) {
    const chat = findChat(bot, parameters.chat_id);
    const compose = composeMessage(bot, parameters);
    const [chatKey, now] = [`${bot.token}/${chat.info.id}`, Date.now()];
    const wait = this.limits.wait(chatKey, bot.token, now);
    if (wait > 0) {
      entry.fault = "limit";
      throw new Refused(429, `Too Many Requests: retry after ${wait}`, { retry_after: wait });
    }
    this.limits.accepted(chatKey, bot.token, now);
    return this.took(bot, parameters, entry, compose(bot.nextMessageId(chat.info.id)));
  }

  took(bot, parameters, entry, message) {
    Object.assign(entry, { accepted: true, message_id: message.message_id });
    const record = { n: entry.n, at: entry.at, bot: bot.gateway, chat_id: Number(parameters.chat_id), sent: parameters.text, message };
    this.record(this.messages, record);
    for (const waiter of [...this.waiting]) waiter(record);
    return message;
  }

  /** The messages accepted for a chat, in order. */
  messagesOf(chatId, bot) {
    const of = bot === undefined ? undefined : this.bot(bot).gateway;
    return this.messages.filter((record) => record.chat_id === Number(chatId) && (of === undefined || record.bot === of));
  }

  /** Waits for the next message accepted for a chat after the request numbered `after`; undefined when none comes. */
  nextMessage(chatId, { bot, after = this.counter, timeoutMs = 15_000 } = {}) {
    const fits = (record) => record.n > after && record.chat_id === Number(chatId) && (bot === undefined || record.bot === this.bot(bot).gateway);
    const there = this.messages.find(fits);
    if (there) return Promise.resolve(there);
    return new Promise((resolve) => {
      const end = (value) => {
        this.waiting.delete(waiter);
        clearTimeout(timer);
        resolve(value);
      };
      const waiter = (record) => fits(record) && end(record);
      const timer = setTimeout(end, timeoutMs, undefined);
      this.waiting.add(waiter);
    });
  }

  say(chatId, content, { bot, ...options } = {}) {
    return this.bot(bot).say(chatId, content, options);
  }

  repeat(updateId, times, { bot, change } = {}) {
    return this.bot(bot).repeat(updateId, times, change);
  }

  /** Takes its port back after `stop`, during which connections were refused. */
  start() {
    return this.api.start();
  }

  stop() {
    return this.api.stop();
  }

  async close() {
    for (const bot of this.bots.values()) bot.webhook.close();
    await Promise.all([this.api.stop(), this.control.stop()]);
  }
}

/**
 * Starts a Bot API server. Options: port and controlPort (0: any), host; bots: {token: see bots.mjs}; limits: {chat,
 * bot}, both on unless switched off; redeliver: see webhook.mjs; keep: how many records of each kind are kept.
 */
export async function startBotApi({ port = 0, controlPort = 0, ...options } = {}) {
  const front = new BotApi(options);
  await front.control.start(controlPort);
  await front.api.start(port);
  return front;
}
