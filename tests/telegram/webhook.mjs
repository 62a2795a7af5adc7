// The other direction: updates go to a bot's webhook, again and again with the same id until it answers 2xx. Updates of
// one chat wait for each other; those of different chats go several at a time.
import { setTimeout as sleep } from "node:timers/promises";
import { seconds } from "./updates.mjs";

const CONNECTIONS = 40;

export class Webhook {
  /** timing: {firstMs, maxMs, deadlineMs}: the first wait after a failure, which doubles up to the most; of one try. */
  constructor({ url = "", secret, connections = CONNECTIONS, timing = {}, now = Date.now, onDelivery = () => {} }) {
    this.timing = { firstMs: 1000, maxMs: 60_000, deadlineMs: 30_000, ...timing };
    Object.assign(this, { now, onDelivery, pending: [], busy: new Set(), running: 0, closed: false, lastError: undefined });
    this.set({ url, secret, connections });
  }

  set({ url, secret, connections = CONNECTIONS, allowed }) {
    Object.assign(this, { url, secret, connections: Math.min(100, Math.max(1, connections)), allowed });
    this.pump();
  }

  /** Forgets what was not delivered yet. */
  drop() {
    for (const entry of this.pending.splice(0)) entry.end(undefined);
  }

  close() {
    this.closed = true;
    this.drop();
  }

  /** Puts an update in line; gives its delivery: {update_id, update, tries: [{at, status, error, body}], done}. */
  push(update, lane) {
    const entry = { update_id: update.update_id, update, lane, tries: [], notBefore: 0 };
    entry.done = new Promise((resolve) => (entry.end = resolve));
    this.pending.push(entry);
    this.pump();
    return entry;
  }

  /** For getUpdates: what is in line from this id on; earlier ones count as received. */
  take(offset, limit) {
    for (const entry of this.pending.filter(({ update_id }) => update_id < offset)) this.finish(entry, { status: 200 });
    return this.pending.slice(0, limit).map(({ update }) => update);
  }

  finish(entry, last) {
    this.pending = this.pending.filter((other) => other !== entry);
    entry.end(last);
  }

  pump() {
    if (this.closed || !this.url) return;
    const taken = new Set();
    for (const entry of this.pending) {
      if (this.running >= this.connections) return;
      const waits = this.busy.has(entry.lane) || taken.has(entry.lane);
      // The first of a lane goes; the others wait for it, also while it waits itself.
      taken.add(entry.lane);
      if (!waits && entry.notBefore <= this.now()) this.run(entry);
    }
  }

  async run(entry) {
    this.running += 1;
    this.busy.add(entry.lane);
    const last = await this.attempt(entry);
    this.running -= 1;
    this.busy.delete(entry.lane);
    this.onDelivery(entry, last);
    if (last.status >= 200 && last.status < 300) this.finish(entry, last);
    else {
      this.lastError = { date: seconds(), message: last.error ?? `Wrong response from the webhook: ${last.status}` };
      const wait = Math.min(this.timing.maxMs, this.timing.firstMs * 2 ** (entry.tries.length - 1));
      entry.notBefore = this.now() + wait;
      sleep(wait, undefined, { ref: false }).then(() => this.pump());
    }
    this.pump();
  }

  /** One try. Also used for repetitions that are in no line. */
  async attempt(entry) {
    const headers = { "content-type": "application/json" };
    if (this.secret !== undefined) headers["x-telegram-bot-api-secret-token"] = this.secret;
    const record = { at: this.now() };
    try {
      const signal = AbortSignal.timeout(this.timing.deadlineMs);
      const answer = await fetch(this.url, { method: "POST", headers, body: JSON.stringify(entry.update), redirect: "manual", signal });
      record.status = answer.status;
      record.body = (await answer.text()).slice(0, 2000);
    } catch (error) {
      record.status = 0;
      record.error = String(error.cause?.message ?? error.message);
    }
    entry.tries.push(record);
    return record;
  }

  info() {
    return {
      url: this.url,
      has_custom_certificate: false,
      pending_update_count: this.pending.length,
      max_connections: this.connections,
      ...(this.allowed && { allowed_updates: this.allowed }),
      ...(this.lastError && { last_error_date: this.lastError.date, last_error_message: this.lastError.message }),
    };
  }
}
