/**
 * What a conversation asks of the model: the fields of its settings, their bounds, and what is sent of them.
 * An empty field is the server's to decide, so nothing is sent for it.
 */

/** Numbers that may be set: the request's field, a label, the server's bounds, a step, and what it does. */
export const NUMBERS = [
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, hint: "0 always takes the likeliest token" },
  { name: "top_p", label: "Top p", min: 0, max: 1, step: 0.01, hint: "keep the likeliest tokens up to this share" },
  { name: "top_k", label: "Top k", min: 0, max: 1000, step: 1, hint: "keep so many tokens; 0 keeps all" },
  { name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01, hint: "drop what is less likely than this part of the best" },
  { name: "presence_penalty", label: "Presence penalty", min: -2, max: 2, step: 0.1, hint: "against what was said before" },
  { name: "frequency_penalty", label: "Frequency penalty", min: -2, max: 2, step: 0.1, hint: "against what was said often" },
  { name: "repetition_penalty", label: "Repetition penalty", min: 0.01, max: 10, step: 0.01, hint: "1 is off" },
  { name: "max_tokens", label: "Longest reply", min: 1, max: 2147483647, step: 1, hint: "tokens, thoughts included" },
  { name: "seed", label: "Seed", min: 0, max: 9007199254740991, step: 1, hint: "the same seed gives the same reply" },
];

/** Settings of a first conversation. */
export const EMPTY = { system: "", model: "", thinking: null, tools: "", calculator: false };

/** Settings of which every field is of its kind and within its bounds; what is not is left out. */
export function cleanSettings(value) {
  const given = value && typeof value === "object" ? value : {};
  const text = (name, most) => (typeof given[name] === "string" ? given[name].slice(0, most) : EMPTY[name]);
  const clean = {
    system: text("system", 1_000_000),
    model: text("model", 256),
    thinking: typeof given.thinking === "boolean" ? given.thinking : null,
    tools: text("tools", 1_000_000),
    calculator: given.calculator === true,
  };
  for (const { name, min, max, step } of NUMBERS) {
    const number = given[name];
    if (typeof number === "number" && number >= min && number <= max && (step !== 1 || Number.isInteger(number))) clean[name] = number;
  }
  return clean;
}

/** The fields of a request. */
export function sampling(settings) {
  return Object.fromEntries(NUMBERS.map(({ name }) => [name, settings[name]]).filter(([, value]) => value !== undefined));
}

/** What the server does where a setting is empty: its sampling with or without thinking. */
export function inherited(model, settings) {
  const defaults = model?.chat_defaults;
  if (!defaults) return {};
  return (settings.thinking ?? defaults.thinks) ? defaults.thinking_sampling : defaults.sampling;
}

/** Whether every token is the likeliest one, so that chance has no say. */
export function isGreedy(model, settings) {
  const { temperature, top_k } = { ...inherited(model, settings), ...sampling(settings) };
  return temperature === 0 || top_k === 1;
}

/** Whether two settings ask for the same. */
export const sameSettings = (a, b) => JSON.stringify(cleanSettings(a)) === JSON.stringify(cleanSettings(b));
