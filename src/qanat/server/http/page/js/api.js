/**
 * The server as the page sees it. Addresses are relative, so that a proxy may serve all of it under a prefix.
 */
import { readEvents } from "./events.js";

const KEY = "qanat.key";
let key = keptKey();

/** An answer that is none. `status` 0: nobody answered. `code` is OpenAI's word for it. */
export class ApiError extends Error {
  constructor(message, status = 0, code = null) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The names of the model, its context and the defaults of chat requests. */
export async function listModels() {
  const answer = await ask("v1/models");
  return (await answer.json()).data;
}

/** Every stage from these messages to token ids. */
export async function explain(body, signal) {
  return (await ask("explain", body, signal)).json();
}

/** The objects of a streamed reply. */
export async function* streamChat(body, signal) {
  const answer = await ask("v1/chat/completions", { ...body, stream: true }, signal);
  yield* readEvents(answer.body);
}

/** Keep a key as long as this tab lives; the empty one forgets it. */
export function useKey(value) {
  key = value;
  try {
    sessionStorage.setItem(KEY, value);
  } catch {
    // Then it has to be given again after a reload.
  }
}

/** Whether there is one to show. */
export const hasKey = () => key !== "";

function keptKey() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

async function ask(path, body, signal) {
  if (/[^!-~]/.test(key)) throw new ApiError("No key has such characters.", 401); // nor can a header
  const headers = {};
  if (key) headers["x-api-key"] = key;
  if (body) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer.");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function refusal(answer) {
  let told = {};
  try {
    told = (await answer.json()).error ?? {};
  } catch {
    // A proxy's page, perhaps: its status has to do.
  }
  const message = typeof told.message === "string" ? told.message : `The server answered with status ${answer.status}.`;
  return new ApiError(message, answer.status, told.code ?? null);
}
