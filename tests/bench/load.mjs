// A small HTTP client that keeps a number of connections busy, each with a user of its own.
import { Agent, request as httpRequest } from "node:http";

function post(agent, url, headers, body) {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(url, { method: "POST", agent, headers: { ...headers, "content-length": Buffer.byteLength(body) } });
    outgoing.once("error", reject);
    outgoing.once("response", (answer) => {
      answer.once("error", reject);
      let text = "";
      answer.on("data", (chunk) => (answer.statusCode === 200 ? undefined : (text += chunk)));
      answer.once("end", () => resolve({ status: answer.statusCode, text }));
    });
    outgoing.end(body);
  });
}

/**
 * Sends requests for `milliseconds` over one connection per entry of `headersOf` (a function giving the headers of the
 * next request of that user). Gives {perSecond, p50, p99, statuses, refusal}, the last being the text of the
 * first answer other than 200.
 */
export async function load(url, headersOf, body, milliseconds) {
  const agent = new Agent({ keepAlive: true, maxSockets: headersOf.length });
  const [latencies, statuses] = [[], {}];
  let refusal;
  const began = performance.now();
  const end = began + milliseconds;
  await Promise.all(headersOf.map(async (next) => {
    while (performance.now() < end) {
      const started = performance.now();
      const { status, text } = await post(agent, url, next(), body);
      latencies.push(performance.now() - started);
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status !== 200) refusal ??= text;
    }
  }));
  const elapsed = (performance.now() - began) / 1000;
  agent.destroy();
  latencies.sort((one, other) => one - other);
  const at = (share) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))];
  return { perSecond: latencies.length / elapsed, p50: at(0.5), p99: at(0.99), statuses, refusal };
}

export const median = (values) => [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)];
