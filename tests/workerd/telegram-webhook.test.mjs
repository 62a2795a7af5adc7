// What Telegram delivers to the real bundle: each update once, each kind with its answer, and nobody else's.
import assert from "node:assert/strict";
import http from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { GATEWAY_ID } from "../../scripts/lib/demo.mjs";
import { ROOT } from "../../scripts/lib/runtime.mjs";
import { newKeyPair } from "../../scripts/lib/secrets.mjs";
import { CHAT_ID } from "../../scripts/lib/telegram.mjs";
import { STRANGE, kinds, message, privateChat, text } from "../telegram/updates.mjs";
import { assertNoPanic, assertProblem, eventually, startHermod, unique } from "./harness/hermod.mjs";

const SECRET_HEADER = "x-telegram-bot-api-secret-token";

let hermod;
before(async () => {
  hermod = await startHermod({ wrapper: join(ROOT, "tests/workerd/harness/overloaded.mjs"), vars: { EXPOSE_COSTS: "1" } });
});
after(async () => assertNoPanic(await hermod.stop()));

let updates = 1000;
const nextId = () => (updates += 1);

/** An update of a person's private chat; the demo user's own unless another is named. */
const said = (content, { id = nextId(), chat = Number(CHAT_ID) } = {}) => ({
  update_id: id,
  message: message(privateChat(chat), typeof content === "string" ? text(content) : content),
});

const deliver = (update, { gateway = GATEWAY_ID, secret = hermod.secrets.webhook_secret} = {}) =>
  hermod.request("POST", `/telegram/${gateway}`, { json: update, headers: secret === null ? {} : { [SECRET_HEADER]: secret } });

/** Delivers an update that has to be taken. */
async function take(update, options) {
  const answer = await deliver(update, options);
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(answer.json, {});
  return answer;
}

const count = async (sql, ...binds) => (await hermod.query(sql, ...binds))[0].n;
const turns = () => count("SELECT count(*) AS n FROM turns");
const notices = (template) => count("SELECT count(*) AS n FROM outbound_messages WHERE content_ref = ?1 AND gateway_id = ?2", template, GATEWAY_ID);
const latest = async () => (await hermod.query("SELECT disposition, update_kind, duplicate_count, conflict_count FROM inbound_dedup ORDER BY first_seen_at DESC LIMIT 1"))[0];

test("a message becomes a turn in two round trips, and its answer waits to be sent", async () => {
  for (const words of ["first", "second"]) {
    const answer = await take(said(words));
    const trips = Number(answer.headers.get("hermod-d1-trips"));
    console.log(`    POST /telegram/{gateway_id}: ${trips} round trips, ${answer.headers.get("hermod-d1-rows-written")} rows written`);
    assert.equal(trips, 2);
  }
  const [turn] = await hermod.query("SELECT turn_id, origin, user_id, gateway_id FROM turns ORDER BY arrival_no DESC LIMIT 1");
  assert.deepEqual([turn.origin, turn.user_id, turn.gateway_id], ["channel", "user_00demo", GATEWAY_ID]);
  await eventually(() => count("SELECT count(*) AS n FROM outbound_messages WHERE turn_id = ?1 AND content_kind = 'message'", turn.turn_id), { what: "the answer in the outbox" });
});

describe("the same update", () => {
  for (const times of [2, 50]) {
    test(`${times} times at once is one turn`, async () => {
      const before = await turns();
      const update = said(`${times} times`);
      const answers = await Promise.all(Array.from({ length: times }, () => deliver(update)));
      assert.deepEqual([...new Set(answers.map((answer) => answer.status))], [200]);
      assert.equal(await turns(), before + 1);
      assert.equal((await latest()).duplicate_count, times - 1);
    });
  }

  test("with another payload is refused, counted and logged", async () => {
    const id = nextId();
    await take(said("the first words", { id }));
    assertProblem(await deliver(said("other words", { id })), 409, "conflict");
    const { duplicate_count, conflict_count } = await latest();
    assert.deepEqual([duplicate_count, conflict_count], [0, 1]);
    await eventually(() => hermod.logText().includes("ingress_conflict"), { what: "the line in the log" });
  });
});

test("every kind of update has its answer, and the bot goes on", async () => {
  const before = await turns();
  const became = {};
  for (const [name, update] of [...kinds(privateChat(Number(CHAT_ID))), ...STRANGE]) {
    await take({ update_id: nextId(), ...update });
    const { disposition, update_kind } = await latest();
    (became[disposition] ??= []).push(name);
    if (!update.message) assert.equal(update_kind in update ? update_kind : "unknown", update_kind, name);
  }
  assert.deepEqual(became.turn, ["text", "reply", "photo_with_caption", "video"]);
  assert.deepEqual(became.helped, ["command"]);
  assert.deepEqual(became.answered, ["sticker", "photo", "voice", "document", "location", "contact", "dice"]);
  assert.deepEqual(Object.keys(became).sort(), ["answered", "helped", "ignored", "turn"]);
  assert.equal(await turns(), before + became.turn.length);
  await take(said("and on it goes"));
});

describe("only the gateway's own secret opens its webhook", () => {
  const right = () => hermod.secrets.webhook_secret;
  test("missing, wrong, empty, a part of it, more of it", async () => {
    const before = await count("SELECT count(*) AS n FROM inbound_dedup");
    assertProblem(await deliver(said("no"), { secret: null }), 401, "unauthenticated");
    for (const secret of ["", "wrong", right().slice(0, -1), `${right()}x`, right().toUpperCase()]) {
      assertProblem(await deliver(said("no"), { secret }), 401, "unauthenticated");
    }
    assertProblem(await deliver(said("no"), { gateway: "gateway_00nobody" }), 401, "unauthenticated");
    assertProblem(await deliver(said("no"), { gateway: "nonsense" }), 401, "unauthenticated");
    assert.equal(await count("SELECT count(*) AS n FROM inbound_dedup"), before);
  });

  test("the header twice", async () => {
    const { hostname, port } = new URL(hermod.url);
    const body = JSON.stringify(said("no"));
    const status = await new Promise((resolve, reject) => {
      const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body), [SECRET_HEADER]: [right(), right()] };
      const request = http.request({ hostname, port, method: "POST", path: `/telegram/${GATEWAY_ID}`, headers }, (answer) => resolve(answer.resume().statusCode));
      request.on("error", reject).end(body);
    });
    assert.equal(status, 401);
  });

  test("without a secret, or suspended, it is closed", async () => {
    const id = `gateway_00${unique("g")}`;
    const put = (more) => hermod.put(`/internal/gateways/${id}`, {
      scopes: [], channels: ["telegram"], families: [], production: false, assertion_jwk: newKeyPair(unique("k")).public_jwk, status: "active", ...more,
    });
    await put({});
    for (const secret of [null, "", right()]) assertProblem(await deliver(said("no"), { gateway: id, secret }), 503, "unavailable");
    const secret = "a-synthetic-secret-of-its-own";
    await put({ webhook_secret: secret });
    await take(said("nobody knows me"), { gateway: id, secret });
    assertProblem(await deliver(said("no"), { gateway: id }), 401, "unauthenticated");
    await put({ webhook_secret: secret, status: "suspended" });
    assertProblem(await deliver(said("no"), { gateway: id, secret }), 503, "unavailable");
  });
});

test("a body that is no update is refused as everywhere", async () => {
  const send = (body, type = "application/json") =>
    hermod.request("POST", `/telegram/${GATEWAY_ID}`, { body, headers: { "content-type": type, [SECRET_HEADER]: hermod.secrets.webhook_secret } });
  assertProblem(await send("{"), 400, "malformed_json");
  assertProblem(await send("{}"), 422, "invalid_body");
  assertProblem(await send("[]"), 422, "invalid_body");
  assertProblem(await send("{}", "text/plain"), 415, "unsupported_media_type");
  assertProblem(await send(JSON.stringify(said("x".repeat(70_000)))), 413, "payload_too_large");
  assertProblem(await hermod.request("GET", `/telegram/${GATEWAY_ID}`), 405, "method_not_allowed");
});

test("while the database is away Telegram has to come again", async () => {
  const before = await turns();
  const update = said("delivered twice");
  await hermod.request("GET", "/test/database?lost=1");
  assertProblem(await deliver(update), 503, "unavailable");
  await hermod.request("GET", "/test/database?lost=0");
  assert.equal(await turns(), before);
  await take(update);
  assert.equal(await turns(), before + 1);
});

describe("a chat is linked by a code", () => {
  const link = (token, key, channel = "telegram", json) => hermod.request("POST", `/channels/${channel}/link`, { token, key, json });
  const bonds = async (user) => count("SELECT count(*) AS n FROM channel_addresses WHERE user_id = ?1 AND status = 'active'", user);
  let person;
  before(async () => {
    person = await hermod.newUser(unique("linked"));
    const [gateway] = await hermod.query("SELECT group_concat(family_id) AS families FROM gateway_families WHERE gateway_id = ?1", GATEWAY_ID);
    await hermod.put(`/internal/gateways/${GATEWAY_ID}`, {
      scopes: ["chat"], channels: ["telegram"], families: [...gateway.families.split(","), person.family_id], production: false,
      assertion_jwk: hermod.secrets.gateway.public_jwk, webhook_secret: hermod.secrets.webhook_secret, status: "active",
    });
  });

  test("a stranger is told how, gets linked, speaks and is unlinked", async () => {
    const chat = 77001;
    await take(said("hello?", { chat }));
    await take(said("hello??", { chat }));
    assert.equal(await notices("link_first"), 1);
    const key = unique("link");
    const answer = await link(person.token, key);
    assert.equal(answer.status, 200, answer.text);
    const { code, command, expires_at } = answer.json;
    assert.match(code, /^[0-9A-HJKMNP-TV-Z]{16}$/);
    assert.equal(command, `/start ${code}`);
    const life = Date.parse(expires_at) - Date.now();
    assert.ok(life > 14 * 60_000 && life <= 15 * 60_000, expires_at);
    assert.equal(answer.headers.get("cache-control"), "no-store");
    const again = await link(person.token, key);
    assert.deepEqual([again.json, again.headers.get("idempotency-replayed")], [answer.json, "true"]);
    assert.ok(!JSON.stringify(await hermod.query("SELECT * FROM idempotency_results")).includes(code));
    assert.ok(!JSON.stringify(await hermod.query("SELECT * FROM link_codes")).includes(code));

    const trips = Number((await take(said(command, { chat }))).headers.get("hermod-d1-trips"));
    assert.equal(trips, 2);
    assert.equal(await bonds(person.user_id), 1);
    assert.equal(await notices("linked"), 1);
    await take(said("now it is me", { chat }));
    assert.equal(await count("SELECT count(*) AS n FROM turns WHERE user_id = ?1 AND origin = 'channel'", person.user_id), 1);

    await take(said(command, { chat: 77002 }));
    assert.equal(await notices("link_refused"), 1);
    const unlinked = await hermod.request("POST", "/channels/telegram/unlink", { token: person.token, key: unique("k"), json: {} });
    assert.deepEqual(unlinked.json, { channel: "telegram", linked: false });
    assert.equal(await bonds(person.user_id), 0);
    await take(said("am I still me?", { chat }));
    assert.equal((await latest()).disposition, "unlinked");
  });

  test("codes are for people and for channels that are there", async () => {
    assertProblem(await link(person.token, unique("k"), "carrier-pigeon"), 404, "not_found");
    assertProblem(await link(person.token, unique("k"), "telegram", { user_id: "user_00demo" }), 422, "invalid_body");
    assertProblem(await link(person.token, undefined), 400, "idempotency_key_required");
    assertProblem(await link(await hermod.token("gateway"), unique("k")), 403, "forbidden");
    assertProblem(await link(await hermod.operator(), unique("k")), 403, "insufficient_scope");
    assertProblem(await link("not.a.token", unique("k")), 401, "unauthenticated");
    const key = unique("k");
    assert.equal((await link(person.token, key)).status, 200);
    assertProblem(await link(person.token, key, "telegram", { x: 1 }), 422, "idempotency_key_reused");
  });
});

test("switches are set by operators, and a bot's token is never shown", async () => {
  const operator = await hermod.operator();
  const set = (path, json, token = operator) => hermod.request("PUT", `/internal/switches/${path}`, { token, key: unique("k"), json });
  for (const [path, scope, target] of [["global/all", "global", ""], ["channel/telegram", "channel", "telegram"], [`gateway/${GATEWAY_ID}`, "gateway", GATEWAY_ID]]) {
    for (const enabled of [false, true]) {
      const answer = await set(path, { enabled });
      assert.deepEqual(answer.json, { scope, target: target || "all", enabled });
      const stored = await hermod.query("SELECT enabled FROM send_switches WHERE scope = ?1 AND target = ?2", scope, target);
      assert.deepEqual(stored, [{ enabled: Number(enabled) }]);
    }
  }
  for (const path of ["global/none", "channel/pigeon", "gateway/x", "planet/all"]) assertProblem(await set(path, { enabled: true }), 404, "not_found");
  assertProblem(await set("global/all", { enabled: 1 }), 422, "invalid_body");
  assertProblem(await set("global/all", { enabled: true }, await hermod.token("user")), 403, "insufficient_scope");

  const bot_token = "1234567:synthetic-token-of-a-bot";
  const answer = await hermod.put(`/internal/gateways/gateway_00${unique("bot")}`, {
    scopes: [], channels: ["telegram"], families: [], production: false, assertion_jwk: newKeyPair(unique("k")).public_jwk, bot_token, status: "active",
  });
  assert.ok(!JSON.stringify(answer).includes("synthetic-token"));
  const rows = await hermod.query("SELECT hex(channel_token_sealed) AS sealed, * FROM gateways");
  assert.ok(rows.some((row) => row.sealed) && !JSON.stringify(rows).includes("synthetic-token"));
});

test("Telegram's few addresses are not throttled, guesses at a secret are", async () => {
  const limited = await startHermod({ vars: { RATE_ADDRESS_PER_MIN: "60" } });
  try {
    const send = (secret, id) => limited.request("POST", `/telegram/${GATEWAY_ID}`, { json: { update_id: id }, headers: { [SECRET_HEADER]: secret } });
    const right = [];
    for (let id = 0; id < 100; id += 1) right.push((await send(limited.secrets.webhook_secret, id)).status);
    assert.deepEqual([...new Set(right)], [200]);
    const guesses = [];
    for (let id = 0; id < 100; id += 1) guesses.push((await send(`guess-${id}`, id)).status);
    assert.deepEqual([...new Set(guesses)], [401, 429]);
    assert.equal((await send(limited.secrets.webhook_secret, 1000)).status, 200);
  } finally {
    assertNoPanic(await limited.stop());
  }
});
