// Copies text, also where the browser has no clipboard for pages without TLS.

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text) {
  const area = document.createElement('textarea');
  const before = document.activeElement;
  area.value = text;
  area.className = 'unseen';
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  before?.focus();
  return done;
}

// Code blocks are elements without handlers: one listener serves them all.
export function copyOnClick(root) {
  root.addEventListener('click', async (event) => {
    const button = event.target.closest?.('[data-copy="code"]');
    if (!button) return;
    const done = await copy(button.closest('figure').querySelector('code').textContent);
    button.textContent = done ? 'Copied' : 'Not copied';
    setTimeout(() => (button.textContent = 'Copy'), 1600);
  });
}
