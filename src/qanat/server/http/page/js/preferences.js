/** What this browser keeps of the user's wishes: the settings of the last conversation, and what Inside notes. */
import { cleanSettings } from "./defaults.js";

const SETTINGS = "qanat.settings";
const RECORD = "qanat.record";

/** Settings for a new conversation. */
export function lastSettings() {
  try {
    return cleanSettings(JSON.parse(localStorage.getItem(SETTINGS) ?? "{}"));
  } catch {
    return cleanSettings({});
  }
}

export function keepSettings(settings) {
  localStorage.setItem(SETTINGS, JSON.stringify(settings));
}

/** Whether the alternatives of every token are noted; on unless turned off. */
export const records = () => localStorage.getItem(RECORD) !== "no";

export const setRecords = (value) => localStorage.setItem(RECORD, value ? "yes" : "no");
