// Applies migrations/*.sql to a local D1 database, keeping the same record that wrangler keeps (table d1_migrations),
// so that `wrangler d1 migrations apply --local` on the same state finds nothing left to do.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Splits a file of SQL into statements: respects quotes, comments and the BEGIN … END of triggers. */
export function splitStatements(text) {
  const statements = [];
  let statement = "";
  let inTrigger = false;
  const token = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|\w+|[\s\S]/g;
  for (const [piece] of text.matchAll(token)) {
    if (piece.startsWith("--") || piece.startsWith("/*")) continue;
    if (/^begin$/i.test(piece) && /\bcreate\s+(temp\w*\s+)?trigger\b/i.test(statement)) inTrigger = true;
    if (piece === ";" && (!inTrigger || /;\s*end\s*$/i.test(statement))) {
      if (statement.trim()) statements.push(statement.trim());
      statement = "";
      inTrigger = false;
    } else {
      statement += piece;
    }
  }
  if (statement.trim()) statements.push(statement.trim());
  return statements;
}

/** Applies what is missing; each file is one batch together with its record. Returns the names applied now. */
export async function applyMigrations(database, folder) {
  await database
    .prepare(
      "CREATE TABLE IF NOT EXISTS d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, " +
        "applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)",
    )
    .run();
  const { results } = await database.prepare("SELECT name FROM d1_migrations").all();
  const done = new Set(results.map((row) => row.name));
  const applied = [];
  for (const name of readdirSync(folder).filter((file) => file.endsWith(".sql")).sort()) {
    if (done.has(name)) continue;
    const statements = splitStatements(readFileSync(join(folder, name), "utf8")).map((sql) => database.prepare(sql));
    statements.push(database.prepare("INSERT INTO d1_migrations (name) VALUES (?1)").bind(name));
    await database.batch(statements);
    applied.push(name);
  }
  return applied;
}
