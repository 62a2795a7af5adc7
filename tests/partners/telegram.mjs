// Two Bot API libraries that nobody here wrote, as judges of what the front says.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Api, Context } from "grammy";

export const PYTHON_TELEGRAM_BOT_VERSION = "22.8";
const CACHE = process.env.HERMOD_CACHE ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "hermod");
const SCRIPT = fileURLToPath(new URL("./read_telegram.py", import.meta.url));

function python() {
  const path = join(CACHE, "tools", `python-telegram-bot-${PYTHON_TELEGRAM_BOT_VERSION}`, "bin", "python");
  if (!existsSync(path)) throw new Error(`${path} is not there; scripts/test installs it`);
  return path;
}

/** Gives an order to read_telegram.py, which says what it understands. */
export async function pythonTelegramBot(order) {
  const child = spawn(python(), [SCRIPT], { stdio: ["pipe", "pipe", "pipe"] });
  const [out, errors] = [[], []];
  child.stdout.on("data", (data) => out.push(data));
  child.stderr.on("data", (data) => errors.push(data));
  const code = new Promise((resolve) => child.once("close", resolve));
  child.stdin.on("error", () => {});
  child.stdin.end(JSON.stringify(order));
  if ((await code) !== 0) throw new Error(`read_telegram.py failed: ${Buffer.concat(errors)}`);
  return JSON.parse(Buffer.concat(out).toString("utf8"));
}

const ME = { id: 1, is_bot: true, first_name: "Sample", username: "sample_bot", can_join_groups: true, can_read_all_group_messages: false, supports_inline_queries: false };

/** What a grammY bot makes of an update. */
export const grammyContext = (update) => new Context(update, new Api("1:synthetic"), ME);

/** Asserts that both libraries read each of these messages, and lose nothing of it. */
export async function assertMessagesParse(messages) {
  assert.ok(messages.length > 0, "there is nothing to parse");
  const { messages: problems } = await pythonTelegramBot({ messages });
  assert.deepEqual(problems, messages.map(() => []));
  for (const message of messages) {
    const context = grammyContext({ update_id: 1, message });
    assert.equal(context.chatId, message.chat.id);
    assert.equal(context.msgId, message.message_id);
    assert.equal(context.msg.text, message.text);
    assert.equal(context.from.id, message.from.id);
    for (const entity of context.entities()) assert.equal(entity.text, message.text.slice(entity.offset, entity.offset + entity.length));
  }
}
