/**
 * One reply in the making: the request, the stream, and what becomes of the message meanwhile.
 */
import { streamChat } from "./api.js";
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
    /** {total, cache, processed} while the prompt is read. */
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
    message.model = object.model;
    if (object.prompt_progress) this.progress = object.prompt_progress;
    if (object.usage) {
      const { prompt_tokens, completion_tokens, prompt_tokens_details, completion_tokens_details } = object.usage;
      message.usage = {
        prompt: prompt_tokens,
        completion: completion_tokens,
        cached: prompt_tokens_details?.cached_tokens ?? 0,
        reasoning: completion_tokens_details?.reasoning_tokens ?? 0,
      };
      this.tokens = completion_tokens;
    }
    const choice = object.choices?.[0];
    if (!choice) return;
    if (this._firstAt === null) {
      this._firstAt = performance.now();
      this.progress = null;
      message.firstSeconds = this.elapsed;
    }
    const tokens = choice.logprobs?.content;
    if (tokens) this.trace.push(...tokens);
    this.tokens = tokens ? this.trace.length : this.tokens + (choice.finish_reason ? 0 : 1);
    if (choice.delta) this._add(choice.delta);
    if (choice.finish_reason) message.finish = choice.finish_reason;
  }

  _add(delta) {
    const { message } = this;
    if (delta.reasoning_content) {
      this._thoughtAt ??= performance.now();
      message.reasoning = (message.reasoning ?? "") + delta.reasoning_content;
    }
    if (delta.content || delta.tool_calls) this._endThought();
    if (delta.content) message.content += delta.content;
    for (const piece of delta.tool_calls ?? []) {
      message.calls ??= [];
      const call = (message.calls[piece.index] ??= { id: "", name: "", arguments: "" });
      if (piece.id) call.id = piece.id;
      if (piece.function?.name) call.name = piece.function.name;
      call.arguments += piece.function?.arguments ?? "";
    }
  }

  _endThought() {
    if (this._thoughtAt !== null) this.message.thinkSeconds = (performance.now() - this._thoughtAt) / 1000;
    this._thoughtAt = null;
  }
}
