// What can go wrong between a bot and Telegram, by script or by a seeded rate.
import { readFileSync } from "node:fs";

/** Answers as Telegram and what stands before it really give them. */
export const ANSWERS = JSON.parse(readFileSync(new URL("./answers.json", import.meta.url), "utf8"));

/**
 * Every fault by name: those of answers.json under their `when`, and:
 * stall             takes the message, then never answers
 * stall_unaccepted  never answers and never takes it
 * drop              takes the message and closes the connection without an answer
 * cut               takes the message and breaks off in the middle of the answer
 * reset             resets the connection before the message is taken
 * slow              takes the message and answers after `after_ms` (2000)
 */
const BEHAVIOURS = {
  stall: { accept: true, then: "hang" },
  stall_unaccepted: { accept: false, then: "hang" },
  drop: { accept: true, then: "close" },
  cut: { accept: true, then: "cut" },
  reset: { accept: false, then: "reset" },
  slow: { accept: true, then: "answer", after_ms: 2000 },
};
export const FAULTS = [...ANSWERS.map(({ when }) => when), ...Object.keys(BEHAVIOURS)];

/** A number in [0, 1) that depends on nothing but the text. */
export function chance(text) {
  let hash = 0x811c9dc5;
  for (const char of text) hash = Math.imul(hash ^ char.codePointAt(0), 0x01000193) >>> 0;
  for (let round = 0; round < 2; round += 1) {
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 0;
    hash = Math.imul(hash ^ (hash >>> 12), 0x297a2d39) >>> 0;
  }
  return (hash >>> 0) / 0x100000000;
}

/** What a fault does: {fault, accept, then, after_ms} or {fault, http, body, headers}. */
export function behaviour({ fault, retry_after, after_ms, http, body, headers }) {
  if (http !== undefined) return { fault: fault ?? "custom", then: "say", http, body, headers };
  if (BEHAVIOURS[fault]) return { fault, ...BEHAVIOURS[fault], ...(after_ms !== undefined && { after_ms }) };
  const answer = ANSWERS.find(({ when }) => when === fault);
  if (!answer) throw new Error(`no such fault: ${fault}; there are ${FAULTS.join(", ")}`);
  if (retry_after === undefined) return { fault, then: "say", http: answer.http, body: answer.body };
  const told = { ...answer.body, description: `Too Many Requests: retry after ${retry_after}`, parameters: { retry_after } };
  return { fault, then: "say", http: answer.http, body: told };
}

export class Faults {
  constructor() {
    this.clear();
  }

  clear() {
    this.scripted = [];
    this.rate = undefined;
    this.counts = new Map();
  }

  /**
   * The next `times` (1) calls of sendMessage that match `chat_id`, `bot` and `text` (a part of the message) meet this
   * fault: {fault: a name of FAULTS, retry_after?, after_ms?} or {http, body, headers?}.
   */
  add({ chat_id, bot, text, times = 1, ...fault }) {
    behaviour(fault);
    this.scripted.push({ chat_id, bot, text, left: times, ...fault });
  }

  /** Of all calls, `rate` (0 to 1) meet one of `faults`. The same seed, gateway, chat and number of the call
   * meet the same. */
  rates({ seed = 1, rate, faults }) {
    for (const fault of faults) behaviour({ fault });
    this.rate = rate > 0 ? { seed, rate, faults } : undefined;
  }

  /** The fault of this call, if it meets one. `bot` is {token, gateway}. */
  next({ bot, chatId, text }) {
    const matches = (entry) =>
      entry.left > 0 &&
      (entry.chat_id === undefined || String(entry.chat_id) === String(chatId)) &&
      (entry.bot === undefined || entry.bot === bot.token || entry.bot === bot.gateway) &&
      (entry.text === undefined || String(text).includes(entry.text));
    const entry = this.scripted.find(matches);
    if (entry) {
      entry.left -= 1;
      if (entry.left === 0) this.scripted.splice(this.scripted.indexOf(entry), 1);
      return behaviour(entry);
    }
    if (!this.rate) return undefined;
    const lane = `${bot.gateway}/${chatId}`;
    const nth = (this.counts.get(lane) ?? 0) + 1;
    this.counts.set(lane, nth);
    const { seed, rate, faults } = this.rate;
    if (chance(`${seed}/${lane}/${nth}`) >= rate) return undefined;
    return behaviour({ fault: faults[Math.floor(chance(`${lane}/${nth}/${seed}`) * faults.length)] });
  }
}
