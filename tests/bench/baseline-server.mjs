// node baseline-server.mjs '{"worker","state","recipe","queues"}': a baseline Worker (a file of this folder) in Miniflare, on the
// database Hermod left behind. queues: its consumers, by the names of their bindings. Answers {id, call, argument} with
// {id, result} or {id, error}.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Log, LogLevel, Miniflare, convertV4MiniflareOptions } from "miniflare";
import { ROOT } from "../../scripts/lib/runtime.mjs";

const { worker, state, recipe, queues = {} } = JSON.parse(process.argv[2]);
const folder = join(ROOT, "tests/bench");
const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    name: "baseline",
    modules: [
      { type: "ESModule", path: join(folder, "baseline-entry.mjs"), contents: readFileSync(join(folder, worker), "utf8").replace('import recipe from "./recipe.json";', 'import text from "./recipe.txt";\nconst recipe = JSON.parse(text);') },
      { type: "Text", path: join(folder, "recipe.txt"), contents: readFileSync(recipe, "utf8") },
    ],
    modulesRoot: folder,
    compatibilityDate: "2026-11-01",
    d1Databases: { DB: "hermod" },
    queueProducers: Object.fromEntries(Object.keys(queues).map((name) => [name, name])),
    queueConsumers: queues,
    host: "127.0.0.1",
    port: 0,
    cf: false,
    logRequests: false,
    log: new Log(LogLevel.ERROR),
    telemetry: { enabled: false },
    resourcePersistencePath: join(state, "v3"),
    handleStructuredLogs: ({ level, message }) => console.log(level, message),
  }),
);
const stop = async () => {
  setTimeout(() => process.exit(0), 3000).unref();
  await miniflare.dispose();
  process.exit(0);
};
process.on("SIGTERM", stop);
process.on("disconnect", stop);
const calls = {
  send: async ({ name, bodies }) =>
    void (await (await miniflare.getQueueProducer(name)).sendBatch(bodies.map((body) => ({ body, contentType: "json" })))),
  query: async ({ sql }) => (await (await miniflare.getD1Database("DB")).prepare(sql).all()).results,
};
process.on("message", async ({ id, call, argument }) => {
  try {
    process.send({ id, result: await calls[call](argument) });
  } catch (error) {
    process.send({ id, error: String(error?.message ?? error) });
  }
});
process.send({ ready: true, url: (await miniflare.ready).origin });
