// The bots and chats that the front knows.
import * as updates from "./updates.mjs";
import { Webhook } from "./webhook.mjs";

const FIRST_UPDATE_ID = 700_000_001;
const SUPERGROUPS_BELOW = -1_000_000_000_000;

function infoOf(id) {
  if (id > 0) return updates.privateChat(id);
  return id < SUPERGROUPS_BELOW ? updates.supergroupChat(id) : updates.groupChat(id);
}

export class Bot {
  /**
   * token: "NUMBER:SECRET"; gateway: a name for it; secret, webhookUrl: where its updates go; chats: ids it has met;
   * open: it has met everybody.
   */
  constructor(token, { gateway = token, secret, webhookUrl, name = "Sample bot", username = "sample_hermod_bot", chats = [], open = false, firstUpdate = FIRST_UPDATE_ID, connections } = {}, shared = {}) {
    const id = Number(token.split(":")[0]);
    Object.assign(this, { token, gateway, name, username, id, revoked: false, chats: new Map(), open, nextUpdate: firstUpdate, updates: [] });
    const { timing, onDelivery } = shared;
    this.webhook = new Webhook({ url: webhookUrl, secret, connections, timing, onDelivery: (entry, last) => onDelivery?.(this, entry, last) });
    for (const chat of chats) this.chat(chat);
  }

  /** The chat of this id, which meets the bot if it has not; `more` overrides what is known of it. */
  chat(id, more = {}) {
    const key = String(id);
    if (!this.chats.has(key)) this.chats.set(key, { info: { ...infoOf(Number(id)), ...more }, lastMessage: 0 });
    return this.chats.get(key);
  }

  /** The chat of this id if the bot has met it. */
  known(id) {
    return this.open && /^-?\d+$/.test(String(id)) ? this.chat(id) : this.chats.get(String(id));
  }

  nextMessageId(id) {
    const chat = this.chat(id);
    chat.lastMessage += 1;
    return chat.lastMessage;
  }

  /** A person writes, or `content` is an update without its id. Gives the delivery, see Webhook.push. */
  say(chatId, content, { from = updates.person(Number(chatId)), update_id } = {}) {
    let update = content;
    if (typeof content === "string") {
      if (content.length > 4096) throw new Error("nobody can write more than 4,096 units in one message");
      const { info } = this.chat(chatId);
      update = { message: updates.message(info, updates.text(content), { message_id: this.nextMessageId(chatId), from }) };
    }
    const id = update_id ?? update.update_id ?? this.nextUpdate++;
    const whole = { update_id: id, ...update };
    this.updates.push(whole);
    return this.webhook.push(whole, String(chatId));
  }

  /** Delivers an earlier update `times` more times, all at once and whatever is in line. Gives the tries. */
  repeat(updateId, times = 1, change = {}) {
    const update = this.updates.find(({ update_id }) => update_id === updateId);
    if (!update) throw new Error(`no update ${updateId} of this bot`);
    const entry = { update_id: updateId, update: { ...update, ...change }, tries: [] };
    return Promise.all(Array.from({ length: times }, () => this.webhook.attempt(entry)));
  }
}
