// Prints both ledgers of a channel's turn, its events and the attempts to deliver its answer, from the local database.
import { readdirSync } from "node:fs";
import { join } from "node:path";

/** The database file of a state folder; workerd keeps it under a hash. */
function databaseFile(state) {
  const folder = join(state, "v3");
  const files = readdirSync(folder, { recursive: true }).map(String);
  const file = files.find((name) => name.includes("d1") && name.endsWith(".sqlite") && !name.endsWith("metadata.sqlite"));
  if (!file) throw new Error(`no database under ${folder}`);
  return join(folder, file);
}

async function open(state) {
  // Node calls its SQLite experimental; the reader of a ledger need not know.
  process.removeAllListeners("warning");
  process.on("warning", (warning) => warning.name !== "ExperimentalWarning" && console.error(warning));
  const { DatabaseSync } = await import("node:sqlite");
  return new DatabaseSync(databaseFile(state), { readOnly: true });
}

const TURN = `SELECT turn_id, status, delivery_status, error_code, accepted_at FROM turns
  WHERE CASE WHEN ?1 IS NULL THEN origin = 'channel' ELSE turn_id = ?1 END ORDER BY accepted_at DESC LIMIT 1`;
const EVENTS = "SELECT event_type, event_at, actor, attempt_no, metadata_json FROM turn_events WHERE turn_id = ?1 ORDER BY sequence_no";
const ROWS = `SELECT outbox_id, origin, part_no, part_count, status, attempt_count, next_attempt_at, provider_message_id,
  last_error_class, last_error_code, terminal_at FROM outbound_messages WHERE turn_id = ?1 ORDER BY created_at, part_no`;
const ATTEMPTS = `SELECT attempt_no, started_at, finished_at, outcome, provider_http_status, provider_message_id, retry_after_ms,
  error_class, error_code FROM outbound_attempts WHERE outbox_id = ?1 ORDER BY attempt_no`;

const clock = (time) => new Date(time).toISOString().slice(11, 23);
const words = (...values) => values.filter((value) => value !== null && value !== undefined && value !== "").join("  ");

function eventLine({ event_type, event_at, actor, attempt_no, metadata_json }) {
  const metadata = metadata_json === "{}" ? "" : metadata_json;
  return `  ${words(clock(event_at), event_type.padEnd(26), actor.padEnd(10), attempt_no && `attempt ${attempt_no}`, metadata)}`.trimEnd();
}

function rowLine(row) {
  const due = row.terminal_at === null ? `next not before ${clock(row.next_attempt_at)}` : "";
  const error = row.last_error_code && row.status !== "provider_accepted" ? `${row.last_error_class}/${row.last_error_code}` : "";
  const id = row.provider_message_id && `message ${row.provider_message_id}`;
  return `  ${words(row.outbox_id, row.origin, `part ${row.part_no} of ${row.part_count}`, row.status, id, error, due)}`;
}

function attemptLine(attempt) {
  const took = attempt.finished_at === null ? "going on" : `${attempt.finished_at - attempt.started_at} ms`;
  const http = attempt.provider_http_status && `HTTP ${attempt.provider_http_status}`;
  const error = attempt.error_code && `${attempt.error_class}/${attempt.error_code}`;
  const told = attempt.retry_after_ms && `told to wait ${attempt.retry_after_ms} ms`;
  return `    attempt ${words(attempt.attempt_no, clock(attempt.started_at), took, attempt.outcome, http, error, told)}`;
}

/** The text that `scripts/dev ledger` prints; without a turn id, of the newest turn that came in by a channel. */
export async function ledgerText(state, turnId) {
  const database = await open(state);
  try {
    const turn = database.prepare(TURN).get(turnId ?? null);
    if (!turn) throw new Error(turnId ? `no turn ${turnId}` : "no message has come in by a channel yet; the lines that scripts/dev prints send one");
    const events = database.prepare(EVENTS).all(turn.turn_id);
    const rows = database.prepare(ROWS).all(turn.turn_id);
    const attempts = database.prepare(ATTEMPTS);
    return [
      words(turn.turn_id, turn.status, `delivery ${turn.delivery_status}`, turn.error_code),
      "turn events (UTC)",
      ...events.map(eventLine),
      "outbox and attempts",
      ...rows.flatMap((row) => [rowLine(row), ...attempts.all(row.outbox_id).map(attemptLine)]),
    ].join("\n");
  } finally {
    database.close();
  }
}
