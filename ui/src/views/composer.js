// Where a message is written; sends it, or stops the answer that comes.

import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { Icon, Stop } from './icons.js';
import { GrowingText, isSend } from './parts.js';

const TOUCH = matchMedia('(max-width: 820px)');

export function Composer({ chat, state }) {
  const [text, setText] = useState('');
  const area = useRef();
  const { id } = state.current;
  const busy = state.running.has(id);
  useEffect(() => {
    if (!TOUCH.matches) area.current.focus(); // a keyboard would cover half of a small screen
  }, [id]);
  const send = () => {
    if (busy || !text.trim()) return;
    chat.send(text.trim());
    setText('');
  };
  const keys = (event) => {
    if (!isSend(event)) return;
    event.preventDefault();
    send();
  };
  return html`
    <form class="composer" onSubmit=${(event) => event.preventDefault()}>
      <div class="composer-box">
        <${GrowingText} area=${area} value=${text} onInput=${setText} onKeyDown=${keys} dir="auto"
          id="message" aria-label="Message" placeholder="Write a message" />
        ${busy
          ? html`
              <button type="button" class="send" aria-label="Stop" title="Stop (Esc)"
                onClick=${() => chat.stop()}><${Stop} /></button>
            `
          : html`
              <button type="button" class="send" aria-label="Send" title="Send (Enter)"
                disabled=${!text.trim()} onClick=${send}><${Icon} name="send" /></button>
            `}
      </div>
      <p class="faint keys">
        <kbd>Enter</kbd> sends, <kbd>Shift</kbd> <kbd>Enter</kbd> breaks the line, <kbd>Esc</kbd> stops
      </p>
    </form>
  `;
}
