// OpenAI's own client for JavaScript.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { KEY, MODEL, URL, ask, check, rejection } from "./checks.mjs";

const client = new OpenAI({ baseURL: URL, apiKey: KEY, maxRetries: 0 });
const create = (fields) => client.chat.completions.create({ model: MODEL, ...fields });
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Look up the weather.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

await check("a chat is answered and remembered", async () => {
  const messages = ask("My name is Winston.");
  const first = await create({ messages, temperature: 0 });
  messages.push(first.choices[0].message, ...ask("What is my name?"));
  const answer = await create({ messages, temperature: 0 });
  assert.match(answer.choices[0].message.content, /Winston/);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

await check("the deltas of a stream join to the whole", async () => {
  const fields = { messages: ask("Tell me a short story about a dragon."), seed: 5, max_tokens: 50 };
  const whole = await create(fields);
  const stream = await create({ ...fields, stream: true, stream_options: { include_usage: true } });
  let text = "";
  let usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.total_tokens, whole.usage.total_tokens);
});

await check("the helper for streams sees the whole", async () => {
  const runner = client.chat.completions.stream({ model: MODEL, messages: ask("Who are you?"), temperature: 0 });
  const final = await runner.finalChatCompletion();
  const whole = await create({ messages: ask("Who are you?"), temperature: 0 });
  assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
});

await check("a stream can be left", async () => {
  const stream = await create({ messages: ask("Tell me a story."), stream: true, ignore_eos: true });
  for await (const chunk of stream) {
    assert.ok(chunk.id);
    break;
  }
});

await check("a tool is called and its answer read", async () => {
  const messages = ask("What is the weather in Paris?");
  const fields = { tools: [weather], temperature: 0 };
  const answer = (await create({ messages, ...fields })).choices[0];
  const [call] = answer.message.tool_calls;
  assert.equal(answer.finish_reason, "tool_calls");
  assert.deepEqual(JSON.parse(call.function.arguments), { city: "Paris" });
  messages.push(answer.message, { role: "tool", tool_call_id: call.id, content: "sunny, 21 degrees" });
  assert.match((await create({ messages, ...fields })).choices[0].message.content, /sunny/);
});

await check("a tool is run by the helper", async () => {
  let asked = null;
  const runner = client.chat.completions.runTools({
    model: MODEL,
    messages: ask("What is the weather in Paris?"),
    temperature: 0,
    stream: true,
    tools: [
      {
        type: "function",
        function: {
          ...weather.function,
          parse: JSON.parse,
          function: ({ city }) => {
            asked = city;
            return "sunny, 21 degrees";
          },
        },
      },
    ],
  });
  assert.match(await runner.finalContent(), /sunny/);
  assert.equal(asked, "Paris");
});

await check("an answer is parsed by a schema", async () => {
  const person = z.object({ age: z.number().int(), adult: z.boolean() });
  const answer = await client.chat.completions.parse({
    model: MODEL,
    messages: ask("Who are you?"),
    response_format: zodResponseFormat(person, "person"),
    max_tokens: 200,
  });
  assert.equal(typeof answer.choices[0].message.parsed.adult, "boolean");
});

await check("log probabilities, seeds and choices arrive", async () => {
  const fields = { messages: ask("Tell me a story."), n: 2, seed: 3, temperature: 1.2, max_tokens: 6 };
  const [one, two] = [
    await create({ ...fields, logprobs: true, top_logprobs: 2 }),
    await create({ ...fields, logprobs: true, top_logprobs: 2 }),
  ];
  assert.deepEqual(one.choices, two.choices);
  assert.equal(one.choices[1].logprobs.content[0].top_logprobs.length, 2);
});

await check("texts are continued and models listed", async () => {
  const answer = await client.completions.create({ model: MODEL, prompt: "Once upon a time", max_tokens: 5 });
  assert.ok(answer.choices[0].text);
  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  assert.deepEqual(models, [MODEL]);
});

await check("errors have their types", async () => {
  const bad = await rejection(create({ messages: ask("hi"), temperature: 3 }));
  assert.ok(bad instanceof OpenAI.BadRequestError);
  assert.equal(bad.param, "temperature");
  assert.ok(bad.requestID);
  const lost = await rejection(create({ messages: ask("hi"), model: "gpt-4o" }));
  assert.ok(lost instanceof OpenAI.NotFoundError);
  const stranger = new OpenAI({ baseURL: URL, apiKey: "wrong", maxRetries: 0 });
  assert.ok((await rejection(stranger.models.list())) instanceof OpenAI.AuthenticationError);
});
