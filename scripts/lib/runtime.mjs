// Runs the built bundle in workerd through Miniflare, with the bindings the Worker expects. Used by scripts/dev, the
// end-to-end tests and the bench, always by way of serve.mjs, which gives it a process group of its own.
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Log, LogLevel, Miniflare, convertV4MiniflareOptions } from "miniflare";
import { applyMigrations } from "./migrations.mjs";

export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
export const WORKER_NAME = "hermod";
const CRON = "* * * * *";
// The second exists in the test bundle only.
const OBJECTS = { USER_TURNS: "UserTurns", SPECIMENS: "Specimen" };

/** The compatibility settings of wrangler.toml, so that what is tested is what is deployed. */
function compatibility() {
  const text = readFileSync(join(ROOT, "wrangler.toml"), "utf8");
  const date = text.match(/^compatibility_date = "([^"]+)"/m)?.[1];
  const flags = text.match(/^compatibility_flags = \[([^\]]*)\]/m)?.[1] ?? "";
  return { date, flags: [...flags.matchAll(/"([^"]+)"/g)].map((match) => match[1]) };
}

function modules(bundle, wrapper) {
  const files = [
    { type: "ESModule", path: join(bundle, "index.js") },
    { type: "CompiledWasm", path: join(bundle, "index_bg.wasm") },
  ];
  if (!wrapper) return files;
  // The wrapper becomes the entry point and imports the bundle as ./index.js.
  return [{ type: "ESModule", path: join(bundle, "wrapper.mjs"), contents: readFileSync(wrapper, "utf8") }, ...files];
}

function workerOptions({ bundle, vars, checkpoint, outbound, wrapper }) {
  const report = JSON.parse(readFileSync(join(bundle, "bundle.json"), "utf8"));
  const { date, flags } = compatibility();
  const options = {
    name: WORKER_NAME,
    modules: modules(bundle, wrapper),
    modulesRoot: bundle,
    compatibilityDate: date,
    compatibilityFlags: flags,
    bindings: { BUNDLE_SHA256: report.sha256, ...vars },
    d1Databases: { DB: "hermod" },
    queueProducers: { JOBS: "hermod-jobs", SENDS: "hermod-sends" },
    versionMetadata: "VER",
  };
  options.durableObjects = {};
  for (const [binding, className] of Object.entries(OBJECTS)) {
    if (!report.exports.includes(`class ${className}`)) continue;
    options.durableObjects[binding] = { className, useSQLite: true };
  }
  if (report.exports.includes("handler queue")) {
    const consumer = (name, maxBatchTimeout) => ({ maxBatchSize: 10, maxBatchTimeout, maxRetries: 5, deadLetterQueue: `${name}-dlq` });
    const dead = { maxBatchSize: 100, maxBatchTimeout: 5 };
    options.queueConsumers = {
      "hermod-jobs": consumer("hermod-jobs", 1), "hermod-jobs-dlq": dead,
      "hermod-sends": consumer("hermod-sends", 0), "hermod-sends-dlq": dead,
    };
  }
  if (checkpoint) options.serviceBindings = { CHECKPOINT: checkpoint };
  if (outbound) options.outboundService = outbound;
  return options;
}

/**
 * Starts the bundle and applies the migrations.
 *
 * bundle: folder of the bundle; state: folder that keeps D1 and objects; port: 0 for any; vars: text bindings;
 * checkpoint, outbound: functions Request → Response; wrapper: entry module put around the bundle;
 * cron: run the sweep once a minute, as the platform would; onLog: receives every line the Worker logs.
 */
export async function startRuntime(options) {
  const { state, port = 0, cron = false, onLog = () => {} } = options;
  const bundle = resolve(options.bundle);
  if (!existsSync(join(bundle, "index.js"))) throw new Error(`${bundle} holds no bundle; run scripts/bundle first`);
  const persistence = join(resolve(state), "v3");
  mkdirSync(persistence, { recursive: true });

  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      ...workerOptions({ ...options, bundle }),
      host: "127.0.0.1",
      port,
      cf: false,
      logRequests: false,
      log: new Log(LogLevel.ERROR),
      telemetry: { enabled: false },
      resourcePersistencePath: persistence,
      handleStructuredLogs: ({ level, message }) => onLog({ level, message }),
    }),
  );
  const url = (await miniflare.ready).origin;
  const database = await miniflare.getD1Database("DB");
  const applied = await applyMigrations(database, join(ROOT, "migrations"));

  const runCron = async (time = Date.now()) =>
    (await miniflare.getWorker()).scheduled({ cron: CRON, scheduledTime: new Date(time) });
  const timer = cron
    ? setInterval(() => runCron().catch((error) => onLog({ level: "error", message: `cron: ${error}` })), 60_000)
    : undefined;

  return {
    url,
    applied,
    miniflare,
    database,
    runCron,
    async stop() {
      clearInterval(timer);
      await miniflare.dispose();
    },
  };
}
