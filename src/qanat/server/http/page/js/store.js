/**
 * Conversations in the browser's own database. They never leave it but by the user's export, and can be read
 * without a server. A browser that refuses a database loses them with the tab.
 *
 * Stores: `conversations` (id, title, created, updated, leaf, settings), `messages` (one each, found by
 * `conversation`), `traces` (of a reply: its tokens and their alternatives, which only Inside reads).
 */
import { haveAll, searched } from "./search.js";

const NAME = "qanat";
const VERSION = 1;

/** @type {Promise<IDBDatabase>|null} */
let opening = null;

function open() {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, VERSION);
    request.onupgradeneeded = () => {
      const database = request.result;
      database.createObjectStore("conversations", { keyPath: "id" });
      for (const name of ["messages", "traces"]) {
        database.createObjectStore(name, { keyPath: "id" }).createIndex("conversation", "conversation");
      }
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opening;
}

const result = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function transact(stores, mode, work) {
  const transaction = (await open()).transaction(stores, mode);
  const ended = new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = transaction.onerror = () => reject(transaction.error);
  });
  const value = await work((name) => transaction.objectStore(name));
  await ended;
  return value;
}

/** All conversations without their messages, the latest first. */
export async function listConversations() {
  const all = await transact(["conversations"], "readonly", (store) => result(store("conversations").getAll()));
  return all.sort((a, b) => b.updated - a.updated);
}

/** One of them as it is now, or undefined. */
export async function loadConversation(id) {
  return transact(["conversations"], "readonly", (store) => result(store("conversations").get(id)));
}

/** A conversation's messages, parents before their children. */
export async function loadMessages(conversation) {
  const all = await transact(["messages"], "readonly", (store) => result(store("messages").index("conversation").getAll(conversation)));
  return all.sort((a, b) => a.order - b.order);
}

/** Write a conversation and some of its messages, all or nothing. */
export async function save(conversation, messages = []) {
  await transact(["conversations", "messages"], "readwrite", (store) => {
    store("conversations").put(conversation);
    for (const message of messages) store("messages").put(message);
  });
}

/** Delete a conversation and all that belongs to it. */
export async function remove(conversation) {
  await transact(["conversations", "messages", "traces"], "readwrite", async (store) => {
    store("conversations").delete(conversation);
    for (const name of ["messages", "traces"]) {
      const keys = await result(store(name).index("conversation").getAllKeys(conversation));
      for (const key of keys) store(name).delete(key);
    }
  });
}

/** Ids of the conversations in whose title or messages all words are found. */
export async function search(words) {
  const found = new Set();
  await transact(["conversations", "messages"], "readonly", async (store) => {
    for (const { id, title } of await result(store("conversations").getAll())) if (haveAll(words, title)) found.add(id);
    await new Promise((resolve, reject) => {
      const request = store("messages").openCursor();
      request.onerror = () => reject(request.error);
      request.onsuccess = () => {
        const cursor = request.result;
        if (!cursor) return resolve(null);
        const { conversation } = cursor.value;
        if (!found.has(conversation) && haveAll(words, searched(cursor.value))) found.add(conversation);
        cursor.continue();
      };
    });
  });
  return found;
}

/** Keep the tokens of a reply. */
export async function saveTrace(trace) {
  await transact(["traces"], "readwrite", (store) => result(store("traces").put(trace)));
}

/** The tokens of a reply, or undefined. */
export async function loadTrace(message) {
  return transact(["traces"], "readonly", (store) => result(store("traces").get(message)));
}
