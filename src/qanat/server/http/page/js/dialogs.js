/**
 * The small dialogs: help, the key, and a question before something is deleted. All are `<dialog>`, which keeps
 * the focus inside and closes on Escape by itself.
 */
import { useKey } from "./api.js";
import { $, h, iconButton } from "./dom.js";

/** The title of a dialog, and a button that closes it. */
export function dialogHead(id, text, onClose = () => $(id).close()) {
  return h("div", { class: "dialog-head" }, h("h2", { id: `${id}-title`, text, tabindex: -1, autofocus: true }), iconButton("close", "Close", onClose));
}

/** Keyboard, and what the page does with what is said. */
export function openHelp(keys) {
  $("help").replaceChildren(
    dialogHead("help", "Keyboard and help"),
    h("dl", { class: "keys" }, ...keys.flatMap(([names, what]) => [h("dt", {}, ...names.map((name) => h("kbd", { text: name }))), h("dd", { text: what })])),
    h("p", { text: "Conversations lie in this browser's storage. They can be read, searched and exported when the server is down. Who else uses this browser can read them. Export saves a file and leaves them here; the bin in the list deletes one." }),
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
      dialogHead("key", "This server asks for a key"),
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
