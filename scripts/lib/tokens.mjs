// Signs the tokens that callers of a local Hermod need: the upstream's identity tokens, a gateway's client
// assertions, and operators' access tokens (which are signed offline, with the service's own key).
import { randomBytes } from "node:crypto";
import { SignJWT, importPKCS8 } from "jose";

export const ISSUER = "https://hermod.local";
export const AUDIENCE = "oimy-api";
const OPERATOR_MINUTES = 15;
const ASSERTION_MINUTES = 5;
const UPSTREAM_MINUTES = 60;

const seconds = () => Math.floor(Date.now() / 1000);

/** Signs claims with a key pair of secrets.mjs; the header can be added to or replaced. */
export async function sign(pair, claims, header = {}) {
  const key = await importPKCS8(pair.private_pkcs8, "ES256");
  return new SignJWT(claims).setProtectedHeader({ alg: "ES256", kid: pair.kid, ...header }).sign(key);
}

export const signingKey = (secrets) => secrets.token_keys.keys.find((key) => key.status === "signing");

export function operatorToken(secrets, { name = "local-operator", scope = ["ops:read", "ops:write"] } = {}) {
  const now = seconds();
  const claims = {
    iss: ISSUER, aud: AUDIENCE, sub: name, auth: "operator", roles: [], scope, rev: 0,
    iat: now, nbf: now, exp: now + OPERATOR_MINUTES * 60, jti: `jwt_00${randomBytes(12).toString("hex")}`,
  };
  return sign(signingKey(secrets), claims, { typ: "at+jwt" });
}

export function upstreamToken(pair, { issuer, audience, subject }, overrides = {}, header = {}) {
  const now = seconds();
  const claims = { iss: issuer, aud: audience, sub: subject, iat: now, exp: now + UPSTREAM_MINUTES * 60 };
  return sign(pair, { ...claims, ...overrides }, header);
}

export function clientAssertion(pair, gatewayId, overrides = {}, header = {}) {
  const now = seconds();
  const claims = {
    iss: gatewayId, sub: gatewayId, aud: ISSUER, iat: now, exp: now + ASSERTION_MINUTES * 60,
    jti: randomBytes(16).toString("base64url"),
  };
  return sign(pair, { ...claims, ...overrides }, header);
}

/** Exchanges an identity token or a client assertion; gives the parsed answer of POST /auth/token. */
export async function exchange(url, credential) {
  const answer = await fetch(`${url}/auth/token`, { method: "POST", headers: { authorization: `Bearer ${credential}` } });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`POST /auth/token answered ${answer.status}: ${text}`);
  const body = JSON.parse(text);
  if (!body.access_token) throw new Error(`POST /auth/token answered without a token: ${text}`);
  return body;
}
