/**
 * The objects of a streamed reply, as far as they are what they should be. A server that is not ours, or a proxy
 * that spoils them, must not break the page: what is of another kind is left out.
 */

const MOST_CALLS = 128;

const object = (value) => (value && typeof value === "object" ? value : {});
const text = (value) => (typeof value === "string" ? value : "");
const list = (value) => (Array.isArray(value) ? value : []);
const number = (value) => (Number.isFinite(value) && value >= 0 && value < 1e15 ? value : 0);

/** Model, progress, usage, what is new (null: nothing), its tokens (null: not noted) and the reason of its end. */
export function readChunk(chunk) {
  const { model, prompt_progress: progress, usage, choices } = object(chunk);
  const choice = list(choices)[0];
  const { delta, logprobs, finish_reason } = object(choice);
  const tokens = object(logprobs).content;
  return {
    model: text(model),
    progress: progress ? { total: number(object(progress).total), processed: number(object(progress).processed) } : null,
    usage: usage ? readUsage(object(usage)) : null,
    delta: choice ? readDelta(object(delta)) : null,
    tokens: Array.isArray(tokens) ? tokens.map(readToken) : null,
    finish: text(finish_reason),
  };
}

function readUsage({ prompt_tokens, completion_tokens, prompt_tokens_details, completion_tokens_details }) {
  return {
    prompt: number(prompt_tokens),
    completion: number(completion_tokens),
    cached: number(object(prompt_tokens_details).cached_tokens),
    reasoning: number(object(completion_tokens_details).reasoning_tokens),
  };
}

function readDelta({ content, reasoning_content, tool_calls }) {
  // An index is a place in a list, and nothing else that an array has a name for.
  const known = list(tool_calls).map(object).filter(({ index }) => Number.isInteger(index) && index >= 0 && index < MOST_CALLS);
  const calls = known.map((piece) => {
    const made = object(piece.function);
    return { index: piece.index, id: text(piece.id), name: text(made.name), arguments: text(made.arguments) };
  });
  return { content: text(content), reasoning: text(reasoning_content), calls };
}

function readToken(value) {
  return { ...readAlternative(value), top_logprobs: list(object(value).top_logprobs).map(readAlternative) };
}

function readAlternative(value) {
  const { token, logprob, bytes } = object(value);
  return { token: text(token), logprob: Number.isFinite(logprob) ? Math.min(0, logprob) : -9999, bytes: list(bytes).map(number) };
}
