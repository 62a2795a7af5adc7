// The demo: two families with one user each, a gateway and an upstream, set up through the provisioning routes, which
// are idempotent, so a second start changes nothing.
import { createHash } from "node:crypto";
import { CHAT_ID } from "./telegram.mjs";
import { clientAssertion, exchange, operatorToken, upstreamToken } from "./tokens.mjs";

export const UPSTREAM = { idp: "demo", issuer: "https://upstream.example", audience: "hermod-demo" };
export const USERS = {
  user: { user_id: "user_00demo", family_id: "family_00demo", subject: "demo-person", external_id: "demo-sender" },
  other_user: { user_id: "user_00other", family_id: "family_00other", subject: "other-person", external_id: "other-sender" },
};
export const GATEWAY_ID = "gateway_00demo";

/** One provisioning request; the key is derived from the request, so repeating it is a replay. */
export async function provision(url, token, path, body) {
  const text = JSON.stringify(body);
  const key = createHash("sha256").update(`${path} ${text}`).digest("hex").slice(0, 32);
  const answer = await fetch(url + path, {
    method: "PUT",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json", "idempotency-key": `"demo-${key}"` },
    body: text,
  });
  const reply = await answer.text();
  if (!answer.ok) throw new Error(`PUT ${path} answered ${answer.status}: ${reply}`);
  return reply ? JSON.parse(reply) : undefined;
}

/** Everything the demo consists of, in an order in which each part's references exist. */
export function demoRequests(secrets) {
  const requests = [
    [`/internal/upstreams/${UPSTREAM.idp}`, {
      issuer: UPSTREAM.issuer, audience: UPSTREAM.audience, algorithms: ["ES256"],
      jwks: { keys: [secrets.upstream.public_jwk] }, status: "active",
    }],
  ];
  for (const { user_id, family_id, subject } of Object.values(USERS)) {
    requests.push([`/internal/families/${family_id}`, { status: "active" }]);
    requests.push([`/internal/users/${user_id}`, { family_id, role: "guardian", status: "active" }]);
    requests.push([`/internal/users/${user_id}/identities/${UPSTREAM.idp}`, { subject }]);
  }
  requests.push([`/internal/gateways/${GATEWAY_ID}`, {
    scopes: ["chat", "turns:read", "turns:ack"], channels: ["telegram"],
    families: Object.values(USERS).map((user) => user.family_id), production: false,
    assertion_jwk: secrets.gateway.public_jwk, webhook_secret: secrets.webhook_secret, bot_token: secrets.bot_token, status: "active",
  }]);
  for (const [name, { user_id, external_id }] of Object.entries(USERS)) {
    requests.push([`/internal/addresses/address_00${name}`, {
      gateway_id: GATEWAY_ID, channel: "telegram", user_id, external_id, status: "active",
    }]);
  }
  // The demo user's own chat with the demo's bot.
  requests.push(["/internal/addresses/address_00chat", {
    gateway_id: GATEWAY_ID, channel: "telegram", user_id: USERS.user.user_id, external_id: CHAT_ID, status: "active",
  }]);
  return requests;
}

/** A fresh token. WHO: user, other_user, gateway, operator, upstream:user, upstream:other_user, assertion:gateway. */
export async function mintFor(who, url, secrets) {
  const [kind, name] = who.includes(":") ? who.split(":") : ["access", who];
  if (kind === "upstream" && USERS[name]) return upstreamToken(secrets.upstream, { ...UPSTREAM, ...USERS[name] });
  if (kind === "assertion" && name === "gateway") return clientAssertion(secrets.gateway, GATEWAY_ID);
  if (kind === "access" && name === "operator") return operatorToken(secrets);
  if (kind === "access" && name === "gateway") {
    return (await exchange(url, await clientAssertion(secrets.gateway, GATEWAY_ID))).access_token;
  }
  if (kind === "access" && USERS[name]) return (await exchange(url, await mintFor(`upstream:${name}`, url, secrets))).access_token;
  throw new Error(`no such token: ${who} (user, other_user, gateway, operator, upstream:user, upstream:other_user, assertion:gateway)`);
}

/** Provisions the demo and gives what ready.json says about it. */
export async function setUpDemo(url, secrets) {
  const operator = await operatorToken(secrets);
  for (const [path, body] of demoRequests(secrets)) await provision(url, operator, path, body);
  const person = async (name) => ({
    user_id: USERS[name].user_id,
    family_id: USERS[name].family_id,
    access_token: await mintFor(name, url, secrets),
    upstream_token: await mintFor(`upstream:${name}`, url, secrets),
  });
  return {
    user: await person("user"),
    other_user: await person("other_user"),
    gateway: {
      gateway_id: GATEWAY_ID,
      service_token: await mintFor("gateway", url, secrets),
      webhook_secret: secrets.webhook_secret,
    },
    operator: { access_token: operator },
  };
}
