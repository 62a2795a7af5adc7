// What each route costs the database: round trips before the answer and rows written, counted outside the program,
// printed, and held to the budget.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ROOT } from "../../scripts/lib/runtime.mjs";
import { assertNoPanic, eventually, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
before(async () => {
  hermod = await startHermod({ wrapper: join(ROOT, "tests/workerd/harness/recorder.mjs") });
});
after(async () => assertNoPanic(await hermod.stop()));

const batches = () =>
  hermod.logText().split("\n").flatMap((line) => (line.includes('{"d1"') ? [JSON.parse(line.slice(line.indexOf("{"))).d1] : []));

const isAfter = (batch) => batch.statements.some(({ binds }) => JSON.stringify(binds).includes("response_committed"));

/**
 * Runs one request; gives {answer, critical, all, rows}: the batches before its answer, those including what came right
 * after, and the rows that all of them wrote. `endsLate`: something does come after.
 */
async function measure(name, run, { endsLate = false } = {}) {
  const start = batches().length;
  const answer = await run();
  // The log reaches the file a moment after the answer.
  await sleep(400);
  if (endsLate) await eventually(() => batches().slice(start).some(isAfter), { what: "the record of the answer" });
  const all = batches().slice(start);
  const rows = all.reduce((total, batch) => total + batch.rows_written, 0);
  const critical = all.filter((batch) => !isAfter(batch)).length;
  console.log(`    ${name}: ${critical} round trips before the answer, ${all.length} in all, ${rows} rows written`);
  return { answer, critical, all: all.length, rows };
}

test("POST /chat", async () => {
  const person = await hermod.newUser(unique("cost"));
  const first = await measure("POST /chat, first message of a user", () => hermod.chat(person.token, "one"), { endsLate: true });
  assert.equal(first.answer.status, 200, first.answer.text);
  const second = await measure("POST /chat, next message", () => hermod.chat(person.token, "two"), { endsLate: true });
  assert.ok(first.critical <= 4, `${first.critical} round trips`);
  assert.ok(second.critical <= 4, `${second.critical} round trips`);
  assert.ok(second.rows <= 24, `${second.rows} rows written`);
});

test("POST /chat, replayed", async () => {
  const person = await hermod.newUser(unique("cost"));
  const key = unique("cost");
  await hermod.chat(person.token, "once", { key });
  await sleep(300);
  const replay = await measure("POST /chat, replayed", () => hermod.chat(person.token, "once", { key }));
  assert.ok(replay.critical <= 2, `${replay.critical} round trips`);
  assert.equal(replay.rows, 0);
});

test("the other routes", async () => {
  const token = await hermod.token("user");
  const { json } = await hermod.chat(token, "for reading");
  await sleep(300);
  const read = await measure("GET /turns/{turn_id}", () => hermod.request("GET", `/turns/${json.turn_id}`, { token }));
  assert.ok(read.all <= 1, `${read.all} round trips`);
  const body = { ack_type: "rendered", client_timestamp: "2026-01-02T03:04:05Z" };
  await measure("POST /turns/{turn_id}/ack", () => hermod.request("POST", `/turns/${json.turn_id}/ack`, { token, key: unique("k"), json: body }));
  const identity = await hermod.token("upstream:user");
  const exchange = await measure("POST /auth/token", () => hermod.request("POST", "/auth/token", { token: identity }));
  assert.ok(exchange.all <= 2, `${exchange.all} round trips`);
  const operator = await hermod.operator();
  await measure("PUT /internal/families/{family_id}", () =>
    hermod.request("PUT", "/internal/families/family_00cost", { token: operator, key: unique("k"), json: { status: "active" } }));
});

test("a wave of sends", async () => {
  const { gateway_id, family_id, chats } = { gateway_id: "gateway_00waves", family_id: "family_00waves", chats: [71, 72, 73] };
  await hermod.put(`/internal/families/${family_id}`, { status: "active" });
  await hermod.put(`/internal/gateways/${gateway_id}`, {
    scopes: ["chat"], channels: ["telegram"], families: [family_id], production: false, status: "active",
    assertion_jwk: hermod.secrets.gateway.public_jwk, webhook_secret: "synthetic-webhook-secret", bot_token: "77:synthetic-token",
  });
  for (const chat of chats) {
    await hermod.put(`/internal/users/user_00waves${chat}`, { family_id, role: "guardian", status: "active" });
    await hermod.put(`/internal/addresses/address_00waves${chat}`, {
      gateway_id, channel: "telegram", user_id: `user_00waves${chat}`, external_id: String(chat), status: "active",
    });
  }
  hermod.control.route("https://api.telegram.org", () => ({ body: { ok: true, result: { message_id: 5 } } }));
  // The answers wait until all are there, so that they make one wave.
  await hermod.query("INSERT INTO send_switches VALUES ('gateway', ?1, 0, 0)", gateway_id);
  for (const id of chats) {
    const message = { message_id: 1, date: 1_783_728_000, text: "hello", chat: { id, type: "private" }, from: { id, is_bot: false, first_name: "Synthetic" } };
    const headers = { "x-telegram-bot-api-secret-token": "synthetic-webhook-secret" };
    const answer = await hermod.request("POST", `/telegram/${gateway_id}`, { headers, json: { update_id: id, message } });
    assert.equal(answer.status, 200, answer.text);
  }
  const rows = (status) => hermod.query("SELECT status FROM outbound_messages WHERE gateway_id = ?1 AND status = ?2", gateway_id, status);
  await eventually(async () => (await rows("pending")).length === chats.length, { what: "an answer for each chat" });
  // So that no order of these answers is still on its way.
  await sleep(2500);
  await hermod.query("DELETE FROM send_switches");

  const start = batches().length;
  await hermod.worker.send("SENDS", [JSON.stringify({ v: "2", epoch: 1, kind: "deliver", gateway_id })]);
  await eventually(async () => (await rows("provider_accepted")).length === chats.length, { what: "every answer sent" });
  await sleep(400);
  const all = batches().slice(start);
  const written = all.reduce((total, batch) => total + batch.rows_written, 0);
  console.log(`    a wave of ${chats.length} sends: ${all.length} round trips, ${written} rows written`);
  assert.equal(all.length, 2, "one claim and one settling");
});
