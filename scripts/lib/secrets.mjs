// The secrets of a local state folder: made once, kept in STATE/secrets.json with mode 0600, never checked in.
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A P-256 pair as a public JWK and a private PKCS #8 text. */
export function newKeyPair(kid) {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return {
    kid,
    public_jwk: { ...publicKey.export({ format: "jwk" }), kid, alg: "ES256", use: "sig" },
    private_pkcs8: privateKey.export({ type: "pkcs8", format: "pem" }),
  };
}

/** Writes a file that only its owner may read. */
export function writePrivate(path, text) {
  writeFileSync(path, text, { mode: 0o600 });
  chmodSync(path, 0o600);
}

export function newSecrets() {
  return {
    token_keys: { keys: [{ ...newKeyPair("local-1"), status: "signing" }] },
    master_secrets: { current: 1, versions: { 1: randomBytes(32).toString("base64") }, hash_version: 1 },
    upstream: newKeyPair("upstream-1"),
    gateway: newKeyPair("gateway-1"),
    webhook_secret: randomBytes(32).toString("base64url"),
    // Of the form that BotFather gives out.
    bot_token: `700100000:${randomBytes(26).toString("base64url")}`,
  };
}

/** Reads the secrets of a state folder, making those that are not there yet. */
export function loadSecrets(state) {
  const path = join(state, "secrets.json");
  const kept = existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : {};
  const secrets = { ...newSecrets(), ...kept };
  if (Object.keys(secrets).some((name) => !(name in kept))) {
    mkdirSync(state, { recursive: true, mode: 0o700 });
    writePrivate(path, `${JSON.stringify(secrets, null, 2)}\n`);
  }
  return secrets;
}

/** The Worker's secret variables. */
export function secretVars(secrets) {
  return {
    TOKEN_KEYS: JSON.stringify(secrets.token_keys),
    MASTER_SECRETS: JSON.stringify(secrets.master_secrets),
  };
}
