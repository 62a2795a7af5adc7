// The outside world of a Worker under test: answers its outbound requests and holds it at checkpoints.
import { createServer } from "node:http";

async function readBody(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** A gate that can be opened from outside. */
export function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
}

/**
 * Starts the control server.
 *
 * `routes` maps an origin or a full URL to a function ({method, url, headers, body}) → {status, headers, body}; what is
 * not mapped gets 502 and is listed in `stray`. `hold(name)` makes the next arrival at that checkpoint wait; it gives
 * {arrived, release}. `panic(name)` makes the next arrival there panic, in the test bundle.
 */
export async function startControl() {
  const routes = new Map();
  const calls = [];
  const stray = [];
  const holds = new Map();
  const panics = new Set();
  const reached = [];

  async function outbound(request, reply) {
    // A Worker whose requests go out directly finds its model under /model.
    const url = request.headers["x-hermod-url"] ?? request.url.replace(/^\/model/, "https://model.example");
    const call = { method: request.method, url, headers: request.headers, body: await readBody(request) };
    calls.push(call);
    const handler = routes.get(url) ?? routes.get(new URL(url).origin);
    if (!handler) {
      stray.push(url);
      return reply.writeHead(502).end("no such host in this test");
    }
    const { status = 200, headers = {}, body = "" } = await handler(call);
    reply.writeHead(status, headers);
    if (body?.[Symbol.asyncIterator]) {
      for await (const chunk of body) reply.write(chunk);
      return reply.end();
    }
    return reply.end(typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body));
  }

  async function checkpoint(request, reply) {
    const name = new URL(request.headers["x-hermod-url"]).pathname.slice(1);
    reached.push(name);
    const hold = holds.get(name);
    if (hold) {
      holds.delete(name);
      hold.arrived.open();
      await hold.released.opened;
    }
    reply.end(panics.delete(name) ? "panic" : "go on");
  }

  const server = createServer((request, reply) => {
    const handle = request.url.startsWith("/checkpoint") ? checkpoint : outbound;
    handle(request, reply).catch((error) => {
      if (!reply.headersSent) reply.writeHead(500);
      reply.end(String(error));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${server.address().port}`;

  return {
    checkpointUrl: `${base}/checkpoint`,
    outboundUrl: `${base}/outbound`,
    /** MODEL_BASE_URL of a Worker whose requests go out directly. */
    modelUrl: `${base}/model/v1`,
    calls,
    stray,
    reached,
    route: (target, handler) => routes.set(target, handler),
    hold(name) {
      const hold = { arrived: gate(), released: gate() };
      holds.set(name, hold);
      return { arrived: hold.arrived.opened, release: hold.released.open };
    },
    panic: (name) => panics.add(name),
    async stop() {
      for (const hold of holds.values()) hold.released.open();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
