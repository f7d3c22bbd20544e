// Cuts growing Markdown into blocks, and looks again only at what may still change: the last one.
// Knows no elements.
//
// Block: { token, text, plain }; a block that has settled stays the same object.

import { lexed } from './markdown.js';

// Longer or more deeply nested blocks are shown as plain text: some inputs make any Markdown
// parser slow, and no honest answer looks like that.
const LONGEST = 30_000; // characters
const DEEPEST = 60; // quote or list marks that a line begins with

export class BlockReader {
  #text = '';
  #settled = []; // blocks
  #begin = 0; // where the text after them begins

  // The blocks of the text; `done` when no more is to come.
  read(given, done) {
    const text = given.replaceAll('\r\n', '\n').replaceAll('\r', '\n');
    if (done || !text.startsWith(this.#text)) this.#restart();
    this.#text = text;
    if (done) return blocksOf(text);
    const open = blocksOf(text.slice(this.#begin));
    return [...this.#settled, ...this.#settle(open)];
  }

  #restart() {
    this.#settled = [];
    this.#begin = 0;
  }

  // All but the last block, and the empty lines before it, can no longer change.
  #settle(open) {
    const last = open.findLastIndex((block) => block.token.type !== 'space');
    const length = open.slice(0, last).reduce((sum, block) => sum + block.text.length, 0);
    if (last < 1) return open;
    this.#settled.push(...open.slice(0, last));
    this.#begin += length;
    return open.slice(last);
  }
}

function blocksOf(text) {
  if (hopeless(text)) return [plain(text)];
  let tokens;
  try {
    tokens = lexed(text);
  } catch {
    return [plain(text)]; // nested too deeply for the parser's stack
  }
  const whole = tokens.reduce((sum, token) => sum + token.raw.length, 0) === text.length;
  return whole ? tokens.map((token) => ({ token, text: token.raw })) : [plain(text)];
}

const plain = (text) => ({ token: { type: 'plain', raw: text }, text });

// Paragraphs are what the parser reads as a whole; the text between empty lines bounds them.
function hopeless(text) {
  const marks = /^(?:[ \t]*(?:>|[-+*]|\d{1,9}[.)])){2,}/gm;
  const deep = (text.match(marks) ?? []).some((line) => line.replace(/\s/g, '').length > DEEPEST);
  return deep || longestParagraph(text) > LONGEST;
}

function longestParagraph(text) {
  let longest = 0;
  for (let begin = 0; begin < text.length; ) {
    const found = text.indexOf('\n\n', begin);
    const end = found < 0 ? text.length : found;
    longest = Math.max(longest, end - begin);
    begin = end + 2;
  }
  return longest;
}
