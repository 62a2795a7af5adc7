// Forged tokens. Every case is a token that is good but for one thing; the good one is shown to work first, so that a
// refusal means what it says.
import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync, randomBytes, sign as signBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { AUDIENCE, ISSUER, sign, signingKey, upstreamToken } from "../../scripts/lib/tokens.mjs";
import { UPSTREAM, USERS } from "../../scripts/lib/demo.mjs";
import { newKeyPair } from "../../scripts/lib/secrets.mjs";
import { assertNoPanic, assertProblem, startHermod } from "./harness/hermod.mjs";

let hermod;
before(async () => {
  hermod = await startHermod();
});
after(async () => {
  const stray = hermod.control.calls.map((call) => call.url);
  assertNoPanic(await hermod.stop());
  assert.deepEqual(stray, [], "no URL out of a token may ever be fetched");
});

const encode = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
const now = () => Math.floor(Date.now() / 1000);

/** A token put together by hand; `signer` gets the signing input and gives the signature. */
function handmade(header, claims, signer) {
  const input = `${encode(header)}.${encode(claims)}`;
  return `${input}.${Buffer.from(signer(input)).toString("base64url")}`;
}
const es256 = (pem) => (input) => signBytes("sha256", Buffer.from(input), { key: pem, dsaEncoding: "ieee-p1363" });
const hs256 = (secret) => (input) => createHmac("sha256", secret).update(input).digest();
const rs256 = () => {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return (input) => signBytes("sha256", Buffer.from(input), privateKey);
};

/** The two doors: what a good token looks like there, and how it is presented. */
const doors = {
  "access token": {
    pair: () => signingKey(hermod.secrets),
    audience: AUDIENCE,
    claims: () => ({
      iss: ISSUER, aud: AUDIENCE, sub: USERS.user.user_id, family_id: USERS.user.family_id, roles: ["guardian"],
      scope: ["chat", "turns:read", "turns:ack"], auth: "user_jwt", rev: 1, idp: UPSTREAM.idp,
      idp_sub: USERS.user.subject, iat: now(), nbf: now(), exp: now() + 3600, jti: `jwt_00${randomBytes(12).toString("hex")}`,
    }),
    // A turn that does not exist: 404 is how the door says "come in".
    present: (token) => hermod.request("GET", "/turns/turn_00nothere", { token }),
    welcome: 404,
  },
  "identity token": {
    pair: () => hermod.secrets.upstream,
    audience: UPSTREAM.audience,
    claims: () => ({ iss: UPSTREAM.issuer, aud: UPSTREAM.audience, sub: USERS.user.subject, iat: now(), exp: now() + 3600 }),
    present: (token) => hermod.request("POST", "/auth/token", { token }),
    welcome: 200,
  },
};

for (const [name, door] of Object.entries(doors)) {
  describe(name, () => {
    const good = (header = {}, claims = {}) => sign(door.pair(), { ...door.claims(), ...claims }, header);
    const refused = async (token) => assertProblem(await door.present(token), 401, "unauthenticated");

    test("a good one is let in", async () => {
      assert.equal((await door.present(await good())).status, door.welcome);
      const inArray = await good({}, { aud: ["something-else", door.audience] });
      assert.equal((await door.present(inArray)).status, door.welcome);
    });

    test("alg none, in every spelling, is refused", async () => {
      for (const alg of ["none", "None", "NONE", "nOnE", ""]) {
        await refused(handmade({ alg, kid: door.pair().kid }, door.claims(), () => ""));
        await refused(handmade({ alg, kid: door.pair().kid }, door.claims(), es256(door.pair().private_pkcs8)));
      }
    });

    test("HS256 keyed with the public key is refused", async () => {
      const jwk = door.pair().public_jwk;
      const raw = Buffer.concat([Buffer.from([4]), Buffer.from(jwk.x, "base64url"), Buffer.from(jwk.y, "base64url")]);
      for (const secret of [JSON.stringify(jwk), raw, jwk.x, Buffer.from(jwk.x, "base64url"), ""]) {
        for (const alg of ["HS256", "HS384"]) await refused(handmade({ alg, kid: door.pair().kid }, door.claims(), hs256(secret)));
      }
    });

    test("RS256 where the key is ES256 is refused", async () => {
      await refused(handmade({ alg: "RS256", kid: door.pair().kid }, door.claims(), rs256()));
      await refused(handmade({ alg: "RS256", kid: door.pair().kid }, door.claims(), es256(door.pair().private_pkcs8)));
      await refused(handmade({ alg: "EdDSA", kid: door.pair().kid }, door.claims(), es256(door.pair().private_pkcs8)));
    });

    test("a key brought along in the header does not count, and no header URL is fetched", async () => {
      const own = newKeyPair(door.pair().kid);
      for (const header of [
        { jwk: own.public_jwk },
        { jku: "https://attacker.example/jwks.json" },
        { x5u: "https://attacker.example/cert.pem" },
        { x5c: ["MIIB"] },
      ]) {
        await refused(handmade({ alg: "ES256", kid: own.kid, ...header }, door.claims(), es256(own.private_pkcs8)));
        await refused(handmade({ alg: "ES256", ...header }, door.claims(), es256(own.private_pkcs8)));
      }
    });

    test("a strange kid is refused", async () => {
      for (const kid of ["../../x", "../../../../dev/null", "' OR 1=1 --", "unknown", "\u0000", "x".repeat(10_000)]) {
        await refused(handmade({ alg: "ES256", kid }, door.claims(), es256(door.pair().private_pkcs8)));
      }
    });

    test("another audience, or one that only looks alike, is refused", async () => {
      const audience = door.audience;
      for (const aud of [`${audience}-evil`, `evil-${audience}`, [[audience]], { 0: audience }, [`${audience}-evil`], "", [], null, 1, audience.toUpperCase()]) {
        await refused(await good({}, { aud }));
      }
    });

    test("another issuer, a foreign signature, a changed claim are refused", async () => {
      await refused(await good({}, { iss: "https://attacker.example" }));
      await refused(await sign(newKeyPair(door.pair().kid), door.claims()));
      const [header, , signature] = (await good()).split(".");
      await refused(`${header}.${encode({ ...door.claims(), sub: "user_00other" })}.${signature}`);
      await refused(`${header}.${encode(door.claims())}.`);
    });

    test("out of time is refused, a minute of skew at the start is not", async () => {
      await refused(await good({}, { iat: now() - 7200, nbf: now() - 7200, exp: now() - 3600 }));
      await refused(await good({}, { iat: now() + 300, nbf: now() + 300, exp: now() + 3600 }));
      assert.equal((await door.present(await good({}, { iat: now() + 30, nbf: now() + 30, exp: now() + 3600 }))).status, door.welcome);
    });

    test("what is not a token at all is refused", async () => {
      const token = await good();
      for (const text of ["x", "a.b.c", `${token}.x`, token.slice(0, -10), `${token}=`, `.${token}`, "é"]) {
        const answer = await door.present(text).catch((error) => error);
        if (answer instanceof Error) continue; // The client itself will not send such a header.
        assert.equal(answer.status, 401, text.slice(0, 20));
      }
    });
  });
}

test("only the Authorization header counts", async () => {
  const token = await hermod.token("user");
  assertProblem(await hermod.request("GET", `/turns/turn_00nothere?access_token=${token}`), 401, "unauthenticated");
  const basic = await hermod.request("GET", "/turns/turn_00nothere", { headers: { authorization: `Basic ${token}` } });
  assertProblem(basic, 401, "unauthenticated");
});

test("an identity token does not open the other doors, nor an access token the exchange", async () => {
  const identity = await upstreamToken(hermod.secrets.upstream, { ...UPSTREAM, ...USERS.user });
  assertProblem(await hermod.chat(identity, "x"), 401, "unauthenticated");
  assertProblem(await hermod.request("POST", "/auth/token", { token: await hermod.token("user") }), 401, "unauthenticated");
});
