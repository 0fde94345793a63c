/**
 * The catalogues of messages must be one catalogue: the same keys, the same places to fill in, plurals in pairs; every key
 * the pages ask for is there, and every key that is there is asked for.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const read = (language) => JSON.parse(readFileSync(join(root, 'src/messages', `${language}.json`), 'utf8'));
const [en, de] = [read('en'), read('de')];
const faults = [];

const holes = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort().join();
for (const key of new Set([...Object.keys(en), ...Object.keys(de)])) {
  if (!(key in en)) faults.push(`en lacks ${key}`);
  else if (!(key in de)) faults.push(`de lacks ${key}`);
  else if (holes(en[key]) !== holes(de[key])) faults.push(`${key} is filled in differently`);
  else if (en[key].trim() === '' || de[key].trim() === '') faults.push(`${key} is empty`);
  const twin = key.endsWith('_one') ? key.replace(/_one$/, '_other') : key.endsWith('_other') ? key.replace(/_other$/, '_one') : null;
  if (twin && !(twin in en)) faults.push(`${key} has no twin`);
}

const sources = [];
const walk = (folder) => {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) walk(path);
    else if (/\.(ts|svelte)$/.test(entry.name)) sources.push(readFileSync(path, 'utf8'));
  }
};
walk(join(root, 'src'));
const text = sources.join('\n');
const base = (key) => key.replace(/_(one|other)$/, '');
const known = new Set(Object.keys(en).map(base));
// `t(`setup.${client}`)` uses all keys that begin so.
const prefixes = [...text.matchAll(/`([a-zA-Z]+\.(?:[a-zA-Z]+\.)?)\$\{/g)].map((match) => match[1]);
for (const key of known) {
  if (!text.includes(`'${key}'`) && !prefixes.some((prefix) => key.startsWith(prefix))) faults.push(`nobody asks for ${key}`);
}
// That what is asked for exists is the compiler's to see: `t` takes only keys of the English catalogue.

if (faults.length > 0) {
  console.error(faults.join('\n'));
  process.exit(1);
}
console.log(`messages: ${Object.keys(en).length} in each language`);
