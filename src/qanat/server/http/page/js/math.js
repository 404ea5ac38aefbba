/**
 * Formulas: `$x$`, `$$x$$`, `\(x\)` and `\[x\]` as rules of markdown-it, and KaTeX, loaded when the first one
 * is seen. KaTeX builds nodes, not HTML, so that its lengths need no inline style in the page's policy.
 */
import { h } from "./dom.js";

const LONGEST = 4_000;
/** Elements within elements. Hundreds of fractions in one another are thousands, which end a browser's tab. */
const DEEPEST = 200;
const KEPT = 500;

let katex = null;
let loading = null;
/** Finished formulas by their source: the block that is being written is made anew for each frame. */
const made = new Map();

/** Rules for markdown-it; both put a node of `slot` where the formula stands. */
export function mathRules(md, slot) {
  md.inline.ruler.before("escape", "math", inline);
  md.block.ruler.before("fence", "math", block, { alt: ["paragraph", "reference", "blockquote", "list"] });
  md.renderer.rules.math = (tokens, at, _, env) => slot(env, "span", () => formula(tokens[at].content, tokens[at].meta));
  md.renderer.rules.math_block = (tokens, at, _, env) => slot(env, "div", () => formula(tokens[at].content, tokens[at].meta));
}

/** An element that shows a formula: its source until KaTeX is there. */
function formula(source, { display, pending }) {
  const element = h(display ? "div" : "span", { class: display ? "math display" : "math" });
  const show = () => element.replaceChildren(typeset(source, display));
  if (pending) element.append(h("code", { text: source }));
  else if (katex) show();
  else {
    element.append(h("code", { text: source }));
    load().then(show, () => {});
  }
  return element;
}

function load() {
  loading ??= (async () => {
    const style = h("link", { rel: "stylesheet", href: new URL("../vendor/katex/katex.min.css", import.meta.url) });
    document.head.append(style);
    await import("../vendor/katex/katex.min.js");
    katex = globalThis.katex;
  })();
  return loading;
}

function typeset(source, display) {
  const key = `${display}${source}`;
  if (!made.has(key)) {
    if (made.size >= KEPT) made.delete(made.keys().next().value);
    made.set(key, typesetNow(source, display));
  }
  return made.get(key).cloneNode(true);
}

function typesetNow(source, display) {
  const element = h("span");
  try {
    if (source.length > LONGEST) throw new Error(`a formula may have ${LONGEST} characters at most`);
    // trust: no commands that make links, classes or pictures; the bounds keep a formula from growing for ever
    katex.render(source, element, { displayMode: display, trust: false, strict: "ignore", maxSize: 50, maxExpand: 500 });
    if (depth(element) > DEEPEST) throw new Error("this formula is nested too deeply");
    return element;
  } catch (error) {
    return h("code", { class: "math-error", title: error.message, text: source });
  }
}

/** How deep the tree below a node is; without recursion, which is what it protects others from. */
function depth(root) {
  let deepest = 0;
  let level = [root];
  for (; level.length; deepest++) level = level.flatMap((node) => [...node.childNodes]);
  return deepest;
}

// -- markdown-it ---------------------------------------------------------------------------------------

const PAIRS = [["$$", "$$", true], ["\\[", "\\]", true], ["\\(", "\\)", false], ["$", "$", false]];

function inline(state, silent) {
  const { src, pos } = state;
  const pair = PAIRS.find(([open]) => src.startsWith(open, pos));
  if (!pair) return false;
  const [open, close, display] = pair;
  const from = pos + open.length;
  const to = closing(src, close, from, state.posMax);
  if (to < 0) return false;
  const content = src.slice(from, to);
  // A single dollar is also money: as in pandoc, no blank inside of it and no digit behind.
  if (open === "$" && (/^\s|\s$/.test(content) || /\d/.test(src[to + 1] ?? ""))) return false;
  if (!content.trim()) return false;
  if (!silent) {
    const token = state.push("math", "", 0);
    token.content = content.trim();
    token.meta = { display, pending: false };
  }
  state.pos = to + close.length;
  return true;
}

/** Where `close` stands, not behind a backslash; -1 if nowhere. */
function closing(src, close, from, end) {
  for (let at = src.indexOf(close, from); at >= 0 && at + close.length <= end; at = src.indexOf(close, at + 1)) {
    let slashes = 0;
    while (src[at - 1 - slashes] === "\\" && at - slashes > from) slashes++;
    if (slashes % 2 === 0) return at;
  }
  return -1;
}

/**
 * A displayed formula that begins a line and may go over several. Like LaTeX's it holds no empty line; so its
 * lines are never taken for a list or a heading, and one that has no end spoils a paragraph at most.
 */
function block(state, first, last, silent) {
  const line = (n) => state.src.slice(state.bMarks[n] + state.tShift[n], state.eMarks[n]);
  const begin = line(first);
  const pair = PAIRS.find(([open, , display]) => display && begin.startsWith(open));
  if (!pair || state.sCount[first] - state.blkIndent >= 4) return false;
  const [open, close] = pair;
  let text = begin.slice(open.length);
  let n = first;
  let to = closing(text, close, 0, text.length);
  while (to < 0 && n + 1 < last && !state.isEmpty(n + 1) && state.sCount[n + 1] >= state.blkIndent) {
    n++;
    text += `\n${line(n)}`;
    to = closing(text, close, 0, text.length);
  }
  // What ends where the text ends, in the middle of being written, may still be closed.
  const pending = to < 0 && state.env.growing && n + 1 >= last;
  if (!pending && (to < 0 || text.slice(to + close.length).trim() || !text.slice(0, to).trim())) return false;
  if (silent) return true;
  const token = state.push("math_block", "", 0);
  token.block = true;
  token.content = pending ? open + text : text.slice(0, to).trim();
  token.meta = { display: true, pending };
  token.map = [first, n + 1];
  state.line = n + 1;
  return true;
}
