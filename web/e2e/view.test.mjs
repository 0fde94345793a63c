/** Looking at files, writing them, and what they were. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { gone, launch, open, press, row, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';
import { pdfOf, pngOf, wavOf } from './lib/samples.mjs';

let drive;
let browser;
let tab;
let page;

before(async () => {
  drive = await startDrive();
  browser = await launch();
  await drive.put('ana/1.md', '# Heading\n\n<script>window.hacked = 1</script>\n\n[next](2.txt) [bad](javascript:window.hacked=1)\n');
  await drive.put('ana/2.txt', 'one\ntwo\nthree\n');
  await drive.put('ana/3.csv', 'name,value\n"a, b",1\n<b>,2\n');
  await drive.put('ana/4.png', pngOf(60, 40));
  await drive.put('ana/5.pdf', pdfOf(3));
  await drive.put('ana/6.wav', wavOf(2));
  await drive.put('ana/7.html', '<script>window.hacked = 1</script><h1>page</h1>');
  await drive.put('ana/8.bin', Buffer.from([0, 1, 2, 3]));
  tab = await open(browser, drive.url);
  ({ page } = tab);
  await signIn(page, drive);
});
after(async () => {
  await browser?.close();
  await drive?.stop();
});

const view = (name, more = '') => page.goto(`${drive.url}/files/ana?view=${encodeURIComponent(name)}${more}`);

describe('a file', () => {
  test('of Markdown is rendered, and nothing in it runs or leads astray', async () => {
    await view('1.md');
    await seen(page, 'Heading', '.markdown h1');
    await seen(page, '<script>', '.markdown');
    assert.equal(await page.$$eval('.markdown a', (links) => links.length), 1);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
  });

  test('leads to its neighbours by arrow keys, and back to its folder by Escape', async () => {
    await page.keyboard.press('ArrowRight');
    await seen(page, 'three', '.code');
    await page.keyboard.press('ArrowRight');
    await seen(page, 'a, b', 'table');
    await page.keyboard.press('ArrowLeft');
    await seen(page, 'three', '.code');
    await page.keyboard.press('Escape');
    await page.waitForSelector('[role=grid]');
    assert.equal(new URL(page.url()).search, '');
  });

  test('has the whole way to it, an address, and the menu of its folder’s list', async () => {
    for (const folder of ['ana/way', 'ana/way/deep']) await drive.folder(folder);
    for (const name of ['a.txt', 'b.txt']) await drive.put(`ana/way/deep/${name}`, `this is ${name}`);
    const menu = async () => {
      await press(page, 'More actions for b.txt');
      await page.waitForSelector('[role=menu]');
      return page.$$eval('[role=menuitem]', (items) => items.map((item) => item.textContent.replace(/\s+/g, ' ').trim()));
    };
    await page.goto(`${drive.url}/files/ana/way/deep`);
    await page.waitForSelector(row('b.txt'));
    const listed = await menu();
    await page.keyboard.press('Escape');
    await page.goto(`${drive.url}/files/ana/way/deep?view=b.txt`);
    await seen(page, 'this is b.txt', '.code');
    const way = await page.$$eval('nav[aria-label] ol li', (all) => all.map((one) => one.textContent.trim()));
    assert.deepEqual(way, ['ana', 'way', 'deep', 'b.txt']);
    assert.equal(await page.$eval('ol [aria-current=page]', (here) => here.textContent), 'b.txt');
    assert.deepEqual(await menu(), listed.slice(1), 'all but to open it');
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => !document.querySelector('[role=menu]'));

    await page.keyboard.press('F2');
    await page.waitForSelector('dialog input');
    await page.$eval('dialog input', (input) => input.select());
    await page.type('dialog input', 'c.txt');
    await press(page, 'Rename', 'dialog button');
    await seen(page, 'c.txt', 'ol [aria-current=page]');
    assert.equal(new URL(page.url()).search, '?view=c.txt');
    assert.equal(await drive.read('ana/way/deep/c.txt'), 'this is b.txt');

    await page.$$eval('ol a', (links) => links.find((link) => link.textContent === 'way').click());
    await page.waitForSelector(row('deep'));
    await page.goBack();
    await seen(page, 'this is b.txt', '.code');
    // What comes after it is known when its folder was read.
    await seen(page, '2 of 2', '.position');
    await press(page, 'More actions for c.txt');
    await page.waitForSelector('[role=menu]');
    await page.$$eval('[role=menuitem]', (items) => items.at(-1).click());
    await seen(page, 'this is a.txt', '.code');
    assert.equal(await drive.read('ana/way/deep/c.txt'), null);
  });

  test('of a table is a table of text', async () => {
    await view('3.csv');
    await seen(page, '<b>', 'table td');
  });

  test('of a picture is shown', async () => {
    await view('4.png');
    await page.waitForFunction(() => document.querySelector('.stage img')?.naturalWidth === 60);
  });

  test('of a PDF is drawn by our own script, its text over it', async () => {
    await view('5.pdf');
    await page.waitForSelector('.leaf canvas');
    await seen(page, 'Page 1', '.pdf-text');
    await seen(page, '3 pages');
    const painted = await page.$eval('.leaf canvas', (canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      return data.some((value, at) => at % 4 === 0 && value < 128);
    });
    assert.ok(painted, 'the page is blank');
  });

  test('of sound plays, and can be wound forward', async () => {
    await view('6.wav');
    await page.waitForFunction(() => Math.round(document.querySelector('audio')?.duration ?? 0) === 2);
    const at = await page.$eval('audio', async (audio) => {
      audio.currentTime = 1.5;
      await new Promise((resolve) => audio.addEventListener('seeked', resolve, { once: true }));
      return audio.currentTime;
    });
    assert.equal(at, 1.5);
  });

  test('of HTML is shown as the text it is', async () => {
    await view('7.html');
    await seen(page, '<h1>page</h1>', '.code');
    assert.equal(await page.evaluate(() => window.hacked), undefined);
  });

  test('of HTML runs nothing even if it is opened by its address', async () => {
    await page.goto(`${drive.url}/api/v1/content/ana/7.html`);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
  });

  test('of an unknown kind says so and can be fetched', async () => {
    await view('8.bin');
    await seen(page, 'No preview for this file');
  });

  test('is shown if the URL is its path', async () => {
    await page.goto(`${drive.url}/files/ana/2.txt`);
    await seen(page, 'three', '.code');
    assert.equal(new URL(page.url()).search, '?view=2.txt');
  });

  test('that is not there says so', async () => {
    await view('nope.txt');
    await seen(page, 'does not exist');
  });
});

describe('editing', () => {
  async function edit(where, text) {
    await where.goto(`${drive.url}/files/ana?view=2.txt`);
    await press(where, 'Edit');
    await where.waitForSelector('textarea');
    await where.$eval('textarea', (area, value) => {
      area.value = value;
      area.dispatchEvent(new Event('input', { bubbles: true }));
    }, text);
  }

  test('writes the file, and the old text becomes a version', async () => {
    await edit(page, 'one\nzwei\nthree\n');
    await press(page, 'Save');
    await seen(page, 'No changes', '.editor');
    assert.equal(await drive.read('ana/2.txt'), 'one\nzwei\nthree\n');
    await page.goto(`${drive.url}/files/ana?view=2.txt&tab=versions`);
    await seen(page, 'Present version');
    const [, compare] = await page.$$('.versions li:not(.now) .actions button');
    await compare.evaluate((button) => button.click());
    await seen(page, 'two', 'dialog .removed');
    await seen(page, 'zwei', 'dialog .added');
  });

  test('in two windows overwrites nothing: the second sees both, and keeps a copy', async () => {
    const other = await open(browser, drive.url);
    await signIn(other.page, drive);
    await edit(page, 'mine\n');
    await edit(other.page, 'theirs\n');
    await press(other.page, 'Save');
    await seen(other.page, 'No changes', '.editor');
    await press(page, 'Save');
    await seen(page, 'Somebody else saved this file', 'dialog');
    assert.equal(await drive.read('ana/2.txt'), 'theirs\n');
    await press(page, 'See the differences', 'dialog button');
    await seen(page, 'theirs', 'dialog .removed');
    await seen(page, 'mine', 'dialog .added');
    await press(page, 'Save as a copy', 'dialog button');
    await seen(page, 'mine', '.code');
    assert.equal(await drive.read('ana/2 (2).txt'), 'mine\n');
    assert.equal(await drive.read('ana/2.txt'), 'theirs\n');
    await other.close();
  });

  test('can overwrite what was seen, and an old version can be looked at, compared and brought back', async () => {
    const other = await open(browser, drive.url);
    await signIn(other.page, drive);
    await edit(page, 'mine again\n');
    await edit(other.page, 'theirs again\n');
    await press(other.page, 'Save');
    await seen(other.page, 'No changes', '.editor');
    await other.close();
    await press(page, 'Save');
    await press(page, 'Overwrite', 'dialog button');
    await seen(page, 'No changes', '.editor');
    assert.equal(await drive.read('ana/2.txt'), 'mine again\n');

    await page.goto(`${drive.url}/files/ana?view=2.txt&tab=versions`);
    await seen(page, 'Present version');
    const [first] = await page.$$('.versions li:not(.now) .actions button');
    await first.evaluate((button) => button.click());
    await seen(page, 'theirs again', 'dialog .code');
    await press(page, 'Restore', 'dialog footer button');
    await seen(page, 'is back', '.toast');
    assert.equal(await drive.read('ana/2.txt'), 'theirs again\n');
  });

  test('met no error', () => {
    assert.deepEqual(tab.faults, []);
  });
});

describe('search', () => {
  test('finds as one types, from everywhere, and leads there', async () => {
    await drive.folder('ana/Förderantrag');
    await drive.put('ana/Förderantrag/Anhang2024Final.csv', 'a,b\n');
    await page.goto(`${drive.url}/files/ana`);
    await page.waitForSelector('[role=grid]');
    await page.focus('[role=grid]');
    await page.keyboard.press('/');
    await page.keyboard.type('forder 2024');
    await seen(page, 'Anhang2024Final.csv', '.page li');
    assert.equal(new URL(page.url()).pathname, '/search');
    await page.$$eval('.page li a', ([link]) => link.click());
    await seen(page, 'Anhang2024Final.csv', 'h1');
    await page.goto(`${drive.url}/search?q=forder&kind=folder`);
    await seen(page, 'Förderantrag', '.page li');
    await gone(page, 'Anhang2024Final.csv', '.page li');
  });
});

describe('tags', () => {
  test('are kept with the file and shown in the list', async () => {
    await page.goto(`${drive.url}/files/ana?view=2.txt&tab=details`);
    await page.waitForSelector('form input[list]');
    await page.type('form input[list]', 'Draft');
    await press(page, 'Add');
    await seen(page, 'Draft', 'li.tag');
    await page.goto(`${drive.url}/files/ana`);
    await seen(page, 'Draft', '[data-name="2.txt"] .tag');
    await page.goto(`${drive.url}/files/ana?view=2.txt&tab=details`);
    await press(page, 'Remove tag Draft');
    await gone(page, 'Draft', 'li.tag');
  });
});
