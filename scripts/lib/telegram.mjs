// The demo's Telegram: a Bot API server of our own beside the Worker, with one bot that is the demo gateway's.

const BEGAN = Date.UTC(2026, 0, 1);

/** The private chat of the demo user, linked from the start; and one that nobody is linked to. */
export const CHAT_ID = "700100200";
export const STRANGER_CHAT_ID = "700100300";

export const webhookPath = (gatewayId) => `/telegram/${gatewayId}`;

/** What serve.mjs needs to run it. */
export function frontOptions(secrets, gatewayId) {
  const bot = { gateway: gatewayId, secret: secrets.webhook_secret, path: webhookPath(gatewayId), open: true };
  // Telegram never gives a number twice; ours keeps nothing when it ends, so its numbers go with the time.
  const firstUpdate = Math.floor((Date.now() - BEGAN) / 100) % 2_000_000_000;
  return { bots: { [secrets.bot_token]: { ...bot, firstUpdate } }, keep: 10_000 };
}

/** One order to the running front; see tests/telegram/control.mjs. */
export async function control(url, name, body) {
  const answer = await fetch(`${url}/control/${name}`, body && { method: "POST", body: JSON.stringify(body) });
  const reply = await answer.json();
  if (!answer.ok) throw new Error(reply.error ?? `the front answered ${answer.status}`);
  return reply;
}
