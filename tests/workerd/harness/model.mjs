// A model server that speaks OpenAI's streaming chat completions, and does what a test tells it to.
import { gate } from "./control.mjs";

export const MODEL_VARS = {
  MODEL_PROVIDER: "openai",
  MODEL_BASE_URL: "https://model.example/v1",
  MODEL_NAME: "synthetic-1",
  MODEL_API_KEY: "synthetic-model-key",
  MODEL_PRICES: JSON.stringify({ input: 1_000_000, output: 2_000_000 }),
};

const chunk = (delta, more = {}) => `data: ${JSON.stringify({ model: "synthetic-1", choices: [{ index: 0, delta, finish_reason: null }], ...more })}\n\n`;

async function* answer(text, pause) {
  const half = Math.ceil(text.length / 2);
  yield chunk({ role: "assistant", content: text.slice(0, half) });
  if (pause) await pause;
  yield chunk({ content: text.slice(half) });
  yield `data: ${JSON.stringify({ model: "synthetic-1", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}\n\n`;
  yield `data: ${JSON.stringify({ model: "synthetic-1", choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } })}\n\n`;
  yield "data: [DONE]\n\n";
}

/**
 * Serves the model on the control server. Every call gets an answer of its own, `answer N to QUESTION`. `calls` holds
 * the questions in order. `behave(f)` decides about a call by its question: `f(question)` may give {status}, {hold},
 * {stall} (a promise to wait for in the middle), {text} (what it answers), or nothing for a plain answer.
 */
export function serveModel(control) {
  const calls = [];
  let behaviour = () => undefined;
  control.route("https://model.example", async ({ body }) => {
    const { messages } = JSON.parse(body);
    const question = messages.at(-1).content;
    calls.push(question);
    const plain = `answer ${calls.length} to ${question}`;
    const { status = 200, headers = {}, hold, stall, text = plain } = behaviour(question) ?? {};
    if (hold) await hold;
    if (status !== 200) return { status, headers, body: { error: { message: "synthetic" } } };
    return { headers: { "content-type": "text/event-stream" }, body: answer(text, stall) };
  });
  return {
    calls,
    callsFor: (question) => calls.filter((call) => call === question).length,
    behave: (next) => (behaviour = next),
    /** Makes calls about `question` wait; gives {arrived, release}. */
    hold(question) {
      const [arrived, released] = [gate(), gate()];
      const before = behaviour;
      behaviour = (asked) => {
        if (asked !== question) return before(asked);
        arrived.open();
        return { hold: released.opened };
      };
      return { arrived: arrived.opened, release: released.open };
    },
  };
}
