// The front by HTTP: what it saw, and what it shall do next. JSON in and out.
import { FAULTS } from "./faults.mjs";

const REPLY_WAIT_MS = 20_000;

function stateOf(front) {
  const bots = [...front.bots.values()].map((bot) => ({
    gateway: bot.gateway,
    revoked: bot.revoked,
    webhook: bot.webhook.info(),
    chats: [...bot.chats.values()].map(({ info, lastMessage, ...more }) => ({ ...info, last_message_id: lastMessage, ...more })),
  }));
  const { limits, faults } = front;
  return {
    api_base: front.apiBase, listening: front.api.open, bots,
    limits: { ...limits.on, busiest: limits.busiest },
    faults: { scripted: faults.scripted, rates: faults.rate ?? null, names: FAULTS },
    requests: front.requests.length, messages: front.messages.length, deliveries: front.deliveries.length,
  };
}

/** Delivers what a person writes and waits until the bot has answered. */
async function say(front, { chat_id, text, update, bot, from, wait_ms = REPLY_WAIT_MS }) {
  const after = front.counter;
  const { update_id, tries } = front.say(chat_id, text ?? update, { bot, from });
  if (wait_ms <= 0) return { update_id };
  const reply = await front.nextMessage(chat_id, { bot, after, timeoutMs: wait_ms });
  return { update_id, deliveries: tries, reply: reply?.message.text ?? null, message: reply?.message ?? null };
}

const byChat = (list, url) => {
  const chat = url.searchParams.get("chat_id");
  const after = Number(url.searchParams.get("after") ?? 0);
  return list.filter((entry) => (chat === null || String(entry.chat_id) === chat) && (entry.n === undefined || entry.n > after));
};

const READ = {
  state: (front) => stateOf(front),
  messages: (front, url) => byChat(front.messages, url),
  requests: (front, url) => byChat(front.requests, url),
  deliveries: (front) => front.deliveries,
  updates: (front, url) => front.bot(url.searchParams.get("bot") ?? undefined).updates,
};

const flags = (front, { bot, chat_id, ...state }) => Object.assign(front.bot(bot).chat(chat_id), state);
const done = { done: true };

const WRITE = {
  say,
  repeat: async (front, { update_id, times, bot, change }) => ({ tries: await front.repeat(update_id, times, { bot, change }) }),
  /** What meets the next calls: see faults.mjs. */
  fault: (front, fault) => (front.faults.add(fault), done),
  rates: (front, rates) => (front.faults.rates(rates), done),
  calm: (front) => (front.faults.clear(), done),
  limits: (front, on) => (front.limits.set(on), done),
  /** What lasts: {chat_id, blocked | deactivated | kicked: true or false} or {chat_id, migratedTo: id}. */
  chat: (front, state) => {
    const chat = flags(front, state);
    if (state.migratedTo !== undefined) front.bot(state.bot).chat(state.migratedTo);
    return chat.info;
  },
  /** {bot, revoked: true}: its token is not known any more. */
  token: (front, { bot, revoked }) => (Object.assign(front.bot(bot), { revoked }), done),
  stop: async (front) => (await front.stop(), done),
  start: async (front) => (await front.start(), done),
  forget: (front) => {
    for (const list of [front.requests, front.messages, front.deliveries]) list.length = 0;
    return done;
  },
};

/** Answers one /control/… request through `answer(status, value)`. */
export async function controlRoutes(front, method, url, body, answer) {
  const name = url.pathname.slice("/control/".length);
  if (method === "GET" && READ[name]) return answer(200, READ[name](front, url));
  if (method !== "POST" || !WRITE[name]) return answer(404, { error: `no such control: ${method} ${name}`, get: Object.keys(READ), post: Object.keys(WRITE) });
  try {
    return answer(200, await WRITE[name](front, body.length ? JSON.parse(body) : {}));
  } catch (error) {
    return answer(400, { error: error.message });
  }
}
