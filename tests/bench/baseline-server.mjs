// node baseline-server.mjs '{"state","recipe"}': the baseline Worker in Miniflare, on the database Hermod left behind.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Log, LogLevel, Miniflare, convertV4MiniflareOptions } from "miniflare";
import { ROOT } from "../../scripts/lib/runtime.mjs";

const { state, recipe } = JSON.parse(process.argv[2]);
const folder = join(ROOT, "tests/bench");
const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    name: "baseline",
    modules: [
      { type: "ESModule", path: join(folder, "baseline-entry.mjs"), contents: readFileSync(join(folder, "baseline.mjs"), "utf8").replace('import recipe from "./recipe.json";', 'import text from "./recipe.txt";\nconst recipe = JSON.parse(text);') },
      { type: "Text", path: join(folder, "recipe.txt"), contents: readFileSync(recipe, "utf8") },
    ],
    modulesRoot: folder,
    compatibilityDate: "2026-11-01",
    d1Databases: { DB: "hermod" },
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
process.send({ ready: true, url: (await miniflare.ready).origin });
