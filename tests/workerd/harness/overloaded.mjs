// An entry module around the bundle whose database can be told to be overloaded or away. GET
// /test/database?overloaded=1 or ?lost=1 turns it on, anything else off; each answers how many batches reached the
// database since the last such request.
import * as bundle from "./index.js";

let overloaded = false;
let lost = false;
let batches = 0;
const wrapped = new WeakMap();

const database = (original) =>
  new Proxy(original, {
    get(target, name) {
      if (name === "batch") {
        return async (statements) => {
          batches += 1;
          if (lost) throw new Error("D1_ERROR: Network connection lost.");
          if (overloaded) throw new Error("D1_ERROR: D1 DB is overloaded. Too many requests queued.");
          return target.batch(statements);
        };
      }
      const value = target[name];
      return typeof value === "function" && name !== "constructor" ? value.bind(target) : value;
    },
  });

function environment(env) {
  if (!wrapped.has(env)) {
    const DB = database(env.DB);
    wrapped.set(env, new Proxy(env, { get: (target, name) => (name === "DB" ? DB : target[name]) }));
  }
  return wrapped.get(env);
}

const around = (original) =>
  new Proxy(original, {
    construct: (target, [context, env], newTarget) => Reflect.construct(target, [context, environment(env)], newTarget),
  });

class Edge extends around(bundle.default) {
  fetch(request) {
    const url = new URL(request.url);
    if (url.pathname !== "/test/database") return super.fetch(request);
    overloaded = url.searchParams.get("overloaded") === "1";
    lost = url.searchParams.get("lost") === "1";
    const seen = batches;
    batches = 0;
    return Response.json({ batches: seen });
  }
}

export default Edge;
export const UserTurns = around(bundle.UserTurns);
