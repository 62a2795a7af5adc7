// An entry module around the bundle that writes down every D1 batch: which statements with which values, how many
// rows they wrote. The bundle itself is not changed; it is handed an environment whose database keeps notes.
// Each note is one log line: {"d1":{"by","kind","statements":[{"sql","binds"}],"rows_written"}}.
import * as bundle from "./index.js";

const notes = new WeakMap();
const watched = new WeakMap();

const plain = (value) => {
  if (value instanceof ArrayBuffer) value = new Uint8Array(value);
  return ArrayBuffer.isView(value) ? { bytes: [...value] } : value;
};
const sum = (results) => results.reduce((total, result) => total + (result?.meta?.rows_written ?? 0), 0);
const write = (by, kind, statements, results) =>
  console.log(JSON.stringify({ d1: { by, kind, statements: statements.map((one) => notes.get(one)), rows_written: sum(results) } }));

function watchStatement(by, statement, sql, binds) {
  notes.set(statement, { sql, binds: binds.map(plain) });
  const bind = statement.bind.bind(statement);
  statement.bind = (...values) => watchStatement(by, bind(...values), sql, values);
  for (const kind of ["run", "all", "first", "raw"]) {
    const original = statement[kind].bind(statement);
    statement[kind] = async (...values) => {
      const result = await original(...values);
      write(by, kind, [statement], [result]);
      return result;
    };
  }
  return statement;
}

function watchDatabase(by, database) {
  return new Proxy(database, {
    get(target, name) {
      if (name === "prepare") return (sql) => watchStatement(by, target.prepare(sql), sql, []);
      if (name === "batch") {
        return async (statements) => {
          let results = [];
          try {
            results = await target.batch(statements);
            return results;
          } finally {
            write(by, "batch", statements, results);
          }
        };
      }
      const value = target[name];
      // The bindings of the worker crate look at the constructor's name.
      return typeof value === "function" && name !== "constructor" ? value.bind(target) : value;
    },
  });
}

function watchEnvironment(by, env) {
  if (!watched.has(env)) {
    const database = watchDatabase(by, env.DB);
    watched.set(env, new Proxy(env, { get: (target, name) => (name === "DB" ? database : target[name]) }));
  }
  return watched.get(env);
}

const around = (by, original) =>
  new Proxy(original, {
    construct: (target, [context, env], newTarget) => Reflect.construct(target, [context, watchEnvironment(by, env)], newTarget),
  });

export default around("edge", bundle.default);
export const UserTurns = around("object", bundle.UserTurns);
