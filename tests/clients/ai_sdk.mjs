// The AI SDK against a server: `ai_sdk.mjs CASE URL KEY NAME` prints what came of one case, as JSON.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as sdk from "ai";
import { z } from "zod";

const [, , wanted, url, key, name] = process.argv;
const provider = createOpenAICompatible({
  name: "pyrite",
  baseURL: `${url}/v1`,
  apiKey: key,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const common = { model: provider(name), maxRetries: 0, temperature: 0, maxOutputTokens: 60 };
const Person = z.object({ name: z.string(), age: z.number().int() });
const tools = {
  weather: sdk.tool({
    description: "The weather of a city.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `text: rain in ${city}`,
  }),
};
const question = "How is the weather in Paris?";

async function collected(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

async function failure(work) {
  try {
    await work();
  } catch (error) {
    return { isCallError: sdk.APICallError.isInstance(error), status: error.statusCode, words: error.message };
  }
  return null;
}

async function streamFailure(prompt) {
  let told = null;
  const result = sdk.streamText({ ...common, prompt, onError: ({ error }) => (told = error) });
  const parts = await collected(result.fullStream);
  const part = parts.find(({ type }) => type === "error");
  return { status: told?.statusCode, words: String(told?.message ?? told), isTold: part !== undefined };
}

const cases = {
  async text() {
    const whole = await sdk.generateText({ ...common, prompt: "text" });
    const stream = sdk.streamText({ ...common, prompt: "text" });
    const joined = (await collected(stream.textStream)).join("");
    return { whole: whole.text, joined, reason: await stream.finishReason, usage: await stream.usage };
  },
  async thinking() {
    const whole = await sdk.generateText({ ...common, prompt: "thinking" });
    const stream = sdk.streamText({ ...common, prompt: "thinking" });
    return { whole: whole.reasoningText, streamed: await stream.reasoningText, text: whole.text };
  },
  async tools() {
    const asked = { ...common, tools, prompt: "call", stopWhen: sdk.stepCountIs(3) };
    const whole = await sdk.generateText(asked);
    const stream = sdk.streamText(asked);
    return { whole: whole.text, streamed: await stream.text, steps: whole.steps.length };
  },
  async objects() {
    const { object } = await sdk.generateObject({ ...common, schema: Person, prompt: "json" });
    const stream = sdk.streamObject({ ...common, schema: Person, prompt: "json" });
    const partial = await collected(stream.partialObjectStream);
    return { object, streamed: await stream.object, partial: partial.length };
  },
  async vectors() {
    const model = provider.textEmbeddingModel(name);
    const { embeddings, usage } = await sdk.embedMany({ model, values: ["ab", "c"], maxRetries: 0 });
    return { embeddings, tokens: usage.tokens };
  },
  async errors() {
    const told = {};
    for (const prompt of ["full", "down", "long"]) {
      told[prompt] = await failure(() => sdk.generateText({ ...common, prompt }));
      told[`${prompt} streamed`] = await streamFailure(prompt);
    }
    told.broken = await streamFailure("broken");
    return told;
  },
  async refused() {
    return failure(() => sdk.generateText({ ...common, prompt: "text" }));
  },
  async mustCall() {
    const toolChoice = { type: "tool", toolName: "weather" };
    const asked = { ...common, tools, toolChoice, prompt: question };
    const { toolCalls } = await sdk.generateText(asked);
    const streamed = await sdk.streamText(asked).toolCalls;
    return { input: toolCalls[0].input, streamed: streamed[0].input };
  },
  async mustFit() {
    const { object } = await sdk.generateObject({ ...common, schema: Person, prompt: "Who is Ada, of 36?" });
    return object;
  },
  async left() {
    const leaving = new AbortController();
    const prompt = "Write a long story.";
    const asked = { ...common, maxOutputTokens: 1900, prompt, abortSignal: leaving.signal };
    for await (const _ of sdk.streamText(asked).textStream) leaving.abort();
    return "left";
  },
};

console.log(JSON.stringify(await cases[wanted]()));
