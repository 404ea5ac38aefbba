/** The line above the conversation: what went wrong or was done, until it is closed or no longer true. */
import { $, sentence } from "./dom.js";

let about = "";
/** What the user has read and closed, though it is still so. */
let closed = "";

/**
 * Tell the user something.
 * @param {string} message
 * @param {{error?: boolean, topic?: string}} [more] what `retract` takes back by its topic is not told again
 *   while it stays the same, once it was closed
 */
export function notify(message, { error = true, topic = "" } = {}) {
  if (topic && closed === sentence(message)) return;
  about = topic;
  $("notice-text").setAttribute("role", error ? "alert" : "status");
  $("notice-text").textContent = sentence(message);
  $("notice").classList.toggle("told", !error);
  $("notice").hidden = false;
}

/** It is not so any more. */
export function retract(topic) {
  closed = "";
  if (about === topic) hide();
}

/** What was done since has made it old, unless it is still so. */
export function outdate() {
  if (!about) hide();
}

/** Whether there was one to close. */
export function closeNotice() {
  if ($("notice").hidden) return false;
  if (about) closed = $("notice-text").textContent;
  hide();
  return true;
}

function hide() {
  about = "";
  $("notice").hidden = true;
}
