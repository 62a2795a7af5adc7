// An entry module around the bundle whose database loses replies: every LOSE_EVERYth writing batch commits, and the
// caller hears what D1 says when the connection broke. The bundle itself is not changed.
import * as bundle from "./index.js";

const writes = new WeakSet();
const watched = new WeakMap();
let count = 0;

function flaky(database, every) {
  const prepare = (sql) => {
    const statement = database.prepare(sql);
    return /^\s*(select|with|explain)/i.test(sql) ? statement : mark(statement);
  };
  // Binding makes a new statement, which writes as well.
  const mark = (statement) => {
    const bind = statement.bind.bind(statement);
    statement.bind = (...values) => mark(bind(...values));
    writes.add(statement);
    return statement;
  };
  const batch = async (statements) => {
    const results = await database.batch(statements);
    if (statements.some((statement) => writes.has(statement)) && (count += 1) % every === 0) {
      console.log("a reply was lost");
      throw new Error("D1_ERROR: Network connection lost.");
    }
    return results;
  };
  return new Proxy(database, {
    get(target, name) {
      if (name === "prepare") return prepare;
      if (name === "batch") return batch;
      const value = target[name];
      return typeof value === "function" && name !== "constructor" ? value.bind(target) : value;
    },
  });
}

function watch(env) {
  if (!watched.has(env)) {
    const database = flaky(env.DB, Number(env.LOSE_EVERY));
    watched.set(env, new Proxy(env, { get: (target, name) => (name === "DB" ? database : target[name]) }));
  }
  return watched.get(env);
}

const around = (original) =>
  new Proxy(original, {
    construct: (target, [context, env], newTarget) => Reflect.construct(target, [context, watch(env)], newTarget),
  });

export default around(bundle.default);
export const UserTurns = around(bundle.UserTurns);
