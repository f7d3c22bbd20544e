// Small controls that several views share.

import { useEffect, useRef, useState } from 'preact/hooks';
import { copy } from '../clipboard.js';
import { html } from '../html.js';
import { Icon } from './icons.js';

export const IconButton = ({ icon, label, onClick, className = '', ...rest }) => html`
  <button type="button" class=${`icon-button ${className}`} aria-label=${label} title=${label}
    onClick=${onClick} ...${rest}>
    <${Icon} name=${icon} />
  </button>
`;

// `text` is a function, so that nothing is put together before it is wanted.
export function CopyButton({ text, label = 'Copy' }) {
  const [copied, setCopied] = useState(false);
  const click = async () => {
    setCopied(await copy(text()));
    setTimeout(() => setCopied(false), 1600);
  };
  return html`
    <${IconButton} icon=${copied ? 'check' : 'copy'} label=${copied ? 'Copied' : label}
      onClick=${click} />
  `;
}

// A button that opens a list of actions: [{ label, act, danger? }].
export function Menu({ label, actions }) {
  const [open, setOpen] = useState(false);
  const root = useRef();
  const close = (focus) => {
    setOpen(false);
    if (focus) root.current.querySelector('button').focus();
  };
  useEffect(() => {
    if (!open) return undefined;
    root.current.querySelector('[role=menuitem]').focus();
    const outside = (event) => root.current.contains(event.target) || close(false);
    document.addEventListener('pointerdown', outside);
    return () => document.removeEventListener('pointerdown', outside);
  }, [open]);
  const keys = (event) => {
    if (event.key === 'Escape' && open) close(true);
    else if (event.key === 'ArrowDown') step(event.currentTarget, 1);
    else if (event.key === 'ArrowUp') step(event.currentTarget, -1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const choose = (act) => {
    close(true);
    act();
  };
  return html`
    <div class="menu" ref=${root} data-open=${open} onKeyDown=${keys}>
      <${IconButton} icon="more" label=${label} aria-haspopup="menu" aria-expanded=${open}
        onClick=${() => setOpen(!open)} />
      ${open && html`
        <div class="menu-list" role="menu" aria-label=${label}>
          ${actions.map(({ label: name, act, danger }) => html`
            <button type="button" role="menuitem" class=${danger ? 'danger' : ''}
              onClick=${() => choose(act)}>${name}</button>
          `)}
        </div>
      `}
    </div>
  `;
}

function step(root, by) {
  const items = [...root.querySelectorAll('[role=menuitem]')];
  const index = items.indexOf(document.activeElement);
  items[(index + by + items.length) % items.length]?.focus();
}

// A text area as high as its text, up to what the style allows.
export function GrowingText({ value, onInput, area, ...rest }) {
  const own = useRef();
  const element = area ?? own;
  useEffect(() => {
    const style = element.current.style;
    style.height = 'auto';
    style.height = `${element.current.scrollHeight}px`;
  }, [value]);
  return html`
    <textarea ref=${element} rows="1" value=${value}
      onInput=${(event) => onInput(event.target.value)} ...${rest}></textarea>
  `;
}

// Enter without Shift, and not the Enter that ends the input of a composed character.
export const isSend = (event) =>
  event.key === 'Enter' && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
