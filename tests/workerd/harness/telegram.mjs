// A Hermod whose Telegram is the Bot API server of the tests, reached over real sockets, and the people who write to it.
import assert from "node:assert/strict";
import { GATEWAY_ID } from "../../../scripts/lib/demo.mjs";
import { startBotApi } from "../../telegram/bot-api.mjs";
import { eventually, startHermod, unique } from "./hermod.mjs";
import { MODEL_VARS, serveModel } from "./model.mjs";

let chats = 610_000_000;
export const newChatId = () => (chats += 1);

// Of the answer; the notice that there is none has attempts of its own.
const ATTEMPTS = `SELECT a.outbox_id, a.attempt_no, a.outcome, a.provider_http_status AS http, a.provider_message_id, a.error_class,
    a.error_code, a.retry_after_ms, a.started_at, a.finished_at
  FROM outbound_attempts a JOIN outbound_messages o ON o.outbox_id = a.outbox_id
  WHERE o.turn_id = ?1 AND o.origin = 'channel' ORDER BY o.created_at, o.part_no, a.attempt_no`;

/**
 * Starts both. Options: vars; front: options of startBotApi; everything else goes to startHermod. The model answers
 * `answer N to QUESTION` unless `model.behave` says otherwise.
 */
export async function startTelegram({ vars = {}, front: options = {}, ...more } = {}) {
  const front = await startBotApi({ redeliver: { firstMs: 200, maxMs: 2000 }, ...options });
  const hermod = await startHermod({
    direct: true,
    vars: (control) => ({ ...MODEL_VARS, MODEL_BASE_URL: control.modelUrl, TELEGRAM_API_BASE: front.apiBase, ...vars }),
    ...more,
  });
  const model = serveModel(hermod.control);
  const telegram = { front, hermod, model };
  const hook = (gatewayId) => `${hermod.url}/telegram/${gatewayId}`;
  /** A restarted Worker listens elsewhere; Telegram would not notice behind a name. */
  const point = () => {
    for (const bot of front.bots.values()) bot.webhook.set({ url: hook(bot.gateway), secret: bot.webhook.secret });
  };
  const addBot = (gatewayId, token, secret) => front.addBot(token, { gateway: gatewayId, secret, webhookUrl: hook(gatewayId) });
  addBot(GATEWAY_ID, hermod.secrets.bot_token, hermod.secrets.webhook_secret);

  Object.assign(telegram, {
    point,
    async crash() {
      await hermod.crash();
      point();
    },
    /** Makes a gateway with a bot of its own that serves these families; gives its id. */
    async newGateway(families, name = unique("g")) {
      const gatewayId = `gateway_00${name.replace(/[^0-9A-Za-z]/g, "")}`;
      addBot(gatewayId, `${newChatId()}:synthetic-${name}`, `synthetic-secret-${name}`);
      await telegram.putGateway(gatewayId, families);
      return gatewayId;
    },
    /** What an operator does to set a gateway up, and again to mend it. */
    async putGateway(gatewayId, families) {
      const { token, webhook } = front.bot(gatewayId);
      const json = {
        scopes: ["chat"], channels: ["telegram"], families, production: false, assertion_jwk: hermod.secrets.gateway.public_jwk,
        webhook_secret: webhook.secret, bot_token: token, status: "active",
      };
      const answer = await hermod.request("PUT", `/internal/gateways/${gatewayId}`, { token: await hermod.operator(), key: unique("gateway"), json });
      assert.ok(answer.status < 300, answer.text);
    },
    /** Binds a chat to a user; both sides know it then. */
    async bind(gatewayId, userId, chatId = newChatId()) {
      front.bot(gatewayId).chat(chatId);
      await hermod.put(`/internal/addresses/address_00${gatewayId.slice(10)}${chatId}`, {
        gateway_id: gatewayId, channel: "telegram", user_id: userId, external_id: String(chatId), status: "active",
      });
      return chatId;
    },
    /** A new person with a chat at a gateway of their own: {user_id, family_id, token, gateway, chat, say, replies}. */
    async newPerson(name = unique("p")) {
      const person = await hermod.newUser(name);
      const gateway = await telegram.newGateway([person.family_id]);
      const chat = await telegram.bind(gateway, person.user_id);
      return {
        ...person, gateway, chat,
        say: (content) => front.say(chat, content, { bot: gateway }),
        messages: () => front.messagesOf(chat, gateway),
        replies: () => front.messagesOf(chat, gateway).map(({ sent }) => sent),
      };
    },
    turnsOf: (person) => hermod.query("SELECT * FROM turns WHERE user_id = ?1 ORDER BY arrival_no", person.user_id),
    rowsOf: (turnId) => hermod.query("SELECT * FROM outbound_messages WHERE turn_id = ?1 ORDER BY created_at, part_no", turnId),
    attemptsOf: (turnId) => hermod.query(ATTEMPTS, turnId),
    eventsOf: async (turnId) =>
      (await hermod.query("SELECT event_type FROM turn_events WHERE turn_id = ?1 ORDER BY sequence_no", turnId)).map((row) => row.event_type),
    /** One sweep, as if the minute for which the last one keeps others away were over. */
    async sweep() {
      await hermod.query("UPDATE service_leases SET token = NULL, held_until = NULL WHERE name = 'sweep'");
      await hermod.cron();
    },
    /** Lets the sweep run until the person's newest turn is over; gives the turn. */
    settled: (person, { timeoutMs = 60_000, count = 1, sweep = true } = {}) =>
      eventually(async () => {
        if (sweep) await telegram.sweep();
        const turns = await telegram.turnsOf(person);
        assert.ok(turns.length <= count, `${turns.length} turns for ${count} messages`);
        return turns.length === count && turns.every((turn) => turn.terminal_at !== null) && turns.at(-1);
      }, { timeoutMs, everyMs: 300, what: "the end of the turn" }),
    async stop() {
      await front.close();
      return hermod.stop();
    },
  });
  return telegram;
}

/** Asserts that `expected` stand in `found` in this order, whatever stands between. */
export function assertInOrder(found, expected) {
  let from = 0;
  for (const name of expected) {
    const at = found.indexOf(name, from);
    assert.ok(at >= 0, `${name} is missing, or stands too early, in ${found.join(", ")}`);
    from = at + 1;
  }
}
