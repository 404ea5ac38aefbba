/**
 * The list of conversations, by the day of their last change; what a search finds; and files in and out.
 */
import { $, count, h, iconButton } from "./dom.js";
import { notify } from "./notice.js";
import { holds, readFile, writeFile } from "./portable.js";
import { wordsOf } from "./search.js";
import * as store from "./store.js";

const DAY = 24 * 3600 * 1000;

export class Sidebar {
  /** @param {any} actions open, remove, look */
  constructor(actions) {
    this._actions = actions;
    this._list = $("conversations");
    this._search = $("search");
    this._search.addEventListener("input", () => {
      this._shown = this.show();
      actions.look();
    });
    this._search.addEventListener("keydown", (event) => this._keyInField(event));
    this._list.addEventListener("keydown", (event) => this._keyInList(event));
    this._shown = Promise.resolve();
    this._turn = 0;
    this.current = null;
    $("open-sidebar").addEventListener("click", () => this.open());
    for (const id of ["close-sidebar", "shade"]) $(id).addEventListener("click", () => this.leave());
    $("import").addEventListener("click", () => $("import-file").click());
    $("import-file").addEventListener("change", (event) => this._import(event.target));
    $("export-all").addEventListener("click", async () => this.export(await store.listConversations()));
  }

  /** Where it does not stand beside the conversation (style.css), lay it over that. */
  open() {
    document.body.classList.add("with-sidebar");
  }

  close() {
    document.body.classList.remove("with-sidebar");
  }

  /** Close it and go back to where it was opened from. */
  leave() {
    this.close();
    $("open-sidebar").focus();
  }

  /** Whether it lies over the conversation now. */
  get covers() {
    return $("shade").getClientRects().length > 0;
  }

  /** What is searched for. */
  get words() {
    return wordsOf(this._search.value);
  }

  /** Open it with the cursor in the field. */
  search() {
    this.open();
    this._search.focus();
    this._search.select();
  }

  /** Read the list anew. */
  async show(current = this.current) {
    this.current = current;
    const turn = ++this._turn;
    const { words } = this;
    let all = [];
    try {
      all = await store.listConversations();
      if (words.length) {
        const found = await store.search(words);
        all = all.filter(({ id }) => found.has(id));
      }
    } catch (error) {
      notify(`This browser keeps no conversations: ${error.message}`);
    }
    if (turn !== this._turn) return;
    const groups = [];
    let last = "";
    for (const data of all) {
      const when = period(data.updated);
      if (when !== last) groups.push(h("h3", { text: when }), h("ul"));
      last = when;
      groups.at(-1).append(this._item(data));
    }
    if (!all.length) groups.push(h("p", { class: "note", text: words.length ? "Nothing found." : "No conversations yet." }));
    this._list.replaceChildren(...groups);
  }

  /** Let the user save conversations as a file. */
  async export(conversations) {
    const items = [];
    for (const conversation of conversations) items.push({ conversation, messages: await store.loadMessages(conversation.id) });
    const address = URL.createObjectURL(new Blob([writeFile(items)], { type: "application/json" }));
    const day = new Date().toISOString().slice(0, 10);
    h("a", { href: address, download: `qanat-${day}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  async _keyInField(event) {
    const { key } = event;
    if (event.isComposing || !["ArrowDown", "Enter", "Escape"].includes(key)) return;
    if (key === "Escape" && !this._search.value) return; // then it is the page's
    event.preventDefault();
    if (key === "Escape") {
      this._search.value = "";
      this._search.dispatchEvent(new Event("input"));
      return;
    }
    await this._shown; // what was typed last is searched for first
    const first = this._list.querySelector(".open");
    if (key === "ArrowDown") first?.focus();
    else if (this.words.length) first?.click();
  }

  _keyInList(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [...this._list.querySelectorAll(".open")];
    const next = all.findIndex((one) => one.closest("li").contains(document.activeElement)) + step;
    (next < 0 ? this._search : all[Math.min(next, all.length - 1)]).focus();
  }

  _item(data) {
    const here = data.id === this.current;
    return h("li", { class: here ? "here" : "" },
      h("button", { type: "button", class: "open", "aria-current": here ? "page" : null, title: data.title, text: data.title || "Untitled", on: { click: () => this._actions.open(data.id) } }),
      iconButton("export", `Export ${data.title}`, () => this.export([data])),
      iconButton("trash", `Delete ${data.title}`, () => this._actions.remove(data)));
  }

  async _import(input) {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    try {
      const items = readFile(await file.text());
      const known = await knownAmong(items);
      const fresh = items.filter((item) => !known.has(item));
      for (const { conversation, messages } of fresh) await store.save(conversation, messages);
      await this.show();
      if (items.length === 1) await this._actions.open(known.get(items[0]) ?? items[0].conversation.id);
      notify(summary(fresh.length, known.size), { error: false });
    } catch (error) {
      notify(`Nothing was imported. ${error.message}`);
    }
  }
}

/** The ids of stored conversations that hold all of what was read, by the item that holds it. */
async function knownAmong(items) {
  const known = new Map();
  for (const { id } of await store.listConversations()) {
    const messages = await store.loadMessages(id);
    for (const item of items) if (!known.has(item) && holds(messages, item.messages)) known.set(item, id);
  }
  return known;
}

function summary(fresh, known) {
  const conversations = (number) => (number === 1 ? "1 conversation" : `${count(number)} conversations`);
  const here = `${conversations(known)} ${known === 1 ? "was" : "were"} here already`;
  if (!fresh) return known ? `Nothing was imported: ${here}.` : "The file holds no conversation.";
  return `Imported ${conversations(fresh)}${known ? `; ${here}` : ""}.`;
}

function period(time) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (time >= today) return "Today";
  if (time >= today - DAY) return "Yesterday";
  if (time >= today - 6 * DAY) return "This week";
  return new Date(time).toLocaleDateString("en", { month: "long", year: "numeric" });
}
