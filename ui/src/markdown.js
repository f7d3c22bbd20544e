// One block of Markdown into elements that can run nothing and load nothing.
//
// Three walls, each enough by itself: HTML of the model becomes text, but for a few tags without
// attributes; DOMPurify lets through a short list; links are judged on the finished elements, by
// the address that the browser itself reads in them. The result is moved into the page as nodes
// and never parsed again. The page's content policy is the fourth.

import DOMPurify from 'dompurify';
import { Marked } from 'marked';
import { codeFigure, languageOf, paint } from './code.js';

const PLAIN_TAG = /<\/?(?:b|br|del|em|i|ins|kbd|mark|s|small|strong|sub|sup|u)\s*\/?>/gi;
const LINKS = new Set(['http:', 'https:', 'mailto:']);

const ALLOWED = {
  ALLOWED_TAGS: [
    'a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr',
    'i', 'input', 'ins', 'kbd', 'li', 'mark', 'ol', 'p', 'pre', 's', 'samp', 'small', 'strong',
    'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'u', 'ul',
  ],
  ALLOWED_ATTR: ['align', 'checked', 'data-language', 'disabled', 'href', 'start', 'title', 'type'],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

const ESCAPES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const escaped = (text) => text.replace(/[&<>"']/g, (letter) => ESCAPES[letter]);

// Text between tags of the short list is escaped; those tags stay.
function shown(html) {
  let made = '';
  let end = 0;
  for (const tag of html.matchAll(PLAIN_TAG)) {
    made += escaped(html.slice(end, tag.index)) + tag[0];
    end = tag.index + tag[0].length;
  }
  return made + escaped(html.slice(end));
}

const renderer = {
  html: ({ text, block }) => (block ? `<p>${shown(text)}</p>` : shown(text)),
  code: ({ text, lang }) =>
    `<pre data-language="${escaped(languageOf(lang))}"><code>${escaped(text)}</code></pre>`,
  image: ({ href, text }) => `<a href="${escaped(href)}">image: ${escaped(text || href)}</a>`,
};

// Mathematics is kept as it was written, where Markdown would eat its backslashes.
const math = (level, start, rule) => ({
  name: `math-${level}`,
  level,
  start: (source) => source.match(start)?.index,
  tokenizer(source) {
    const found = rule.exec(source);
    return found ? { type: `math-${level}`, raw: found[0], text: found[0].trim() } : undefined;
  },
  renderer: ({ text }) =>
    level === 'block' ? `<p><samp>${escaped(text)}</samp></p>` : `<samp>${escaped(text)}</samp>`,
});

const marked = new Marked({
  gfm: true,
  renderer,
  extensions: [
    math('block', /^(?:\\\[|\$\$)/m, /^(?:\\\[[\s\S]{1,4000}?\\\]|\$\$[\s\S]{1,4000}?\$\$)(?:\n+|$)/),
    math('inline', /\\\(/, /^\\\([^\n]{1,1000}?\\\)/),
  ],
});

// The top-level tokens of a text; their `raw` parts joined are the text.
export const lexed = (text) => marked.lexer(text);

// A document fragment for one top-level token.
export function elements(token) {
  const fragment = DOMPurify.sanitize(marked.parser([token]), ALLOWED);
  fragment.querySelectorAll('a').forEach(judgeLink);
  fragment.querySelectorAll('pre').forEach(dressCode);
  fragment.querySelectorAll('table').forEach(dressTable);
  return fragment;
}

function judgeLink(link) {
  const href = link.getAttribute('href') ?? '';
  if (!LINKS.has(link.protocol) || !/^[a-z]+:/i.test(href)) {
    link.replaceWith(...link.childNodes, href ? ` (${href.slice(0, 200)})` : '');
    return;
  }
  link.target = '_blank';
  link.rel = 'noopener noreferrer nofollow';
}

function dressCode(pre) {
  const { figure, code } = codeFigure(pre.dataset.language);
  paint(code, pre.textContent, pre.dataset.language);
  pre.replaceWith(figure);
}

function dressTable(table) {
  const scroller = document.createElement('div');
  scroller.className = 'table-scroll';
  scroller.tabIndex = 0;
  table.replaceWith(scroller);
  scroller.append(table);
}
