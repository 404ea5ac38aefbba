/**
 * The dialogs: settings, help, the key, and a question before something is deleted. All are `<dialog>`, which
 * keeps the focus inside and closes on Escape by itself.
 */
import { useKey } from "./api.js";
import { NUMBERS, inherited } from "./defaults.js";
import { $, h, iconButton } from "./dom.js";
import { parseTools } from "./tools.js";

function head(id, text) {
  return h("div", { class: "dialog-head" }, h("h2", { id: `${id}-title`, text, tabindex: -1, autofocus: true }), iconButton("close", "Close", () => $(id).close()));
}

/**
 * Settings of a conversation, kept at every change.
 * @param {any} context {settings, models, preferences, onChange, onPreference}
 */
export function openSettings({ settings, models, preferences, onChange, onPreference }) {
  const model = models.find(({ id }) => id === settings.model) ?? models[0];
  const wrong = h("p", { class: "error", role: "alert", hidden: true });
  const numbers = h("div", { class: "numbers" });
  const change = (fields) => {
    for (const [name, value] of Object.entries(fields)) {
      if (value === undefined) delete settings[name];
      else settings[name] = value;
    }
    showNumbers();
    onChange();
  };

  const system = h("textarea", { id: "system", rows: 3, on: { change: () => change({ system: system.value }) } });
  system.value = settings.system;

  const names = h("select", { id: "model-name", on: { change: () => change({ model: names.value }) } },
    h("option", { value: "", text: models.length ? `as the server has it (${models[0].id})` : "as the server has it" }),
    ...models.map(({ id }) => h("option", { value: id, text: id })));
  if (settings.model && !models.some(({ id }) => id === settings.model)) names.append(h("option", { value: settings.model, text: `${settings.model} (not there now)` }));
  names.value = settings.model;

  const defaults = model?.chat_defaults;
  const thinking = h("select", { id: "thinking-mode", disabled: defaults && !defaults.can_switch, on: { change: () => change({ thinking: { on: true, off: false }[thinking.value] ?? null }) } },
    h("option", { value: "", text: defaults ? `as the model does by default (${defaults.thinks ? "on" : "off"})` : "as the model does by default" }),
    h("option", { value: "on", text: "on" }), h("option", { value: "off", text: "off" }));
  thinking.value = settings.thinking === null ? "" : settings.thinking ? "on" : "off";

  const tools = h("textarea", { id: "tools", class: "mono", rows: 5, spellcheck: "false", placeholder: '[{"name": "get_weather", "parameters": {...}}]', on: { change: () => {
    try {
      parseTools(tools.value);
      wrong.hidden = true;
      change({ tools: tools.value });
    } catch (error) {
      wrong.textContent = error.message;
      wrong.hidden = false;
    }
  } } });
  tools.value = settings.tools;

  function showNumbers() {
    const inheritedNow = inherited(model, settings);
    numbers.replaceChildren(...NUMBERS.map(({ name, label, min, max, step, hint }) => {
      const field = h("input", { id: `set-${name}`, type: "number", min, max, step: step === 1 ? 1 : "any", placeholder: inheritedNow[name] ?? (name === "seed" ? "random" : "none"), title: hint, "aria-describedby": `hint-${name}`, on: { change: () => {
        const value = field.value === "" ? undefined : Number(field.value);
        if (field.checkValidity()) change({ [name]: value });
        else field.reportValidity();
      } } });
      field.value = settings[name] ?? "";
      return h("div", {}, h("label", { for: field.id, text: label }), field, h("small", { id: `hint-${name}`, text: hint }));
    }));
  }
  showNumbers();

  const check = (id, label, value, onSet) => h("label", { class: "check", for: id }, h("input", { id, type: "checkbox", checked: value, on: { change: (event) => onSet(event.target.checked) } }), label);
  const row = (label, field, note) => h("div", { class: "row" }, h("label", { for: field.id, text: label }), field, note && h("small", { text: note }));
  $("settings").replaceChildren(
    head("settings", "Settings"),
    h("p", { class: "note", text: "For this conversation and those you begin after it. What is empty is as the server has it, shown in grey." }),
    row("System prompt", system),
    row("Model", names),
    row("Thinking", thinking, defaults && !defaults.can_switch ? "This model's template has no switch." : null),
    h("fieldset", {}, h("legend", { text: "Sampling" }), numbers),
    h("fieldset", {}, h("legend", { text: "Tools" }),
      check("calculator", "Offer a calculator, which this page answers itself", settings.calculator, (value) => change({ calculator: value })),
      row("More tools, as JSON schemas", tools, "The model's calls are shown; you type what the tool would answer."), wrong),
    h("fieldset", {}, h("legend", { text: "This browser" }),
      check("record", "Note the likeliest alternatives of every token, for the view Inside", preferences.record, (value) => onPreference("record", value))),
  );
  $("settings").showModal();
}

/** Keyboard, and what the page does with what is said. */
export function openHelp(keys) {
  $("help").replaceChildren(
    head("help", "Keyboard and help"),
    h("dl", { class: "keys" }, ...keys.flatMap(([names, what]) => [h("dt", {}, ...names.map((name) => h("kbd", { text: name }))), h("dd", { text: what })])),
    h("p", { text: "Conversations lie in this browser's storage. They can be read, searched and exported when the server is down. Who else uses this browser can read them; Export and the bin in the list take them out." }),
    h("p", { text: "Markdown, code and formulas ($x$, $$x$$, \\(x\\), \\[x\\]) are shown as such. Pictures are shown as links: to load one would tell its owner what was said." }),
  );
  $("help").showModal();
}

/** Ask for the server's key. Resolves to whether one was given. */
export function askKey(message) {
  const dialog = $("key");
  return new Promise((resolve) => {
    const field = h("input", { id: "key-field", type: "password", autocomplete: "current-password", required: true });
    dialog.replaceChildren(
      head("key", "This server asks for a key"),
      h("form", { on: { submit: (event) => {
        event.preventDefault();
        useKey(field.value.trim());
        dialog.close("given");
      } } },
        message && h("p", { class: "error", text: message }),
        h("div", { class: "row" }, h("label", { for: "key-field", text: "API key" }), field, h("small", { text: "Kept until this tab is closed." })),
        h("button", { class: "primary", text: "Use it" })),
    );
    dialog.returnValue = "";
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "given"), { once: true });
    dialog.showModal();
    field.focus();
  });
}

/** Ask before something is lost. */
export function confirmed(text, button) {
  const dialog = $("confirm");
  return new Promise((resolve) => {
    dialog.replaceChildren(
      h("p", { id: "confirm-text", text }),
      h("div", { class: "buttons" },
        h("button", { type: "button", text: "Cancel", on: { click: () => dialog.close("no") } }),
        h("button", { type: "button", class: "danger", text: button, on: { click: () => dialog.close("yes") } })),
    );
    dialog.returnValue = "";
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
  });
}
