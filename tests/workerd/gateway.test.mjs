// Gateways that speak for people, and limits that hold before anything is computed.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { GATEWAY_ID, USERS } from "../../scripts/lib/demo.mjs";
import { newKeyPair } from "../../scripts/lib/secrets.mjs";
import { clientAssertion, exchange } from "../../scripts/lib/tokens.mjs";
import { assertNoPanic, assertProblem, startHermod, unique } from "./harness/hermod.mjs";

let hermod;
before(async () => {
  hermod = await startHermod();
});
after(async () => assertNoPanic(await hermod.stop()));

/** A gateway of its own that may speak for these families, and its service token. */
async function newGateway(families, channels = ["telegram"]) {
  const id = `gateway_00${unique("g")}`;
  const pair = newKeyPair(unique("key"));
  const body = {
    scopes: ["chat", "turns:read", "turns:ack"], channels, families, production: false,
    assertion_jwk: pair.public_jwk, status: "active",
  };
  await hermod.put(`/internal/gateways/${id}`, body);
  const token = async () => (await exchange(hermod.url, await clientAssertion(pair, id))).access_token;
  return { id, body, token };
}

const address = (gateway, user_id, external_id, status = "active") =>
  hermod.put(`/internal/addresses/address_00${unique("a")}`, {
    gateway_id: gateway, channel: "telegram", user_id, external_id, status,
  });
const say = (token, user_id) => hermod.chat(token, { message: "hello", user_id });

test("a gateway chats for a sender it knows, and the turn is that person's", async () => {
  const token = await hermod.token("gateway");
  const answer = await say(token, USERS.user.external_id);
  assert.equal(answer.status, 200, answer.text);
  const [turn] = await hermod.query("SELECT user_id, gateway_id, channel FROM turns WHERE turn_id = ?1", answer.json.turn_id);
  assert.deepEqual(turn, { user_id: "user_00demo", gateway_id: GATEWAY_ID, channel: "telegram" });
});

test("a gateway names its senders by the channel's ids only, and must name one", async () => {
  const token = await hermod.token("gateway");
  for (const sender of ["user_00demo", "nobody", "DEMO-SENDER", "demo-sender "]) assertProblem(await say(token, sender), 403, "forbidden");
  assertProblem(await hermod.chat(token, { message: "hello" }), 403, "forbidden");
});

test("a gateway speaks for nobody outside its families, whatever another gateway knows", async () => {
  const person = await hermod.newUser(unique("outside"));
  const stranger = await newGateway([]);
  assertProblem(await say(await stranger.token(), USERS.user.external_id), 403, "forbidden");
  const friend = await newGateway([person.family_id]);
  await address(friend.id, person.user_id, "sender-1");
  assert.equal((await say(await friend.token(), "sender-1")).status, 200);
  assertProblem(await say(await hermod.token("gateway"), "sender-1"), 403, "forbidden");
});

test("taking a family away makes the gateway's tokens stale and the sender unknown", async () => {
  const person = await hermod.newUser(unique("left"));
  const gateway = await newGateway([person.family_id]);
  await address(gateway.id, person.user_id, "sender-2");
  const token = await gateway.token();
  assert.equal((await say(token, "sender-2")).status, 200);
  await hermod.put(`/internal/gateways/${gateway.id}`, { ...gateway.body, families: [] });
  assertProblem(await say(token, "sender-2"), 401, "token_stale");
  assertProblem(await say(await gateway.token(), "sender-2"), 403, "forbidden");
});

test("a suspended gateway gets no token, and a suspended person is not spoken for", async () => {
  const person = await hermod.newUser(unique("gone"));
  const gateway = await newGateway([person.family_id]);
  await address(gateway.id, person.user_id, "sender-3");
  const token = await gateway.token();
  await hermod.put(`/internal/users/${person.user_id}`, { family_id: person.family_id, role: "guardian", status: "suspended" });
  assertProblem(await say(token, "sender-3"), 403, "forbidden");
  await hermod.put(`/internal/gateways/${gateway.id}`, { ...gateway.body, status: "suspended" });
  assertProblem(await say(token, "sender-3"), 401, "token_stale");
  await assert.rejects(gateway.token(), /answered 401/);
});

test("limits hold before a signature is looked at, and say when to come back", async () => {
  const limited = await startHermod({ vars: { RATE_ADDRESS_PER_MIN: "30" }, demo: false });
  try {
    const answers = [];
    for (let at = 0; at < 40; at += 1) answers.push(await limited.request("POST", "/auth/token", { token: "not.a.token" }));
    for (const answer of answers.slice(0, 30)) assertProblem(answer, 401, "unauthenticated");
    // One more is let in every two seconds, so a slow machine sees fewer refusals, but always some.
    const refused = answers.slice(30).filter((answer) => answer.status === 429);
    assert.ok(refused.length >= 1, "nothing was refused");
    assertProblem(refused[0], 429, "rate_limited");
    const wait = Number(refused[0].headers.get("retry-after"));
    assert.ok(wait >= 1 && wait <= 2, `Retry-After: ${wait}`);
    assert.equal((await limited.request("GET", "/health/live")).status, 200);
  } finally {
    await limited.stop();
  }
});
