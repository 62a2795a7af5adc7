// Updates as Telegram makes them, one of every kind that a bot may be sent. All people and chats are made up.

export const seconds = (now = Date.now()) => Math.floor(now / 1000);

export const person = (id, more = {}) => ({ id, is_bot: false, first_name: "Sample", username: `sample_${Math.abs(id)}`, language_code: "en", ...more });

export const privateChat = (id, more = {}) => ({ id, first_name: "Sample", username: `sample_${Math.abs(id)}`, type: "private", ...more });
export const groupChat = (id, more = {}) => ({ id, title: "Sample group", type: "group", ...more });
export const supergroupChat = (id, more = {}) => ({ id, title: "Sample supergroup", type: "supergroup", ...more });
export const channelChat = (id, more = {}) => ({ id, title: "Sample channel", type: "channel", ...more });

/** A command at the beginning of a text is marked as one. */
function commandEntities(text) {
  const command = text.match(/^\/[A-Za-z0-9_]{1,32}(@[A-Za-z0-9_]+)?/)?.[0];
  return command ? { entities: [{ type: "bot_command", offset: 0, length: command.length }] } : {};
}

/** A message of a person; `content` is what stands in it besides who, where and when. */
export function message(chat, content, { message_id = 1, from = person(chat.id), date = seconds() } = {}) {
  return { message_id, from, chat, date, ...content };
}

export const text = (words) => ({ text: words, ...commandEntities(words) });

const file = (name) => ({ file_id: `synthetic-${name}`, file_unique_id: `unique-${name}`, file_size: 1234 });
const picture = (name) => ({ ...file(name), width: 90, height: 51 });

/** Contents of messages that are not plain text, by kind. */
export const CONTENTS = {
  sticker: { sticker: { ...file("sticker"), width: 512, height: 512, emoji: "🙂", is_animated: false, is_video: false, type: "regular" } },
  photo: { photo: [picture("photo-s"), { ...picture("photo-m"), width: 320, height: 180 }] },
  photo_with_caption: { photo: [picture("photo")], caption: "What is on this picture?" },
  voice: { voice: { ...file("voice"), duration: 3, mime_type: "audio/ogg" } },
  video: { video: { ...file("video"), width: 640, height: 360, duration: 5, mime_type: "video/mp4" }, caption: "A film" },
  document: { document: { ...file("document"), file_name: "sample.pdf", mime_type: "application/pdf" } },
  location: { location: { latitude: 48.2, longitude: 16.3 } },
  contact: { contact: { phone_number: "+10000000000", first_name: "Sample" } },
  dice: { dice: { emoji: "🎲", value: 4 } },
  pinned: { pinned_message: { message_id: 1, date: 1783728000, chat: privateChat(50001), text: "Earlier" } },
  new_member: { new_chat_members: [person(70001)] },
  left_member: { left_chat_member: person(70001) },
  group_migrated: { migrate_to_chat_id: -1001557912345 },
};

const member = (user, status) => ({ user, status, ...(status === "kicked" && { until_date: 0 }) });

/** One update of each kind without its update_id, as [name, update]. `chat` is a private chat of `from`. */
export function kinds(chat = privateChat(50001), from = person(chat.id)) {
  const date = seconds();
  const group = groupChat(-40001);
  const channel = channelChat(-1000000040002);
  const said = (where, content, more) => message(where, content, { message_id: 7, from, date, ...more });
  const bot = person(90001, { is_bot: true, username: "other_sample_bot" });
  const anonymous = { message_id: 7, date, chat: channel, sender_chat: channel };
  return [
    ["text", { message: said(chat, text("Good morning")) }],
    ["command", { message: said(chat, text("/help")) }],
    ["edited_message", { edited_message: { ...said(chat, text("Good evening")), edit_date: date } }],
    ["reply", { message: { ...said(chat, text("Yes")), reply_to_message: said(chat, text("Is it?"), { message_id: 6 }) } }],
    ...Object.entries(CONTENTS).map(([name, content]) => [name, { message: said(name.endsWith("member") || name === "group_migrated" ? group : chat, content) }]),
    ["group_text", { message: said(group, text("Hello all")) }],
    ["supergroup_text", { message: said(supergroupChat(-1000000040003), text("Hello all")) }],
    ["from_a_bot", { message: said(group, text("I am a program"), { from: bot }) }],
    ["channel_post", { channel_post: { ...anonymous, text: "News" } }],
    ["edited_channel_post", { edited_channel_post: { ...anonymous, text: "News", edit_date: date } }],
    ["callback_query", { callback_query: { id: "1001", from, chat_instance: "77", data: "yes", message: said(chat, text("Choose")) } }],
    ["callback_query_without_message", { callback_query: { id: "1002", from, chat_instance: "77", data: "yes", inline_message_id: "inline-1" } }],
    ["inline_query", { inline_query: { id: "1003", from, query: "words", offset: "" } }],
    ["chosen_inline_result", { chosen_inline_result: { result_id: "1", from, query: "words" } }],
    ["my_chat_member", { my_chat_member: { chat, from, date, old_chat_member: member(bot, "member"), new_chat_member: member(bot, "kicked") } }],
    ["chat_member", { chat_member: { chat: group, from, date, old_chat_member: member(from, "left"), new_chat_member: member(from, "member") } }],
    ["poll_answer", { poll_answer: { poll_id: "1004", user: from, option_ids: [0], option_persistent_ids: ["a"] } }],
    ["message_reaction", { message_reaction: { chat, message_id: 7, user: from, date, old_reaction: [], new_reaction: [{ type: "emoji", emoji: "👍" }] } }],
    ["chat_join_request", { chat_join_request: { chat: group, from, user_chat_id: from.id, date } }],
  ];
}

/** Updates that no library knows: nothing but an id, and a kind that does not exist yet. */
export const STRANGE = [
  ["empty", {}],
  ["unknown_kind", { kind_of_the_future: { anything: [1, 2, 3] } }],
];
