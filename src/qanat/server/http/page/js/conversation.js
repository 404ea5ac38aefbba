/**
 * A conversation and what can be done with it: ask, edit, answer again, give a tool's result, stop. It keeps
 * itself in the store and tells whoever shows it that something has changed.
 */
import { sameSettings } from "./defaults.js";
import { Run, requestBody } from "./run.js";
import * as store from "./store.js";
import { answerCall } from "./tools.js";
import { Tree, newId } from "./tree.js";

/** Milliseconds between two writes of a message that grows: a tab that is closed loses no more. */
const WRITE_EVERY = 1000;
const TITLE = 60;
/** Rounds of tool calls that the page answers without asking. */
const MOST_ROUNDS = 10;

export class Conversation extends EventTarget {
  /**
   * @param {any} data as the store has it
   * @param {any[]} messages
   */
  constructor(data, messages = []) {
    super();
    this.data = data;
    this.tree = new Tree(messages, data.leaf);
    /** @type {Run|null} */
    this.run = null;
    this._rounds = 0;
    this._written = 0;
  }

  static fresh(settings) {
    const now = Date.now();
    return new Conversation({ id: newId(), title: "", created: now, updated: now, leaf: null, settings: { ...settings } });
  }

  static async load(id) {
    const data = await store.loadConversation(id);
    if (!data) throw new Error("it was deleted, perhaps in another tab");
    return new Conversation(data, await store.loadMessages(id));
  }

  get isEmpty() {
    return this.tree.messages.size === 0;
  }

  /** Ask something, or ask it in another way beside `instead`. */
  async ask(text, options, instead = null) {
    const parent = instead === null ? this.tree.leaf : this.tree.get(instead).parent;
    const message = this._add({ role: "user", parent, content: text });
    this.data.title ||= text.trim().split("\n")[0].slice(0, TITLE);
    this._write([message]); // shown at once: the database keeps the order in which it was told
    this._rounds = 0;
    await this._answer(message.id, options);
  }

  /** Another answer beside this one. */
  async again(id, options) {
    this._rounds = 0;
    await this._answer(this.tree.get(id).parent, options);
  }

  /**
   * Calls of the shown path that have no result: `open` ones of its end, which wait for theirs, and `dropped`
   * ones, which were passed over with a new message.
   */
  get unansweredCalls() {
    const found = { open: [], dropped: [] };
    const path = this.tree.path();
    path.forEach((message, place) => {
      if (!message.calls?.length) return;
      let end = place + 1;
      while (path[end]?.role === "tool") end++;
      const answered = new Set(path.slice(place + 1, end).map(({ call }) => call));
      const without = message.calls.filter((call) => !answered.has(call.id));
      if (end < path.length) found.dropped.push(...without);
      else if (!this.run) found.open.push(...without);
    });
    return found;
  }

  get openCalls() {
    return this.unansweredCalls.open;
  }

  /** The result of a call. Once all have theirs, the model goes on. */
  async giveResult(call, text, options) {
    const message = this._add({ role: "tool", parent: this.tree.leaf, content: text, call: call.id, name: call.name });
    this._write([message]);
    this._changed(message);
    if (!this.openCalls.length) await this._answer(this.tree.leaf, options);
  }

  /** Show the branch of another message beside this one. */
  async select(id) {
    this.tree.select(id);
    await this._write();
    this._changed(null);
  }

  async rename(title) {
    this.data.title = title.trim() || this.data.title;
    await this._write();
    this._changed(null);
  }

  stop() {
    this.run?.stop();
  }

  /** Write the settings, if there is anything to keep them for. */
  async keepSettings() {
    if (!this.isEmpty) await this._write();
  }

  _add(fields) {
    const message = { id: newId(), conversation: this.data.id, order: this.tree.messages.size, created: Date.now(), ...fields };
    return this.tree.add(message);
  }

  async _answer(parent, options) {
    const path = parent === null ? [] : this.tree.path(parent);
    const body = requestBody(path, this.data.settings, options);
    const message = this._add({ role: "assistant", parent, content: "", ...(options.greedy ? { greedy: true } : {}) });
    if (!sameSettings(this.sentWith(message), this.data.settings)) message.settings = { ...this.data.settings };
    const run = (this.run = new Run(message, () => this._grown(message)));
    this._changed(message);
    try {
      await run.read(body);
    } catch (error) {
      message.error = error.message;
      this.dispatchEvent(new CustomEvent("refused", { detail: error }));
    } finally {
      this.run = null;
    }
    await this._write([message]);
    if (run.trace.length) await store.saveTrace({ id: message.id, conversation: this.data.id, tokens: run.trace });
    this.dispatchEvent(new CustomEvent("ended", { detail: message }));
    await this._useTools(message, options);
  }

  /**
   * The settings that a reply was asked for with; null if nobody noted them. Noted where they change, as a
   * system prompt may be long.
   */
  sentWith(reply) {
    for (let at = reply; at; at = this.tree.get(at.parent)) if (at.settings) return at.settings;
    return null;
  }

  /** The place of an earlier version of a reply that has the same words, from 1; 0 if there is none. */
  twinOf(reply) {
    const said = ({ content, reasoning, calls }) => JSON.stringify([content, reasoning, calls?.map((call) => [call.name, call.arguments])]);
    const versions = this.tree.siblings(reply.id).map((id) => this.tree.get(id));
    const earlier = versions.slice(0, versions.indexOf(reply));
    return reply.content || reply.calls ? earlier.findIndex((other) => said(other) === said(reply)) + 1 : 0;
  }

  async _useTools(message, options) {
    if (message.finish !== "tool_calls" || this._rounds++ >= MOST_ROUNDS) return;
    for (const call of this.openCalls) {
      const answer = answerCall(call, this.data.settings);
      if (answer !== null) await this.giveResult(call, answer, options);
    }
  }

  _grown(message) {
    this.dispatchEvent(new CustomEvent("grown", { detail: message }));
    if (performance.now() - this._written > WRITE_EVERY) this._write([message]);
  }

  _changed(message) {
    this.dispatchEvent(new CustomEvent("changed", { detail: message }));
  }

  async _write(messages = []) {
    this._written = performance.now();
    Object.assign(this.data, { updated: Date.now(), leaf: this.tree.leaf });
    try {
      await store.save(this.data, messages);
    } catch (error) {
      this.dispatchEvent(new CustomEvent("unsaved", { detail: error }));
    }
  }
}
