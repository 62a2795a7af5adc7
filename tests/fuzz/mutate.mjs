// Requests as bytes, and what random damage does to them. Everything follows from a seed.

/** A small seeded generator (mulberry32): the same seed, the same requests. */
export function generator(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  return { below: (limit) => next() % limit, pick: (list) => list[next() % list.length], chance: (percent) => next() % 100 < percent };
}

const ODD_TEXTS = [
  "", "null", "true", "0", "-1", "1e999", "9007199254740993", "\"", "\\u0000", "\\ud800", "[]", "{}", "[[[[[[[[", "{\"a\":".repeat(200),
  "é", "\u{1F600}", "\u0000", "../../x", "' OR 1=1 --", "%00", "%2e%2e%2f", "turn_00", "user_00demo", "conv_00x", "x".repeat(300), "\r\n",
];

/** Replaces one value somewhere in a JSON document by an odd one, drops it, or doubles its key. */
export function mutateJson(random, value) {
  if (value === null || typeof value !== "object" || random.chance(15)) {
    return random.pick([null, true, 0, -1, 1.5, 2 ** 53, "", "x", [], {}, "\u0000", "\ud800", "x".repeat(random.pick([10, 16_001, 70_000])), [[[]]], ...ODD_TEXTS]);
  }
  const copy = Array.isArray(value) ? [...value] : { ...value };
  const keys = Object.keys(copy);
  if (keys.length === 0 || random.chance(15)) {
    if (Array.isArray(copy)) copy.push(random.pick(ODD_TEXTS));
    else copy[random.pick(["extra", "user_id", "__proto__x", "", "message", "status"])] = random.pick(ODD_TEXTS);
    return copy;
  }
  const key = random.pick(keys);
  if (random.chance(20)) delete copy[key];
  else copy[key] = mutateJson(random, copy[key]);
  return copy;
}

/** Flips, inserts, deletes, doubles or swaps a few bytes. */
export function mutateBytes(random, bytes) {
  let out = Buffer.from(bytes);
  for (let times = 1 + random.below(4); times > 0; times -= 1) {
    const at = random.below(Math.max(1, out.length));
    const piece = Buffer.from(random.pick(ODD_TEXTS));
    switch (random.below(5)) {
      case 0: if (out.length) out[at] ^= 1 << random.below(8); break;
      case 1: out = Buffer.concat([out.subarray(0, at), piece, out.subarray(at)]); break;
      case 2: out = Buffer.concat([out.subarray(0, at), out.subarray(at + 1 + random.below(8))]); break;
      case 3: out = Buffer.concat([out.subarray(0, at), out.subarray(at, at + 64), out.subarray(at)]); break;
      default: if (out.length) out[at] = random.below(256);
    }
  }
  return out;
}

/** The bytes of a request. Its length header always fits, so that the damage reaches the program. */
export function bytesOf({ method, path, headers, body }) {
  const payload = body === undefined ? Buffer.alloc(0) : Buffer.from(body);
  const lines = [`${method} ${path} HTTP/1.1`, "host: localhost", "connection: close"];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (body !== undefined) lines.push(`content-length: ${payload.length}`);
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), payload]);
}

const DAMAGED_HEADERS = ["accept", "content-type", "idempotency-key", "traceparent", "x-request-id", "origin", "authorization", "cf-connecting-ip", "accept-encoding"];

/**
 * One damaged request out of a good one. Most of the damage goes where the program itself has to look. A request whose
 * length no longer fits may wait for bytes that never come.
 */
export function damage(random, good) {
  const request = { ...good, headers: { ...good.headers } };
  const kind = random.below(100);
  if (request.body !== undefined && kind < 45) {
    request.body = JSON.stringify(mutateJson(random, JSON.parse(request.body)));
  } else if (request.body !== undefined && kind < 65) {
    request.body = mutateBytes(random, Buffer.from(request.body));
  } else if (kind < 80) {
    request.path = encodeURI(mutateBytes(random, Buffer.from(request.path)).toString("latin1")).replace(/^[^/]*/, "/");
  } else if (kind < 95) {
    const name = random.pick(DAMAGED_HEADERS);
    const value = random.chance(50) ? random.pick(ODD_TEXTS) : mutateBytes(random, Buffer.from(request.headers[name] ?? "x")).toString("latin1");
    request.headers[name] = value.replace(/[\r\n\0]/g, "");
  } else {
    // The request line and the host stay: what is wrong there the runtime answers itself, before the program.
    const bytes = bytesOf(request);
    const head = bytes.indexOf("localhost\r\n") + "localhost\r\n".length;
    return { bytes: Buffer.concat([bytes.subarray(0, head), mutateBytes(random, bytes.subarray(head))]), mayStayUnanswered: true };
  }
  return { bytes: bytesOf(request), mayStayUnanswered: false };
}
