// The plain Worker that Hermod is measured against: for each request it runs the very statements that Hermod was
// recorded to run for one turn, in the same batches, and nothing else. No authentication, no encryption, no object.
// The recipe (see recipe.mjs) is given as the module recipe.json.
import recipe from "./recipe.json";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const fresh = (length) => {
  const bytes = crypto.getRandomValues(new Uint8Array(length));
  let text = "";
  for (const byte of bytes) text += ALPHABET[byte & 31];
  return text;
};

// Per user: how many turns were replayed, from which counters go on, and the binds of the latest.
const replayed = new Map();
const latest = new Map();

function values(user, turn) {
  const strings = new Map();
  const now = Date.now();
  const before = latest.get(user) ?? recipe.users[user].recorded;
  const one = (bind) => {
    if ("constant" in bind) return bind.constant;
    if ("bytes" in bind) return new Uint8Array(bind.bytes);
    if ("counter" in bind) return bind.counter + bind.step * turn;
    if ("time" in bind) return now + bind.time;
    if ("previous" in bind) return bind.previous.reduce((part, place) => part[place], before);
    if ("text" in bind) {
      let text = bind.text;
      for (const [name, prefix, length] of bind.names) {
        if (!strings.has(name)) strings.set(name, prefix + fresh(length));
        text = text.replaceAll(name, strings.get(name));
      }
      return text;
    }
    throw new Error("a bind of no known kind");
  };
  const binds = recipe.users[user].batches.map((batch) => batch.map((list) => list.map(one)));
  latest.set(user, binds);
  return binds;
}

export default {
  async fetch(request, env, context) {
    const body = await request.json();
    const user = Number(request.headers.get("x-bench-user"));
    const turn = (replayed.get(user) ?? 0) + 1;
    replayed.set(user, turn);
    const binds = values(user, turn);
    const run = (index) =>
      env.DB.batch(recipe.batches[index].map((sql, at) => {
        const statement = env.DB.prepare(sql);
        return binds[index][at].length > 0 ? statement.bind(...binds[index][at]) : statement;
      }));
    let last;
    // A refusal means that the recipe does not fit: the bench stops at it.
    try {
      for (let index = 0; index < recipe.critical; index += 1) last = await run(index);
    } catch (error) {
      return new Response(`${error.message} at ${JSON.stringify(binds)}`, { status: 500 });
    }
    for (let index = recipe.critical; index < recipe.batches.length; index += 1) context.waitUntil(run(index));
    return Response.json({ reply: body.message, statements: last.length });
  },
};
