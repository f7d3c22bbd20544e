// Builds the chat page: one HTML file with its script and style inside, and the licences of what
// is bundled. Writes the digest of the sources into the page, so that a test can tell a stale one.
// Knows nothing of what the page does.

import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = join(HERE, '..', 'src', 'pyrite', 'server', 'page');
const BUNDLED = ['preact', 'htm', 'marked', 'dompurify', 'highlight.js'];
const SOURCES = ['build.js', 'package.json', 'package-lock.json', 'page.html'];

// Every source file, by its path with forward slashes, in order of these paths.
function sources() {
  const found = readdirSync(join(HERE, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(HERE, join(entry.parentPath, entry.name)).split(sep).join('/'));
  return [...SOURCES, ...found].sort();
}

// SHA-256 over `path \0 length \0 content` of each source; the test computes the same.
function digest() {
  const sum = createHash('sha256');
  for (const path of sources()) {
    const content = readFileSync(join(HERE, path));
    sum.update(`${path}\0${content.length}\0`).update(content);
  }
  return sum.digest('hex');
}

async function bundle(entry) {
  const done = await build({
    absWorkingDir: HERE,
    entryPoints: [entry],
    bundle: true,
    write: false,
    minify: true,
    format: 'iife',
    target: ['chrome111', 'firefox115', 'safari16.4'],
    charset: 'utf8',
    legalComments: 'none', // licenses.txt holds them whole
    logLevel: 'warning',
  });
  return done.outputFiles[0].text.trim();
}

// Inside a script element, `<!--` would begin a state in which `</script>` no longer ends it.
function inlineScript(text) {
  const safe = text.replaceAll('<!--', '\\x3C!--').replaceAll(/<(\/?script)/gi, '\\x3C$1');
  if (/<!--|<\/?script/i.test(safe)) throw new Error('the script would end its own element');
  return safe;
}

function licenses() {
  const parts = BUNDLED.map((name) => {
    const folder = join(HERE, 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const text = readFileSync(join(folder, file), 'utf8').replaceAll('\r\n', '\n').trimEnd();
    return `${name} ${version} (${license})\n\n${text}\n`;
  });
  return `The chat page contains these packages.\n\n${parts.join(`\n${'-'.repeat(72)}\n\n`)}`;
}

const shell = readFileSync(join(HERE, 'page.html'), 'utf8');
const style = await bundle('src/style/main.css');
const script = inlineScript(await bundle('src/main.js'));
const page = shell
  .replace('@DIGEST@', digest())
  .replace('@STYLE@', () => style)
  .replace('@SCRIPT@', () => script);
writeFileSync(join(OUT, 'index.html'), page);
writeFileSync(join(OUT, 'licenses.txt'), licenses());
console.log(`index.html: ${page.length} characters`);
