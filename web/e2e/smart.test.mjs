/** Saved searches as smart folders: saved from the page of results, shown as folders, with files put into them. SHOTS=1 keeps pictures. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { focusList, gone, kind, launch, open, press, row, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';
import { look } from './lib/look.mjs';

const local = mkdtempSync(join(tmpdir(), 'holdfast-smart-'));
let drive;
let browser;
let tab;
let page;

const api = async (method, path, body) => {
  const response = await fetch(`${drive.url}/api/v1${path}`, {
    method,
    headers: { authorization: drive.auth, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response.status === 204 ? null : response.json();
};
const tag = (path, ...add) => api('POST', '/tags', { items: [{ space: 'ana', path }], add, remove: [] });
const tagsOf = async (path) => (await api('GET', `/nodes/ana/${path}`)).tags;

before(async () => {
  drive = await startDrive();
  browser = await launch();
  await drive.folder('ana/Inbox');
  for (const folder of ['Projects', 'Home']) {
    await drive.folder(`ana/${folder}`);
    await drive.put(`ana/${folder}/Invoice.txt`, `of ${folder}`);
  }
  await drive.put('ana/Projects/Invoice March.pdf', 'x'.repeat(2_000));
  await drive.put('ana/Projects/Invoice April.pdf', 'x'.repeat(3_000));
  await drive.put('ana/notes.txt', 'not a bill');
  for (const path of ['/Projects/Invoice.txt', '/Home/Invoice.txt', '/Projects/Invoice March.pdf', '/Projects/Invoice April.pdf']) await tag(path, 'Paid');
  tab = await open(browser, drive.url);
  ({ page } = tab);
  await signIn(page, drive);
});
after(async () => {
  await browser?.close();
  await drive?.stop();
  rmSync(local, { recursive: true, force: true });
});

const names = () => page.$$eval('[role=row][data-name]', (rows) => rows.map((one) => one.dataset.name));

/** Gives a file to the hidden field behind the button for uploads. */
async function upload(name, content) {
  writeFileSync(join(local, name), content);
  const field = await page.$('[data-testid=pick-files]');
  await field.uploadFile(join(local, name));
}

async function fill(selector, text) {
  await page.waitForSelector(selector);
  await page.$eval(selector, (field) => field.select());
  await page.type(selector, text);
}

describe('a saved search', () => {
  test('is saved from the page of results, with a name and a folder for new files', async () => {
    await page.goto(`${drive.url}/search?q=invoice&tag=Paid`);
    await seen(page, 'Invoice March.pdf', '.page li');
    await press(page, 'Save this search');
    await seen(page, '“invoice” · tagged Paid', 'dialog');
    await fill('dialog input', 'Bills');
    await press(page, 'Choose', 'dialog button');
    await seen(page, 'Use this folder', 'dialog');
    await press(page, 'Inbox', 'dialog li button');
    await seen(page, 'Inbox', 'dialog strong');
    await press(page, 'Use this folder', 'dialog button');
    await seen(page, 'ana/Inbox', '[data-testid=smart-folder]');
    await look(page, 'smart-dialog');
    await press(page, 'Save', 'dialog button');
    await page.waitForFunction(() => /^\/smart\/\d+$/.test(location.pathname));
    await seen(page, 'Bills', 'nav a[aria-current=page]');
    await seen(page, 'Bills', 'h1');
    await look(page, 'smart-wide');
  });

  test('looks like a folder, with files of one name told apart', async () => {
    await page.waitForSelector(row('Invoice March.pdf'));
    const shown = await names();
    assert.equal(shown.length, 4);
    assert.ok(shown.includes('Invoice.txt'), shown.join());
    assert.ok(shown.some((name) => /^Invoice \[\d+\]\.txt$/.test(name)), shown.join());
    await press(page, 'Show as grid');
    await page.waitForSelector('.tile');
    await press(page, 'Show as list');
    await page.waitForSelector('.row-item');
    await focusList(page);
    await page.keyboard.down('Control');
    await page.keyboard.press('a');
    await page.keyboard.up('Control');
    await seen(page, '4 selected', '[role=toolbar]');
    await page.keyboard.press('Escape');
    await gone(page, '4 selected', '[role=toolbar]');
  });

  test('leads to where a file lies, and back leads to it', async () => {
    const url = page.url();
    await page.$eval(`${row('Invoice.txt')} a`, (link) => link.click());
    await seen(page, 'of ', '.code');
    assert.match(new URL(page.url()).pathname, /^\/files\/ana\/(Projects|Home)$/);
    await page.goBack();
    await page.waitForSelector(row('Invoice March.pdf'));
    assert.equal(page.url(), url);
    await press(page, 'More actions for Invoice April.pdf');
    await press(page, 'Show in its folder', '[role=menuitem]');
    await page.waitForFunction(() => location.pathname === '/files/ana/Projects');
    await page.goBack();
    await page.waitForSelector(row('Invoice March.pdf'));
  });

  test('takes a file, small or large: it lies in the folder, has the tags, and is shown', async () => {
    await upload('Invoice May.txt', 'may');
    await page.waitForSelector(row('Invoice May.txt'));
    assert.equal(await drive.read('ana/Inbox/Invoice May.txt'), 'may');
    assert.deepEqual(await tagsOf('Inbox/Invoice%20May.txt'), ['Paid']);
    await upload('Invoice large.bin', Buffer.alloc(1_500_000, 7));
    await page.waitForSelector(row('Invoice large.bin'));
    assert.deepEqual(await tagsOf('Inbox/Invoice%20large.bin'), ['Paid']);
  });

  test('and any folder goes on to follow what happens when one comes back to it', async () => {
    const url = page.url();
    await press(page, 'ana', 'nav a');
    await page.waitForSelector(row('notes.txt'));
    await press(page, 'Shared', 'nav a');
    await page.waitForFunction(() => location.pathname === '/shared');
    await page.goBack();
    await page.waitForSelector(row('notes.txt'));
    await upload('later.txt', 'later');
    await page.waitForSelector(row('later.txt'));
    await page.goBack();
    await page.waitForFunction((wanted) => location.href === wanted, {}, url);
    await page.waitForSelector(row('Invoice May.txt'));
  });

  test('takes what is dropped on it', async () => {
    await page.evaluate(() => {
      const data = new DataTransfer();
      data.items.add(new File(['dropped'], 'Invoice June.txt', { type: 'text/plain' }));
      const pane = document.querySelector('.pane');
      for (const type of ['dragover', 'drop']) pane.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
    });
    await page.waitForSelector(row('Invoice June.txt'));
    assert.equal(await drive.read('ana/Inbox/Invoice June.txt'), 'dropped');
    assert.deepEqual(await tagsOf('Inbox/Invoice%20June.txt'), ['Paid']);
  });

  test('follows what is removed from it and put back, renamed, and changed elsewhere', async () => {
    const list = await page.$('[role=grid]');
    const usage = page.waitForResponse(`${drive.url}/api/v1/me`);
    await page.$eval(`${row('Invoice April.pdf')} input`, (box) => box.click());
    await press(page, 'Delete', '[role=toolbar] button');
    await gone(page, 'Invoice April.pdf', '[role=grid]');
    assert.equal(await drive.read('ana/Projects/Invoice April.pdf'), null);
    await press(page, 'Undo');
    await page.waitForSelector(row('Invoice April.pdf'));
    await page.$eval(`${row('Invoice April.pdf')} input`, (box) => box.click());
    await focusList(page);
    await page.keyboard.press('F2');
    await fill('.row-item input[type=text]', 'Invoice of April.pdf');
    await page.keyboard.press('Enter');
    await page.waitForSelector(row('Invoice of April.pdf'));
    assert.notEqual(await drive.read('ana/Projects/Invoice of April.pdf'), null, 'it was renamed where it lies');
    await api('POST', '/tags', { items: [{ space: 'ana', path: '/Projects/Invoice of April.pdf' }], add: [], remove: ['paid'] });
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await gone(page, 'Invoice of April.pdf', '[role=grid]');
    await usage;
    await page.evaluate(() => new Promise(requestAnimationFrame));
    assert.ok(await list.evaluate((element) => element.isConnected), 'the list stays when usage is asked for again');
  });

  test('gets another name, folder and query', async () => {
    await press(page, 'Saved search', '[role=toolbar] button');
    await press(page, 'Name and folder');
    await fill('dialog input', 'Paid bills');
    await press(page, 'Save', 'dialog button');
    await seen(page, 'Paid bills', 'nav a[aria-current=page]');
    // A dialog that closes takes a menu with it.
    await page.waitForFunction(() => !document.querySelector('dialog'));
    await press(page, 'Saved search', '[role=toolbar] button');
    await press(page, 'Change what it finds');
    await seen(page, 'Invoice May.txt', '.page li');
    await page.select('select:has(option[value=pdf])', 'pdf');
    await gone(page, 'Invoice May.txt', '.page li');
    await press(page, 'Save to “Paid bills”');
    await page.waitForSelector(row('Invoice March.pdf'));
    assert.deepEqual(await names(), ['Invoice March.pdf']);
    const [saved] = await api('GET', '/searches');
    assert.deepEqual([saved.name, saved.query, saved.folder], ['Paid bills', { q: 'invoice', type: 'pdf', tags: ['Paid'] }, { space: 'ana', path: '/Inbox' }]);
  });

  test('says what is the matter: nothing fits, its folder is gone, it is not there', async () => {
    const [saved] = await api('GET', '/searches');
    await api('PATCH', `/searches/${saved.id}`, { query: { q: 'nothinglikethis' } });
    await page.reload();
    await seen(page, 'Nothing fits this search now', '.empty');
    await seen(page, 'ana/Inbox', '.empty');
    await look(page, 'smart-empty');
    await api('POST', '/remove', { items: [{ space: 'ana', path: '/Inbox' }] });
    await page.reload();
    await seen(page, 'The folder for new files is gone', '[role=toolbar]');
    await page.goto(`${drive.url}/smart/999999`);
    await seen(page, 'There is no such saved search');
  });

  test('is removed, and what it found stays', async () => {
    const [saved] = await api('GET', '/searches');
    await page.goto(`${drive.url}/smart/${saved.id}`);
    await press(page, 'Saved search', '[role=toolbar] button');
    await press(page, 'Remove saved search', '[role=menuitem]');
    await seen(page, 'The files it shows stay where they are', 'dialog');
    await press(page, 'Remove saved search', 'dialog button');
    await page.waitForFunction(() => location.pathname.startsWith('/files/'));
    await gone(page, 'Saved searches', 'nav');
    assert.notEqual(await drive.read('ana/Projects/Invoice March.pdf'), null);
  });

  test('is fit for a phone, in German too', async () => {
    const saved = await api('POST', '/searches', { name: 'Rechnungen', query: { q: 'invoice', tags: ['Paid'] } });
    await page.setViewport({ width: 360, height: 740 });
    await page.evaluate(() => localStorage.clear());
    await page.goto(`${drive.url}/smart/${saved.id}`);
    await page.waitForSelector(row('Invoice March.pdf'));
    await look(page, 'smart-small');
    await page.goto(`${drive.url}/search?q=invoice&tag=Paid`);
    await seen(page, 'Save this search');
    await look(page, 'smart-search-small');
    await page.goto(`${drive.url}/account/look`);
    await page.waitForSelector('fieldset');
    await page.$eval('[lang=de] input', (radio) => radio.click());
    await seen(page, 'Hoher Kontrast');
    await page.goto(`${drive.url}/smart/${saved.id}`);
    await seen(page, 'Suche', '[role=toolbar]');
    await look(page, 'smart-german');
  });

  test('breaks no rule of the policy, and no script failed', () => {
    assert.deepEqual(tab.faults, [], kind);
  });
});
