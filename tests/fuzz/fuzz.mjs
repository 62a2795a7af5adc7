// Random and damaged requests against the bundle. Fails when one of them gets a 5xx other than 503, when the log shows
// a panic, when the service no longer answers, or when too few requests got past authentication and limits for the run
// to mean anything. Prints how often each route answered with each status.
import { spawn } from "node:child_process";
import { connect } from "node:net";
import { parseArgs } from "node:util";
import { ROOT } from "../../scripts/lib/runtime.mjs";
import { message, privateChat, text as words } from "../telegram/updates.mjs";
import { startHermod, unique } from "../workerd/harness/hermod.mjs";
import { damage, generator } from "./mutate.mjs";

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "30000" },
    seed: { type: "string", default: "1" },
    schemathesis: { type: "string" },
  },
});
const total = Number(values.requests);
const seed = Number(values.seed);
const CONNECTIONS = 16;
// What a request counts as that got no answer.
const SILENCE = 999;
const TOKEN_LIFE_MS = 8 * 60_000;

const hermod = await startHermod({ vars: { MODEL_DEADLINE_MS: "5000" } });
let tokens;
let mintedAt = 0;
let updates = 0;
async function freshTokens() {
  if (Date.now() - mintedAt > TOKEN_LIFE_MS) {
    mintedAt = Date.now();
    tokens = { user: await hermod.token("user"), operator: await hermod.operator(), identity: await hermod.token("upstream:user"), gateway: await hermod.token("gateway") };
  }
  return tokens;
}

/** Good requests of every route; each is answered 2xx or 4xx as it stands. */
async function goodRequests(turnId) {
  const { user, operator, identity, gateway } = await freshTokens();
  const json = (method, path, token, body) => ({
    method, path, body: JSON.stringify(body),
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json", "idempotency-key": `"${unique("fuzz")}"` },
  });
  const get = (path, token) => ({ method: "GET", path, headers: token ? { authorization: `Bearer ${token}` } : {} });
  return [
    json("POST", "/chat", user, { message: "hello", locale: "en-GB", timezone: "Europe/Berlin" }),
    json("POST", "/chat", user, { message: "hello again" }),
    json("POST", "/chat", gateway, { message: "hello", user_id: "demo-sender" }),
    get(`/turns/${turnId}`, user),
    json("POST", `/turns/${turnId}/ack`, user, { ack_type: "rendered", client_timestamp: "2026-01-02T03:04:05Z" }),
    json("POST", "/auth/token", identity, {}),
    json("PUT", "/internal/families/family_00fuzz", operator, { status: "active" }),
    json("PUT", "/internal/users/user_00fuzz", operator, { family_id: "family_00demo", role: "guardian", status: "active" }),
    json("PUT", "/internal/users/user_00fuzz/identities/demo", operator, { subject: "fuzz-person" }),
    json("PUT", "/internal/gateways/gateway_00fuzz", operator, {
      scopes: ["chat"], channels: ["telegram"], families: [], production: false, assertion_jwk: hermod.secrets.gateway.public_jwk, status: "active",
    }),
    json("PUT", "/internal/upstreams/fuzz", operator, {
      issuer: "https://fuzz.example", audience: "fuzz", algorithms: ["ES256"], jwks: { keys: [hermod.secrets.upstream.public_jwk] }, status: "active",
    }),
    json("PUT", "/internal/addresses/address_00fuzz", operator, {
      gateway_id: "gateway_00demo", channel: "telegram", user_id: "user_00demo", external_id: "fuzz-sender", status: "active",
    }),
    json("PUT", "/internal/switches/channel/telegram", operator, { enabled: true }),
    json("POST", "/channels/telegram/link", user, {}),
    {
      ...json("POST", "/telegram/gateway_00demo", user, { update_id: (updates += 1), message: message(privateChat(50001), words("hello")) }),
      headers: { "content-type": "application/json", "x-telegram-bot-api-secret-token": hermod.secrets.webhook_secret },
    },
    json("POST", "/internal/revocations", operator, { scope: "user", user_id: "user_00fuzz" }),
    get("/health/ready"), get("/health/version"), get("/token"), get("/.well-known/jwks.json"), get("/openapi.json"),
  ];
}

/** Sends bytes and gives the status, or 0 when the runtime closed the connection without one. */
function send(bytes) {
  const { hostname, port } = new URL(hermod.url);
  return new Promise((resolve) => {
    let text = "";
    const socket = connect({ host: hostname, port: Number(port) });
    const finish = () => {
      socket.destroy();
      resolve(Number(text.match(/^HTTP\/1\.1 (\d{3})/)?.[1] ?? 0));
    };
    socket.setTimeout(10_000, () => { text ||= `HTTP/1.1 ${SILENCE} silence`; finish(); });
    socket.on("data", (chunk) => (text.length < 64 ? (text += chunk.toString("latin1").slice(0, 64)) : undefined));
    socket.on("close", finish);
    socket.on("error", finish);
    socket.write(bytes);
  });
}

async function mutated(count) {
  const random = generator(seed);
  const turnId = (await hermod.chat((await freshTokens()).user, "to be fuzzed")).json.turn_id;
  const bad = [];
  let left = count;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const { bytes, mayStayUnanswered } = damage(random, random.pick(await goodRequests(turnId)));
      const status = await send(bytes);
      if (status === SILENCE && mayStayUnanswered) continue;
      if (status >= 500 && status !== 503) bad.push({ status, request: bytes.toString("latin1").replace(/Bearer [^\r]*/, "Bearer …").slice(0, 600) });
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  return bad;
}

/** Runs a program and gives what it printed. This process must go on meanwhile: it answers the Worker's requests. */
function output(program, args, cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (text += chunk));
    child.once("error", reject);
    child.once("close", () => resolve(text));
  });
}

/**
 * The description's own fuzzer, once as a user and once as an operator. Its verdict is not asked for: it counts an
 * intended 503 as a failure, and the log below decides.
 */
async function described(count) {
  const each = Math.max(10, Math.ceil(count / 32));
  // Revocations are left to the damaged requests: following their description ends the tokens of the whole run.
  for (const [who, filter] of [["user", ["--exclude-path-regex", "^/internal/"]], ["operator", ["--include-path-regex", "^/internal/(?!revocations)"]]]) {
    mintedAt = 0;
    const token = (await freshTokens())[who];
    const text = await output(values.schemathesis, [
      "run", `${hermod.url}/openapi.json`, "--checks", "not_a_server_error", "--phases", "coverage,fuzzing", "--mode", "all",
      "--max-examples", String(each), "--workers", "4", "--seed", String(seed), "--continue-on-failure", "--no-color",
      "--suppress-health-check", "all", "--warnings", "off", "-H", `Authorization: Bearer ${token}`, ...filter,
    ], hermod.state);
    const summary = text.split("\n").filter((line) => /generated|Server error|No such option|Usage/.test(line));
    console.log(summary.slice(0, 12).map((line) => `    as ${who}: ${line.trim()}`).join("\n"));
  }
}

const lines = () => hermod.logText().split("\n").flatMap((line) => {
  const at = line.indexOf('{"event":"request"');
  return at < 0 ? [] : [JSON.parse(line.slice(at))];
});

console.log(`seed ${seed}`);
const start = lines().length;
if (values.schemathesis) {
  console.log("from the API description (schemathesis):");
  await described(Math.ceil(total / 3));
}
const fromDescription = lines().length - start;
console.log(`    ${fromDescription} requests reached the Worker`);
const rest = Math.max(Math.ceil(total / 2), total - fromDescription);
console.log(`damaged bytes: ${rest} requests`);
const bad = await mutated(rest);

const alive = await hermod.request("GET", "/health/ready");
const seen = lines().slice(start);
const histogram = new Map();
for (const { route, status, code } of seen) {
  const row = histogram.get(route) ?? new Map();
  const name = status >= 500 ? `${status} ${code}` : String(status);
  histogram.set(route, row.set(name, (row.get(name) ?? 0) + 1));
}
console.log("\nstatuses by route:");
for (const route of [...histogram.keys()].sort()) {
  const row = [...histogram.get(route)].sort(([one], [other]) => one.localeCompare(other));
  console.log(`  ${route.padEnd(46)} ${row.map(([status, count]) => `${status}: ${count}`).join("  ")}`);
}
const past = seen.filter(({ status, route }) => ![401, 429].includes(status) && route !== "not_found").length;
const share = past / (fromDescription + rest);
const text = await hermod.stop();
const panics = text.split("\n").filter((line) => /panicked at|RuntimeError|unreachable executed/.test(line));
const errors = seen.filter(({ status }) => status >= 500 && status !== 503);

console.log(`\n${fromDescription + rest} requests, ${past} past authentication and limits on a known route (${(share * 100).toFixed(0)} %)`);
console.log(`${errors.length + bad.length} answers of 5xx other than 503, ${panics.length} panic lines`);
for (const one of bad.slice(0, 5)) console.log(JSON.stringify(one));
for (const line of panics.slice(0, 5)) console.log(line);
const failures = [
  [errors.length + bad.length > 0, "a request was answered with 5xx"],
  [panics.length > 0, "the log shows a panic"],
  [alive.status !== 200, `the service is not ready afterwards (${alive.status})`],
  [share < 0.5, "fewer than half of the requests got past authentication and limits"],
  [values.schemathesis && fromDescription < total / 10, "schemathesis made too few requests"],
].filter(([failed]) => failed);
for (const [, why] of failures) console.error(`error: ${why}`);
process.exit(failures.length > 0 ? 1 : 0);
