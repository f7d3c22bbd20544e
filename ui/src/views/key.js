// Asks for the API key. The key lasts as long as this tab.

import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { apiKey } from '../settings.js';

export function KeyDialog({ chat }) {
  const [key, setKey] = useState(apiKey());
  const dialog = useRef();
  useEffect(() => dialog.current.showModal(), []);
  const give = (event) => {
    event.preventDefault();
    chat.giveKey(key);
  };
  return html`
    <dialog class="dialog" ref=${dialog} aria-labelledby="key-title" onClose=${chat.dismissKey}>
      <form onSubmit=${give}>
        <h2 id="key-title">API key</h2>
        <p>
          ${apiKey() ? 'The server may not accept this key.' : 'This server asks for a key.'}
          ${' '}It is kept in this tab alone, and sent to this server alone.
        </p>
        <input type="password" value=${key} aria-label="API key" autocomplete="off" spellcheck=${false}
          onInput=${(event) => setKey(event.target.value)} />
        <div class="edit-actions">
          <button type="button" class="button" onClick=${chat.dismissKey}>Cancel</button>
          <button type="submit" class="button primary">Use this key</button>
        </div>
      </form>
    </dialog>
  `;
}
