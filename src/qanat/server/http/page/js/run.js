/**
 * One reply in the making: the request, the stream, and what becomes of the message meanwhile.
 */
import { streamChat } from "./api.js";
import { readChunk } from "./chunks.js";
import { sampling } from "./defaults.js";
import { offeredTools } from "./tools.js";

/** How many alternatives of each token Inside shows. */
const ALTERNATIVES = 5;

/** The body of a request that goes on after these messages. */
export function requestBody(path, settings, { record = false } = {}) {
  const body = { messages: path.filter(worthSending).map(asSent), ...sampling(settings) };
  if (settings.system.trim()) body.messages.unshift({ role: "system", content: settings.system });
  if (settings.model) body.model = settings.model;
  if (settings.thinking !== null) body.chat_template_kwargs = { enable_thinking: settings.thinking };
  const tools = offeredTools(settings);
  if (tools) body.tools = tools;
  if (record) Object.assign(body, { logprobs: true, top_logprobs: ALTERNATIVES });
  return body;
}

/** An answer that failed before its first word would only confuse the model. */
const worthSending = (message) => message.role !== "assistant" || message.content || message.calls?.length || !message.error;

function asSent(message) {
  const { role, content } = message;
  if (role === "tool") return { role, content, tool_call_id: message.call };
  if (role === "user") return { role, content };
  const sent = { role, content };
  if (message.reasoning) sent.reasoning_content = message.reasoning;
  if (message.calls?.length) {
    sent.tool_calls = message.calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: objectText(call.arguments) } }));
  }
  return sent;
}

/** The server takes the text of an object only; what a file made of it must not spoil the conversation. */
function objectText(text) {
  try {
    const value = JSON.parse(text || "{}");
    if (value && typeof value === "object" && !Array.isArray(value)) return JSON.stringify(value);
  } catch {
    // Below.
  }
  return JSON.stringify({ text });
}

export class Run {
  /**
   * @param {any} message the assistant's, still empty
   * @param {(run: Run) => void} onChange called after every object of the stream
   */
  constructor(message, onChange) {
    this.message = message;
    this.trace = [];
    /** {total, processed} while the prompt is read. */
    this.progress = null;
    this.tokens = 0;
    this.begun = performance.now();
    this._firstAt = null;
    this._thoughtAt = null;
    this._onChange = onChange;
    this._abort = new AbortController();
  }

  stop() {
    this._abort.abort();
  }

  /** Seconds since the request was sent. */
  get elapsed() {
    return (performance.now() - this.begun) / 1000;
  }

  /** Tokens a second since the first one, or null. */
  get speed() {
    const time = (performance.now() - this._firstAt) / 1000;
    return this._firstAt !== null && this.tokens > 1 && time > 0.2 ? (this.tokens - 1) / time : null;
  }

  /** Read the whole stream. Errors end up in the message, but for a missing key, which is thrown. */
  async read(body) {
    const { message } = this;
    const request = { ...body, stream_options: { include_usage: true }, return_progress: true };
    try {
      for await (const object of streamChat(request, this._abort.signal)) {
        this._take(object);
        this._onChange(this);
      }
      message.finish ??= "stop";
    } catch (error) {
      if (error.status === 401) throw error;
      if (error.name === "AbortError") message.finish = "stopped";
      else message.error = error.message;
    } finally {
      this._endThought();
      if (this._firstAt !== null) message.seconds = (performance.now() - this._firstAt) / 1000;
      this.progress = null;
    }
  }

  _take(object) {
    const { message } = this;
    const { model, progress, usage, delta, tokens, finish } = readChunk(object);
    message.model = model;
    if (progress) this.progress = progress;
    if (usage) {
      message.usage = usage;
      this.tokens = usage.completion;
    }
    if (!delta) return;
    if (this._firstAt === null) {
      this._firstAt = performance.now();
      this.progress = null;
      message.firstSeconds = this.elapsed;
    }
    if (tokens) this.trace.push(...tokens);
    this.tokens = tokens ? this.trace.length : this.tokens + (finish ? 0 : 1);
    this._add(delta);
    if (finish) message.finish = finish;
  }

  _add({ reasoning, content, calls }) {
    const { message } = this;
    if (reasoning) {
      this._thoughtAt ??= performance.now();
      message.reasoning = (message.reasoning ?? "") + reasoning;
    }
    if (content || calls.length) this._endThought();
    message.content += content;
    for (const { index, id, name, arguments: more } of calls) {
      message.calls ??= [];
      // One after the other: a call that is left out would leave a hole.
      if (index > message.calls.length) continue;
      const call = (message.calls[index] ??= { id: "", name: "", arguments: "" });
      if (id) call.id = id;
      if (name) call.name = name;
      call.arguments += more;
    }
  }

  _endThought() {
    if (this._thoughtAt !== null) this.message.thinkSeconds = (performance.now() - this._thoughtAt) / 1000;
    this._thoughtAt = null;
  }
}
