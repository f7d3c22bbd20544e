// The state of the page and everything that changes it: conversations, and the answers that come.
// Knows no view; views subscribe and read `state`.
//
// State: { heads, current, query, found, model, running, keyAsked, notice, lasting }
//   heads: of all conversations, newest first; current: the conversation that is open
//   found: ids that the search leaves, or null; running: ids of conversations that are answering
//   notice: { text, action?, act? } or null

import { Answer, newId, userMessage } from './answer.js';
import { ApiError, chatChunks, modelNames } from './api.js';
import { cleanSettings, keepSettings, lastSettings, setApiKey } from './settings.js';
import { Storage } from './storage.js';
import { asJson, asMarkdown, download, fileName, fromJson } from './transfer.js';

const CHECKPOINT = 1000; // milliseconds between two savings of an answer that comes

const emptyConversation = () => {
  const now = Date.now();
  const settings = lastSettings();
  return { id: newId(), title: '', created: now, updated: now, settings, messages: [] };
};

// The first line, or as many of its words as a list has room for.
function titleOf(text) {
  const line = text.trim().split('\n')[0].trim();
  if (line.length <= 60) return line || 'New conversation';
  return `${line.slice(0, 60).replace(/\s+\S*$/, '')}…`;
}

export class Chat {
  #storage = new Storage();
  #listeners = new Set();
  #runs = new Map(); // conversation id -> { controller, conversation, removed }
  #afterKey = null; // what was asked for when the key was missing

  state = {
    heads: [],
    current: emptyConversation(),
    query: '',
    found: null,
    model: '',
    running: new Set(),
    keyAsked: false,
    notice: null,
    lasting: true,
  };

  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #set(change) {
    this.state = { ...this.state, ...change };
    this.#listeners.forEach((listener) => listener());
  }

  // Start

  async start() {
    addEventListener('pagehide', () => this.#runs.forEach((run) => this.#saveRun(run)));
    await this.#storage.start(() => this.#list());
    this.#set({ lasting: this.#storage.lasting });
    await Promise.all([this.#list(), this.findModel()]);
  }

  async findModel() {
    try {
      const names = await modelNames();
      this.#set({ model: names[0] ?? '' });
    } catch (error) {
      if (error.kind === 'key') this.#askKey(null);
      else this.say(`The model's name is not known: ${error.message}`, 'Try again', () => this.findModel());
    }
  }

  // Key

  #askKey(after) {
    this.#afterKey = after ?? this.#afterKey; // an answer that waits for the key is not forgotten
    this.#set({ keyAsked: true });
  }

  giveKey(key) {
    setApiKey(key);
    const after = this.#afterKey;
    this.#afterKey = null;
    this.#set({ keyAsked: false });
    if (!this.state.model) this.findModel();
    after?.();
  }

  askForKey = () => this.#askKey(null);

  dismissKey = () => {
    this.#afterKey = null;
    this.#set({ keyAsked: false });
  };

  // Notices

  say(text, action, act) {
    this.#set({ notice: { text, action, act } });
  }

  dismissNotice = () => this.#set({ notice: null });

  // Conversations

  async #list() {
    try {
      this.#set({ heads: await this.#storage.list() });
    } catch (error) {
      this.say(`The conversations cannot be read: ${error.message}`);
    }
  }

  startNew = () => this.#set({ current: emptyConversation() });

  async open(id) {
    const conversation = this.#runs.get(id)?.conversation ?? (await this.#storage.load(id));
    if (conversation) this.#set({ current: conversation });
    else await this.#list(); // removed in another window
  }

  async search(query) {
    this.#set({ query });
    const found = query.trim() ? await this.#storage.find(query) : null;
    if (this.state.query === query) this.#set({ found });
  }

  async rename(id, title) {
    const name = title.trim().slice(0, 200);
    if (name) await this.#change(id, (conversation) => ({ ...conversation, title: name }));
  }

  async remove(id) {
    const conversation = await this.#loaded(id);
    const run = this.#runs.get(id);
    if (run) run.removed = true;
    run?.controller.abort();
    await this.#storage.remove(id);
    if (this.state.current.id === id) this.startNew();
    await this.#list();
    this.say(`“${conversation.title}” is deleted.`, 'Undo', async () => {
      this.dismissNotice();
      await this.#save(conversation);
      await this.#list();
    });
  }

  setSettings(settings) {
    keepSettings(cleanSettings(settings));
    const current = { ...this.state.current, settings };
    this.#put(current);
    if (current.messages.length > 0) this.#save(current);
  }

  async #loaded(id) {
    if (this.#runs.has(id)) return this.#runs.get(id).conversation;
    if (this.state.current.id === id) return this.state.current;
    return this.#storage.load(id);
  }

  async #change(id, change) {
    const conversation = change(await this.#loaded(id));
    this.#put(conversation);
    await this.#save(conversation);
    await this.#list();
  }

  // Shows a newer version of a conversation wherever it is held.
  #put(conversation) {
    const run = this.#runs.get(conversation.id);
    if (run) run.conversation = conversation;
    if (this.state.current.id === conversation.id) this.#set({ current: conversation });
  }

  // A conversation without messages is not kept.
  async #save(conversation) {
    if (conversation.messages.length === 0) return;
    try {
      await this.#storage.save(conversation);
    } catch (error) {
      const full = error?.name === 'QuotaExceededError';
      this.say(
        full
          ? 'The browser has no more room: this conversation is not kept. Export or delete some.'
          : `This conversation cannot be kept: ${error?.message ?? error}`,
      );
    }
  }

  async #saveRun(run) {
    if (!run.removed) await this.#save(run.conversation);
  }

  // Files

  async exportAll() {
    const day = new Date().toISOString().slice(0, 10);
    download(`pyrite-${day}.json`, asJson(await this.#storage.all()), 'application/json');
  }

  async exportOne(id, form) {
    const conversation = await this.#loaded(id);
    const name = fileName(conversation.title, form === 'json' ? 'json' : 'md');
    if (form === 'json') download(name, asJson([conversation]), 'application/json');
    else download(name, asMarkdown(conversation), 'text/markdown');
  }

  async importFile(file) {
    try {
      const conversations = fromJson(await file.text());
      for (const conversation of conversations) await this.#storage.save(conversation);
      await this.#list();
      this.say(`${conversations.length} conversation${conversations.length === 1 ? '' : 's'} imported.`);
    } catch (error) {
      this.say(`Nothing was imported: ${error.message}`);
    }
  }

  // Answers

  send(text) {
    const current = this.state.current;
    if (this.state.running.has(current.id)) return;
    const title = current.title || titleOf(text);
    this.#answer({ ...current, title, messages: [...current.messages, userMessage(text)] });
  }

  // Asks anew from the message before this answer; what follows is cut.
  regenerate(messageId) {
    const current = this.state.current;
    const index = current.messages.findIndex((message) => message.id === messageId);
    const last = current.messages.findLastIndex(
      (message, at) => at <= index && message.role === 'user',
    );
    if (last < 0 || this.state.running.has(current.id)) return;
    this.#answer({ ...current, messages: current.messages.slice(0, last + 1) });
  }

  // Replaces what a user had said; what follows is cut.
  edit(messageId, text) {
    const current = this.state.current;
    const index = current.messages.findIndex((message) => message.id === messageId);
    if (index < 0 || this.state.running.has(current.id)) return;
    const messages = [...current.messages.slice(0, index), userMessage(text)];
    const title = index === 0 && current.title === titleOf(current.messages[0].content)
      ? titleOf(text)
      : current.title;
    this.#answer({ ...current, title, messages });
  }

  stop = (id = this.state.current.id) => this.#runs.get(id)?.controller.abort();

  async #answer(asked) {
    const { id } = asked;
    const answer = new Answer();
    const controller = new AbortController();
    const run = { controller, conversation: asked, removed: false };
    const show = () => {
      const messages = [...asked.messages, answer.message];
      this.#put({ ...run.conversation, messages, updated: Date.now() });
    };
    this.#runs.set(id, run);
    this.#running();
    show();
    this.#saveRun(run).then(() => this.#list());
    await this.#receive(asked, answer, controller.signal, new Frames(show), run);
    show();
    this.#runs.delete(id);
    this.#running();
    await this.#saveRun(run);
    this.#list();
    if (answer.message.error?.kind === 'key') this.#askKey(() => this.#again(id, answer.message.id));
  }

  async #receive(asked, answer, signal, frames, run) {
    const checkpoint = setInterval(() => this.#saveRun(run), CHECKPOINT);
    try {
      if (!this.state.model) await this.findModel();
      for await (const chunk of chatChunks(this.#request(asked), signal)) {
        answer.add(chunk);
        frames.ask();
      }
      answer.end();
    } catch (error) {
      this.#fail(answer, error, signal);
    } finally {
      clearInterval(checkpoint);
      frames.stop();
    }
  }

  #fail(answer, error, signal) {
    if (signal.aborted) return answer.end('stopped');
    if (error.kind === 'cut' && answer.message.finish) return answer.end();
    const { kind = 'bug', message, hint = '', status = 0, retryAfter = 0 } = error;
    if (!(error instanceof ApiError)) console.error(error);
    return answer.end('failed', { kind, message, hint, status, retryAfter });
  }

  #again(id, messageId) {
    if (this.state.current.id === id) this.regenerate(messageId);
  }

  #running() {
    this.#set({ running: new Set(this.#runs.keys()) });
  }

  #request({ settings, messages }) {
    const system = settings.system.trim() ? [{ role: 'system', content: settings.system }] : [];
    const said = messages
      .filter(({ role, content }) => role === 'user' || content)
      .map(({ role, content }) => ({ role, content }));
    const model = this.state.model ? { model: this.state.model } : {};
    return { ...model, messages: [...system, ...said], ...settings.sampling };
  }
}

// Calls back at most once a frame, and less often where a frame takes long to draw.
class Frames {
  #callback;
  #asked = false;
  #ended = false;

  constructor(callback) {
    this.#callback = callback;
  }

  ask() {
    if (this.#asked || this.#ended) return;
    this.#asked = true;
    // A hidden page gets no frames; its answers are kept all the same.
    if (document.hidden) setTimeout(() => this.#run(), 250);
    else requestAnimationFrame(() => this.#run());
  }

  #run() {
    this.#asked = false;
    if (!this.#ended) this.#callback();
  }

  stop() {
    this.#ended = true;
  }
}
