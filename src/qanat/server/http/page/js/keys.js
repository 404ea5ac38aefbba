/** The keyboard. */
import { $ } from "./dom.js";

/** What the help shows: keys, and what they do. */
export const KEYS = [
  [["Enter"], "send a message, or the result of a tool"],
  [["Shift", "Enter"], "a new line"],
  [["Esc"], "stop the reply; close what is open"],
  [["↑"], "in an empty field: edit the last question"],
  [["Ctrl", "K"], "search"],
  [["Alt", "N"], "new conversation"],
  [["Alt", "R"], "answer again"],
  [["Alt", "I"], "look inside, and back"],
  [["Alt", "S"], "settings"],
  [["?"], "this help"],
];

/** @param {Record<string, () => void>} actions */
export function listenToKeys(actions) {
  $("draft").addEventListener("keydown", (event) => {
    if (event.isComposing) return; // Enter chooses a word of an input method
    if (event.key === "Enter" && !event.shiftKey && !event.altKey && !event.ctrlKey) {
      event.preventDefault();
      $("composer").requestSubmit();
    } else if (event.key === "ArrowUp" && !event.target.value) {
      event.preventDefault();
      actions.editLast();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    const typing = event.target.matches?.("textarea, input, select");
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const action =
      (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k" ? actions.search
      : event.altKey && !event.ctrlKey && !event.metaKey ? { KeyN: actions.begin, KeyR: actions.again, KeyI: actions.inside, KeyS: actions.settings }[event.code]
      : plain && event.key === "Escape" ? actions.escape
      : plain && !typing && event.key === "?" ? actions.help
      : undefined;
    if (!action) return;
    event.preventDefault();
    action();
  });
}
