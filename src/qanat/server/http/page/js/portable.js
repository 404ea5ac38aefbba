/**
 * Conversations as a file, and back. A file may come from anybody: whatever is read is checked field by field,
 * what is not known is dropped, and every id is made anew.
 */
import { cleanSettings } from "./defaults.js";
import { newId } from "./tree.js";

const FORMAT = "qanat-conversations";
const MOST_BYTES = 256 * 1024 * 1024;
const MOST_TEXT = 8 * 1024 * 1024;
const MOST_MESSAGES = 200_000;

/**
 * The text of a file.
 * @param {{conversation: any, messages: any[]}[]} items messages with parents before their children
 */
export function writeFile(items) {
  const conversations = items.map(({ conversation, messages }) => {
    const places = new Map(messages.map((message, place) => [message.id, place]));
    return {
      title: conversation.title,
      created: conversation.created,
      updated: conversation.updated,
      settings: conversation.settings,
      leaf: places.get(conversation.leaf) ?? null,
      messages: messages.map(({ id, conversation: _, order, ...rest }) => ({ ...rest, parent: places.get(rest.parent) ?? null })),
    };
  });
  return JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1);
}

/**
 * Conversations with fresh ids, as `writeFile` takes them.
 * @throws {Error} a sentence for the user
 */
export function readFile(text) {
  if (text.length > MOST_BYTES) throw new Error("The file is too large.");
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("The file is no JSON.");
  }
  if (file?.format !== FORMAT || file.version !== 1 || !Array.isArray(file.conversations)) {
    throw new Error("The file holds no conversations of qanat.");
  }
  return file.conversations.map((item, place) => readConversation(item, `conversation ${place + 1}`));
}

/**
 * Whether a stored conversation has all of what was read from a file: it is the same, or has gone on since.
 * @param {any[]} stored messages in their order
 * @param {any[]} read
 */
export function holds(stored, read) {
  if (!read.length || stored.length < read.length) return false;
  const places = (messages) => new Map(messages.map(({ id }, place) => [id, place]));
  const [there, here] = [places(stored), places(read)];
  return read.every((message, place) => there.get(stored[place].parent) === here.get(message.parent)
    && SAID.every((name) => JSON.stringify(stored[place][name]) === JSON.stringify(message[name])));
}

/** What makes a message what it is. */
const SAID = ["role", "content", "reasoning", "calls", "call", "created"];

function readConversation(item, where) {
  if (!item || typeof item !== "object" || !Array.isArray(item.messages)) throw new Error(`In ${where} there are no messages.`);
  if (item.messages.length > MOST_MESSAGES) throw new Error(`In ${where} there are too many messages.`);
  const id = newId();
  const ids = item.messages.map(() => newId());
  const now = Date.now();
  const messages = item.messages.map((message, place) => {
    const at = `${where}, message ${place + 1}`;
    if (!message || typeof message !== "object") throw new Error(`${at} is no message.`);
    const { parent, role } = message;
    // A parent comes before its children, so nothing can turn in a circle.
    if (parent !== null && !(Number.isInteger(parent) && parent >= 0 && parent < place)) throw new Error(`${at} has no parent before it.`);
    if (!["user", "assistant", "tool"].includes(role)) throw new Error(`${at} has no role that is known.`);
    return {
      id: ids[place],
      conversation: id,
      order: place,
      parent: parent === null ? null : ids[parent],
      role,
      content: text_(message.content, at) ?? "",
      ...given({
        reasoning: text_(message.reasoning, at),
        thinkSeconds: number_(message.thinkSeconds),
        calls: calls_(message.calls, at),
        call: text_(message.call, at, 256),
        name: text_(message.name, at, 256),
        finish: text_(message.finish, at, 64),
        error: text_(message.error, at, 4096),
        model: text_(message.model, at, 256),
        usage: usage_(message.usage),
        greedy: message.greedy === true || undefined,
        settings: message.settings && typeof message.settings === "object" ? cleanSettings(message.settings) : undefined,
        firstSeconds: number_(message.firstSeconds),
        seconds: number_(message.seconds),
        created: number_(message.created),
      }),
    };
  });
  const conversation = {
    id,
    title: (text_(item.title, where, 500) ?? "").trim() || "Imported",
    created: number_(item.created) ?? now,
    updated: number_(item.updated) ?? now,
    settings: cleanSettings(item.settings),
    leaf: ids[item.leaf] ?? ids[ids.length - 1] ?? null,
  };
  return { conversation, messages };
}

const given = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

function text_(value, where, most = MOST_TEXT) {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string" || value.length > most) throw new Error(`${where} holds what is no text, or too long a text.`);
  return value;
}

const number_ = (value) => (Number.isFinite(value) && value >= 0 && value < 1e15 ? value : undefined);

function calls_(value, where) {
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value) || value.length > 128) throw new Error(`${where} has no list of tool calls.`);
  return value.map((call) => ({
    id: text_(call?.id, where, 256) ?? "",
    name: text_(call?.name, where, 256) ?? "",
    arguments: text_(call?.arguments, where) ?? "",
  }));
}

function usage_(value) {
  if (!value || typeof value !== "object") return undefined;
  const names = ["prompt", "completion", "cached", "reasoning"];
  return Object.fromEntries(names.map((name) => [name, number_(value[name]) ?? 0]));
}
