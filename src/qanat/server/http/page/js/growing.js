/**
 * Markdown that is still being written. Blocks that are complete are made once; only the last one, which the
 * next word may change, is made anew.
 */
import { parseBlocks, render, renderBlocks } from "./markdown.js";

export class GrowingMarkdown {
  /** @param {HTMLElement} element where it is shown */
  constructor(element) {
    this._element = element;
    this._text = "";
    this._stable = 0; // characters whose blocks are complete
    this._last = []; // nodes of the last block
    this._env = { growing: true };
    /** How many blocks were made so far; the work that a text of n blocks should cost is n, not n squared. */
    this.made = 0;
  }

  /** Take the whole text as it is now: what it was before, and more. Called once for each frame. */
  update(text) {
    this._text = text.replace(/\r\n?/g, "\n"); // as markdown-it reads it, so that its lines are ours
    this._show();
  }

  /** Nothing follows. */
  finish() {
    // What could be told apart only at the end: a definition of links that earlier blocks used, an open formula.
    this._element.replaceChildren(render(this._text));
  }

  _show() {
    const rest = this._text.slice(this._stable);
    const blocks = parseBlocks(rest, this._env);
    for (const node of this._last) node.remove();
    const last = blocks.pop();
    if (blocks.length) {
      this._element.append(renderBlocks(blocks, this._env));
      this._stable += offsetOfLine(rest, last.line);
    }
    this._last = [];
    if (last) {
      const fragment = renderBlocks([last], this._env);
      this._last = [...fragment.childNodes];
      this._element.append(fragment);
    }
    this.made += blocks.length + (last ? 1 : 0);
  }
}

function offsetOfLine(text, line) {
  let at = 0;
  for (; line > 0; line--) at = text.indexOf("\n", at) + 1;
  return at;
}
