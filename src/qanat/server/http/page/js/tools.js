/**
 * Tools that the model is offered: those the user pasted, and our calculator, which answers by itself.
 */
import { CALCULATOR, calculate } from "./calculator.js";

/**
 * The tools of a text field: a JSON list of OpenAI's tool objects, of bare functions, or one alone.
 * @throws {Error} a sentence for the user
 */
export function parseTools(text) {
  if (!text.trim()) return [];
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`The tools are no JSON: ${error.message}`);
  }
  const list = Array.isArray(value) ? value : [value];
  return list.map((item, place) => {
    const tool = item?.type === "function" ? item : { type: "function", function: item };
    if (typeof tool.function?.name !== "string" || !tool.function.name) throw new Error(`Tool ${place + 1} has no name.`);
    return tool;
  });
}

/** What a request offers; undefined if there is nothing. */
export function offeredTools(settings) {
  const tools = parseTools(settings.tools);
  if (settings.calculator && !tools.some((tool) => tool.function.name === CALCULATOR.function.name)) tools.push(CALCULATOR);
  return tools.length ? tools : undefined;
}

/** The result of a call that the page answers itself; null: the user has to. */
export function answerCall(call, settings) {
  if (!settings.calculator || call.name !== CALCULATOR.function.name) return null;
  if (parseTools(settings.tools).some((tool) => tool.function.name === call.name)) return null; // the user's own
  try {
    return String(calculate(String(JSON.parse(call.arguments || "{}").expression ?? "")));
  } catch (error) {
    return `error: ${error.message}`;
  }
}

/** Arguments as people read them: on a line if they are short; what is no JSON stays as it came. */
export function shownArguments(text) {
  try {
    const value = JSON.parse(text);
    const line = JSON.stringify(value);
    return line.length < 70 ? line : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}
