// What scripts/dev prints: lines to try, with tokens in place.
import { STRANGER_CHAT_ID } from "./telegram.mjs";

const title = (text) => `# ${text}`;

function chatTour({ url, state, demo }) {
  const token = demo.user.access_token;
  const chat = (extra, key, message) =>
    `curl -sS ${extra}-X POST ${url}/chat \\\n  -H 'Authorization: Bearer ${token}' \\\n` +
    `  -H 'Content-Type: application/json' -H 'Idempotency-Key: "${key}"' \\\n  -d '{"message":"${message}"}'`;
  return [
    [title("Who is there"), `curl -sS ${url}/health/version`],
    [title("One message, one answer; run it twice: the second answer is a replay of the first"), chat("-i ", "tour-1", "Hello, who are you?")],
    [title("The same key with another message is refused"), chat("-i ", "tour-1", "Something else")],
    [title("The answer as it is written"), chat("-N -H 'Accept: text/event-stream' ", "tour-2", "Tell me more")],
    [title("What became of a turn (put its turn_id in)"), `curl -sS ${url}/turns/TURN_ID -H 'Authorization: Bearer ${token}'`],
    [title("An identity token of the demo upstream for an access token"), `curl -sS -X POST ${url}/auth/token -H 'Authorization: Bearer ${demo.user.upstream_token}'`],
    [title("Access tokens last an hour; a fresh one:"), `scripts/dev token user --state ${state}`],
  ];
}

function telegramTour({ url, state, demo, telegram }) {
  const say = (chat, text) => `curl -sS ${telegram.url}/control/say -d '{"chat_id":${chat},"text":"${text}"}'`;
  return [
    [title("Telegram, played by a Bot API server beside it: a message goes in, and the reply that came into the chat is printed"), say(telegram.chat_id, "hello")],
    [title("Both ledgers of that turn: its events, and each attempt to deliver its answer"), `scripts/dev ledger --state ${state}`],
    [
      title("Without a Telegram the answer waits, and each attempt is on record; when it is back, the answer arrives"),
      `scripts/dev front stop --state ${state}`,
      `curl -sS ${telegram.url}/control/say -d '{"chat_id":${telegram.chat_id},"text":"are you there?","wait_ms":3000}'`,
      `scripts/dev ledger --state ${state}`,
      `scripts/dev front start --state ${state}`,
      `curl -sS '${telegram.url}/control/messages?chat_id=${telegram.chat_id}'   # within a minute`,
    ],
    [
      title("A chat that is not known yet is linked with a code"),
      say(STRANGER_CHAT_ID, "hello"),
      `curl -sS -X POST ${url}/channels/telegram/link -H 'Authorization: Bearer ${demo.user.access_token}' -H 'Idempotency-Key: "link-1"'`,
      say(STRANGER_CHAT_ID, "/start CODE"),
    ],
    [title("The next message to the chat meets a fault; the others: curl -sS " + `${telegram.url}/control/state`), `curl -sS ${telegram.url}/control/fault -d '{"fault":"flood","retry_after":3}'`],
  ];
}

/** With another Telegram: what it would deliver. */
function webhookTour({ state, telegram }) {
  const { chat_id, webhook_url, webhook_secret } = telegram;
  const from = `{"id":${chat_id},"is_bot":false,"first_name":"Sample"}`;
  const message = `{"message_id":1,"date":${Math.floor(Date.now() / 1000)},"chat":{"id":${chat_id},"type":"private"},"from":${from},"text":"hello"}`;
  return [
    [
      title(`Telegram is ${telegram.api_base}; this is what it would deliver (every update has an update_id of its own)`),
      `curl -sS -i -X POST ${webhook_url} -H 'X-Telegram-Bot-Api-Secret-Token: ${webhook_secret}' \\\n  -H 'Content-Type: application/json' -d '{"update_id":${Math.floor(Date.now() / 1000)},"message":${message}}'`,
    ],
    [title("Both ledgers of that turn: its events, and each attempt to deliver its answer"), `scripts/dev ledger --state ${state}`],
  ];
}

/** The lines to try; {url, state, log, demo, telegram} as in ready.json. */
export function tour(ready) {
  const sections = [...chatTour(ready), ...(ready.telegram.url ? telegramTour : webhookTour)(ready)];
  const lines = sections.map((section) => section.join("\n")).join("\n\n");
  return `\nHermod runs at ${ready.url} (state in ${ready.state}, log in ${ready.log}). Try:\n\n${lines}\n`;
}
