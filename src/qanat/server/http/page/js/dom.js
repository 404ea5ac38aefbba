/**
 * Elements from data. Nothing here takes a string of HTML: text stays text, whoever wrote it.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Outlines of our icons, on a square of 24. */
const ICONS = {
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6 6 18",
  menu: "M4 7h16M4 12h16M4 17h10",
  import: "M12 15V4m0 0 4 4m-4-4L8 8M5 19h14", // up, as to a server: into the page
  export: "M12 4v11m0 0 4-4m-4 4-4-4M5 19h14", // down, as from one: onto the disk
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  help: "M9.2 9a2.9 2.9 0 1 1 4.3 2.6c-1 .6-1.5 1.1-1.5 2.4M12 17.5v.1M12 3a9 9 0 1 0 .01 0",
  settings: "M4 7h9m5 0h2M4 17h2m5 0h9M15.5 4.5v5M8.5 14.5v5",
  down: "M12 5v14m0 0 6-6m-6 6-6-6",
  send: "M12 19V5m0 0 6 6m-6-6-6 6",
  stop: "M8 8h8v8H8z",
  thought: "M9 18h6m-5 3h4M12 3a6 6 0 0 0-3.6 10.8c.7.6 1.1 1.2 1.2 2.2h4.8c.1-1 .5-1.6 1.2-2.2A6 6 0 0 0 12 3",
  copy: "M9 9h10v11H9zM5 15V4h10",
  done: "M5 12.5 10 17l9-10",
  edit: "M4 20l1-4L16 5l3 3L8 19z",
  again: "M19 12a7 7 0 1 1-2-5m2-3v4h-4",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  tool: "M14.5 6a4 4 0 0 0-5 5L4 16.5 7.5 20l5.5-5.5a4 4 0 0 0 5-5L15.5 12 12 8.5z",
  inside: "M4 6h6v5H4zM14 13h6v5h-6zM10 8.5h4a3 3 0 0 1 3 3V13",
};

/**
 * An element. `props` are attributes, but for `text`, `class`, `on` (listeners by event) and `data`;
 * true is an attribute without value, false and null leave it out.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Node|string|null|undefined|false)} children
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "on") for (const [event, f] of Object.entries(value)) element.addEventListener(event, f);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An icon by its name. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** A button that shows an icon and says what it does. */
export function iconButton(name, label, onClick, more = {}) {
  return h("button", { type: "button", class: "icon", "aria-label": label, title: label, on: { click: onClick }, ...more }, icon(name));
}

/** The element of index.html with this id. */
export function $(id) {
  return /** @type {any} */ (document.getElementById(id));
}

/** Put the icons into the elements of index.html that name one. */
export function fillIcons() {
  for (const element of document.querySelectorAll("[data-icon]")) element.prepend(icon(element.dataset.icon));
}

/** What a program said, as a sentence; a name it begins with, like `top_p`, stays as it is written. */
export function sentence(text) {
  const told = text.trim().replace(/^[a-z]{2,}(?=[\s,'])/, (word) => word[0].toUpperCase() + word.slice(1));
  return /[\p{L}\p{N})\]'"`]$/u.test(told) ? `${told}.` : told;
}

/** Numbers as people read them: 1,234. */
export const count = (number) => Math.round(number).toLocaleString("en");

/** Tokens a second. */
export const rate = (number) => `${number < 100 ? number.toFixed(1) : count(number)} tok/s`;

/** Seconds, as short as they can be said. */
export function seconds(value) {
  if (value < 0.1) return `${Math.round(1000 * value)} ms`;
  if (value < 60) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}
