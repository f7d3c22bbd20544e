// Code blocks: a figure with the language, a copy button and coloured text. Knows no Markdown.

import DOMPurify from 'dompurify';
import hljs from 'highlight.js/lib/core';
import diff from 'highlight.js/lib/languages/diff';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import * as compact from './languages.js';

const LANGUAGES = { diff, javascript, json, python, typescript, xml, yaml, ...compact };
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

// Longer code is shown without colours: colouring is linear, but slow on a small machine.
const MOST_COLOURED = 40_000; // characters
const MOST_COLOURED_LIVE = 6_000; // of a block that still grows, and is coloured each frame

const COLOURS = { ALLOWED_TAGS: ['span'], ALLOWED_ATTR: ['class'], RETURN_DOM_FRAGMENT: true };

// Writes the text into a `code` element; `live` while more is to come.
export function paint(code, text, language, live = false) {
  const most = live ? MOST_COLOURED_LIVE : MOST_COLOURED;
  if (text.length > most || !hljs.getLanguage(language)) {
    code.textContent = text;
    return;
  }
  const { value } = hljs.highlight(text, { language, ignoreIllegals: true });
  code.replaceChildren(DOMPurify.sanitize(value, COLOURS));
}

// The first word after the fence; what a model writes there can be anything.
export const languageOf = (info) => (info ?? '').match(/^[\w+#.-]{1,20}/)?.[0].toLowerCase() ?? '';

export function codeFigure(language) {
  const figure = element('figure', 'code');
  const bar = element('figcaption', 'code-bar');
  const copy = element('button', 'code-copy');
  const code = element('code', 'code-text');
  const scroller = element('pre', 'code-scroll');
  copy.type = 'button';
  copy.textContent = 'Copy';
  copy.dataset.copy = 'code';
  scroller.tabIndex = 0; // scrollable by keyboard
  scroller.append(code);
  const label = element('span', 'code-language');
  label.textContent = language || 'text';
  bar.append(label, copy);
  figure.append(bar, scroller);
  return { figure, code };
}

function element(name, className) {
  const made = document.createElement(name);
  made.className = className;
  return made;
}
