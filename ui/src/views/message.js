// One message: what a person said, or an answer with its reasoning, calls, errors and figures.

import { Component } from 'preact';
import { useState } from 'preact/hooks';
import { tokensPerSecond } from '../answer.js';
import { html } from '../html.js';
import { Icon } from './icons.js';
import { CopyButton, GrowingText, IconButton, isSend } from './parts.js';
import { Text } from './text.js';

// Redrawn only when the message itself is another one.
export class Message extends Component {
  shouldComponentUpdate(next) {
    const names = ['message', 'live', 'busy'];
    return names.some((name) => next[name] !== this.props[name]);
  }

  render({ message, ...rest }) {
    const View = message.role === 'user' ? Said : Answered;
    return html`<${View} message=${message} ...${rest} />`;
  }
}

const LONG = 1600; // characters of a message that is folded

function Said({ message, chat, busy }) {
  const [draft, setDraft] = useState(null);
  const [whole, setWhole] = useState(message.content.length <= LONG);
  if (draft !== null) {
    const done = (text) => {
      setDraft(null);
      if (text?.trim()) chat.edit(message.id, text);
    };
    return html`<${Edit} draft=${draft} setDraft=${setDraft} done=${done} />`;
  }
  return html`
    <article class="said" aria-label="You">
      <div class="said-text" data-whole=${whole} dir="auto">${message.content}</div>
      ${!whole && html`
        <button type="button" class="link" onClick=${() => setWhole(true)}>Show all</button>
      `}
      <div class="actions">
        <${CopyButton} text=${() => message.content} label="Copy message" />
        <${IconButton} icon="edit" label="Edit message" disabled=${busy}
          onClick=${() => setDraft(message.content)} />
      </div>
    </article>
  `;
}

function Edit({ draft, setDraft, done }) {
  const keys = (event) => {
    if (event.key === 'Escape') done(null);
    else if (isSend(event)) done(draft);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const focus = (element) => element?.querySelector('textarea').focus();
  return html`
    <article class="said" aria-label="Edit your message">
      <div class="edit" ref=${focus}>
        <${GrowingText} value=${draft} onInput=${setDraft} onKeyDown=${keys}
          aria-label="Your message" />
        <div class="edit-actions">
          <span class="faint">What follows is replaced.</span>
          <button type="button" class="button" onClick=${() => done(null)}>Cancel</button>
          <button type="button" class="button primary" disabled=${!draft.trim()}
            onClick=${() => done(draft)}>Send</button>
        </div>
      </div>
    </article>
  `;
}

function Answered({ message, chat, live, busy }) {
  const { content, reasoning, calls, error } = message;
  const waiting = live && !content && !reasoning && !calls;
  return html`
    <article class="answered" aria-label="Answer" aria-busy=${live}>
      ${reasoning && html`
        <${Reasoning} text=${reasoning} thinking=${live && !content && !calls} />
      `}
      ${content && html`<${Text} text=${content} done=${!live} />`}
      ${calls?.map((call) => html`<${Call} call=${call} />`)}
      ${waiting && html`<div class="waiting"><i></i><i></i><i></i></div>`}
      ${error && html`
        <${Failure} error=${error} retry=${() => chat.regenerate(message.id)} busy=${busy} />
      `}
      ${!live && html`<${Foot} message=${message} chat=${chat} busy=${busy} />`}
    </article>
  `;
}

function Reasoning({ text, thinking }) {
  return html`
    <details class="reasoning">
      <summary>
        <${Icon} name="chevron" />
        <span class=${thinking ? 'thinking' : ''}>${thinking ? 'Thinking…' : 'Reasoning'}</span>
      </summary>
      <${Text} text=${text} done=${!thinking} />
    </details>
  `;
}

function Call({ call }) {
  return html`
    <section class="call" aria-label=${`Call of ${call.name}`}>
      <header><${Icon} name="tool" /><code>${call.name || '…'}</code><span>tool call</span></header>
      <${Arguments} text=${call.arguments} />
    </section>
  `;
}

// A list of names and values; text that is not (yet) an object is shown as it is.
function Arguments({ text }) {
  let values;
  try {
    values = JSON.parse(text || '{}');
  } catch {
    values = null;
  }
  if (values === null || typeof values !== 'object') return html`<pre>${text}</pre>`;
  const shown = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));
  const rows = Object.entries(values);
  if (rows.length === 0) return html`<p class="faint">no arguments</p>`;
  return html`
    <dl>${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${shown(value)}</dd>`)}</dl>
  `;
}

function Failure({ error, retry, busy }) {
  const wait = error.retryAfter ? ` Try again in ${error.retryAfter} s.` : '';
  const title = error.status ? `${error.status} · ` : '';
  return html`
    <div class="failure" role="alert">
      <p>
        <strong>${title}${error.message}</strong>
        ${(error.hint || wait) && html`<span>${error.hint}${wait}</span>`}
      </p>
      <button type="button" class="button" onClick=${retry} disabled=${busy}>Try again</button>
    </div>
  `;
}

function Foot({ message, chat, busy }) {
  const { content, finish } = message;
  return html`
    <footer class="foot">
      <div class="actions">
        ${content && html`<${CopyButton} text=${() => content} label="Copy answer" />`}
        <${IconButton} icon="again" label="Answer again" disabled=${busy}
          onClick=${() => chat.regenerate(message.id)} />
      </div>
      <p class="figures">
        ${figures(message).map(([text, title]) => html`<span title=${title}>${text}</span>`)}
        ${ENDS[finish] && html`<span class="end">${ENDS[finish]}</span>`}
      </p>
    </footer>
  `;
}

const ENDS = { stopped: 'stopped', length: 'ended by the token limit' };

// [text, explanation] of what was measured.
function figures({ usage, times, model }) {
  const speed = tokensPerSecond({ usage, times });
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  const count = (number) => number.toLocaleString('en');
  return [
    usage?.completion_tokens != null && [
      `${count(usage.completion_tokens)} tokens`, `answered by ${model ?? 'the model'}`],
    speed && [`${speed.toFixed(speed < 10 ? 1 : 0)} tok/s`, 'tokens a second after the first one'],
    times?.first != null && [`first after ${times.first.toFixed(2)} s`, 'time to the first token'],
    usage?.prompt_tokens != null && [
      cached == null
        ? `prompt ${count(usage.prompt_tokens)}`
        : `${count(cached)} of ${count(usage.prompt_tokens)} cached`,
      'tokens of the prompt, and how many of them were computed before'],
  ].filter(Boolean);
}
