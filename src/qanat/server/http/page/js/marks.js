/**
 * The words of a search, marked where they are shown. They are coloured without touching any element
 * (`CSS.highlights`); a browser that cannot do that shows the place unmarked.
 */

/** What of a message is searched, as elements. */
const PARTS = ".body, .thought-text";

export class Marks {
  constructor() {
    this._words = [];
    const colours = globalThis.Highlight && CSS.highlights;
    this._found = colours ? new Highlight() : new Set();
    if (colours) CSS.highlights.set("found", this._found);
  }

  /** From now on mark these words, and no others. */
  look(words) {
    this._words = words;
    this._found.clear();
  }

  /** Mark them in an element, of which nothing else is marked afterwards. */
  mark(element) {
    if (!this._words.length) return;
    for (const range of this._found) {
      if (!range.startContainer.isConnected || element.contains(range.startContainer)) this._found.delete(range);
    }
    const pattern = new RegExp(this._words.map(asPattern).join("|"), "giu");
    for (const part of element.querySelectorAll(PARTS)) {
      const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
      for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        for (const { index, 0: word } of text.data.matchAll(pattern)) {
          const range = new Range();
          range.setStart(text, index);
          range.setEnd(text, index + word.length);
          this._found.add(range);
        }
      }
    }
  }

  /** The marked words within an element, in their order. */
  within(element) {
    return [...this._found].filter((range) => element.contains(range.startContainer));
  }
}

const asPattern = (word) => word.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
