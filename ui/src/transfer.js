// Conversations as files: written as JSON or Markdown, and read back from JSON. Judges what it
// reads, since a file can hold anything. Knows no view.

import { newId } from './answer.js';
import { cleanSettings } from './settings.js';

const FORMAT = 'pyrite-conversations';

export const asJson = (conversations) =>
  JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 2);

export function asMarkdown({ title, settings, messages }) {
  const parts = [`# ${title}`];
  if (settings.system) parts.push('## System', settings.system);
  for (const message of messages) parts.push(`## ${heading(message)}`, ...bodies(message));
  return `${parts.join('\n\n')}\n`;
}

const heading = ({ role, model }) =>
  role === 'user' ? 'You' : model ? `Answer (${model})` : 'Answer';

function bodies({ content, reasoning, calls, error }) {
  const quote = (text) => text.replace(/^/gm, '> ');
  return [
    reasoning && quote(`Reasoning\n\n${reasoning}`),
    content,
    ...(calls ?? []).map((call) => `Call of \`${call.name}\`:\n\n\`\`\`json\n${call.arguments}\n\`\`\``),
    error && quote(`Error: ${error.message}`),
  ].filter(Boolean);
}

// Conversations of a file that was written by `asJson`, with ids of their own. Raises Error.
export function fromJson(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error('This file is not JSON.');
  }
  if (file?.format !== FORMAT || !Array.isArray(file.conversations)) {
    throw new Error('This file holds no conversations exported from this page.');
  }
  return file.conversations.map(conversation);
}

function conversation(given) {
  if (typeof given !== 'object' || !Array.isArray(given?.messages)) {
    throw new Error('A conversation in this file has no messages.');
  }
  const time = (value) => (Number.isFinite(value) ? value : Date.now());
  return {
    id: newId(),
    title: string(given.title).slice(0, 200) || 'Imported',
    created: time(given.created),
    updated: time(given.updated),
    settings: cleanSettings(given.settings),
    messages: given.messages.map(message),
  };
}

const string = (value) => (typeof value === 'string' ? value : '');

function message(given) {
  if (given?.role !== 'user' && given?.role !== 'assistant') {
    throw new Error(`A message in this file has the role ${JSON.stringify(given?.role)}.`);
  }
  const made = { id: newId(), role: given.role, content: string(given.content) };
  for (const name of ['reasoning', 'model', 'finish']) {
    if (string(given[name])) made[name] = given[name];
  }
  if (Array.isArray(given.calls)) made.calls = given.calls.map(call);
  if (string(given.error?.message)) {
    made.error = { kind: string(given.error.kind), message: given.error.message };
  }
  if (given.usage) made.usage = numbers(given.usage, ['prompt_tokens', 'completion_tokens']);
  const cached = given.usage?.prompt_tokens_details?.cached_tokens;
  if (Number.isFinite(cached)) made.usage.prompt_tokens_details = { cached_tokens: cached };
  if (given.times) made.times = numbers(given.times, ['first', 'total']);
  return made;
}

const call = (given) => ({
  id: string(given?.id),
  name: string(given?.name),
  arguments: string(given?.arguments),
});

function numbers(given, names) {
  const known = names.filter((name) => Number.isFinite(given[name]));
  return Object.fromEntries(known.map((name) => [name, given[name]]));
}

// Hands a text to the browser as a file to keep.
export function download(name, text, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const fileName = (title, ending) =>
  `${title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 60) || 'conversation'}.${ending}`;
