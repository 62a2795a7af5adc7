// Usage: node bundle-report.mjs FOLDER EXPORTS_FILE BUDGET_BYTES PROFILE [FEATURES]
// Prints the size of a bundle, checks it and the exports, and writes FOLDER/bundle.json.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const [folder, exportsFile, budget, profile, features = ""] = process.argv.slice(2);
const script = readFileSync(join(folder, "index.js"));
const wasm = readFileSync(join(folder, "index_bg.wasm"));

const exportsFound = () => {
  const text = script.toString("utf8");
  const handlers = [...text.matchAll(/\.prototype\.(fetch|queue|scheduled|email|connect)=function\b/g)].map(
    (match) => `handler ${match[1]}`,
  );
  const list = text.match(/export\{([^}]*)\}/)?.[1] ?? "";
  const classes = list
    .split(",")
    .map((item) => item.trim().split(" as ").pop())
    .filter((name) => name && name !== "default")
    .map((name) => `class ${name}`);
  return [...new Set([...handlers, ...classes])].sort();
};

const raw = script.length + wasm.length;
const gzipped = gzipSync(script, { level: 9 }).length + gzipSync(wasm, { level: 9 }).length;
const sha256 = createHash("sha256").update(script).update(wasm).digest("hex");
const report = {
  profile,
  sha256,
  commit: readFileSync(join(folder, "commit"), "utf8").trim(),
  raw_bytes: raw,
  gzipped_bytes: gzipped,
  exports: exportsFound(),
};
writeFileSync(join(folder, "bundle.json"), `${JSON.stringify(report, null, 2)}\n`);
console.log(`${folder}: ${raw.toLocaleString("en")} bytes, ${gzipped.toLocaleString("en")} gzipped (${profile}), sha256 ${sha256.slice(0, 12)}`);

// A line that begins with a feature's name holds only for bundles with that feature.
const expected = readFileSync(exportsFile, "utf8")
  .split("\n")
  .filter((line) => line && !line.startsWith("#"))
  .filter((line) => !line.startsWith("probes ") || features === "probes")
  .map((line) => line.replace(/^probes /, ""))
  .sort();
const missing = expected.filter((name) => !report.exports.includes(name));
const extra = report.exports.filter((name) => !expected.includes(name));
let failed = false;
if (missing.length > 0 || extra.length > 0) {
  console.error(`error: the exports differ from ${exportsFile}`);
  for (const name of missing) console.error(`       missing: ${name}`);
  for (const name of extra) console.error(`       not listed: ${name}`);
  console.error("       A missing Durable Object class usually means that the root crate no longer names its crate.");
  failed = true;
}
if (profile === "release" && gzipped > Number(budget)) {
  console.error(`error: ${gzipped} bytes gzipped, over the budget of ${budget}`);
  failed = true;
}
process.exit(failed ? 1 : 0);
