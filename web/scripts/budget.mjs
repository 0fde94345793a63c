/**
 * What the first view costs: the shell, the scripts and styles it names, and what these import at once, and one catalogue of
 * messages, compressed. Above the budget the build fails. Also refuses what the content security policy would refuse.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

const BUDGET_BYTES = 150 * 1024;
const dist = new URL('../dist', import.meta.url).pathname;
const shell = readFileSync(join(dist, 'index.html'), 'utf8');
const faults = [];

if (/<script(?![^>]*\ssrc=)[^>]*>|<style|\sstyle=|\son[a-z]+=/i.test(shell)) faults.push('the shell holds something inline');

const wanted = new Set([...shell.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map((match) => match[1]));
const follow = (name) => {
  const text = readFileSync(join(dist, name), 'utf8');
  for (const [, file] of text.matchAll(/(?:from|import)\s*"\.\/([^"]+\.js)"/g)) {
    if (!wanted.has(`assets/${file}`)) {
      wanted.add(`assets/${file}`);
      follow(`assets/${file}`);
    }
  }
};
for (const name of Array.from(wanted).filter((name) => name.endsWith('.js'))) follow(name);
const messages = readdirSync(join(dist, 'assets')).find((name) => /^de-.*\.js$/.test(name));
if (messages) wanted.add(`assets/${messages}`);
else faults.push('the catalogue of messages is no chunk of its own');

const sizeOf = (path) => statSync(existsSync(`${path}.br`) ? `${path}.br` : path).size;
const kib = (bytes) => `${(bytes / 1024).toFixed(1).padStart(8)} KiB`;
let first = sizeOf(join(dist, 'index.html'));
console.log('first view, Brotli:');
for (const name of [...wanted].filter((name) => /\.(js|css)$/.test(name)).sort()) {
  const size = sizeOf(join(dist, name));
  first += size;
  console.log(`${kib(size)}  ${name}`);
}
console.log(`${kib(first)}  of ${BUDGET_BYTES / 1024} KiB`);
console.log('loaded when needed:');
for (const name of readdirSync(join(dist, 'assets')).filter((name) => /\.m?js$/.test(name) && !wanted.has(`assets/${name}`))) {
  const size = sizeOf(join(dist, 'assets', name));
  if (size > 2048) console.log(`${kib(size)}  assets/${name}`);
}

if (first > BUDGET_BYTES) faults.push(`the first view has ${first} bytes; the budget is ${BUDGET_BYTES}`);
if (faults.length > 0) {
  console.error(faults.join('\n'));
  process.exit(1);
}
