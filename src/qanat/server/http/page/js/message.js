/**
 * One message on the page. A reply is Markdown; what a user wrote is shown as it is. Everything a model wrote
 * goes through markdown.js, or is text.
 */
import { copyButton } from "./code.js";
import { count, h, icon, iconButton, rate, seconds, sentence } from "./dom.js";
import { GrowingMarkdown } from "./growing.js";
import { render } from "./markdown.js";
import { shownArguments } from "./tools.js";

const FINISHES = {
  length: "The reply reached its limit of tokens.",
  stopped: "Stopped.",
};

export class MessageView {
  /**
   * @param {any} message
   * @param {any} actions what its buttons do: edit, again, select, giveResult
   */
  constructor(message, actions) {
    this.message = message;
    this._actions = actions;
    this._growing = null;
    this._thoughtShown = 0; // characters
    /** Whether it looks right, or is only text so far. */
    this.ready = false;
    this.element = h("article", { class: `message ${message.role}`, data: { id: message.id }, "aria-label": NAMES[message.role] });
    // Text first: thousands of messages are there at once and can be found, and look right when they come near.
    this._body = h("div", { class: "body", text: message.content });
    this._foot = h("footer");
    this.element.append(this._body, this._foot);
  }

  /** Make it look right; cheap to call again. */
  hydrate() {
    if (this.ready) return;
    this.ready = true;
    const { message } = this;
    if (message.role === "assistant") this._body.replaceChildren(render(message.content));
    if (message.role === "tool") this._showResult();
    this._showThought(false);
    this._showCalls();
    this._showEnd();
  }

  /** The reply has grown. */
  grow() {
    this.ready = true;
    const { message } = this;
    this._growing ??= new GrowingMarkdown(this._body);
    this._showThought(!message.content && !message.calls?.length);
    if (message.content) this._growing.update(message.content);
    this._showCalls();
  }

  /** Nothing follows. */
  finish() {
    this._growing?.finish();
    this._growing = null;
    this.ready = false;
    this.hydrate();
  }

  /** The row below: branches and buttons. `siblings` are the ids of all versions, `same` tells of their likeness. */
  showFoot(siblings, same) {
    const { message } = this;
    const place = siblings.indexOf(message.id);
    const { select, edit, again } = this._actions;
    const parts = [];
    if (siblings.length > 1) {
      parts.push(h("span", { class: "branches mutates", role: "group", "aria-label": "Versions" },
        iconButton("left", "Earlier version", () => select(siblings[place - 1]), { disabled: place === 0 }),
        h("span", { text: `${place + 1}/${siblings.length}` }),
        iconButton("right", "Later version", () => select(siblings[place + 1]), { disabled: place === siblings.length - 1 })));
    }
    if (message.content) parts.push(copyButton(() => message.content, "Copy"));
    if (message.role === "user") parts.push(iconButton("edit", "Edit", () => edit(this), { class: "icon mutates" }));
    if (message.role === "assistant") parts.push(iconButton("again", "Answer again", () => again(message.id), { class: "icon mutates" }));
    const told = message.role === "assistant" ? figures(message) : "";
    if (told) parts.push(h("span", { class: "figures", text: told }));
    if (same) parts.push(h("span", { class: "same", text: same }));
    this._foot.replaceChildren(...parts);
  }

  /** Let the user write the question anew. */
  startEdit(onDone) {
    const field = h("textarea", { "aria-label": "Edit the message", rows: Math.min(12, this.message.content.split("\n").length + 1) });
    field.value = this.message.content;
    const leave = () => {
      editor.replaceWith(this._body);
      this._foot.hidden = false;
    };
    const send = () => {
      const text = field.value;
      leave();
      if (text.trim()) onDone(text);
    };
    const editor = h("div", { class: "editor" }, field,
      h("div", {}, h("button", { type: "button", text: "Cancel", on: { click: leave } }), h("button", { type: "button", class: "primary", text: "Send", on: { click: send } })));
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        leave();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    this._body.replaceWith(editor);
    this._foot.hidden = true;
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }

  _showThought(open) {
    const { reasoning, thinkSeconds } = this.message;
    if (!reasoning?.trim()) return;
    if (!this._thought) {
      this._thought = h("details", { class: "thought" }, h("summary", {}, icon("thought"), h("span")), h("div", { class: "thought-text" }));
      this._body.before(this._thought);
    }
    const [summary, text] = this._thought.children;
    const told = thinkSeconds >= 0.05 ? `Thought for ${seconds(thinkSeconds)}` : open ? "Thinking" : "Thought";
    summary.lastChild.textContent = told;
    this._thought.classList.toggle("active", open);
    // Only what is new is appended: a long thought would else be laid out anew for every word.
    text.append(reasoning.slice(this._thoughtShown));
    this._thoughtShown = reasoning.length;
  }

  _showCalls() {
    const { calls } = this.message;
    if (!calls?.length) return;
    if (!this._calls) {
      this._calls = h("div", { class: "calls" });
      this._body.after(this._calls);
    }
    calls.forEach((call, place) => {
      this._calls.children[place] ?? this._calls.append(h("div", { class: "call" }, h("div", { class: "call-head" }, icon("tool"), h("b")), h("pre", { tabindex: "0" })));
      const [head, text] = this._calls.children[place].children;
      head.lastChild.textContent = call.name;
      text.textContent = this._growing ? call.arguments : shownArguments(call.arguments);
    });
    this._showDropped();
  }

  /** Fields for the results of calls that wait for the user, and a word on those that nobody answered. */
  askResults(open, dropped) {
    this._dropped = dropped;
    this._showDropped();
    const asked = open.map((call) => call.id).join();
    if (asked === (this._asked ?? "")) return; // what is being typed stays
    this._asked = asked;
    this._calls.querySelectorAll("form").forEach((form) => form.remove());
    for (const call of open) {
      const card = this._calls.children[this.message.calls.indexOf(call)];
      const field = h("textarea", { rows: 2, "aria-label": `Result of ${call.name}`, placeholder: "What the tool answers" });
      const form = h("form", { on: {
        submit: (event) => {
          event.preventDefault();
          this._actions.giveResult(call, field.value);
        },
      } }, field, h("div", {}, h("small", { text: "A message below goes on without it." }), h("button", { class: "primary", text: "Send result" })));
      field.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.altKey || event.isComposing) return;
        event.preventDefault();
        form.requestSubmit();
      });
      card.append(form);
    }
  }

  /** The field for the first result that is asked for, if any. */
  get resultField() {
    return this._calls?.querySelector("form textarea") ?? null;
  }

  _showDropped() {
    if (!this._calls || !this._dropped) return;
    this._calls.querySelectorAll(".ended").forEach((note) => note.remove());
    for (const call of this._dropped) {
      this._calls.children[this.message.calls.indexOf(call)].append(h("p", { class: "ended", text: "Not answered: the conversation went on without a result." }));
    }
  }

  _showResult() {
    const { name, content } = this.message;
    this._body.replaceChildren(h("details", { class: "result", open: content.length < 400 }, h("summary", {}, icon("tool"), h("span", { text: `Result of ${name || "a tool"}` })), h("pre", { tabindex: "0", text: content })));
  }

  _showEnd() {
    const { error, finish } = this.message;
    this._end?.remove();
    this._end = null;
    const told = error ? h("div", { class: "error", text: sentence(error) }) : Object.hasOwn(FINISHES, finish ?? "") ? h("div", { class: "ended", text: FINISHES[finish] }) : null;
    if (told) {
      this._end = told;
      this._foot.before(told);
    }
  }
}

const NAMES = { user: "You", assistant: "Reply", tool: "Tool result" };

function figures({ usage, seconds: time, firstSeconds }) {
  if (!usage || !time) return "";
  const parts = [`${count(usage.completion)} tokens`];
  if (usage.completion > 1 && time > 0.01) parts.push(rate((usage.completion - 1) / time));
  if (firstSeconds) parts.push(`first after ${seconds(firstSeconds)}`);
  return parts.join(" · ");
}
