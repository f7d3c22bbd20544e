// The settings of the open conversation: what the model is told first, and how it samples.
// A field without a value is left to the server.

import { useEffect, useRef } from 'preact/hooks';
import { html } from '../html.js';
import { SAMPLING } from '../settings.js';
import { IconButton } from './parts.js';

export function Drawer({ chat, state, close }) {
  const { settings } = state.current;
  const panel = useRef();
  useEffect(() => panel.current.querySelector('textarea').focus(), []);
  const set = (change) => chat.setSettings({ ...settings, ...change });
  const sample = (name, value) => {
    const sampling = { ...settings.sampling };
    if (value === null) delete sampling[name];
    else sampling[name] = value;
    set({ sampling });
  };
  const changed = Object.keys(settings.sampling).length > 0;
  return html`
    <aside class="drawer" id="settings" ref=${panel} aria-label="Settings">
      <div class="drawer-top">
        <h2>Settings</h2>
        <${IconButton} icon="close" label="Close settings" onClick=${close} />
      </div>
      <div class="drawer-body">
        <label class="field">
          <span class="field-label">System prompt</span>
          <textarea class="system" rows="6" value=${settings.system}
            placeholder="What the model should know or be"
            onInput=${(event) => set({ system: event.target.value })}></textarea>
        </label>
        <div class="drawer-heading">
          <h3>Sampling</h3>
          <button type="button" class="link" disabled=${!changed}
            onClick=${() => set({ sampling: {} })}>Reset</button>
        </div>
        ${SAMPLING.map((row) => html`
          <${Row} key=${row.name} row=${row} value=${settings.sampling[row.name]}
            set=${(value) => sample(row.name, value)} />
        `)}
        <p class="faint">Fields left empty are the server's choice. New conversations begin with
          these settings.</p>
      </div>
    </aside>
  `;
}

function Row({ row, value, set }) {
  const { name, label, hint, min, max, step, usual } = row;
  const id = `sampling-${name}`;
  const input = (event) => {
    const given = event.target.valueAsNumber;
    set(Number.isFinite(given) ? given : null);
  };
  return html`
    <div class="row" data-set=${value !== undefined}>
      <label for=${id} class="field-label">${label}</label>
      <input type="number" id=${id} class="number" min=${min} max=${max} step=${step}
        value=${value ?? ''} placeholder="auto" aria-describedby=${`${id}-hint`} onInput=${input} />
      ${max !== undefined && html`
        <input type="range" class="range" min=${min} max=${max} step=${step}
          value=${value ?? usual} aria-label=${`${label}, as a slider`} onInput=${input} />
      `}
      <p class="hint" id=${`${id}-hint`}>${hint}</p>
    </div>
  `;
}
