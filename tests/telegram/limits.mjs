// How fast Telegram lets a bot write: about one message a second into one chat, about thirty a second in all.

export const CHAT_INTERVAL_MS = 1000;
export const BOT_WINDOW_MS = 1000;
export const BOT_WINDOW_MAX = 30;
// Times are taken where the request arrives; what left the sender at the right pace may arrive a little closer.
export const TOLERANCE_MS = 150;

/**
 * Counts what was accepted. `chat` and `bot` switch the two limits on; `busiest` tells, whether they are on or not, the
 * most messages of one bot within any second and the shortest time between two messages to one chat.
 */
export class Limits {
  constructor({ chat = true, bot = true } = {}) {
    this.on = { chat, bot };
    this.chats = new Map();
    this.bots = new Map();
    this.busiest = { bot_per_second: 0, chat_interval_ms: undefined };
  }

  set({ chat = this.on.chat, bot = this.on.bot }) {
    this.on = { chat, bot };
  }

  /** Seconds that the bot is told to wait, or 0 when it may send now. */
  wait(chatKey, botKey, now) {
    const last = this.chats.get(chatKey);
    if (this.on.chat && last !== undefined && now - last < CHAT_INTERVAL_MS - TOLERANCE_MS) return 1;
    const recent = this.window(botKey, now - BOT_WINDOW_MS + TOLERANCE_MS);
    return this.on.bot && recent.length >= BOT_WINDOW_MAX ? 1 : 0;
  }

  window(botKey, since) {
    return (this.bots.get(botKey) ?? []).filter((at) => at > since);
  }

  accepted(chatKey, botKey, now) {
    const last = this.chats.get(chatKey);
    if (last !== undefined) this.busiest.chat_interval_ms = Math.min(now - last, this.busiest.chat_interval_ms ?? Infinity);
    this.chats.set(chatKey, now);
    const window = [...this.window(botKey, now - BOT_WINDOW_MS), now];
    this.bots.set(botKey, window);
    this.busiest.bot_per_second = Math.max(this.busiest.bot_per_second, window.length);
  }
}
