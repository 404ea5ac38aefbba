/**
 * Inside, for learners: the way of the last prompt from messages to numbers, as `qanat explain` tells it, and
 * the tokens of the last reply with what could have stood in their places.
 */
import { ApiError, explain } from "./api.js";
import { count, h, sentence } from "./dom.js";
import { requestBody } from "./run.js";
import { loadTrace } from "./store.js";

/** Tokens and pieces shown at most: each is an element. */
const MOST = 3000;

let latest = 0;

/** Fill `element` for the shown path of a conversation. */
export async function showInside(element, conversation) {
  const turn = ++latest;
  const path = conversation.tree.path();
  const at = path.findLastIndex((message) => message.role === "assistant");
  if (at < 0) {
    element.replaceChildren(h("p", { class: "note", text: "Ask something first. Then this view shows what the model read, and what else it could have said." }));
    return;
  }
  const reply = path[at];
  const prompt = h("div", { class: "stages" }, h("p", { class: "note", text: "Asking the server for the stages of the prompt." }));
  const tokens = h("div", { class: "stages" });
  element.replaceChildren(prompt, tokens);
  const [stages, trace] = await Promise.all([ask(path.slice(0, at), conversation.sentWith(reply) ?? conversation.data.settings), loadTrace(reply.id).catch(() => undefined)]);
  if (turn !== latest) return; // another one was asked for meanwhile
  prompt.replaceChildren(...promptOrError(stages));
  tokens.replaceChildren(...replyStage(trace?.tokens, reply.greedy));
}

function promptOrError(stages) {
  const error = (message) => [h("p", { class: "error", text: sentence(message) })];
  if (stages instanceof Error) return error(stages.message);
  try {
    return promptStages(stages);
  } catch {
    return error("The server sent what cannot be read.");
  }
}

async function ask(path, settings) {
  try {
    const { chat_template_kwargs, messages, tools, model } = requestBody(path, settings);
    return await explain({ messages, tools, model, chat_template_kwargs });
  } catch (error) {
    return error instanceof ApiError ? error : new Error(error.message);
  }
}

function stage(number, title, what, ...content) {
  return h("section", { class: "stage" }, h("h3", {}, h("span", { text: String(number) }), title), h("p", { text: what }), ...content);
}

function promptStages({ prompt, stretches, tokens, vocabulary }) {
  return [
    stage(1, "The prompt as text", "The chat template frames the messages with control tokens. This is all that the model reads.", h("pre", { class: "prompt", tabindex: "0" }, ...stretches.map((stretch) => (stretch.added_token === null ? stretch.text : h("mark", { text: stretch.text }))))),
    piecesStage(stretches),
    stage(3, "Token ids", `The model is given these numbers: ${count(tokens.length)}, of ${count(vocabulary)} in its vocabulary.`, h("pre", { class: "ids", tabindex: "0", text: tokens.slice(0, MOST).join(" ") + (tokens.length > MOST ? " ..." : "") })),
  ];
}

function piecesStage(stretches) {
  const detail = h("div", { class: "detail", "aria-live": "polite" }, h("p", { text: "Choose a piece to see how it is merged." }));
  const all = stretches.flatMap((stretch) => (stretch.added_token === null ? stretch.pieces : [stretch]));
  const chips = all.slice(0, MOST).map((piece) => h("button", {
    type: "button",
    class: piece.ids ? "piece" : "piece control",
    tabindex: -1,
    data: { tokens: piece.ids ? Math.min(piece.ids.length, 4) : 1 },
    text: visible(piece.text),
    on: { click: () => detail.replaceChildren(...merges(piece)), focus: () => detail.replaceChildren(...merges(piece)) },
  }));
  const rest = all.length > MOST ? h("p", { text: `And ${count(all.length - MOST)} more pieces.` }) : null;
  return stage(2, "Pieces", "Control tokens are ids at once. The rest is normalised and cut by a regular expression; no token reaches over a cut. The darker, the more tokens a piece needs.", roving(h("div", { class: "pieces", role: "toolbar", "aria-label": "Pieces" }, ...chips)), rest, detail);
}

function merges(piece) {
  if (!piece.ids) return [h("p", {}, `A control token, with the id ${piece.added_token}.`)];
  const steps = piece.merges.map((step) => h("li", {}, h("code", { text: `${step.left} + ${step.right}` }), h("span", { text: `rank ${count(step.rank)}` }), h("code", { text: step.tokens.join(" ") })));
  return [
    h("p", {}, "Its bytes as letters: ", h("code", { text: [...piece.byte_level].join(" ") })),
    steps.length > 0 && h("p", { text: "Neighbours are merged, the pair of lowest rank first:" }),
    steps.length > 0 && h("ol", {}, ...steps),
    h("p", {}, `${piece.ids.length === 1 ? "One token" : `${piece.ids.length} tokens`}: `, h("code", { text: piece.tokens.map((token, i) => `${token} = ${piece.ids[i]}`).join("  ") })),
  ].filter(Boolean);
}

function replyStage(tokens, greedy) {
  const what = "After each token the model gives every entry of the vocabulary a probability, and " + (greedy ? "the likeliest is taken." : "one is drawn.");
  if (!tokens?.length) return [stage(4, "The reply, token by token", what, h("p", { class: "note", text: "Nothing was noted for this reply. Turn it on in the settings (This browser), and ask again." }))];
  const detail = h("div", { class: "detail", "aria-live": "polite" }, h("p", { text: "Choose a token to see its rivals. The paler a token, the less sure the model was." }));
  const show = (token) => detail.replaceChildren(...candidates(token));
  const chips = tokens.slice(0, MOST).map((token) => h("button", {
    type: "button",
    class: "token",
    tabindex: -1,
    data: { sure: Math.min(9, Math.floor(Math.exp(token.logprob) * 10)) },
    text: visible(token.token),
    "aria-label": `${visible(token.token)}, ${percent(token.logprob)}`,
    on: { click: () => show(token), focus: () => show(token), pointerenter: () => show(token) },
  }));
  const rest = tokens.length > MOST ? h("p", { text: `And ${count(tokens.length - MOST)} more tokens.` }) : null;
  return [stage(4, "The reply, token by token", what, roving(h("div", { class: "pieces", role: "toolbar", "aria-label": "Tokens" }, ...chips)), rest, detail)];
}

/** The likeliest tokens of a place, the drawn one among them, as bars. */
function candidates(token) {
  const all = token.top_logprobs.some((other) => same(other, token)) ? token.top_logprobs : [...token.top_logprobs, token];
  return [h("ol", { class: "candidates" }, ...all.map((other) => h("li", { class: same(other, token) ? "drawn" : "" },
    h("code", { text: visible(other.token) }),
    h("meter", { min: 0, max: 1, value: Math.exp(other.logprob), "aria-label": `Probability of ${visible(other.token)}` }),
    h("span", { text: percent(other.logprob) }))))];
}

const same = (a, b) => a.bytes.join() === b.bytes.join();

function percent(logprob) {
  const share = 100 * Math.exp(logprob);
  return share >= 99.95 ? "100 %" : share < 0.1 ? "< 0.1 %" : `${share.toFixed(1)} %`;
}

/** Blanks and line ends as signs that can be seen. */
function visible(text) {
  return text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll("\r", "␍") || "∅";
}

/** One stop for the Tab key; arrows go from chip to chip. */
function roving(bar) {
  bar.firstElementChild?.setAttribute("tabindex", "0");
  bar.addEventListener("keydown", (event) => {
    const from = document.activeElement;
    const to = { ArrowRight: from.nextElementSibling, ArrowLeft: from.previousElementSibling, Home: bar.firstElementChild, End: bar.lastElementChild }[event.key];
    if (!to) return;
    event.preventDefault();
    from.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  });
  return bar;
}
