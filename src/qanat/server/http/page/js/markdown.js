/**
 * Markdown to nodes: markdown-it writes HTML, in which raw HTML of the source is text; DOMPurify lets through
 * what is harmless; then formulas and code blocks, which we build ourselves, take the places kept for them.
 */
import "../vendor/markdown-it.min.js";
import { codeBlock } from "./code.js";
import { mathRules } from "./math.js";
import { toFragment } from "./safe.js";

const md = globalThis.markdownit({ html: false, linkify: true });
md.linkify.set({ fuzzyLink: false, fuzzyEmail: false }); // `main.py` is a file, no address in Paraguay
mathRules(md, slot);

md.renderer.rules.fence = (tokens, at, _, env) => slot(env, "div", () => codeBlock(tokens[at].content, tokens[at].info, env.growing));
md.renderer.rules.code_block = (tokens, at, _, env) => slot(env, "div", () => codeBlock(tokens[at].content, "", env.growing));

// A picture would be asked for at its address, which tells its owner what was said. It becomes a link.
md.renderer.rules.image = (tokens, at) => {
  const alt = md.utils.escapeHtml(tokens[at].content || "picture");
  return `<a href="${md.utils.escapeHtml(tokens[at].attrGet("src") ?? "")}">${alt}</a>`;
};

// markdown-it aligns columns by inline style, which the page's policy forbids.
for (const cell of ["th_open", "td_open"]) {
  md.renderer.rules[cell] = (tokens, at, options, _, renderer) => {
    const [, side] = /text-align:(\w+)/.exec(tokens[at].attrGet("style") ?? "") ?? [];
    tokens[at].attrs = side ? [["class", `align-${side}`]] : [];
    return renderer.renderToken(tokens, at, options);
  };
}
md.renderer.rules.table_open = () => '<div class="table"><table>';
md.renderer.rules.table_close = () => "</table></div>";

/** Keep a place for a node that is built after the HTML was made harmless. */
function slot(env, tag, build) {
  env.slots.push(build);
  return `<${tag} data-slot="${env.slots.length - 1}"></${tag}>`;
}

/**
 * The blocks of a text, with what `renderBlocks` needs of each and the lines that it stands in.
 * @param {string} text
 * @param {{references?: object, growing: boolean}} env kept between the parts of one text
 */
export function parseBlocks(text, env) {
  const tokens = md.parse(text, env);
  const blocks = [];
  let from = 0;
  let depth = 0;
  tokens.forEach((token, at) => {
    depth += token.nesting;
    if (depth > 0) return;
    blocks.push({ tokens: tokens.slice(from, at + 1), line: tokens[from].map?.[0] ?? 0 });
    from = at + 1;
  });
  return blocks;
}

/** Harmless nodes of blocks. */
export function renderBlocks(blocks, env) {
  env.slots = [];
  const html = md.renderer.render(blocks.flatMap((block) => block.tokens), md.options, env);
  const fragment = toFragment(html);
  for (const place of fragment.querySelectorAll("[data-slot]")) place.replaceWith(env.slots[Number(place.dataset.slot)]());
  return fragment;
}

/** Nodes of a whole text. */
export function render(text) {
  const env = { growing: false };
  return renderBlocks(parseBlocks(text, env), env);
}
