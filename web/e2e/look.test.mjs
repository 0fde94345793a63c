/** Every page, light and dark, wide and 360 pixels narrow: nothing serious for axe, nothing wider than the window. SHOTS=1 keeps pictures in e2e/shots. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { kind, launch, open, press, row, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';
import { look } from './lib/look.mjs';
import { pdfOf, pngOf } from './lib/samples.mjs';

let drive;
let browser;

/** What each page is, and what shows that it is there. */
const PAGES = [
  ['files', '/files/ana', '[data-name="notes.txt"]'],
  ['empty', '/files/ana/Empty', '.empty'],
  ['markdown', '/files/ana?view=a.md', '.markdown h1'],
  ['text', '/files/ana?view=notes.txt', '.code'],
  ['table', '/files/ana?view=t.csv', 'table'],
  ['picture', '/files/ana?view=p.png', '.stage img'],
  ['pdf', '/files/ana?view=d.pdf', '.leaf canvas'],
  ['unknown', '/files/ana?view=x.bin', '.empty'],
  ['details', '/files/ana?view=notes.txt&tab=details', 'dl'],
  ['versions', '/files/ana?view=notes.txt&tab=versions', '.versions li'],
  ['trash', '/trash/ana', '.page li'],
  ['search', '/search', '.filters'],
  ['usage', '/account', '.card dl'],
  ['connect', '/account/connect', '.copy pre'],
  ['devices', '/account/devices', '.card li'],
  ['password', '/account/password', '#password-new'],
  ['security', '/account/security', '.card h2'],
  ['appearance', '/account/look', 'fieldset'],
  ['shared', '/shared', 'h1'],
  ['missing', '/files/ana/nowhere', '.problem'],
];

before(async () => {
  drive = await startDrive();
  browser = await launch();
  await drive.folder('ana/Empty');
  await drive.put('ana/notes.txt', 'one\ntwo\n');
  await drive.put('ana/notes.txt', 'one\n2\n');
  await drive.put('ana/a.md', '# A\n\n[b](notes.txt)\n\n- [ ] c\n\n`d`\n\n> e\n');
  await drive.put('ana/t.csv', 'a,b\n1,2\n');
  await drive.put('ana/p.png', pngOf(60, 40));
  await drive.put('ana/d.pdf', pdfOf(2));
  await drive.put('ana/x.bin', Buffer.from([0, 1]));
  await drive.put('ana/old.txt', 'x');
  await fetch(`${drive.url}/dav/ana/old.txt`, { method: 'DELETE', headers: { authorization: drive.auth } });
});
after(async () => {
  await browser?.close();
  await drive?.stop();
});

for (const [size, width, height] of [['wide', 1280, 800], ['small', 360, 740]]) {
  describe(`at ${width} pixels`, () => {
    let tab;
    let page;
    before(async () => {
      tab = await open(browser, drive.url, { width, height });
      ({ page } = tab);
    });
    after(() => tab.close());

    test('the sign-in page is fit to be used by all', async () => {
      await page.waitForSelector('#password');
      await look(page, `sign-in-${size}`);
      await signIn(page, drive);
    });

    for (const [name, url, mark] of PAGES) {
      test(`${name} is fit to be used by all, and says who is signed in`, async () => {
        await page.goto(drive.url + url);
        await page.waitForSelector(mark);
        assert.ok(await page.$eval('[aria-label="Account ana"]', (button) => button.checkVisibility()));
        await look(page, `${name}-${size}`);
      });
    }

    test('a grid, a selection, a menu and a dialog are, too', async () => {
      await page.goto(`${drive.url}/files/ana`);
      await page.waitForSelector(row('notes.txt'));
      await press(page, 'Show as grid');
      await page.waitForSelector('.tile');
      await look(page, `grid-${size}`);
      await press(page, 'Show as list');
      await page.waitForSelector('.row-item');
      await page.$eval(`${row('notes.txt')} input`, (box) => box.click());
      await seen(page, '1 selected', '[role=toolbar]');
      await look(page, `selection-${size}`);
      await press(page, 'More actions for notes.txt');
      await page.waitForSelector('[role=menu]');
      await look(page, `menu-${size}`);
      await page.keyboard.press('Escape');
      await press(page, 'Copy to…', '[role=toolbar] button');
      await seen(page, 'Copy here', 'dialog');
      await seen(page, 'Empty', 'dialog li');
      await look(page, `picker-${size}`);
      await press(page, 'Cancel', 'dialog button');
    });

    test('the pages are there in German', async () => {
      await page.goto(`${drive.url}/account/look`);
      await page.waitForSelector('fieldset');
      await page.$eval('[lang=de] input', (radio) => radio.click());
      await seen(page, 'Hoher Kontrast');
      assert.equal(await page.evaluate(() => document.documentElement.lang), 'de');
      await page.goto(`${drive.url}/files/ana`);
      await page.waitForSelector(row('notes.txt'));
      await look(page, `german-${size}`);
      await page.evaluate(() => localStorage.clear());
    });

    test('nothing was refused by the policy, and no script failed', () => {
      assert.deepEqual(tab.faults, [], kind);
    });
  });
}
