// The methods of the Bot API that the front knows.
import { Refused, badRequest, readText } from "./text.mjs";
import { seconds } from "./updates.mjs";

const forbidden = (text) => new Refused(403, `Forbidden: ${text}`);

/** Parameters come as query, form, multipart or JSON; numbers may be texts. */
export function readParameters(url, contentType, body) {
  const found = Object.fromEntries(url.searchParams);
  if (!body.length) return found;
  const text = body.toString("utf8");
  if (contentType.includes("json")) {
    try {
      return { ...found, ...JSON.parse(text) };
    } catch {
      throw badRequest("can't parse JSON object");
    }
  }
  if (contentType.includes("multipart/form-data")) {
    const boundary = contentType.match(/boundary="?([^";]+)/)?.[1] ?? "";
    for (const part of text.split(`--${boundary}`)) {
      const field = part.match(/name="([^"]+)"[^\r\n]*(?:\r\n[^\r\n]+)*\r\n\r\n([\s\S]*)\r\n$/);
      if (field) found[field[1]] = field[2];
    }
    return found;
  }
  return { ...found, ...Object.fromEntries(new URLSearchParams(text)) };
}

/** The chat of a call, or why there is none. Chats that have not met the bot are not found. */
export function findChat(bot, chatId) {
  if (chatId === undefined || chatId === null || chatId === "") throw badRequest("chat_id is empty");
  const chat = bot.known(chatId);
  if (!chat) throw badRequest("chat not found");
  if (chat.migratedTo !== undefined) {
    throw badRequest("group chat was upgraded to a supergroup chat", { migrate_to_chat_id: chat.migratedTo });
  }
  if (chat.blocked) throw forbidden("bot was blocked by the user");
  if (chat.deactivated) throw forbidden("user is deactivated");
  if (chat.kicked) throw forbidden("bot was kicked from the group chat");
  return chat;
}

export const botUser = (bot) => ({ id: bot.id, is_bot: true, first_name: bot.name, username: bot.username });

/** The message that a call of sendMessage makes, not yet in the chat. */
export function composeMessage(bot, parameters) {
  const chat = findChat(bot, parameters.chat_id);
  const { text, entities } = readText(parameters.text, parameters.parse_mode);
  return (message_id) => ({
    message_id,
    from: botUser(bot),
    chat: chat.info,
    date: seconds(),
    text,
    ...(entities.length && { entities }),
  });
}

const isHere = (host) => /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(host);

function setWebhook(bot, { url = "", secret_token, max_connections = 40, allowed_updates, drop_pending_updates }) {
  if (url && !URL.canParse(url)) throw badRequest("bad webhook: invalid webhook URL specified");
  if (url && new URL(url).protocol !== "https:" && !isHere(new URL(url).hostname)) {
    throw badRequest("bad webhook: an HTTPS URL must be provided for webhook");
  }
  if (secret_token !== undefined && !/^[A-Za-z0-9_-]{1,256}$/.test(secret_token)) {
    throw badRequest("secret token contains unallowed characters");
  }
  if (drop_pending_updates === true || drop_pending_updates === "true") bot.webhook.drop();
  const allowed = typeof allowed_updates === "string" ? JSON.parse(allowed_updates) : allowed_updates;
  bot.webhook.set({ url, secret: secret_token, connections: Number(max_connections), allowed });
  return { result: true, description: url ? "Webhook was set" : "Webhook was deleted" };
}

function getUpdates(bot, { offset = 0, limit = 100 }) {
  if (bot.webhook.url) {
    throw new Refused(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first");
  }
  return { result: bot.webhook.take(Number(offset), Number(limit)) };
}

/** What a method answers: {result, description?}. sendMessage is not among them: faults and limits stand around it. */
export const METHODS = {
  getme: (bot) => ({
    result: {
      ...botUser(bot), can_join_groups: true, can_read_all_group_messages: false, supports_inline_queries: false,
      can_connect_to_business: false, has_main_web_app: false,
    },
  }),
  setwebhook: setWebhook,
  deletewebhook: (bot, { drop_pending_updates }) => setWebhook(bot, { url: "", drop_pending_updates }),
  getwebhookinfo: (bot) => ({ result: bot.webhook.info() }),
  getupdates: getUpdates,
};
