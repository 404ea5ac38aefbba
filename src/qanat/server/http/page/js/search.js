/** What a search finds: messages that have all of its words, small or capital. Plain data, no page. */

/** The words of a search. */
export const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** Whether all words stand in a text. */
export function haveAll(words, text) {
  const small = text.toLowerCase();
  return words.every((word) => small.includes(word));
}

/** What of a message is searched. */
export const searched = ({ content, reasoning }) => `${content}\n${reasoning ?? ""}`;

/** The first message that has all words, of the shown path before others; null if none has, or nothing is searched. */
export function firstWith(words, tree) {
  const has = (message) => haveAll(words, searched(message));
  return words.length ? (tree.path().find(has) ?? tree.all().find(has) ?? null) : null;
}
