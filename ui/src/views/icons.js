// The page's own pictures, drawn on a grid of 24 by 24.

import { html } from '../html.js';

const PATHS = {
  plus: 'M12 5v14M5 12h14',
  search: 'M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM20 20l-4-4',
  settings: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 4.8v4.4M9 14.8v4.4',
  sidebar: 'M5 4.5h14a1.5 1.5 0 0 1 1.5 1.5v12a1.5 1.5 0 0 1-1.5 1.5H5A1.5 1.5 0 0 1 3.5 18V6A1.5 1.5 0 0 1 5 4.5ZM9.5 4.5v15',
  send: 'M12 19V5M6 11l6-6 6 6',
  copy: 'M9 9h9.5A1.5 1.5 0 0 1 20 10.5V19a1.5 1.5 0 0 1-1.5 1.5H10A1.5 1.5 0 0 1 8.5 19V9.5ZM15.5 5.5A1.5 1.5 0 0 0 14 4H5.5A1.5 1.5 0 0 0 4 5.5V14a1.5 1.5 0 0 0 1.5 1.5',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  again: 'M19.5 12a7.5 7.5 0 1 1-2.2-5.3L19.5 9M19.5 4v5h-5',
  edit: 'M4 20l1-4L16 5l3 3L8 19l-4 1ZM14 7l3 3',
  more: 'M5.5 12h.01M12 12h.01M18.5 12h.01',
  close: 'M6 6l12 12M18 6L6 18',
  down: 'M12 5v14M6 13l6 6 6-6',
  chevron: 'M9 6l6 6-6 6',
  sun: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21M5.6 5.6l1.1 1.1M17.3 17.3l1.1 1.1M18.4 5.6l-1.1 1.1M6.7 17.3l-1.1 1.1',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z',
  screen: 'M4 5h16v11H4ZM9 20h6M12 16v4',
  key: 'M8.5 18.5a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM11.5 12L19 4.5M16 7.5l2.5 2.5',
  upload: 'M12 15V4M7.5 8.5L12 4l4.5 4.5M4.5 15v3.5A1.5 1.5 0 0 0 6 20h12a1.5 1.5 0 0 0 1.5-1.5V15',
  download: 'M12 4v11M7.5 10.5L12 15l4.5-4.5M4.5 15v3.5A1.5 1.5 0 0 0 6 20h12a1.5 1.5 0 0 0 1.5-1.5V15',
  tool: 'M9 4H8a2 2 0 0 0-2 2v3.5L3.5 12 6 14.5V18a2 2 0 0 0 2 2h1M15 4h1a2 2 0 0 1 2 2v3.5l2.5 2.5-2.5 2.5V18a2 2 0 0 1-2 2h-1',
};

export const Icon = ({ name }) => html`
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} />
  </svg>
`;

export const Stop = () => html`
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <rect class="solid" x="7" y="7" width="10" height="10" rx="2" />
  </svg>
`;

// A cube of pyrite.
export const Mark = () => html`
  <svg class="mark" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path class="mark-top" d="M12 2.5 20.5 7.3 12 12 3.5 7.3Z" />
    <path class="mark-left" d="M3.5 7.3 12 12v9.5l-8.5-4.8Z" />
    <path class="mark-right" d="M20.5 7.3 12 12v9.5l8.5-4.8Z" />
  </svg>
`;
