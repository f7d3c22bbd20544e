// Conversations in the browser's IndexedDB, or in memory where that is refused. Knows no view.
//
// Conversation: { id, title, created, updated, settings: { system, sampling }, messages }
//   times in milliseconds since 1970; messages as in answer.js

const NAME = 'pyrite';
const STORE = 'conversations';

const settled = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

function open() {
  const request = indexedDB.open(NAME, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: 'id' });
  return settled(request);
}

const head = ({ id, title, created, updated }) => ({ id, title, created, updated });
const newestFirst = (a, b) => b.updated - a.updated;

// Every method raises what the browser raises, QuotaExceededError when the disk is full.
export class Storage {
  #database = null;
  #memory = new Map();
  #channel = typeof BroadcastChannel === 'function' ? new BroadcastChannel(NAME) : null;
  lasting = false; // whether conversations outlive the page

  // `changed` is called when another window has written.
  async start(changed) {
    if (this.#channel) this.#channel.onmessage = changed;
    try {
      this.#database = await open();
      this.#database.onversionchange = () => this.#database.close();
      this.lasting = true;
    } catch {
      this.lasting = false;
    }
  }

  async list() {
    const heads = [];
    await this.#each((conversation) => heads.push(head(conversation)));
    return heads.sort(newestFirst);
  }

  // Ids of the conversations in which every word is found, whatever its case.
  async find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = new Set();
    await this.#each((conversation) => {
      const all = searchable(conversation);
      if (words.every((word) => all.includes(word))) found.add(conversation.id);
    });
    return found;
  }

  async all() {
    const whole = [];
    await this.#each((conversation) => whole.push(conversation));
    return whole.sort(newestFirst);
  }

  async load(id) {
    if (!this.#database) return this.#memory.get(id);
    return settled(this.#transaction('readonly').get(id));
  }

  async save(conversation) {
    if (this.#database) await this.#write((store) => store.put(conversation));
    else this.#memory.set(conversation.id, conversation);
  }

  async remove(id) {
    if (this.#database) await this.#write((store) => store.delete(id));
    else this.#memory.delete(id);
  }

  #transaction(mode) {
    return this.#database.transaction(STORE, mode).objectStore(STORE);
  }

  // Waits for the transaction, not the request: a full disk shows only when it commits.
  #write(change) {
    const store = this.#transaction('readwrite');
    return new Promise((resolve, reject) => {
      store.transaction.oncomplete = () => {
        this.#channel?.postMessage('changed');
        resolve();
      };
      store.transaction.onabort = () => reject(store.transaction.error);
      store.transaction.onerror = () => reject(store.transaction.error);
      change(store);
    });
  }

  // One at a time, so that many long conversations are never in memory together.
  async #each(visit) {
    if (!this.#database) {
      this.#memory.forEach(visit);
      return;
    }
    const request = this.#transaction('readonly').openCursor();
    await new Promise((resolve, reject) => {
      request.onerror = () => reject(request.error);
      request.onsuccess = () => {
        const cursor = request.result;
        if (!cursor) return resolve();
        visit(cursor.value);
        cursor.continue();
      };
    });
  }
}

function searchable({ title, messages }) {
  const texts = messages.flatMap((message) => [message.content, message.reasoning ?? '']);
  return [title, ...texts].join('\n').toLowerCase();
}
