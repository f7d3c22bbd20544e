// What is remembered between visits: theme, the last settings, and for this visit the API key.
// Storage may be refused (private windows, full disks); then it lasts as long as the page does.

// Field of the request: how it is shown, and the bounds that the controls hint at. The server
// judges the values; nothing is clamped here.
export const SAMPLING = [
  { name: 'temperature', label: 'Temperature', min: 0, max: 2, step: 0.05, usual: 1,
    hint: '0 takes the likeliest token each time; higher is livelier' },
  { name: 'top_p', label: 'Top P', min: 0, max: 1, step: 0.01, usual: 1,
    hint: 'the likeliest tokens that make up this share' },
  { name: 'min_p', label: 'Min P', min: 0, max: 1, step: 0.01, usual: 0,
    hint: 'tokens of at least this part of the likeliest one’s probability' },
  { name: 'top_k', label: 'Top K', min: 0, step: 1, hint: 'the K likeliest tokens; 0 is all' },
  { name: 'max_tokens', label: 'Max tokens', min: 1, step: 1, hint: 'length of an answer' },
  { name: 'seed', label: 'Seed', step: 1, hint: 'makes an answer repeatable' },
  { name: 'repetition_penalty', label: 'Repetition penalty', min: 0.5, max: 2, step: 0.05, usual: 1,
    hint: 'divides the logits of tokens that were there' },
  { name: 'presence_penalty', label: 'Presence penalty', min: -2, max: 2, step: 0.1, usual: 0,
    hint: 'lowers every token of the answer once' },
  { name: 'frequency_penalty', label: 'Frequency penalty', min: -2, max: 2, step: 0.1, usual: 0,
    hint: 'lowers a token each time it comes' },
];

class Drawer {
  #memory = new Map();
  #store;

  constructor(store) {
    this.#store = store;
  }

  get(name) {
    try {
      return this.#store().getItem(`pyrite.${name}`) ?? this.#memory.get(name) ?? '';
    } catch {
      return this.#memory.get(name) ?? '';
    }
  }

  set(name, value) {
    this.#memory.set(name, value);
    try {
      this.#store().setItem(`pyrite.${name}`, value);
    } catch {
      // remembered for this page alone
    }
  }
}

const lasting = new Drawer(() => localStorage);
const visit = new Drawer(() => sessionStorage);

export const apiKey = () => visit.get('key');
export const setApiKey = (key) => visit.set('key', key.trim());

export const theme = () => lasting.get('theme') || 'system';

export function setTheme(name) {
  lasting.set('theme', name);
  applyTheme();
}

export function applyTheme() {
  const name = theme();
  if (name === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

// { system: text, sampling: { name: number } } for the next conversation.
export function lastSettings() {
  try {
    return cleanSettings(JSON.parse(lasting.get('settings')));
  } catch {
    return cleanSettings({});
  }
}

export const keepSettings = (settings) => lasting.set('settings', JSON.stringify(settings));

export function cleanSettings(given) {
  const sampling = {};
  for (const { name } of SAMPLING) {
    const value = given?.sampling?.[name];
    if (typeof value === 'number' && Number.isFinite(value)) sampling[name] = value;
  }
  return { system: typeof given?.system === 'string' ? given.system : '', sampling };
}
