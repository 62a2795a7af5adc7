// What people say, who they are and what lets them in stands nowhere but where it must: not in the database's files in
// the clear, not in the log, not in an error. And the master secret can be changed under a running service.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { GATEWAY_ID, UPSTREAM, USERS } from "../../scripts/lib/demo.mjs";
import { assertNoPanic, assertProblem, eventually, startHermod, unique } from "./harness/hermod.mjs";
import { MODEL_VARS, serveModel } from "./harness/model.mjs";

// Words that occur nowhere by accident.
const canary = (kind) => `canary-${kind}-${randomBytes(9).toString("hex")}`;
const said = canary("said");
const subject = canary("subject");
const sender = canary("sender");
const misplaced = canary("misplaced");
const idempotencyKey = canary("key");

let hermod;
let token;
let turnId;
before(async () => {
  hermod = await startHermod({ vars: MODEL_VARS });
  serveModel(hermod.control);
  await hermod.put(`/internal/users/${USERS.user.user_id}/identities/${UPSTREAM.idp}`, { subject });
  await hermod.put("/internal/addresses/address_00canary", {
    gateway_id: GATEWAY_ID, channel: "telegram", user_id: USERS.other_user.user_id, external_id: sender, status: "active",
  });
  token = await hermod.token("other_user");
});
after(async () => assertNoPanic(await hermod.stop()));

/** Every file below a folder. */
function filesBelow(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesBelow(path) : [path];
  });
}

/** Which of the texts stand in the files of the database and the objects. */
function stored(texts) {
  const files = filesBelow(join(hermod.state, "v3")).map((path) => readFileSync(path));
  assert.ok(files.length > 0);
  return texts.filter((text) => files.some((bytes) => bytes.includes(text)));
}

test("words, names and credentials are used everywhere they are needed", async () => {
  const answer = await hermod.chat(token, said, { key: idempotencyKey });
  assert.equal(answer.status, 200, answer.text);
  turnId = answer.json.turn_id;
  assert.ok(answer.json.reply.includes(said), "the model was given the message");
  const again = await hermod.request("GET", `/turns/${turnId}`, { token });
  assert.ok(again.json.reply.includes(said), "the answer can be read back");
  const gateway = await hermod.token("gateway");
  const relayed = await hermod.chat(gateway, { message: said, user_id: sender });
  assert.equal(relayed.status, 200, relayed.text);
});

test("errors repeat nothing of what was sent", async () => {
  const answers = [
    await hermod.chat(token, { message: said, [misplaced]: 1 }),
    await hermod.chat(token, { message: said, user_id: misplaced }),
    await hermod.chat(token, { message: said, timezone: misplaced }),
    await hermod.chat(token, { message: said, conversation_id: misplaced }),
    await hermod.chat(misplaced, said),
    await hermod.request("GET", `/turns/${misplaced}`, { token }),
    await hermod.request("GET", `/token?user_id=${misplaced}`),
  ];
  for (const answer of answers) {
    assert.ok(answer.status >= 400 && answer.status < 500, answer.text);
    for (const text of [said, misplaced]) assert.ok(!answer.text.includes(text), answer.text);
  }
  assertProblem(answers[4], 401, "unauthenticated");
});

test("nothing of it stands in the files in the clear", async () => {
  assert.deepEqual(stored([said, subject, sender, misplaced, idempotencyKey, token, MODEL_VARS.MODEL_API_KEY]), []);
  const secrets = hermod.secrets;
  assert.deepEqual(stored([secrets.webhook_secret, ...Object.values(secrets.master_secrets.versions)]), []);
  // So that an empty list means something: the names the service gives are there.
  assert.deepEqual(stored([turnId, USERS.other_user.user_id]), [turnId, USERS.other_user.user_id]);
});

test("nothing of it stands in the log, nor who it was", async () => {
  const log = await eventually(() => /"route":"POST \/chat"/.test(hermod.logText()) && hermod.logText(), { what: "a log line" });
  const names = Object.values(USERS).flatMap((user) => [user.user_id, user.family_id, user.external_id, user.subject]);
  for (const text of [said, subject, sender, misplaced, idempotencyKey, token, turnId, MODEL_VARS.MODEL_API_KEY, ...names]) {
    assert.ok(!log.includes(text), `the log holds ${text}`);
  }
});

test("a new master secret wraps every key anew, and everything stays readable", async () => {
  const versions = () => hermod.query("SELECT DISTINCT master_version AS version FROM data_keys WHERE destroyed_at IS NULL");
  assert.deepEqual(await versions(), [{ version: 1 }]);
  const master = hermod.secrets.master_secrets;
  master.versions[2] = randomBytes(32).toString("base64");
  master.current = 2;
  await hermod.crash();
  await hermod.cron(Date.now());
  await eventually(async () => (await versions()).every(({ version }) => version === 2), { what: "the rotation" });

  const read = await hermod.request("GET", `/turns/${turnId}`, { token });
  assert.ok(read.json.reply.includes(said), read.text);
  const person = await hermod.newUser(unique("rotated"));
  assert.equal((await hermod.chat(person.token, "after the rotation")).status, 200);
  assert.deepEqual(await versions(), [{ version: 2 }]);
  assert.deepEqual(stored(Object.values(master.versions)), []);
});

test("a destroyed key takes the words with it, and nothing is written under it again", async () => {
  const { user_id } = USERS.other_user;
  const [written] = await hermod.query("SELECT count(*) AS messages FROM messages WHERE user_id = ?1", user_id);
  await hermod.query("UPDATE data_keys SET wrapped = NULL, destroyed_at = 1 WHERE subject_id = ?1", user_id);
  const read = await hermod.request("GET", `/turns/${turnId}`, { token });
  assert.ok(!read.text.includes(said), read.text);
  // The object of this user still holds the key in memory.
  const answer = await hermod.chat(token, "is anyone there?");
  assert.ok(answer.status >= 400, answer.text);
  assert.deepEqual(await hermod.query("SELECT count(*) AS messages FROM messages WHERE user_id = ?1", user_id), [written]);
});
