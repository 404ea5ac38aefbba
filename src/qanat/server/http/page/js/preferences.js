/**
 * What this browser keeps of the user's wishes: the settings of the last conversation, the theme, what Inside
 * notes. A browser that is told to keep nothing refuses to be asked, too.
 */
import { cleanSettings } from "./defaults.js";

const SETTINGS = "qanat.settings";
const RECORD = "qanat.record";

/** What is kept under a name, or null. */
export function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Keep a text; null forgets it. */
export function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // Then it holds until the page is closed.
  }
}

/** Settings for a new conversation. */
export function lastSettings() {
  try {
    return cleanSettings(JSON.parse(kept(SETTINGS) ?? "{}"));
  } catch {
    return cleanSettings({});
  }
}

export function keepSettings(settings) {
  keep(SETTINGS, JSON.stringify(settings));
}

/** Whether the alternatives of every token are noted; on unless turned off. */
export const records = () => kept(RECORD) !== "no";

export const setRecords = (value) => keep(RECORD, value ? "yes" : "no");
