// Cuts growing Markdown into blocks, and looks again only at what may still change: the last one.
// Knows no elements.
//
// Block: { token, text, plain }; a block that has settled stays the same object.

import { lexed } from './markdown.js';

// Paragraphs beyond these bounds are shown as plain text: some inputs make any Markdown parser take
// the square of their length, and no honest answer looks like that. Fenced code has no bound.
const LONGEST = 50_000; // characters
const MOST_MARKS = 1500; // of what may begin emphasis, a link, code or a tag
const DEEPEST = 60; // quote or list marks that a line begins with

export class BlockReader {
  #text = '';
  #settled = []; // blocks
  #begin = 0; // where the text after them begins

  // The blocks of the text; `done` when no more is to come.
  read(given, done) {
    const text = given.replaceAll('\r\n', '\n').replaceAll('\r', '\n');
    if (!text.startsWith(this.#text)) this.#restart();
    this.#text = text;
    if (done && !hopeless(text)) return blocksOf(text); // references to what came later now count
    const open = this.#settle(blocksOf(text.slice(this.#begin)));
    return [...this.#settled, ...open];
  }

  #restart() {
    this.#settled = [];
    this.#begin = 0;
  }

  // Keeps all blocks but the last, which alone can still change, and gives that one.
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
  if (hopeless(text)) return plain(text);
  let tokens;
  try {
    tokens = lexed(text);
  } catch {
    return plain(text); // nested too deeply for the parser's stack
  }
  const whole = tokens.reduce((sum, token) => sum + token.raw.length, 0) === text.length;
  return whole ? tokens.map((token) => ({ token, text: token.raw })) : plain(text);
}

// In pieces: laying out one line of a hundred thousand characters takes a browser seconds.
function plain(text) {
  const pieces = text.match(/[^]{1,2000}/g) ?? [];
  return pieces.map((piece) => ({ token: { type: 'plain', raw: piece }, text: piece }));
}

function hopeless(text) {
  let length = 0; // of the paragraph so far
  let marks = 0;
  let fence = '';
  for (const line of text.split('\n')) {
    const edge = line.match(/^[ \t]*(`{3,}|~{3,})/)?.[1] ?? '';
    if (fence) {
      if (edge.startsWith(fence)) fence = '';
      continue;
    }
    fence = edge;
    length = line.trim() ? length + line.length + 1 : 0;
    marks = line.trim() ? marks + marksIn(line) : 0;
    if (length > LONGEST || marks > MOST_MARKS || depthOf(line) > DEEPEST) return true;
  }
  return false;
}

const marksIn = (line) => line.match(/[[*_`<~\\$&]|:\/\//g)?.length ?? 0;

const depthOf = (line) => line.match(/^(?:[ \t]*(?:>|[-+*]|\d{1,9}[.)]))*/)[0].replace(/\s/g, '').length;
