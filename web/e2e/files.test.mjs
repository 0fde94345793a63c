/** What a member does in a folder, in a real browser, on a real drive. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { focusList, gone, kind, launch, open, press, row, seen } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';

let drive;
let browser;
let tab;
let page;
const files = mkdtempSync(join(tmpdir(), 'holdfast-pick-'));

before(async () => {
  drive = await startDrive();
  browser = await launch();
  for (const name of ['alpha.txt', 'file2.txt', 'file10.txt', 'zebra.md']) await drive.put(`ana/${name}`, `content of ${name}\n`);
  await drive.folder('ana/inbox');
  tab = await open(browser, drive.url);
  ({ page } = tab);
});
after(async () => {
  await browser?.close();
  await drive?.stop();
  rmSync(files, { recursive: true, force: true });
});

const names = () => page.$$eval('[role=grid] [data-name]', (rows) => rows.map((one) => one.dataset.name));
const url = () => new URL(page.url());

describe('a member', () => {
  test('is told that a password is wrong, and signs in where she was', async () => {
    await page.goto(`${drive.url}/files/ana/inbox`);
    await page.waitForSelector('#password');
    await page.type('#name', 'ana');
    await page.type('#password', 'not-the-password');
    await page.click('form button[type=submit]');
    await seen(page, 'The name or the password is wrong.');
    await page.type('#password', drive.password);
    await page.click('form button[type=submit]');
    await seen(page, 'This folder is empty');
    assert.equal(url().pathname, '/files/ana/inbox');
    await seen(page, 'ana', 'header .account');
  });

  test('finds the drive at its root', async () => {
    const shell = await fetch(`${drive.url}/`, { headers: { accept: 'text/html' } });
    assert.equal(shell.status, 200);
    assert.match(await shell.text(), /id="app"/);
  });

  test('sees folders first and names in natural order', async () => {
    await page.goto(`${drive.url}/`);
    await page.waitForSelector(row('zebra.md'));
    assert.equal(url().pathname, '/files/ana');
    assert.deepEqual(await names(), ['inbox', 'alpha.txt', 'file2.txt', 'file10.txt', 'zebra.md']);
  });

  test('does not ask for a folder over and over', async () => {
    let asked = 0;
    const count = (request) => (asked += Number(request.url().includes('/api/v1/folders/')));
    page.on('request', count);
    await page.goto(`${drive.url}/files/ana`);
    await page.waitForSelector(row('zebra.md'));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    page.off('request', count);
    assert.equal(asked, 1);
  });

  test('filters by typing, and Escape shows all again', async () => {
    await focusList(page);
    await page.keyboard.type('file');
    await gone(page, 'alpha.txt', '[role=grid]');
    assert.deepEqual(await names(), ['file2.txt', 'file10.txt']);
    await page.keyboard.press('Escape');
    await page.waitForSelector(row('alpha.txt'));
  });

  test('makes a folder by keyboard and opens it; back leads back', async () => {
    await focusList(page);
    await page.keyboard.down('Shift');
    await page.keyboard.press('KeyN');
    await page.keyboard.up('Shift');
    await page.waitForSelector('dialog input');
    await page.keyboard.type('Reports');
    await page.keyboard.press('Enter');
    await page.waitForSelector(row('Reports'));
    await focusList(page);
    await page.keyboard.press('Enter');
    await seen(page, 'This folder is empty');
    assert.equal(url().pathname, '/files/ana/Reports');
    await page.goBack();
    await page.waitForSelector(row('zebra.md'));
  });

  test('uploads files, and is asked when a name is taken', async () => {
    writeFileSync(join(files, 'upload.txt'), 'first');
    const input = await page.$('[data-testid=pick-files]');
    await input.uploadFile(join(files, 'upload.txt'));
    await page.waitForSelector(row('upload.txt'));
    assert.equal(await drive.read('ana/upload.txt'), 'first');
    writeFileSync(join(files, 'upload.txt'), 'second');
    await (await page.$('[data-testid=pick-files]')).uploadFile(join(files, 'upload.txt'));
    await seen(page, 'This name is taken', 'dialog');
    await press(page, 'Keep both');
    await page.waitForSelector(row('upload (2).txt'));
    assert.equal(await drive.read('ana/upload.txt'), 'first');
    assert.equal(await drive.read('ana/upload (2).txt'), 'second');
    await press(page, 'Close', '.panel button');
  });

  test('renames in place with F2', async () => {
    await page.click(`${row('upload.txt')} .size`);
    await page.keyboard.press('F2');
    await page.waitForSelector(`${row('upload.txt')} input[type=text]`);
    await page.keyboard.type('renamed');
    await page.keyboard.press('Enter');
    await page.waitForSelector(row('renamed.txt'));
    assert.equal(await drive.read('ana/renamed.txt'), 'first');
    assert.equal(await drive.read('ana/upload.txt'), null);
  });

  test('moves a selection with the folder picker', async () => {
    await page.click(`${row('renamed.txt')} .size`);
    await page.keyboard.down('Control');
    await page.click(`${row('upload (2).txt')} .size`);
    await page.keyboard.up('Control');
    await seen(page, '2 selected', '[role=toolbar]');
    await press(page, 'Move to…', '[role=toolbar] button');
    await press(page, 'inbox', 'dialog li button');
    await seen(page, 'No folders in here', 'dialog');
    await press(page, 'Move here', 'dialog button');
    await gone(page, 'renamed.txt', '[role=grid]');
    await seen(page, '2 items moved to inbox');
    assert.equal(await drive.read('ana/inbox/renamed.txt'), 'first');
  });

  test('drags a file into a folder, and takes it back', async () => {
    await page.evaluate(() => {
      const transfer = new DataTransfer();
      const send = (name, type) => {
        const event = new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: transfer });
        document.querySelector(`[data-name="${name}"]`).dispatchEvent(event);
      };
      send('file2.txt', 'dragstart');
      send('inbox', 'dragover');
      send('inbox', 'drop');
    });
    await gone(page, 'file2.txt', '[role=grid]');
    assert.equal(await drive.read('ana/inbox/file2.txt'), 'content of file2.txt\n');
    await press(page, 'Undo', '.toast:last-of-type .action');
    await page.waitForSelector(row('file2.txt'));
  });

  test('downloads a folder and a selection as zip', async (context) => {
    if (kind === 'firefox') return context.skip('Firefox has no way to say where downloads go');
    const session = await browser.target().createCDPSession();
    await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: files, browserContextId: page.browserContext().id });
    const arrived = async () => {
      for (let tries = 0; tries < 100; tries += 1) {
        const name = readdirSync(files).find((one) => one.endsWith('.zip'));
        if (name && existsSync(join(files, name))) {
          const bytes = readFileSync(join(files, name));
          rmSync(join(files, name));
          return bytes;
        }
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      throw new Error('no zip came');
    };
    await page.click(`${row('inbox')} .date`);
    await press(page, 'Download', '[role=toolbar] button');
    assert.ok((await arrived()).includes('renamed.txt'));
    await page.keyboard.down('Control');
    await page.click(`${row('alpha.txt')} .size`);
    await page.keyboard.up('Control');
    await press(page, 'Download', '[role=toolbar] button');
    const both = await arrived();
    assert.ok(both.includes('alpha.txt') && both.includes('renamed.txt'));
    await page.waitForSelector(row('alpha.txt'));
    await press(page, 'Clear selection', '[role=toolbar] button');
  });

  test('deletes into the trash and takes it back', async () => {
    await page.click(`${row('alpha.txt')} .size`);
    await page.keyboard.press('Delete');
    await gone(page, 'alpha.txt', '[role=grid]');
    await seen(page, '“alpha.txt” is in the trash');
    assert.equal(await drive.read('ana/alpha.txt'), null);
    await press(page, 'Undo', '.toast:last-of-type .action');
    await page.waitForSelector(row('alpha.txt'));
    assert.equal(await drive.read('ana/alpha.txt'), 'content of alpha.txt\n');
  });

  test('restores from the trash', async () => {
    await page.click(`${row('zebra.md')} .size`);
    await page.keyboard.press('Delete');
    await gone(page, 'zebra.md', '[role=grid]');
    await page.click('nav a[href^="/trash/"]');
    await press(page, 'Restore zebra.md');
    await gone(page, 'zebra.md', '.page li');
    assert.equal(await drive.read('ana/zebra.md'), 'content of zebra.md\n');
    await page.goto(`${drive.url}/files/ana`);
    await page.waitForSelector(row('zebra.md'));
  });

  test('meets names that look like markup or escapes, and they stay names', async () => {
    const hostile = ['<img src=x onerror=alert(1)>.txt', '100% #1?.txt', '%2e%2e.txt', "it's \"q\".txt", '日本 語.txt'];
    for (const name of hostile) await drive.put(`ana/inbox/${name}`, `this is ${name}`);
    await page.goto(`${drive.url}/files/ana/inbox`);
    for (const name of hostile) {
      await page.waitForSelector(row(name));
      await page.$eval(`${row(name)} a`, (link) => link.click());
      await seen(page, `this is ${name}`, '.code');
      await page.goBack();
      await page.waitForSelector('[role=grid]');
    }
  });

  test('has a context menu, help, and a list that goes with the arrow keys', async () => {
    await page.goto(`${drive.url}/files/ana`);
    await page.waitForSelector(row('zebra.md'));
    await focusList(page);
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.down('Shift');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.up('Shift');
    await seen(page, '2 selected', '[role=toolbar]');
    await page.click(`${row('file10.txt')} .name`, { button: 'right' });
    await seen(page, 'Rename', '[role=menu]');
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => !document.querySelector('[role=menu]'));
    await focusList(page);
    await page.keyboard.type('?');
    await seen(page, 'Keyboard shortcuts', 'dialog');
    await page.keyboard.press('Escape');
  });

  test('signs out, and the page behind asks for the password', async () => {
    await press(page, 'Account ana', 'header button');
    await press(page, 'Sign out', '[role=menu] button');
    await page.waitForSelector('#password');
    await page.goto(`${drive.url}/files/ana/inbox`);
    await page.waitForSelector('#password');
  });

  test('ran no script but ours, and met no error', () => {
    assert.deepEqual(tab.faults, []);
  });
});
