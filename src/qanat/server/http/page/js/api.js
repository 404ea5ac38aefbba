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
  const list = (await read(answer))?.data;
  const models = (Array.isArray(list) ? list : []).filter((model) => typeof model?.id === "string");
  if (!models.length) throw new ApiError("The server names no model.");
  const whole = (value) => value === null || (Number.isInteger(value) && value > 0);
  const object = (value) => (value && typeof value === "object" ? value : {});
  return models.map(({ id, max_model_len, chat_defaults }) => ({
    id,
    max_model_len: whole(max_model_len) ? max_model_len : undefined,
    chat_defaults: chat_defaults && { ...object(chat_defaults), sampling: object(chat_defaults.sampling), thinking_sampling: object(chat_defaults.thinking_sampling) },
  }));
}

/** Every stage from these messages to token ids. */
export async function explain(body, signal) {
  return read(await ask("explain", body, signal));
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

async function read(answer) {
  try {
    return await answer.json();
  } catch {
    throw new ApiError("The server sent what is no JSON.");
  }
}

async function refusal(answer) {
  let told = {};
  try {
    told = (await answer.json())?.error ?? {};
  } catch {
    // A proxy's page, perhaps: its status has to do.
  }
  const message = typeof told.message === "string" ? told.message : `The server answered with status ${answer.status}.`;
  return new ApiError(message, answer.status, told.code ?? null);
}
