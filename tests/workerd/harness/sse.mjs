// A client for server-sent events that keeps the time at which each event arrived.
import { request as httpRequest } from "node:http";
import { unique } from "./hermod.mjs";

/** Parses the complete events at the front of `text`; gives [events, rest]. */
function parseEvents(text) {
  const parts = text.split("\n\n");
  const rest = parts.pop();
  const events = parts
    .map((part) => part.split("\n").filter((line) => !line.startsWith(":")))
    .filter((lines) => lines.length > 0)
    .map((lines) => {
      const field = (name) =>
        lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /, ""));
      const data = field("data").join("\n");
      return { event: field("event")[0] ?? "message", data: data ? JSON.parse(data) : undefined };
    });
  return [events, rest];
}

/**
 * POST /chat as a stream. Gives {status, headers, events, done, destroy}: `events` fills as they come, each with `at`
 * in milliseconds since the request; `done` resolves when the stream ends, by whichever side; `onEvent` sees each one.
 */
export function streamChat(url, token, message, { key = unique("sse"), onEvent = () => {} } = {}) {
  const started = performance.now();
  const body = JSON.stringify({ message });
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(`${url}/chat`, {
      method: "POST",
      agent: false,
      headers: {
        authorization: `Bearer ${token}`,
        accept: "text/event-stream",
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
        "idempotency-key": `"${key}"`,
      },
    });
    outgoing.once("error", reject);
    outgoing.once("response", (answer) => {
      const events = [];
      let text = "";
      let rest = "";
      answer.setEncoding("utf8");
      const done = new Promise((end) => {
        answer.on("data", (chunk) => {
          text += chunk;
          const [complete, remaining] = parseEvents(rest + chunk);
          rest = remaining;
          for (const event of complete) {
            event.at = performance.now() - started;
            events.push(event);
            onEvent(event);
          }
        });
        answer.once("close", () => end({ events, text }));
        answer.once("error", () => end({ events, text }));
      });
      resolve({ status: answer.statusCode, headers: answer.headers, events, done, destroy: () => outgoing.destroy(), key });
    });
    outgoing.end(body);
  });
}
