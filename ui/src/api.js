// The two endpoints of the server that the page uses, and every way in which they fail.
// Knows no conversation and no view.

import { EventReader } from './events.js';
import { apiKey } from './settings.js';

// `kind`: 'key' (401), 'refused' (another status), 'stream' (an error inside the answer),
// 'unreachable' (no connection), 'cut' (the connection ended before the answer did).
export class ApiError extends Error {
  constructor(kind, message, { status = 0, hint = '', retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { kind, status, hint, retryAfter });
  }
}

// Relative to the page, so that it works behind a proxy under any path.
const address = (path) => new URL(path, document.baseURI);

function headers(more = {}) {
  const key = apiKey();
  return key ? { ...more, authorization: `Bearer ${key}` } : more;
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(address(path), { cache: 'no-store', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError('unreachable', 'The server cannot be reached.', {
      hint: 'See whether pyrite serve still runs, then try again.',
    });
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  const text = await response.text().catch(() => '');
  const status = response.status;
  const retryAfter = Number(response.headers.get('retry-after')) || 0;
  const message = errorText(parsed(text)) || text.slice(0, 500) || response.statusText;
  const kind = status === 401 ? 'key' : 'refused';
  return new ApiError(kind, message || `The server answered ${status}.`, { status, retryAfter });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// The text of an error in any of the shapes in which servers write it.
function errorText(body) {
  const error = body?.error ?? body?.detail ?? body;
  if (typeof error === 'string') return error;
  return typeof error?.message === 'string' ? error.message : '';
}

// Names of the models, the served one first.
export async function modelNames(signal) {
  const response = await ask('v1/models', { headers: headers(), signal });
  const body = await response.json();
  return (body.data ?? []).map((model) => String(model.id));
}

// Yields the chunks of one answer. Raises ApiError, or AbortError when the signal stopped it.
export async function* chatChunks(body, signal) {
  const response = await ask('v1/chat/completions', {
    method: 'POST',
    headers: headers({ 'content-type': 'application/json', accept: 'text/event-stream' }),
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  const events = new EventReader();
  for await (const bytes of pieces(response.body, signal)) {
    for (const data of bytes ? events.feed(bytes) : events.end()) {
      if (data === '[DONE]') return;
      yield chunkOf(data);
    }
  }
  throw new ApiError('cut', 'The connection ended before the answer did.', {
    hint: 'What had come is kept.',
  });
}

// The bytes of a body, then null. An error of the network is an end too early, not a failure apart.
async function* pieces(stream, signal) {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      yield value;
    }
  } catch (error) {
    if (signal.aborted) throw error;
  } finally {
    reader.cancel().catch(() => {}); // leaving early tells the server to stop
  }
  yield null;
}

function chunkOf(data) {
  const chunk = parsed(data);
  if (chunk === undefined) {
    throw new ApiError('stream', 'The server sent an event that is not JSON.', {
      hint: data.slice(0, 200),
    });
  }
  if (chunk.error) throw new ApiError('stream', errorText(chunk) || 'The answer failed.');
  return chunk;
}
