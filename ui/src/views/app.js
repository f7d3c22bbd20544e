// The page as a whole: where its parts are, which of them are open, and keys that work everywhere.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { Composer } from './composer.js';
import { Drawer } from './drawer.js';
import { KeyDialog } from './key.js';
import { IconButton } from './parts.js';
import { Sidebar } from './sidebar.js';
import { Thread } from './thread.js';

const NARROW = matchMedia('(max-width: 820px)');

export function App({ chat }) {
  const state = useChat(chat);
  const [sidebar, setSidebar] = useState(!NARROW.matches);
  const [drawer, setDrawer] = useState(false);
  const { current, model } = state;
  useTitle(current.title);
  useEscape(chat, drawer, () => setDrawer(false));
  useEffect(() => {
    if (NARROW.matches) setSidebar(false); // a conversation was chosen
  }, [current.id]);
  const closeAll = () => {
    setSidebar(false);
    setDrawer(false);
  };
  return html`
    <div class="app" data-sidebar=${sidebar} data-drawer=${drawer}>
      ${sidebar && html`
        <${Sidebar} chat=${chat} state=${state} close=${() => setSidebar(false)} />
      `}
      <div class="shade" onClick=${closeAll}></div>
      <main class="main">
        <header class="top">
          ${!sidebar && html`
            <${IconButton} icon="sidebar" label="Show conversations" aria-controls="sidebar"
              aria-expanded="false" onClick=${() => setSidebar(true)} />
          `}
          <div class="top-title">
            <h1>${current.title || 'New conversation'}</h1>
            ${model && html`<p class="model-name" title="The model that answers">${model}</p>`}
          </div>
          ${!sidebar && html`
            <${IconButton} icon="plus" label="New conversation" onClick=${() => chat.startNew()} />
          `}
          <${IconButton} icon="settings" label="Settings" aria-controls="settings"
            aria-expanded=${drawer} onClick=${() => setDrawer(!drawer)} />
        </header>
        <${Thread} chat=${chat} state=${state} />
        <${Notice} chat=${chat} notice=${state.notice} />
        <${Composer} chat=${chat} state=${state} />
      </main>
      ${drawer && html`
        <${Drawer} key=${current.id} chat=${chat} state=${state} close=${() => setDrawer(false)} />
      `}
      ${state.keyAsked && html`<${KeyDialog} chat=${chat} />`}
      <${Spoken} state=${state} />
    </div>
  `;
}

function useChat(chat) {
  const [state, setState] = useState(chat.state);
  useLayoutEffect(() => { // before the first paint: what is loaded meanwhile must not be missed
    const read = () => setState(chat.state);
    read();
    return chat.subscribe(read);
  }, [chat]);
  return state;
}

function useTitle(title) {
  useEffect(() => {
    document.title = title ? `${title} · Pyrite` : 'Pyrite';
  }, [title]);
}

// Escape stops the answer that comes, or else closes the drawer.
function useEscape(chat, drawer, closeDrawer) {
  useEffect(() => {
    const keys = (event) => {
      if (event.key !== 'Escape' || event.defaultPrevented) return;
      if (chat.state.running.has(chat.state.current.id)) chat.stop();
      else if (drawer) closeDrawer();
    };
    document.addEventListener('keydown', keys);
    return () => document.removeEventListener('keydown', keys);
  }, [chat, drawer]);
}

function Notice({ chat, notice }) {
  useEffect(() => {
    if (!notice) return undefined;
    const timer = setTimeout(chat.dismissNotice, 10_000);
    return () => clearTimeout(timer);
  }, [notice]);
  return html`
    <div class="notices" role="status">
      ${notice && html`
        <div class="notice">
          <span>${notice.text}</span>
          ${notice.action && html`
            <button type="button" class="link" onClick=${notice.act}>${notice.action}</button>
          `}
          <${IconButton} icon="close" label="Dismiss" onClick=${chat.dismissNotice} />
        </div>
      `}
    </div>
  `;
}

const SPOKEN = 2000; // characters of an answer that are read out by themselves

// For screen readers: that an answer comes, and then the answer, once, instead of every word.
function Spoken({ state }) {
  const { current, running } = state;
  const [text, setText] = useState('');
  const before = useRef({ id: current.id, busy: false });
  const busy = running.has(current.id);
  useEffect(() => {
    const { id, busy: was } = before.current;
    before.current = { id: current.id, busy };
    if (busy && !was) setText('Answering');
    else if (was && !busy && id === current.id) setText(current.messages.at(-1)?.content.slice(0, SPOKEN) ?? '');
  }, [busy, current.id]);
  return html`<div class="unseen" aria-live="polite">${text}</div>`;
}
