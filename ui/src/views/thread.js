// The open conversation. Follows what is written at its end, until the reader scrolls away.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { Mark } from './icons.js';
import { Message } from './message.js';
import { IconButton } from './parts.js';

const NEAR = 48; // pixels from the end that count as being there

export function Thread({ chat, state }) {
  const { current, running } = state;
  const scroller = useRef();
  const follows = useRef(true);
  const top = useRef(0); // where the last scrolling had led
  const [away, setAway] = useState(false);
  const busy = running.has(current.id);
  const toEnd = () => {
    scroller.current.scrollTop = scroller.current.scrollHeight;
    top.current = scroller.current.scrollTop;
  };
  const scrolled = () => {
    const { scrollHeight, scrollTop, clientHeight } = scroller.current;
    // Only a move upward leaves the end: the end itself may have moved on since.
    if (scrollHeight - scrollTop - clientHeight < NEAR) follows.current = true;
    else if (scrollTop < top.current) follows.current = false;
    top.current = scrollTop;
    setAway(!follows.current);
  };
  useLayoutEffect(() => {
    follows.current = true;
    toEnd();
  }, [current.id, current.messages.length]);
  useEffect(() => {
    const observer = new ResizeObserver(() => follows.current && toEnd());
    observer.observe(scroller.current.firstElementChild);
    return () => observer.disconnect();
  }, []);
  const { messages } = current;
  return html`
    <div class="thread" ref=${scroller} onScroll=${scrolled} role="region" tabindex="0"
      aria-label="Conversation">
      <div class="column">
        ${messages.length === 0 && html`<${Welcome} state=${state} />`}
        ${messages.map((message, index) => html`
          <${Message} key=${message.id} message=${message} chat=${chat} busy=${busy}
            live=${busy && index === messages.length - 1} />
        `)}
      </div>
    </div>
    ${away && messages.length > 0 && html`
      <${IconButton} icon="down" label="To the end" className="to-end" onClick=${toEnd} />
    `}
  `;
}

const Welcome = ({ state }) => html`
  <div class="welcome">
    <${Mark} />
    <h1>What is on your mind?</h1>
    <p>
      ${state.model ? html`<span class="model-name">${state.model}</span> answers. ` : ''}
      Conversations stay in this browser${state.lasting ? '' : ', until you leave this page'}.
    </p>
  </div>
`;
