/** One state: what tuspy, tus-js-client in the page, and WebDAV each do, all of them see, with the same bytes and the same entity tags. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { launch, open, press, row, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';

const run = promisify(execFile);
const tests = fileURLToPath(new URL('../../tests/third-party', import.meta.url));
const local = mkdtempSync(join(tmpdir(), 'holdfast-together-'));
let drive;
let browser;
let tab;
let python;

before(async () => {
  const { stdout } = await run('bash', ['-euc', 'source "$0/lib/common.bash"; python_with tuspy', tests]);
  python = stdout.trim();
  drive = await startDrive();
  browser = await launch();
  tab = await open(browser, `${drive.url}/files/ana`);
  await signIn(tab.page, drive);
});
after(async () => {
  await browser?.close();
  await drive?.stop();
  rmSync(local, { recursive: true, force: true });
});

const made = (name, bytes) => {
  const content = randomBytes(bytes);
  writeFileSync(join(local, name), content);
  return content;
};
const tuspy = (name, ...options) =>
  run(python, [`${tests}/lib/tus_client.py`, `${drive.url}/api/v1/uploads`, drive.admin, drive.password, join(local, name), 'ana', name, ...options]);
const get = (path, init = {}) => fetch(`${drive.url}${path}`, { ...init, headers: { authorization: drive.auth, ...init.headers } });

/** Names, sizes and entity tags: as WebDAV tells them, and as the API that the page is made of does. */
async function states() {
  const found = await get('/dav/ana/', { method: 'PROPFIND', headers: { depth: '1' } });
  const dav = [...(await found.text()).matchAll(/<D:response>.*?<\/D:response>/gs)].slice(1).map(([one]) => {
    const of = (name) => new RegExp(`<D:${name}>([^<]*)<`).exec(one)?.[1] ?? '';
    return [of('displayname'), Number(of('getcontentlength')), of('getetag').replaceAll('&quot;', '"')];
  });
  const { entries } = await (await get('/api/v1/folders/ana/')).json();
  const api = entries.map(({ name, size_bytes, etag }) => [name, size_bytes, etag]);
  return { dav: dav.sort(), api: api.sort() };
}

async function all(expected) {
  const { dav, api } = await states();
  assert.deepEqual(api, dav);
  assert.deepEqual(api.map(([name]) => name), [...expected].sort());
  await tab.page.reload();
  for (const name of expected) await tab.page.waitForSelector(row(name));
  assert.equal((await tab.page.$$('[role=row][data-name]')).length, expected.length);
}

async function holds(name, content) {
  const path = encodeURIComponent(name);
  for (const address of [`/dav/ana/${path}`, `/api/v1/content/ana/${path}`]) {
    const answer = await get(address);
    assert.ok(content.equals(Buffer.from(await answer.arrayBuffer())), address);
  }
  const inPage = await tab.page.evaluate(async (address) => {
    const bytes = await (await fetch(address)).arrayBuffer();
    return [...new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))].join();
  }, `/api/v1/content/ana/${path}`);
  assert.equal(inPage, [...new Uint8Array(await crypto.subtle.digest('SHA-256', content))].join());
}

describe('one state', () => {
  test('what tuspy uploads is in the page and over WebDAV', async () => {
    const content = made('tuspy.bin', 3_000_005);
    await tuspy('tuspy.bin', 'chunk=1000001', 'checksum=sha1');
    await all(['tuspy.bin']);
    await holds('tuspy.bin', content);
  });

  test('what the page uploads is there for the others, and its name is taken', async () => {
    const content = made('page.bin', 6_000_007);
    const field = await tab.page.$('[data-testid=pick-files]');
    await field.uploadFile(join(local, 'page.bin'));
    await tab.page.waitForSelector(row('page.bin'));
    await holds('page.bin', content);
    await assert.rejects(tuspy('page.bin'), /409|exists/i);
    await all(['page.bin', 'tuspy.bin']);
  });

  test('what WebDAV writes is the next version for all', async () => {
    const content = randomBytes(70_000);
    const answer = await get('/dav/ana/page.bin', { method: 'PUT', body: content });
    assert.equal(answer.status, 204);
    await holds('page.bin', content);
    const next = made('page.bin', 2_000_003);
    await tuspy('page.bin', 'conflict=replace');
    await holds('page.bin', next);
    const { versions } = await (await get('/api/v1/nodes/ana/page.bin')).json();
    assert.equal(versions, 2, 'and both before it are kept');
    await all(['page.bin', 'tuspy.bin']);
  });

  test('what one moves and removes has moved and gone for all', async () => {
    const content = made('dav.bin', 50_000);
    await drive.put('ana/dav.bin', content);
    await tuspy('dav.bin', 'conflict=keep-both');
    await all(['dav (2).bin', 'dav.bin', 'page.bin', 'tuspy.bin']);
    const moved = await get('/dav/ana/tuspy.bin', { method: 'MOVE', headers: { destination: '/dav/ana/moved.bin' } });
    assert.equal(moved.status, 201);
    await all(['dav (2).bin', 'dav.bin', 'moved.bin', 'page.bin']);
    await tab.page.$eval(`${row('dav.bin')} input`, (box) => box.click());
    await press(tab.page, 'Delete', '[role=toolbar] button');
    await seen(tab.page, 'Undo');
    await all(['dav (2).bin', 'moved.bin', 'page.bin']);
    assert.equal((await get('/dav/ana/dav.bin')).status, 404);
  });

  test('without errors of scripts and policy', () => assert.deepEqual(tab.faults, []));
});
