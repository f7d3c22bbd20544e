// Markdown as it grows: each block is drawn once when it has settled, the last one each frame.

import { Component, createRef } from 'preact';
import { useRef } from 'preact/hooks';
import { BlockReader } from '../blocks.js';
import { codeFigure, languageOf, paint } from '../code.js';
import { html } from '../html.js';
import { elements } from '../markdown.js';

export function Text({ text, done }) {
  const reader = useRef(null);
  reader.current ??= new BlockReader();
  const blocks = reader.current.read(text, done);
  return html`
    <div class="text">
      ${blocks.map((block, index) => {
        if (block.token.type === 'space') return null;
        const live = !done && index === blocks.length - 1;
        const View = isCode(block) ? CodeBlock : Block;
        return html`<${View} key=${index} block=${block} live=${live} />`;
      })}
    </div>
  `;
}

const isCode = ({ token }) => token.type === 'code';

class Block extends Component {
  #host = createRef();

  shouldComponentUpdate({ block }) {
    return block.text !== this.props.block.text;
  }

  componentDidMount() {
    this.#draw();
  }

  componentDidUpdate() {
    this.#draw();
  }

  #draw() {
    const { token, text } = this.props.block;
    const host = this.#host.current;
    if (token.type === 'plain') host.textContent = text;
    else host.replaceChildren(elements(token));
    host.className = token.type === 'plain' ? 'block plain' : 'block';
  }

  render() {
    return html`<div class="block" ref=${this.#host}></div>`;
  }
}

// Keeps its figure while the code grows, so that its button and its scrolling stay.
class CodeBlock extends Component {
  #host = createRef();
  #code = null;
  #language = null;

  shouldComponentUpdate({ block, live }) {
    return block.text !== this.props.block.text || live !== this.props.live;
  }

  componentDidMount() {
    this.#draw();
  }

  componentDidUpdate() {
    this.#draw();
  }

  #draw() {
    const { block, live } = this.props;
    const language = languageOf(block.token.lang);
    if (language !== this.#language) {
      const { figure, code } = codeFigure(language);
      this.#host.current.replaceChildren(figure);
      this.#code = code;
      this.#language = language;
    }
    paint(this.#code, block.token.text, language, live);
  }

  render() {
    return html`<div class="block" ref=${this.#host}></div>`;
  }
}
