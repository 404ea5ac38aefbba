/**
 * Blocks of code: a head with the language and a button that copies, and colours from highlight.js, which is
 * loaded when the first block is seen.
 */
import { h, icon } from "./dom.js";
import { toFragment } from "./safe.js";

/** Characters up to which a block is coloured; while it is still being written, it is coloured for each frame. */
const MOST = 50_000;
const MOST_GROWING = 6_000;

let hljs = null;
let loading = null;

/**
 * A block.
 * @param {string} source
 * @param {string} info what stands behind the fence; its first word is the language
 * @param {boolean} growing whether it is still being written
 */
export function codeBlock(source, info, growing) {
  const language = info.trim().split(/\s+/)[0].slice(0, 40);
  const code = h("code", { class: "hljs", text: source });
  if (source.length <= (growing ? MOST_GROWING : MOST) && language) {
    colour(code, source, language).catch(() => {}); // without a server it stays as it is
  }
  return h("div", { class: "code" },
    h("div", { class: "code-head" }, h("span", { text: language || "text" }), copyButton(() => source, "Copy code")),
    h("pre", { tabindex: "0" }, code));
}

/** A button that copies what `text` gives, and says for a moment that it did. */
export function copyButton(text, label) {
  const button = h("button", { type: "button", class: "icon", "aria-label": label, title: label }, icon("copy"));
  button.addEventListener("click", async () => {
    const done = await copy(text());
    button.replaceChildren(icon(done ? "done" : "close"));
    button.setAttribute("aria-label", done ? "Copied" : "Could not copy");
    setTimeout(() => {
      button.replaceChildren(icon("copy"));
      button.setAttribute("aria-label", label);
    }, 1500);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not offered to a page that came over plain HTTP from another machine.
    const field = h("textarea", { class: "hidden", "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

async function colour(code, source, language) {
  if (!hljs) await load(); // else at once, before the block is seen
  if (!hljs.getLanguage(language)) return;
  const { value } = hljs.highlight(source, { language, ignoreIllegals: true });
  code.replaceChildren(toFragment(value));
}

function load() {
  loading ??= import("../vendor/highlight.min.js").then((module) => {
    hljs = module.default;
  });
  return loading;
}
