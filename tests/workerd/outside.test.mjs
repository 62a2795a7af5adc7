// A sender outside the service: it claims what is due of its own gateway, begins, and reports what came of it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { newKeyPair } from "../../scripts/lib/secrets.mjs";
import { clientAssertion, exchange } from "../../scripts/lib/tokens.mjs";
import { assertNoPanic, assertProblem, eventually, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
before(async () => {
  hermod = await startHermod();
});
after(async () => assertNoPanic(await hermod.stop()));

/** A gateway whose bot only its own sender can speak for, with one person's chat; and that sender. */
async function newSender() {
  const person = await hermod.newUser(unique("p"));
  const gateway = `gateway_00${unique("g")}`;
  const [pair, secret] = [newKeyPair(unique("key")), unique("a-made-up-webhook-secret")];
  await hermod.put(`/internal/gateways/${gateway}`, {
    scopes: ["outbox:send"], channels: ["telegram"], families: [person.family_id], production: false,
    assertion_jwk: pair.public_jwk, webhook_secret: secret, status: "active",
  });
  const chat = Number(unique("").replaceAll("-", ""));
  await hermod.put(`/internal/addresses/address_00${unique("a")}`, {
    gateway_id: gateway, channel: "telegram", user_id: person.user_id, external_id: String(chat), status: "active",
  });
  const token = (await exchange(hermod.url, await clientAssertion(pair, gateway))).access_token;
  let updates = 0;
  /** The person writes to the bot. */
  const say = (text) => {
    const from = { id: chat, is_bot: false, first_name: "Synthetic" };
    const message = { message_id: (updates += 1), date: 1_783_728_000, chat: { id: chat, type: "private", first_name: "Synthetic" }, from, text };
    const headers = { "X-Telegram-Bot-Api-Secret-Token": secret };
    return hermod.request("POST", `/telegram/${gateway}`, { headers, json: { update_id: 1000 + updates, message } });
  };
  const post = (path, json, key = unique("key")) => hermod.request("POST", `/internal/outbox/${path}`, { token, key, json });
  /** Claims until there is something. */
  const claim = () => eventually(async () => {
    const key = unique("claim");
    const answer = await post("claim", { channel: "telegram" }, key);
    assert.equal(answer.status, 200, answer.text);
    return answer.json.messages.length > 0 && { key, ...answer.json };
  }, { what: "a message to send" });
  return { person, gateway, chat, token, say, post, claim };
}

test("an answer goes out through a sender outside, and its turn says so", async () => {
  const sender = await newSender();
  assert.equal((await sender.say("hello from outside")).status, 200);
  const { key, lease_token, messages: [message] } = await sender.claim();
  assert.equal(message.destination, String(sender.chat));
  assert.match(message.text, /hello from outside/);
  const again = await sender.post("claim", { channel: "telegram" }, key);
  assert.equal(again.headers.get("idempotency-replayed"), "true");
  assert.deepEqual(again.json.messages, [message]);

  const begun = await sender.post(`${message.outbox_id}/attempt`, { lease_token });
  assert.equal(begun.status, 200, begun.text);
  const confirmed = await sender.post(`${message.outbox_id}/confirm`, { lease_token, provider_message_id: "42" });
  assert.deepEqual([confirmed.status, confirmed.json.status], [200, "provider_accepted"], confirmed.text);
  const [turn] = await hermod.query("SELECT status, delivery_status FROM turns WHERE turn_id = ?1", message.turn_id);
  assert.deepEqual(turn, { status: "terminal_success", delivery_status: "accepted" });
  assertProblem(await sender.post(`${message.outbox_id}/confirm`, { lease_token, provider_message_id: "43" }), 409, "conflict");
});

test("what could not be sent is tried again, and what must not be sent is not begun", async () => {
  const sender = await newSender();
  await sender.say("try twice");
  const first = await sender.claim();
  const id = first.messages[0].outbox_id;
  const failed = await sender.post(`${id}/fail`, { lease_token: first.lease_token, outcome: "retry", retry_after_seconds: 1 });
  assert.deepEqual([failed.status, failed.json.status], [200, "retry"], failed.text);
  const second = await sender.claim();
  assert.deepEqual([second.messages[0].outbox_id, second.messages[0].attempt], [id, 2]);
  await hermod.put(`/internal/switches/gateway/${sender.gateway}`, { enabled: false });
  assertProblem(await sender.post(`${id}/attempt`, { lease_token: second.lease_token }), 409, "conflict");
});

test("a sender reaches its own gateway's messages only, and says only what is described", async () => {
  const [ours, other] = [await newSender(), await newSender()];
  await ours.say("mine");
  const { lease_token, messages: [{ outbox_id }] } = await ours.claim();
  assertProblem(await other.post(`${outbox_id}/attempt`, { lease_token }), 404, "not_found");
  assertProblem(await other.post(`${outbox_id}/confirm`, { lease_token, provider_message_id: "1" }), 404, "not_found");
  assertProblem(await ours.post("claim", { channel: "imessage" }), 403, "forbidden");
  assertProblem(await ours.post("claim", { channel: "telegram", gateway_id: other.gateway }), 422, "invalid_body");
  assertProblem(await ours.post(`${outbox_id}/fail`, { lease_token, outcome: "lost" }), 422, "invalid_body");
  assertProblem(await ours.post("nonsense/attempt", { lease_token }), 404, "not_found");
  const person = await hermod.token("user");
  const asPerson = { token: person, key: unique("key"), json: { channel: "telegram" } };
  assertProblem(await hermod.request("POST", "/internal/outbox/claim", asPerson), 403, "insufficient_scope");
  const keyless = { token: ours.token, json: { channel: "telegram" } };
  assertProblem(await hermod.request("POST", "/internal/outbox/claim", keyless), 400, "idempotency_key_required");
});
