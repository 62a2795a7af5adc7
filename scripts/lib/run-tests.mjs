// node run-tests.mjs FILE... : runs the end-to-end suites two at a time and prints one line per test. The last line is
// JSON for scripts/test: {"passed", "failed", "empty": [files that ran no test]}.
import { run } from "node:test";
import { relative } from "node:path";

const files = process.argv.slice(2);
const concurrency = Number(process.env.HERMOD_TEST_CONCURRENCY ?? 2);
const counts = new Map(files.map((file) => [file, 0]));
let passed = 0;
let failed = 0;

function describe(error) {
  const cause = error?.cause ?? error;
  return String(cause?.stack ?? cause).split("\n").slice(0, 12).join("\n    ");
}

const stream = run({ files, concurrency, timeout: 900_000 });
stream.on("test:pass", (event) => record(event, true));
stream.on("test:fail", (event) => record(event, false));
stream.on("test:stderr", (event) => process.stdout.write(event.message));
stream.on("test:stdout", (event) => process.stdout.write(event.message));

function record(event, ok) {
  if (event.skip !== undefined || event.todo !== undefined) return;
  const file = relative(process.cwd(), event.file ?? "");
  // A file itself is reported as a test at the top; it counts only when it broke outside any test.
  const isFile = event.name === event.file || event.name === file;
  if (isFile && ok) return;
  if (event.details?.type === "suite" && ok) return;
  if (!isFile) counts.set(file, (counts.get(file) ?? 0) + 1);
  if (ok) passed += 1;
  else failed += 1;
  const took = `${Math.round(event.details?.duration_ms ?? 0)} ms`;
  console.log(`${ok ? "ok  " : "FAIL"} ${file.split("/").pop()}: ${event.name} (${took})`);
  if (!ok) console.log(`    ${describe(event.details?.error)}`);
}

stream.on("end", () => {
  const empty = files.filter((file) => counts.get(file) === 0);
  console.log(JSON.stringify({ passed, failed, empty }));
  process.exit(failed > 0 || empty.length > 0 ? 1 : 0);
});
stream.resume();
