/**
 * The settings of a conversation. A field counts once it is left and holds something that can be sent. While one
 * does not, the dialog stays open and says beside it what is wrong, so that nothing that was written is lost.
 */
import { NUMBERS, inherited, isGreedy } from "./defaults.js";
import { dialogHead } from "./dialogs.js";
import { $, count, h } from "./dom.js";
import { parseTools } from "./tools.js";

/** @param {any} context {settings, models, preferences, onChange, onPreference} */
export function openSettings({ settings, models, preferences, onChange, onPreference }) {
  const dialog = $("settings");
  const before = { ...settings };
  const noted = preferences.record;
  const model = models.find(({ id }) => id === settings.model) ?? models[0];
  const defaults = model?.chat_defaults;
  const change = (name, value) => {
    if (value === settings[name]) return;
    if (value === undefined) delete settings[name];
    else settings[name] = value;
    showInherited();
    onChange();
  };

  const system = new Field("System prompt", h("textarea", { id: "system", rows: 3 }), (text) => change("system", text));
  system.control.value = settings.system;

  const names = h("select", { id: "model-name", on: { change: () => change("model", names.value) } },
    h("option", { value: "", text: models.length ? `as the server has it (${models[0].id})` : "as the server has it" }),
    ...models.map(({ id }) => h("option", { value: id, text: id })));
  if (settings.model && !models.some(({ id }) => id === settings.model)) names.append(h("option", { value: settings.model, text: `${settings.model} (not there now)` }));
  names.value = settings.model;

  const thinking = h("select", { id: "thinking-mode", disabled: defaults && !defaults.can_switch, on: { change: () => change("thinking", { on: true, off: false }[thinking.value] ?? null) } },
    h("option", { value: "", text: defaults ? `as the model does by default (${defaults.thinks ? "on" : "off"})` : "as the model does by default" }),
    h("option", { value: "on", text: "on" }), h("option", { value: "off", text: "off" }));
  thinking.value = settings.thinking === null ? "" : settings.thinking ? "on" : "off";

  const numbers = NUMBERS.map((bounds) => numberField(bounds, settings[bounds.name], (value) => change(bounds.name, value)));
  const tools = new Field("More tools, as JSON schemas",
    h("textarea", { id: "tools", class: "mono", rows: 5, spellcheck: "false", placeholder: '[{"name": "get_weather", "parameters": {...}}]' }),
    (text) => change("tools", text),
    { note: "The model's calls are shown; you type what the tool would answer.", check: (text) => void parseTools(text) });
  tools.control.value = settings.tools;

  function showInherited() {
    const now = inherited(model, settings);
    NUMBERS.forEach(({ name }, place) => {
      const none = name !== "seed" ? "none" : isGreedy(model, settings) ? "not used" : "random";
      numbers[place].control.placeholder = now[name] ?? none;
    });
  }
  showInherited();

  const fields = [system, ...numbers, tools];
  const done = () => {
    const wrong = fields.filter((field) => !field.take());
    if (!wrong.length) return dialog.close();
    if (!dialog.open) dialog.showModal();
    wrong[0].point();
  };
  const discard = () => {
    for (const name of Object.keys(settings)) delete settings[name];
    Object.assign(settings, before);
    onPreference("record", noted);
    onChange();
    for (const field of fields) field.forget();
    dialog.close();
  };
  const check = (id, label, value, onSet) => h("label", { class: "check", for: id }, h("input", { id, type: "checkbox", checked: value, on: { change: (event) => onSet(event.target.checked) } }), label);
  const row = (label, control, note) => h("div", { class: "row" }, h("label", { for: control.id, text: label }), control, note && h("small", { text: note }));
  dialog.replaceChildren(
    dialogHead("settings", "Settings", done),
    h("p", { class: "note", text: "For this conversation and those you begin after it. A field counts when you leave it. What is empty is as the server has it, shown in grey." }),
    system.row,
    row("Model", names),
    row("Thinking", thinking, defaults && !defaults.can_switch ? "This model's template has no switch." : null),
    h("fieldset", {}, h("legend", { text: "Sampling" }), h("div", { class: "numbers" }, ...numbers.map((field) => field.row))),
    h("fieldset", {}, h("legend", { text: "Tools" }),
      check("calculator", "Offer a calculator, which this page answers itself", settings.calculator, (value) => change("calculator", value)),
      tools.row),
    h("fieldset", {}, h("legend", { text: "This browser" }),
      check("record", "Note the likeliest alternatives of every token, for the view Inside", preferences.record, (value) => onPreference("record", value))),
    h("div", { class: "buttons dialog-foot" },
      h("button", { type: "button", title: "Close, with everything as it was when this was opened", text: "Discard changes", on: { click: discard } }),
      h("button", { type: "button", class: "primary", text: "Done", on: { click: done } })),
  );
  // By the key, because a browser closes a dialog at the second Escape whatever `cancel` was told.
  dialog.onkeydown = (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.preventDefault();
    done();
  };
  // A phone's way back: asked once, and then not any more.
  dialog.oncancel = (event) => {
    event.preventDefault();
    done();
  };
  dialog.onclose = () => dialog.open || done(); // it is told late: it may be open again
  dialog.showModal();
}

/** A control with its label, a note, and what is wrong with what it holds. */
class Field {
  /**
   * @param {string} label
   * @param {any} control with an id
   * @param {(value: any) => void} onTake called with what is valid
   * @param {{note?: string, check?: (text: string) => any}} [more] `check` throws a sentence for the user;
   *   what it returns is the value, or undefined for the text itself
   */
  constructor(label, control, onTake, { note = "", check = () => undefined } = {}) {
    this.control = control;
    this._check = check;
    this._onTake = onTake;
    const [hint, wrong] = [`${control.id}-hint`, `${control.id}-wrong`];
    control.setAttribute("aria-describedby", note ? `${wrong} ${hint}` : wrong);
    this._wrong = h("p", { class: "error", id: wrong, role: "alert", hidden: true });
    this.row = h("div", { class: "row" }, h("label", { for: control.id, text: label }), control, note && h("small", { id: hint, text: note }), this._wrong);
    control.addEventListener("change", () => this.take());
    control.addEventListener("input", () => this._wrong.hidden || this._read());
  }

  /** Let what it holds count. False if that cannot be. */
  take() {
    const read = this._read();
    if (read) this._onTake(read.value);
    return read !== null;
  }

  /** Show it to the user. */
  point() {
    this.row.scrollIntoView({ block: "center" });
    this.control.focus({ preventScroll: true });
  }

  /** What it holds counts no more. */
  forget() {
    this._check = () => undefined;
    this._onTake = () => {};
  }

  _read() {
    let value;
    let told = "";
    try {
      value = this._check(this.control.value);
    } catch (error) {
      told = error.message;
    }
    this._wrong.textContent = told;
    this._wrong.hidden = !told;
    if (told) this.control.setAttribute("aria-invalid", "true");
    else this.control.removeAttribute("aria-invalid");
    return told ? null : { value: value === undefined ? this.control.value : value };
  }
}

/** A number within its bounds; undefined if it is empty. */
function numberField({ name, label, min, max, step, hint }, given, onTake) {
  const control = h("input", { id: `set-${name}`, type: "number", min, max, step: step === 1 ? 1 : "any", title: hint });
  control.value = given ?? "";
  const check = (text) => {
    if (text === "" && !control.validity.badInput) return null;
    const value = Number(text);
    if (text === "" || !(value >= min && value <= max) || (step === 1 && !Number.isInteger(value))) {
      throw new Error(`${label} has to be a ${step === 1 ? "whole " : ""}number from ${bound(min)} to ${bound(max)}, or empty.`);
    }
    return value;
  };
  return new Field(label, control, (value) => onTake(value ?? undefined), { note: hint, check });
}

const bound = (number) => (Number.isInteger(number) ? count(number) : String(number));
