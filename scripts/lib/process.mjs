// Starts serve.mjs as the leader of its own process group and talks to it.
import { spawn } from "node:child_process";
import { appendFileSync, openSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const SERVE = join(dirname(fileURLToPath(import.meta.url)), "serve.mjs");

/**
 * Starts a Worker in its own process group and waits until it answers.
 * options: those of serve.mjs; output: where its own output goes (a file, or inherited without one).
 */
export async function startProcess(options, { output, timeoutMs = 60_000 } = {}) {
  const sink = output ? openSync(output, "a", 0o600) : "inherit";
  const child = spawn(process.execPath, [SERVE, JSON.stringify(options)], {
    detached: true,
    stdio: ["ignore", sink, sink, "ipc"],
    env: { ...process.env, WRANGLER_SEND_METRICS: "false", DO_NOT_TRACK: "1", CLOUDFLARE_CF_FETCH_ENABLED: "false" },
  });
  // Whoever runs many of these can ask for a list, to be sure that none outlives it.
  if (process.env.HERMOD_PROCESS_LIST) appendFileSync(process.env.HERMOD_PROCESS_LIST, `${child.pid}\n`);
  const waiting = new Map();
  const exited = new Promise((resolve) => child.once("exit", resolve));
  let next = 1;

  const ready = new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`not ready within ${timeoutMs} ms`)), timeoutMs);
    child.on("message", (message) => {
      if (message.ready || message.failed) clearTimeout(timer);
      if (message.ready) resolve(message);
      else if (message.failed) reject(new Error(message.failed));
      else if (waiting.has(message.id)) {
        const { resolve: answer, reject: refuse } = waiting.get(message.id);
        waiting.delete(message.id);
        if (message.error === undefined) answer(message.result);
        else refuse(new Error(message.error));
      }
    });
    child.once("exit", (code, signal) => {
      clearTimeout(timer);
      const gone = new Error(`the Worker's process ended (${signal ?? code})`);
      reject(gone);
      for (const { reject: refuse } of waiting.values()) refuse(gone);
      waiting.clear();
    });
  });

  const call = (name, argument) =>
    new Promise((resolve, reject) => {
      const id = next++;
      waiting.set(id, { resolve, reject });
      child.send({ id, call: name, argument }, (error) => error && reject(error));
    });
  const killGroup = (signal) => {
    try {
      process.kill(-child.pid, signal);
    } catch {
      // The group is gone already.
    }
  };

  let started;
  try {
    started = await ready;
  } catch (error) {
    killGroup("SIGKILL");
    throw error;
  }
  return {
    pid: child.pid,
    url: started.url,
    applied: started.applied,
    front: started.front,
    exited,
    query: (sql, binds) => call("query", { sql, binds }),
    cron: (time) => call("cron", { time }),
    /** Puts messages on the queue of this binding, as the Worker itself would. */
    send: (binding, bodies) => call("send", { binding, bodies }),
    /** Has a batch of this queue, [{id, body}…], consumed; gives what became of each message. */
    queue: (name, messages) => call("queue", { name, messages }),
    /** Ends it in good order, and by force after five seconds. */
    async stop() {
      if (child.connected) child.send({ call: "stop" });
      const timer = setTimeout(() => killGroup("SIGKILL"), 5000);
      await exited;
      clearTimeout(timer);
      killGroup("SIGKILL");
    },
    /** What a crash of the machine does: nobody in the group gets to say anything. */
    async kill() {
      killGroup("SIGKILL");
      await exited;
    },
    /** Lets it run on after this process has ended. */
    release() {
      child.send({ call: "release" }, () => {
        child.disconnect();
        child.unref();
      });
    },
  };
}
