// One Hermod in workerd for one test file: its state, its secrets, its demo people, and the calls tests make.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { demoRequests, mintFor, provision, UPSTREAM } from "../../../scripts/lib/demo.mjs";
import { startProcess } from "../../../scripts/lib/process.mjs";
import { ROOT } from "../../../scripts/lib/runtime.mjs";
import { loadSecrets, secretVars } from "../../../scripts/lib/secrets.mjs";
import { exchange, operatorToken, upstreamToken } from "../../../scripts/lib/tokens.mjs";
import { startControl } from "./control.mjs";

// Limits high enough that no test meets them by accident.
const TEST_VARS = { ENVIRONMENT: "dev", RATE_USER_PER_MIN: "1000000", RATE_GATEWAY_PER_MIN: "1000000", RATE_ADDRESS_PER_MIN: "1000000" };
const BUNDLES = { shipped: process.env.HERMOD_BUNDLE ?? join(ROOT, "build"), probes: join(ROOT, "build-probes") };

/** Makes an empty state folder, in memory where the machine allows. */
export function newState() {
  return mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "hermod-test-"));
}

let counter = 0;
/** A key or an id that no other call of this process got. */
export const unique = (prefix) => `${prefix}-${process.pid}-${(counter += 1)}`;

/**
 * Starts a Hermod with the demo people. Options: vars (or a function of the control server that gives them), bundle
 * (`shipped` or `probes`), wrapper (see runtime.mjs), demo: false for an empty directory, direct: its outbound requests
 * go to where they say, not to the control server.
 */
export async function startHermod({ vars = {}, bundle = "shipped", wrapper, demo = true, direct = false } = {}) {
  const state = newState();
  const log = join(state, "hermod.log");
  const secrets = loadSecrets(state);
  const control = await startControl();
  const launch = () =>
    startProcess(
      {
        bundle: BUNDLES[bundle], state, log, wrapper,
        vars: { ...TEST_VARS, ...secretVars(secrets), ...(typeof vars === "function" ? vars(control) : vars) },
        checkpointUrl: control.checkpointUrl,
        outboundUrl: direct ? undefined : control.outboundUrl,
      },
      { output: log },
    );

  const twins = [];
  const hermod = {
    state, secrets, control,
    worker: await launch(),
    get url() {
      return this.worker.url;
    },
    logText: () => (existsSync(log) ? readFileSync(log, "utf8") : ""),
    query: (sql, ...binds) => hermod.worker.query(sql, binds),
    cron: (time) => hermod.worker.cron(time),
    operator: () => operatorToken(secrets),
    put: async (path, body) => provision(hermod.url, await operatorToken(secrets), path, body),
    token: (who) => mintFor(who, hermod.url, secrets),
    /** Kills everything at once, as a crash of the machine would, and starts it again on the same state. */
    async crash() {
      await hermod.worker.kill();
      hermod.worker = await launch();
    },
    /** Ends it in good order and starts it again on the same state, with the secrets as they are by then. */
    async restart() {
      await hermod.worker.stop();
      hermod.worker = await launch();
    },
    /** A second process on the same state, which knows nothing of the first. Gives its {url, kill}. */
    async twin() {
      const twin = await launch();
      twins.push(twin);
      return twin;
    },
    async stop() {
      await control.stop();
      for (const worker of [...twins, hermod.worker]) await worker.stop();
      const text = hermod.logText();
      rmSync(state, { recursive: true, force: true });
      return text;
    },
    request: (method, path, options) => request(hermod.url, method, path, options),
    chat: (token, body, options) => chat(hermod.url, token, body, options),
    newUser: (name) => newUser(hermod, name),
  };
  try {
    if (demo) for (const [path, body] of demoRequests(secrets)) await hermod.put(path, body);
  } catch (error) {
    error.message += `\n${await hermod.stop()}`;
    throw error;
  }
  return hermod;
}

/** Makes a user with a family of their own and gives {user_id, family_id, token}. */
export async function newUser(hermod, name = unique("u")) {
  const plain = name.replace(/[^0-9A-Za-z_-]/g, "");
  const [user_id, family_id, subject] = [`user_00${plain}`, `family_00${plain}`, `person-${plain}`];
  await hermod.put(`/internal/families/${family_id}`, { status: "active" });
  await hermod.put(`/internal/users/${user_id}`, { family_id, role: "guardian", status: "active" });
  await hermod.put(`/internal/users/${user_id}/identities/${UPSTREAM.idp}`, { subject });
  const identity = await upstreamToken(hermod.secrets.upstream, { ...UPSTREAM, subject });
  return { user_id, family_id, token: (await exchange(hermod.url, identity)).access_token };
}

/** One request; gives {status, headers, text, json}. `json` in the options sets body and content type. */
export async function request(url, method, path, { token, key, json, body, headers = {}, signal } = {}) {
  const sent = { ...headers };
  if (token) sent.authorization = `Bearer ${token}`;
  if (key) sent["idempotency-key"] = `"${key}"`;
  if (json !== undefined) sent["content-type"] ??= "application/json";
  const answer = await fetch(url + path, {
    method,
    headers: sent,
    body: json === undefined ? body : JSON.stringify(json),
    redirect: "manual",
    signal,
  });
  const text = await answer.text();
  const parsed = /json/.test(answer.headers.get("content-type") ?? "") && text ? JSON.parse(text) : undefined;
  return { status: answer.status, headers: answer.headers, text, json: parsed };
}

/** POST /chat; a string is taken as the message. A key is made when none is given; `key: null` sends none. */
export function chat(url, token, message, { key = unique("chat"), headers, signal } = {}) {
  const json = typeof message === "string" ? { message } : message;
  return request(url, "POST", "/chat", { token, key: key ?? undefined, json, headers, signal });
}

/** Asserts that an answer is a problem document of this code and status. */
export function assertProblem(answer, status, code) {
  assert.equal(answer.status, status, answer.text);
  assert.match(answer.headers.get("content-type") ?? "", /^application\/problem\+json/);
  assert.equal(answer.json.code, code);
  assert.equal(answer.json.status, status);
  assert.match(answer.json.request_id, /^req_00/);
  assert.equal(typeof answer.json.title, "string");
}

/** Asserts that nothing in the log looks like a crash of the program. */
export function assertNoPanic(text) {
  const lines = text.split("\n").filter((line) => /panicked at|unreachable executed|RuntimeError|hung and would never/.test(line));
  assert.deepEqual(lines, []);
}

/** Waits until `condition` gives something true; fails after `timeoutMs`. */
export async function eventually(condition, { timeoutMs = 15_000, everyMs = 50, what = "the condition" } = {}) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what} did not come true within ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
