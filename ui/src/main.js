// Starts the page.

import { render } from 'preact';
import { html } from './html.js';
import { Chat } from './chat.js';
import { copyOnClick } from './clipboard.js';
import { applyTheme } from './settings.js';
import { App } from './views/app.js';

applyTheme();
copyOnClick(document);
const chat = new Chat();
render(html`<${App} chat=${chat} />`, document.getElementById('page'));
chat.start();
