// Vercel's AI SDK, with its provider for servers of OpenAI's API.

import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, Output, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { KEY, MODEL, URL, ask, check, rejection } from "./checks.mjs";

const provider = createOpenAICompatible({
  name: "qanat",
  baseURL: URL,
  apiKey: KEY,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const base = { model: provider(MODEL), maxRetries: 0, temperature: 0 };
const weather = tool({
  description: "Look up the weather.",
  inputSchema: z.object({ city: z.string() }),
  execute: async () => "sunny, 21 degrees",
});

await check("a text is generated, with its usage", async () => {
  const { text, usage, finishReason } = await generateText({ ...base, prompt: "Who are you?" });
  assert.ok(text);
  assert.equal(finishReason, "stop");
  assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
});

await check("it remembers over turns", async () => {
  const first = await generateText({ ...base, messages: ask("My name is Winston.") });
  const messages = [...ask("My name is Winston."), ...first.response.messages, ...ask("What is my name?")];
  assert.match((await generateText({ ...base, messages })).text, /Winston/);
});

await check("a stream joins to the whole", async () => {
  const fields = { ...base, prompt: "Tell me a short story about a dragon.", maxOutputTokens: 50 };
  const whole = await generateText(fields);
  const stream = streamText(fields);
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
  assert.equal(await stream.finishReason, whole.finishReason);
});

for (const [name, run] of [
  ["whole", async (fields) => generateText(fields)],
  ["streamed", async (fields) => streamText(fields)],
]) {
  await check(`a tool is called and its answer read, ${name}`, async () => {
    const result = await run({
      ...base,
      prompt: "What is the weather in Paris?",
      tools: { get_weather: weather },
      stopWhen: stepCountIs(3),
    });
    if (name === "streamed") for await (const _ of result.fullStream);
    const steps = await result.steps;
    assert.equal(steps.length, 2);
    assert.deepEqual(steps[0].toolCalls[0].input, { city: "Paris" });
    assert.match(await result.text, /sunny/);
  });
}

await check("thoughts come apart", async () => {
  const result = await generateText({
    ...base,
    prompt: "What is 47 + 38?",
    providerOptions: { qanat: { chat_template_kwargs: { enable_thinking: true } } },
  });
  assert.ok(result.reasoningText);
  assert.ok(!result.text.includes("<think>"));
});

await check("an object is generated, whole and streamed", async () => {
  const schema = z.object({ age: z.number().int(), adult: z.boolean() });
  const fields = { ...base, prompt: "Who are you?", maxOutputTokens: 200, output: Output.object({ schema }) };
  const { output } = await generateText(fields);
  assert.equal(typeof output.adult, "boolean");
  const stream = streamText(fields);
  let last = null;
  for await (const part of stream.partialOutputStream) last = part;
  assert.deepEqual(last, output);
});

await check("a call can be demanded", async () => {
  const { toolCalls } = await generateText({
    ...base,
    prompt: "Who are you?",
    tools: { get_weather: tool({ inputSchema: z.object({ city: z.string() }) }) },
    toolChoice: "required",
    maxOutputTokens: 200,
  });
  assert.equal(toolCalls[0].toolName, "get_weather");
});

await check("a stop text and a seed have their effect", async () => {
  const fields = { ...base, temperature: 1.3, prompt: "Tell me a story.", maxOutputTokens: 30, seed: 4 };
  const [one, two] = [await generateText(fields), await generateText(fields)];
  assert.equal(one.text, two.text);
  const stop = one.text.slice(10, 13);
  const cut = await generateText({ ...fields, stopSequences: [stop] });
  assert.equal(cut.text, one.text.slice(0, one.text.indexOf(stop)));
});

await check("a stream can be left", async () => {
  const abort = new AbortController();
  const stream = streamText({ ...base, prompt: "Tell me a story.", abortSignal: abort.signal });
  for await (const _ of stream.textStream) abort.abort();
  assert.equal((await generateText({ ...base, prompt: "Hi!" })).finishReason, "stop");
});

await check("errors have their types", async () => {
  const bad = await rejection(generateText({ ...base, temperature: 3, prompt: "hi" }));
  assert.ok(APICallError.isInstance(bad));
  assert.equal(bad.statusCode, 400);
  assert.match(bad.message, /temperature/);
  const lost = await rejection(generateText({ ...base, model: provider("gpt-4o"), prompt: "hi" }));
  assert.equal(lost.statusCode, 404);
});
