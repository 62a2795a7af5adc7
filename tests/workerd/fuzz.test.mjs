// A short run of the fuzzer in every test run; scripts/fuzz does the long one.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT } from "../../scripts/lib/runtime.mjs";

test("six hundred damaged requests: no 5xx but 503, no panic", async () => {
  const child = spawn(process.execPath, [join(ROOT, "tests/fuzz/fuzz.mjs"), "--requests", "600", "--seed", "11"], { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (text += chunk));
  const code = await new Promise((resolve) => child.once("close", resolve));
  assert.equal(code, 0, text);
});
