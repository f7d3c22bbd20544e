// The conversations: started, found, renamed, deleted, brought in and out.

import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { setTheme, theme } from '../settings.js';
import { Icon, Mark } from './icons.js';
import { IconButton, Menu } from './parts.js';

export function Sidebar({ chat, state, close }) {
  const { heads, found, query } = state;
  const shown = found ? heads.filter(({ id }) => found.has(id)) : heads;
  return html`
    <nav class="sidebar" id="sidebar" aria-label="Conversations">
      <div class="sidebar-top">
        <span class="brand"><${Mark} />Pyrite</span>
        <${IconButton} icon="sidebar" label="Hide conversations" onClick=${close} />
      </div>
      <button type="button" class="new" onClick=${() => chat.startNew()}>
        <${Icon} name="plus" />New conversation
      </button>
      <label class="search">
        <${Icon} name="search" />
        <input type="search" placeholder="Search" aria-label="Search conversations" value=${query}
          onInput=${(event) => chat.search(event.target.value)} />
      </label>
      <div class="heads">
        ${groups(shown).map(([day, members]) => html`
          <section key=${day} aria-label=${day}>
            <h2>${day}</h2>
            <ul>
              ${members.map((head) => html`
                <${Head} key=${head.id} head=${head} chat=${chat} state=${state} />
              `)}
            </ul>
          </section>
        `)}
        ${shown.length === 0 && html`
          <p class="nothing">${query ? 'Nothing found.' : 'No conversations yet.'}</p>
        `}
      </div>
      <${Bottom} chat=${chat} />
    </nav>
  `;
}

const DAY = 86_400_000;

// [[name of a time, heads]], newest first.
function groups(heads) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const name = (time) => {
    if (time >= midnight) return 'Today';
    if (time >= midnight - DAY) return 'Yesterday';
    if (time >= midnight - 7 * DAY) return 'This week';
    return new Date(time).toLocaleDateString('en', { month: 'long', year: 'numeric' });
  };
  const found = new Map();
  for (const head of heads) {
    const day = name(head.updated);
    found.set(day, [...(found.get(day) ?? []), head]);
  }
  return [...found];
}

function Head({ head, chat, state }) {
  const [renaming, setRenaming] = useState(false);
  const here = state.current.id === head.id;
  const rename = (title) => {
    setRenaming(false);
    if (title !== null) chat.rename(head.id, title);
  };
  if (renaming) return html`<li><${Rename} title=${head.title} done=${rename} /></li>`;
  const actions = [
    { label: 'Rename', act: () => setRenaming(true) },
    { label: 'Export as Markdown', act: () => chat.exportOne(head.id, 'markdown') },
    { label: 'Export as JSON', act: () => chat.exportOne(head.id, 'json') },
    { label: 'Delete', act: () => chat.remove(head.id), danger: true },
  ];
  return html`
    <li class="head" data-here=${here}>
      <button type="button" class="head-title" aria-current=${here ? 'page' : undefined}
        onClick=${() => chat.open(head.id)}>
        <span>${head.title}</span>
        ${state.running.has(head.id) && html`<i class="dot" title="answering"></i>`}
      </button>
      <${Menu} label=${`Actions for ${head.title}`} actions=${actions} />
    </li>
  `;
}

function Rename({ title, done }) {
  const input = useRef();
  const over = useRef(false);
  useEffect(() => input.current.select(), []);
  const end = (value) => {
    if (over.current) return; // leaving the field ends it a second time
    over.current = true;
    done(value);
  };
  const keys = (event) => {
    if (event.key === 'Enter') end(event.target.value);
    else if (event.key === 'Escape') end(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`
    <input class="rename" ref=${input} value=${title} aria-label="Title" maxlength="200"
      onKeyDown=${keys} onBlur=${(event) => end(event.target.value)} />
  `;
}

const THEMES = {
  system: ['screen', 'Theme: as the system'],
  light: ['sun', 'Theme: light'],
  dark: ['moon', 'Theme: dark'],
};

function Bottom({ chat }) {
  const [name, setName] = useState(theme());
  const file = useRef();
  const names = Object.keys(THEMES);
  const next = () => {
    const after = names[(names.indexOf(name) + 1) % names.length];
    setTheme(after);
    setName(after);
  };
  const chosen = (event) => {
    if (event.target.files[0]) chat.importFile(event.target.files[0]);
    event.target.value = '';
  };
  const [icon, label] = THEMES[name] ?? THEMES.system;
  return html`
    <div class="sidebar-bottom">
      <${IconButton} icon=${icon} label=${label} onClick=${next} />
      <${IconButton} icon="download" label="Export all conversations"
        onClick=${() => chat.exportAll()} />
      <${IconButton} icon="upload" label="Import conversations"
        onClick=${() => file.current.click()} />
      <${IconButton} icon="key" label="API key" onClick=${chat.askForKey} />
      <input type="file" accept="application/json,.json" ref=${file} hidden onChange=${chosen}
        aria-label="File of conversations" />
    </div>
  `;
}
