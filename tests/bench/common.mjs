// What the benches share: a folder in memory, a Hermod and a baseline Worker that keep their state there.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { provision } from "../../scripts/lib/demo.mjs";
import { startProcess } from "../../scripts/lib/process.mjs";
import { ROOT } from "../../scripts/lib/runtime.mjs";
import { loadSecrets, secretVars } from "../../scripts/lib/secrets.mjs";
import { operatorToken } from "../../scripts/lib/tokens.mjs";

const VARS = { ENVIRONMENT: "dev", RATE_USER_PER_MIN: "100000000", RATE_GATEWAY_PER_MIN: "100000000", RATE_ADDRESS_PER_MIN: "100000000" };

/** Every D1 batch that the recorder wrote into `log`, in order: {by, kind, statements: [{sql, binds}], rows_written}. */
export const notes = (log) =>
  (existsSync(log) ? readFileSync(log, "utf8") : "").split("\n").flatMap((line) => (line.includes('{"d1"') ? [JSON.parse(line.slice(line.indexOf("{"))).d1] : []));

/** A bench's folder, and how to start things in it. */
export function newBench() {
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "hermod-bench-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const hermodLog = join(folder, "hermod.log");

  return {
    folder,
    async startHermod(state, { vars = {}, ...options } = {}) {
      const secrets = loadSecrets(state);
      const worker = await startProcess(
        { bundle: join(ROOT, "build"), state, log: hermodLog, ...options, vars: { ...VARS, ...secretVars(secrets), ...vars } },
        { output: hermodLog },
      );
      return { worker, url: worker.url, secrets, put: async (path, body) => provision(worker.url, await operatorToken(secrets), path, body) };
    },
    /** worker: a file of this folder; recipe: what it is given; queues: its consumers. Gives {url, send, query, stop}. */
    async startBaseline({ worker, state, recipe, queues }) {
      const file = join(folder, "recipe.json");
      writeFileSync(file, JSON.stringify(recipe));
      const child = spawn(process.execPath, [join(ROOT, "tests/bench/baseline-server.mjs"), JSON.stringify({ worker, state, recipe: file, queues })], {
        detached: true, stdio: ["ignore", "inherit", "inherit", "ipc"],
      });
      const url = await new Promise((resolve, reject) => {
        child.once("message", (message) => resolve(message.url));
        child.once("exit", (code) => reject(new Error(`the baseline ended with ${code}`)));
      });
      const waiting = new Map();
      child.on("message", ({ id, result, error }) => {
        const { resolve, reject } = waiting.get(id);
        waiting.delete(id);
        if (error === undefined) resolve(result);
        else reject(new Error(error));
      });
      let next = 0;
      const call = (name, argument) =>
        new Promise((resolve, reject) => {
          waiting.set((next += 1), { resolve, reject });
          child.send({ id: next, call: name, argument });
        });
      return {
        url,
        send: (name, bodies) => call("send", { name, bodies }),
        query: (sql) => call("query", { sql }),
        stop: () => new Promise((resolve) => (child.once("exit", resolve), child.kill("SIGTERM"))),
      };
    },
    /** Says what went wrong, with the end of Hermod's log. */
    fail(error) {
      console.error(error);
      if (existsSync(hermodLog)) console.error(readFileSync(hermodLog, "utf8").split("\n").slice(-8).join("\n"));
      process.exitCode = 1;
    },
  };
}
