/**
 * The one place where a string becomes HTML. What a model wrote is hostile: only these tags and attributes are
 * let through, links lead to other sites in a tab of their own and only when they are followed, and nothing is
 * loaded from anywhere. The server's Content-Security-Policy says so once more.
 */
import "../vendor/purify.min.js";

const purify = globalThis.DOMPurify;

const RULES = {
  ALLOWED_TAGS: [
    ..."p br hr h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s a span div".split(" "),
    ..."table thead tbody tr th td".split(" "),
  ],
  ALLOWED_ATTR: ["href", "title", "class", "start", "data-slot"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

/** Where links may lead. */
const ADDRESS = /^(?:https?:\/\/[^/\s]|mailto:)/i;
/** Classes that we or highlight.js write; any other could put on the clothes of a part of the page. */
const CLASS = /^(?:hljs(?:-[\w-]+)?|\w+_{1,2}|align-(?:left|right|center)|table)$/;

purify.addHook("afterSanitizeAttributes", (element) => {
  if (element.hasAttribute("href")) {
    if (element.tagName === "A" && ADDRESS.test(element.getAttribute("href"))) {
      element.setAttribute("target", "_blank");
      element.setAttribute("rel", "noopener noreferrer nofollow");
    } else {
      element.removeAttribute("href");
    }
  }
  if (element.hasAttribute("class")) {
    const kept = element.getAttribute("class").split(/\s+/).filter((name) => CLASS.test(name));
    if (kept.length) element.setAttribute("class", kept.join(" "));
    else element.removeAttribute("class");
  }
});

/**
 * Harmless nodes of a string of HTML.
 * @param {string} html
 * @returns {DocumentFragment}
 */
export function toFragment(html) {
  return purify.sanitize(html, RULES);
}
