// What Telegram does to the text of a message before it takes it: cleans and trims it, reads its markup, counts it.

/** The most UTF-16 units of a message, counted after its markup was read. */
export const TEXT_UNITS_MAX = 4096;

/** Telegram refuses a call: HTTP status and error_code, description, and parameters where it gives some. */
export class Refused extends Error {
  constructor(code, description, parameters) {
    super(description);
    Object.assign(this, { code, description, parameters });
  }

  get body() {
    return { ok: false, error_code: this.code, description: this.description, ...(this.parameters && { parameters: this.parameters }) };
  }
}

export const badRequest = (text, parameters) => new Refused(400, `Bad Request: ${text}`, parameters);
const cannotParse = (text) => badRequest(`can't parse entities: ${text}`);
const bytesBefore = (text, at) => Buffer.byteLength(text.slice(0, at));

/** Carriage returns and direction marks vanish, other control characters become spaces. */
const clean = (text) => text.replace(/[\r\u2028-\u202e]/g, "").replace(/[\u0000-\u0008\u000b-\u001f]/g, " ");

/** Markdown of the first kind: `*`, `_`, backticks and links, not one inside another. */
function markdown(text) {
  let plain = "";
  const entities = [];
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char === "\\" && "_*`[".includes(text[at + 1] ?? " ")) plain += text[(at += 1)];
    else if (!"_*`[".includes(char)) plain += char;
    else {
      const mark = text.startsWith("```", at) ? "```" : char === "[" ? "]" : char;
      const from = at + (mark === "```" ? 3 : 1);
      const end = text.indexOf(mark, from);
      if (end < 0) throw cannotParse(`Can't find end of the entity starting at byte offset ${bytesBefore(text, at)}`);
      const inner = text.slice(from, end);
      const offset = plain.length;
      plain += inner;
      at = end + mark.length - 1;
      const type = { "*": "bold", _: "italic", "`": "code", "```": "pre" }[mark];
      if (type) entities.push({ type, offset, length: inner.length });
      else if (text[at + 1] === "(" && text.indexOf(")", at) > 0) {
        const close = text.indexOf(")", at);
        entities.push({ type: "text_link", offset, length: inner.length, url: text.slice(at + 2, close) });
        at = close;
      }
    }
  }
  return { text: plain, entities };
}

const V2_MARKS = [["||", "spoiler"], ["__", "underline"], ["*", "bold"], ["_", "italic"], ["~", "strikethrough"], ["```", "pre"], ["`", "code"]];
const V2_NAMES = { spoiler: "Spoiler", underline: "Underline", bold: "Bold", italic: "Italic", strikethrough: "Strikethrough", pre: "PreCode", code: "Code", text_link: "TextUrl" };
const V2_RESERVED = "_*[]()~`>#+-=|{}.!";

/** Markdown of the second kind: marks may nest, and every reserved character must be escaped. */
function markdownV2(text) {
  let plain = "";
  const [entities, open] = [[], []];
  const close = () => {
    const { type, offset } = open.pop();
    if (plain.length > offset) entities.push({ type, offset, length: plain.length - offset });
  };
  for (let at = 0; at < text.length; at += 1) {
    const inner = open.at(-1);
    const isCode = ["code", "pre"].includes(inner?.type);
    const mark = V2_MARKS.find(([mark, type]) => text.startsWith(mark, at) && (!isCode || type === inner.type));
    if (text[at] === "\\" && /[\u0001-\u007e]/.test(text[at + 1] ?? "")) plain += text[(at += 1)];
    else if (mark) {
      if (inner?.type === mark[1]) close();
      else open.push({ type: mark[1], offset: plain.length, at });
      at += mark[0].length - 1;
    } else if (!isCode && text[at] === "[") open.push({ type: "text_link", offset: plain.length, at });
    else if (inner?.type === "text_link" && text.startsWith("](", at) && text.indexOf(")", at) > 0) {
      const end = text.indexOf(")", at);
      close();
      if (entities.at(-1)?.type === "text_link") entities.at(-1).url = text.slice(at + 2, end);
      at = end;
    } else if (!isCode && V2_RESERVED.includes(text[at])) {
      throw cannotParse(`Character '${text[at]}' is reserved and must be escaped with the preceding '\\'`);
    } else plain += text[at];
  }
  if (open.length) {
    const { type, at } = open.at(-1);
    throw cannotParse(`Can't find end of ${V2_NAMES[type]} entity at byte offset ${bytesBefore(text, at)}`);
  }
  return { text: plain, entities };
}

const HTML_TAGS = {
  b: "bold", strong: "bold", i: "italic", em: "italic", u: "underline", ins: "underline", s: "strikethrough", strike: "strikethrough",
  del: "strikethrough", code: "code", pre: "pre", a: "text_link", "tg-spoiler": "spoiler", blockquote: "blockquote",
};
const HTML_SIGNS = { lt: "<", gt: ">", amp: "&", quot: '"' };

function html(text) {
  let plain = "";
  const [entities, open] = [[], []];
  const piece = /<(\/?)([a-z-]*)([^>]*)>|&(lt|gt|amp|quot);|[\s\S]/giy;
  for (let found = piece.exec(text); found; found = piece.exec(text)) {
    const [whole, slash, name, rest, sign] = found;
    const offset = bytesBefore(text, found.index);
    const tag = name?.toLowerCase();
    if (whole === "<") throw cannotParse(`Unclosed start tag at byte offset ${offset}`);
    if (sign) plain += HTML_SIGNS[sign.toLowerCase()];
    else if (whole.length < 2) plain += whole;
    else if (!slash && !HTML_TAGS[tag]) throw cannotParse(`Unsupported start tag "${tag}" at byte offset ${offset}`);
    else if (!slash) open.push({ tag, offset: plain.length, url: rest.match(/href="([^"]*)"/)?.[1] });
    else if (!open.length) throw cannotParse(`Unexpected end tag at byte offset ${offset}`);
    else if (open.at(-1).tag !== tag) throw cannotParse(`Unmatched end tag at byte offset ${offset}, expected "</${open.at(-1).tag}>", found "</${tag}>"`);
    else {
      const { offset: from, url } = open.pop();
      if (plain.length > from) entities.push({ type: HTML_TAGS[tag], offset: from, length: plain.length - from, ...(url && { url }) });
    }
  }
  if (open.length) throw cannotParse(`Can't find end tag corresponding to start tag "${open.at(-1).tag}"`);
  return { text: plain, entities };
}

const MODES = { "": (text) => ({ text, entities: [] }), none: (text) => ({ text, entities: [] }), markdown, markdownv2: markdownV2, html };

/** Cuts white space off both ends and moves the entities along. */
function trim({ text, entities }) {
  const start = text.length - text.trimStart().length;
  const trimmed = text.trim();
  const moved = entities.map((entity) => {
    const from = Math.max(0, entity.offset - start);
    const to = Math.min(trimmed.length, entity.offset + entity.length - start);
    return { ...entity, offset: from, length: to - from };
  });
  return { text: trimmed, entities: moved.filter(({ length }) => length > 0).sort((a, b) => a.offset - b.offset || b.length - a.length) };
}

/** The text and entities that the chat will show, or why Telegram does not take it. */
export function readText(text, parseMode = "") {
  if (text === undefined || text === null) throw badRequest("message text is empty");
  if (typeof text !== "string" || !text.isWellFormed()) throw badRequest("strings must be encoded in UTF-8");
  const mode = MODES[String(parseMode ?? "").toLowerCase()];
  if (!mode) throw badRequest("unsupported parse_mode");
  const shown = trim(mode(clean(text)));
  if (!shown.text) throw badRequest("message text is empty");
  if (shown.text.length > TEXT_UNITS_MAX) throw badRequest("message is too long");
  return shown;
}
