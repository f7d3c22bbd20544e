// An answer while it comes: chunks folded into one message, with its times. Knows no network.
//
// Message: { id, role, content, reasoning?, calls?, model?, finish?, error?, usage?, times? }
//   finish: 'stop' | 'length' | 'tool_calls' | 'stopped' (by the reader) | 'failed'
//   times: { first, total } in seconds from the request

export const newId = () =>
  crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint32Array(4)), String).join('-');

export const userMessage = (content) => ({ id: newId(), role: 'user', content });

export class Answer {
  #asked = performance.now();
  #first = 0;
  message = { id: newId(), role: 'assistant', content: '' };

  // Takes one chunk of a streamed chat completion.
  add(chunk) {
    const message = { ...this.message };
    if (chunk.model) message.model = chunk.model;
    if (chunk.usage) message.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (choice) this.#choose(message, choice);
    this.message = message;
  }

  #choose(message, choice) {
    const delta = choice.delta ?? choice.message ?? {};
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (typeof reasoning === 'string' && reasoning) {
      message.reasoning = (message.reasoning ?? '') + reasoning;
    }
    if (typeof delta.content === 'string') message.content += delta.content;
    if (typeof delta.refusal === 'string') message.content += delta.refusal;
    if (delta.tool_calls) message.calls = withCalls(message.calls ?? [], delta.tool_calls);
    if (!this.#first && (reasoning || delta.content || delta.tool_calls)) {
      this.#first = performance.now();
    }
    if (choice.finish_reason) message.finish = choice.finish_reason;
  }

  // The last word on it: 'stopped', or 'failed' with an error; keeps what the server said.
  end(finish, error) {
    const message = { ...this.message, finish: finish ?? this.message.finish ?? 'stop' };
    if (error) message.error = error;
    const seconds = (time) => Math.round(time - this.#asked) / 1000;
    message.times = {
      first: this.#first ? seconds(this.#first) : null,
      total: seconds(performance.now()),
    };
    this.message = message;
  }
}

function withCalls(calls, deltas) {
  const merged = [...calls];
  for (const delta of deltas) {
    const index = delta.index ?? merged.length;
    const before = merged[index] ?? { id: '', name: '', arguments: '' };
    merged[index] = {
      id: delta.id || before.id,
      name: before.name + (delta.function?.name ?? ''),
      arguments: before.arguments + (delta.function?.arguments ?? ''),
    };
  }
  return Array.from(merged, (call) => call ?? { id: '', name: '', arguments: '' });
}

// Tokens a second after the first one, or null where there is nothing to divide.
export function tokensPerSecond({ usage, times }) {
  const tokens = (usage?.completion_tokens ?? 0) - 1;
  if (tokens < 1 || times?.first == null) return null;
  const seconds = times.total - times.first;
  return seconds > 0.01 ? tokens / seconds : null;
}
