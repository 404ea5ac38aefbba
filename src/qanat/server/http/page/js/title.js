/** The title of the shown conversation, which is renamed where it stands. */
import { $, h } from "./dom.js";

/** A field in the title's place until it is left; Escape changes nothing. */
export function rename(conversation) {
  const title = $("title");
  const field = h("input", { "aria-label": "Title", maxlength: 200 });
  field.value = conversation.data.title;
  field.addEventListener("blur", () => {
    field.replaceWith(title);
    conversation.rename(field.value);
  }, { once: true });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    if (event.key === "Escape") field.value = conversation.data.title;
    event.preventDefault();
    field.blur();
  });
  title.replaceWith(field);
  field.select();
}
