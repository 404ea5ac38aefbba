/**
 * A conversation as a tree: an edited question or a second answer stands beside the first, and a path from a
 * root to a leaf is what is shown and sent. Plain data, no page.
 *
 * A message: `id`, `parent` (null: a root), `role` (user, assistant, tool), `content`, and what run.js adds.
 */

/** An id that nobody else has. `crypto.randomUUID` is not there over plain HTTP from another machine. */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The messages of one conversation. */
export class Tree {
  /**
   * @param {any[]} messages parents before their children
   * @param {string|null} leaf the end of the path that is shown
   */
  constructor(messages = [], leaf = null) {
    this.messages = new Map();
    this._children = new Map([[null, []]]);
    this.leaf = null;
    for (const message of messages) this.add(message);
    if (leaf !== null && this.messages.has(leaf)) this.leaf = leaf;
  }

  /** Take in a message, which becomes the leaf. Its parent must be known. */
  add(message) {
    const siblings = this._children.get(message.parent);
    if (!siblings || this.messages.has(message.id)) throw new Error(`message ${message.id} has no place in the tree`);
    siblings.push(message.id);
    this.messages.set(message.id, message);
    this._children.set(message.id, []);
    this.leaf = message.id;
    return message;
  }

  get(id) {
    return this.messages.get(id);
  }

  /** From the root to the leaf, or to another message. */
  path(to = this.leaf) {
    const found = [];
    for (let at = to; at !== null; at = this.messages.get(at).parent) found.push(this.messages.get(at));
    return found.reverse();
  }

  /** Ids of the messages that stand beside this one, itself included, the oldest first. */
  siblings(id) {
    return this._children.get(this.messages.get(id).parent);
  }

  children(id) {
    return this._children.get(id);
  }

  /** Show the branch of this message, down to the latest of its descendants. */
  select(id) {
    let at = id;
    for (let next = this._children.get(at); next.length; next = this._children.get(at)) at = next[next.length - 1];
    this.leaf = at;
  }

  /** All, parents before their children. */
  all() {
    return [...this.messages.values()];
  }
}
