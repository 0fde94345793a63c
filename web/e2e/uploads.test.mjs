/** Uploads: many small ones, folders, large ones that are interrupted. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { kind, launch, open, press, row, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';

const FILES = 2_000;
/** What a person may expect of small files. A machine that does other things besides is not asked: SPEED=1 asks. */
const FILES_PER_SECOND = 200;
let drive;
let browser;
let tab;
let page;
const files = mkdtempSync(join(tmpdir(), 'holdfast-pick-'));

before(async () => {
  drive = await startDrive();
  browser = await launch();
  tab = await open(browser, drive.url);
  ({ page } = tab);
  await signIn(page, drive);
  await page.waitForSelector('[data-testid=pick-files]');
});
after(async () => {
  await browser?.close();
  await drive?.stop();
  rmSync(files, { recursive: true, force: true });
});

const pick = async (...paths) => (await page.$('[data-testid=pick-files]')).uploadFile(...paths);

/** Drops files made in the page, as a browser hands them over; with paths, as folders. */
const drop = (list) =>
  page.evaluate((wanted) => {
    const entry = (name, node) =>
      typeof node === 'number'
        ? { isFile: true, isDirectory: false, name, file: (give) => give(new File([new Uint8Array(node).fill(name.length)], name)) }
        : {
            isFile: false,
            isDirectory: true,
            name,
            createReader: () => {
              const rest = Object.entries(node).map(([inner, one]) => entry(inner, one));
              return { readEntries: (give) => give(rest.splice(0, 100)) };
            },
          };
    const items = Object.entries(wanted).map(([name, node]) => ({ kind: 'file', webkitGetAsEntry: () => entry(name, node), getAsFile: () => null }));
    const event = new Event('drop', { bubbles: true, cancelable: true });
    Object.defineProperty(event, 'dataTransfer', { value: { types: ['Files'], items } });
    document.querySelector('.pane').dispatchEvent(event);
  }, list);

describe('uploads', () => {
  test('of a dropped folder make its folders, empty ones too', async () => {
    await drop({ project: { 'a.txt': 10, empty: {}, deep: { deeper: { 'b.txt': 20 } } } });
    await page.waitForSelector(row('project'));
    await seen(page, 'all done', '.panel');
    assert.equal((await drive.read('ana/project/deep/deeper/b.txt')).length, 20);
    assert.notEqual(await drive.read('ana/project/empty/'), null);
  });

  test('of a folder that is there already ask once for all', async () => {
    await drop({ project: { 'a.txt': 11, 'c.txt': 5, deep: { deeper: { 'b.txt': 21 } } } });
    await seen(page, 'This name is taken', 'dialog');
    await page.$eval('dialog input[type=checkbox]', (box) => box.click()).catch(() => {});
    await press(page, 'Replace', 'dialog button');
    await page.waitForFunction(() => !document.querySelector('dialog[open]') || document.querySelector('dialog[open]').textContent.includes('taken'));
    if (await page.$('dialog[open]')) await press(page, 'Replace', 'dialog button');
    await seen(page, 'all done', '.panel');
    assert.equal((await drive.read('ana/project/a.txt')).length, 11);
    assert.equal((await drive.read('ana/project/deep/deeper/b.txt')).length, 21);
  });

  test(`of ${FILES} files of 4 KiB all arrive, as fast as one may expect`, async (context) => {
    await press(page, 'Close', '.panel button');
    const begun = Date.now();
    await drop({ many: Object.fromEntries(Array.from({ length: FILES }, (_, at) => [`file${at}.bin`, 4096])) });
    await page.waitForSelector('.panel');
    await page.waitForFunction(() => document.querySelector('.panel')?.textContent.includes('all done'), { timeout: 120_000 });
    const rate = FILES / ((Date.now() - begun) / 1000);
    context.diagnostic(`${rate.toFixed(0)} files a second in ${kind}`);
    if (process.env.SPEED) assert.ok(rate >= FILES_PER_SECOND, `${rate.toFixed(0)} files a second`);
    const there = await page.evaluate(async () => (await (await fetch('/api/v1/folders/ana/many', { headers: { 'X-Requested-With': 'holdfast' } })).json()).entries.length);
    assert.equal(there, FILES);
    await press(page, 'Close', '.panel button');
  });

  test('wait while the network is away, and go on by themselves', async (context) => {
    if (kind === 'firefox') return context.skip('Firefox has no emulation of a network that is away');
    await page.setOfflineMode(true);
    await seen(page, 'No connection.', '.offline');
    await drop({ 'later.txt': 7 });
    await seen(page, 'waiting for the network', '.panel');
    assert.equal(await drive.read('ana/later.txt'), null);
    await page.setOfflineMode(false);
    await page.waitForSelector(row('later.txt'));
    assert.equal((await drive.read('ana/later.txt')).length, 7);
    await seen(page, 'all done', '.panel');
    assert.equal(await page.$('.offline'), null);
  });

  test('that cannot be made say why', async () => {
    await drop({ ['x'.repeat(300)]: 10 });
    await seen(page, '255 bytes', '.panel');
  });
});

describe('large uploads', () => {
  const large = join(files, 'large.bin');
  const bytes = randomBytes(24 * 1024 * 1024);
  before(() => writeFileSync(large, bytes));

  test('are resumed after the page was loaded anew, from where they were', async (context) => {
    if (kind === 'firefox') return context.skip('Firefox has no emulation of a slow network');
    await page.goto(`${drive.url}/files/ana`);
    await page.waitForSelector('[data-testid=pick-files]');
    await page.emulateNetworkConditions({ upload: 4 * 1024 * 1024, download: 10 * 1024 * 1024, latency: 0 });
    await pick(large);
    await page.waitForFunction(() => Number(/(\d+)%/.exec(document.querySelector('.upload')?.textContent ?? '')?.[1] ?? 0) >= 40);
    await page.goto(`${drive.url}/files/ana`);
    await page.emulateNetworkConditions(null);
    await page.waitForSelector('header .uploads');
    await page.click('header .uploads');
    await seen(page, 'interrupted', '.panel');
    const [before] = await page.evaluate(async () => (await fetch('/api/v1/uploads', { headers: { 'X-Requested-With': 'holdfast' } })).json());
    assert.ok(before.offset_bytes > 0, 'nothing was kept');
    let sent = 0;
    page.on('request', (request) => {
      if (request.method() === 'PATCH') sent += Number(request.headers()['content-length'] ?? 0);
    });
    await (await page.$('.upload input[type=file]')).uploadFile(large);
    await page.waitForSelector(row('large.bin'));
    const same = await page.evaluate(async () => {
      const answer = await fetch('/api/v1/content/ana/large.bin');
      return [...new Uint8Array(await crypto.subtle.digest('SHA-256', await answer.arrayBuffer()))].join();
    });
    assert.equal(same, [...createHash('sha256').update(bytes).digest()].join());
    assert.ok(sent <= bytes.length - before.offset_bytes, `${sent} bytes were sent again`);
  });

  test('are paused and go on', async (context) => {
    if (kind === 'firefox') return context.skip('Firefox has no emulation of a slow network');
    writeFileSync(join(files, 'paused.bin'), bytes);
    await page.emulateNetworkConditions({ upload: 8 * 1024 * 1024, download: 10 * 1024 * 1024, latency: 0 });
    await pick(join(files, 'paused.bin'));
    await page.waitForFunction(() => Number(/(\d+)%/.exec(document.querySelector('.upload')?.textContent ?? '')?.[1] ?? 0) >= 20);
    await press(page, 'Pause paused.bin', '.panel button');
    await seen(page, 'paused', '.upload');
    await page.emulateNetworkConditions(null);
    await press(page, 'Go on with paused.bin', '.panel button');
    await page.waitForSelector(row('paused.bin'));
  });

  test('wait while the drive cannot be reached, and go on by themselves', async (context) => {
    if (kind === 'firefox') return context.skip('Firefox has no emulation of a slow network');
    writeFileSync(join(files, 'offline.bin'), bytes);
    await page.emulateNetworkConditions({ upload: 8 * 1024 * 1024, download: 10 * 1024 * 1024, latency: 0 });
    await pick(join(files, 'offline.bin'));
    await page.waitForFunction(() => Number(/(\d+)%/.exec(document.querySelector('.upload')?.textContent ?? '')?.[1] ?? 0) >= 20);
    await page.setOfflineMode(true);
    await seen(page, 'No connection.', '.offline');
    await seen(page, 'waiting for the network', '.panel');
    await page.setOfflineMode(false);
    await page.waitForSelector(row('offline.bin'));
    await page.waitForFunction(() => !document.querySelector('.offline'));
  });

  test('are taken when the name is taken, without sending a byte twice', async () => {
    await drive.put('ana/large.bin', bytes);
    await page.goto(`${drive.url}/files/ana`);
    await page.waitForSelector(row('large.bin'));
    await pick(large);
    await seen(page, 'This name is taken', 'dialog');
    await press(page, 'Keep both', 'dialog button');
    await page.waitForSelector(row('large (2).bin'));
  });

  test('met no error', () => assert.deepEqual(tab.faults, []));
});
