/** Small pictures in the grid, a forgotten password, spaces made in the browser, links for programs, and a first page without errors. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { launch, open, press, row, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';
import { look } from './lib/look.mjs';
import { pngOf } from './lib/samples.mjs';

const run = promisify(execFile);
const PICTURES = 60;
const BEN = 'a ladder of wet granite';
let drive;
let browser;

before(async () => {
  drive = await startDrive();
  browser = await launch();
  for (let at = 0; at < PICTURES; at += 1) await drive.put(`ana/photo ${String(at).padStart(2, '0')}.png`, at % 5 === 2 ? pngOf(200, 300 + at) : pngOf(300 + at, 200));
  await drive.put('ana/broken.png', Buffer.from('89504e470d0a1a0a', 'hex'));
  await drive.put('ana/notes.txt', 'text');
});
after(async () => {
  await browser?.close();
  await drive?.stop();
});

/** what the browser's console says is wrong, and how many thumbnails were asked for at a time. */
function watch(page) {
  const errors = [];
  const asked = [];
  let running = 0;
  let most = 0;
  page.on('console', (message) => { if (message.type() === 'error') errors.push(message.text()); });
  const isOne = (request) => request.url().includes('/thumbnails/');
  page.on('request', (request) => {
    if (!isOne(request)) return;
    asked.push(request.url());
    running += 1;
    most = Math.max(most, running);
  });
  const ended = (request) => { if (isOne(request)) running -= 1; };
  page.on('requestfinished', ended);
  page.on('requestfailed', ended);
  return { errors, most: () => most, of: (name) => asked.filter((url) => url.includes(`/${name}?`)).length };
}

for (const [size, width, height] of [['wide', 1280, 800], ['small', 360, 740]]) {
  describe(`pictures of a folder at ${width} pixels`, () => {
    let tab;
    let page;
    let watched;
    before(async () => {
      tab = await open(browser, drive.url, { width, height });
      ({ page } = tab);
      watched = watch(page);
      await signIn(page, drive);
    });
    after(() => tab.close());
    const drawn = () => page.$$eval('.tile img.loaded', (all) => all.length);

    test('are drawn small, those in view and few at a time', async () => {
      await page.waitForSelector(row('notes.txt'));
      await press(page, 'Show as grid');
      await page.waitForSelector(`${row('photo 00.png')} img.loaded`);
      await page.waitForFunction(() => [...document.querySelectorAll('.tile')].filter((tile) => tile.getBoundingClientRect().top < innerHeight && tile.dataset.name.startsWith('photo')).every((tile) => tile.querySelector('img.loaded')));
      for (const natural of await page.$$eval('.tile img.loaded', (all) => all.map((one) => one.naturalWidth))) assert.ok(natural <= 256, `${natural}`);
      assert.ok((await drawn()) < PICTURES, 'not all, but those in view');
      const heights = await page.$$eval('.tile', (all) => all.map((one) => one.getBoundingClientRect().height));
      assert.ok(Math.max(...heights) <= 184, 'tall ones stay in their rows');
      // Four, and one more that the browser tells of before it tells that another has ended.
      assert.ok(watched.most() <= 5, `${watched.most()} at once`);
      await look(page, `preview-grid-${size}`);
    });

    test('come as one scrolls, and are there on the way back', async () => {
      await page.$eval('.file-grid', (grid) => grid.scrollTo(0, grid.scrollHeight));
      await page.waitForSelector(`${row('photo 59.png')} img.loaded`);
      await page.$eval('.file-grid', (grid) => grid.scrollTo(0, 0));
      await page.waitForSelector(`${row('photo 00.png')} img.loaded`);
    });

    test('that cannot be drawn have an icon, and are asked for once', async () => {
      await page.waitForSelector(`${row('broken.png')} .icon`);
      assert.equal(await page.$(`${row('broken.png')} img`), null);
      assert.equal(watched.of('broken.png'), 1);
      assert.equal(watched.of('photo%2000.png'), 1, 'what was scrolled away and back is there still');
    });

    test('change with the file', async () => {
      await drive.put('ana/photo 00.png', pngOf(100, 200));
      await page.reload();
      await page.waitForSelector(`${row('photo 00.png')} img.loaded`);
      assert.equal(await page.$eval(`${row('photo 00.png')} img`, (one) => one.naturalWidth), 100);
      await drive.put('ana/photo 00.png', pngOf(300, 200));
    });

    test('without errors of scripts and policy', () => assert.deepEqual(tab.faults, []));
  });
}

test('a photograph is first shown as the drive draws it, and itself in full size', async () => {
  const tab = await open(browser, drive.url, { width: 900, height: 700 });
  const { page } = tab;
  try {
    await signIn(page, drive);
    // Noise, as a camera makes it: half a megabyte and more.
    const bytes = await page.evaluate(async () => {
      const canvas = Object.assign(document.createElement('canvas'), { width: 2400, height: 1600 });
      const context = canvas.getContext('2d');
      const image = context.createImageData(2400, 1600);
      for (let at = 0; at < image.data.length; at += 1) image.data[at] = at % 4 === 3 ? 255 : (at * 2_654_435_761) % 251;
      context.putImageData(image, 0, 0);
      const blob = await new Promise((resolve) => canvas.toBlob(resolve, 'image/jpeg', 0.8));
      await fetch('/api/v1/content/ana/camera.jpg', { method: 'PUT', body: blob });
      return blob.size;
    });
    assert.ok(bytes > 256 * 1024, `${bytes}`);
    const asked = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    const width = () => page.$eval('.stage img', (image) => (image.complete ? image.naturalWidth : 0));
    await page.goto(`${drive.url}/files/ana?view=camera.jpg`);
    await page.waitForFunction(() => document.querySelector('.stage img')?.naturalWidth === 1024);
    assert.ok(!asked.includes('/api/v1/content/ana/camera.jpg'), 'the file itself is not needed yet');
    await look(page, 'camera');
    await press(page, 'Show at full size');
    await page.waitForFunction(() => document.querySelector('.stage img')?.naturalWidth === 2400);
    assert.ok(asked.includes('/api/v1/content/ana/camera.jpg'));
    await page.click('.stage');
    assert.equal(await width(), 2400, 'what is here stays');
    // What moves, and what is small, is shown itself.
    asked.length = 0;
    await page.goto(`${drive.url}/files/ana?view=photo 00.png`);
    await page.waitForFunction(() => document.querySelector('.stage img')?.naturalWidth === 300);
    assert.ok(!asked.some((path) => path.includes('/thumbnails/')));
    assert.deepEqual(tab.faults, []);
  } finally {
    await tab.close();
  }
});

describe('before signing in', () => {
  for (const [size, width, height] of [['wide', 1280, 800], ['small', 360, 740]]) {
    test(`a link that needs a password, or is not complete, asks without an error in the console at ${width} pixels`, async () => {
      const made = await fetch(`${drive.url}/api/v1/shares`, {
        method: 'POST',
        headers: { authorization: drive.auth, 'content-type': 'application/json' },
        body: JSON.stringify({ space: 'ana', path: '/notes.txt', access: 'read', password: 'a plain word' }),
      });
      const { link } = await made.json();
      const tab = await open(browser, 'about:blank', { width, height });
      const { page } = tab;
      const { errors } = watch(page);
      try {
        await page.goto(drive.url + link.split('#')[0]);
        await seen(page, 'The address is not complete');
        await look(page, `link-closed-${size}`);
        await page.goto('about:blank');
        await page.goto(drive.url + link);
        await page.waitForSelector('input[type=password]');
        await look(page, `link-password-${size}`);
        await page.type('input[type=password]', 'a plain word');
        await press(page, 'Open');
        await seen(page, 'text', '.code');
        // Loaded anew, the visit goes on without the password.
        await page.reload();
        await seen(page, 'text', '.code');
        assert.deepEqual(errors, []);
        assert.deepEqual(tab.faults, []);
      } finally {
        await tab.close();
      }
    });

    test(`no page tells an error, and all are fit to be used by all at ${width} pixels`, async () => {
      const tab = await open(browser, 'about:blank', { width, height });
      const { page } = tab;
      const { errors } = watch(page);
      try {
        for (const [name, path, mark] of [
          ['sign-in', '/', '#password'],
          ['forgotten', '/signin/forgotten', '#forgotten-code'],
          ['arrive', '/signin?error=access_denied&state=x', '.error-text'],
        ]) {
          await page.goto(drive.url + path);
          await page.waitForSelector(mark);
          await look(page, `${name}-${size}`);
          assert.ok(await page.$eval('meta[name=description]', (meta) => meta.content.length > 20));
        }
        assert.deepEqual(errors, []);
        assert.deepEqual(tab.faults, []);
      } finally {
        await tab.close();
      }
    });
  }
});

test('a forgotten password is replaced with the recovery code, in either language', async () => {
  const made = JSON.parse(drive.run('account', 'add', 'cleo', '--json'));
  const tab = await open(browser, drive.url);
  const { page } = tab;
  try {
    await page.waitForSelector('#password');
    await press(page, 'Forgot your password?');
    await page.waitForSelector('#forgotten-code');
    assert.equal(new URL(page.url()).pathname, '/signin/forgotten');
    const fill = async (code) => {
      for (const [field, text] of [['name', 'cleo'], ['code', code], ['password', BEN], ['again', BEN]]) {
        await page.$eval(`#forgotten-${field}`, (input) => { input.value = ''; input.dispatchEvent(new Event('input')); });
        await page.type(`#forgotten-${field}`, text);
      }
      await press(page, 'Set the password');
    };
    await fill(made.recovery_code.slice(1));
    await seen(page, 'not a recovery code', '[role=alert]');
    await fill(made.recovery_code);
    await seen(page, 'Your password is set', 'h1');
    const next = await page.$eval('.copy pre', (element) => element.textContent);
    assert.match(next, /^[0-9a-z]{5}(-[0-9a-z]{5}){6}$/);
    assert.notEqual(next, made.recovery_code);
    await press(page, 'Sign in');
    await page.waitForSelector('#password');
    await page.type('#name', 'cleo');
    await page.type('#password', BEN);
    await page.click('form button[type=submit]');
    await page.waitForSelector('main#main');
    assert.deepEqual(tab.faults, []);
  } finally {
    await tab.close();
  }
  const german = await open(browser, 'about:blank');
  try {
    await german.page.evaluateOnNewDocument(() => localStorage.setItem('holdfast.prefs', JSON.stringify({ language: 'de' })));
    await german.page.goto(`${drive.url}/signin/forgotten`);
    await seen(german.page, 'Neues Passwort setzen', 'h1');
  } finally {
    await german.close();
  }
});

test('an administrator makes a space and adds and removes members', async () => {
  drive.run('account', 'add', 'ben');
  const tab = await open(browser, drive.url);
  const { page } = tab;
  try {
    await signIn(page, drive);
    await page.goto(`${drive.url}/admin/spaces`);
    await press(page, 'New space');
    await page.type('#new-space-name', 'lab');
    await page.type('#new-space-quota', 'much');
    await press(page, 'Make it');
    await seen(page, 'as a number of GiB', '#new-space-fault');
    await page.$eval('#new-space-quota', (input) => { input.value = '2'; input.dispatchEvent(new Event('input')); });
    await look(page, 'new-space');
    await press(page, 'Make it');
    await page.waitForSelector('#member-account');
    await page.type('#member-account', 'ben');
    await page.select('#member-choice', 'editor');
    await press(page, 'Add');
    await page.waitForSelector('[aria-label="Role of ben"]');
    await look(page, 'space-members');
    await press(page, 'Done');
    await seen(page, 'ben', 'tbody td');
    const listed = JSON.parse(await page.evaluate(async () => (await fetch('/api/v1/admin/spaces')).text())).find((space) => space.name === 'lab');
    assert.deepEqual(listed.members.map(({ account, role }) => `${account} ${role}`), ['ana owner', 'ben editor']);
    assert.equal(listed.quota_bytes, 2 * 2 ** 30);
    await press(page, 'Members of lab');
    await press(page, 'Remove ben');
    await page.waitForFunction(() => !document.querySelector('[aria-label="Role of ben"]'));
    await press(page, 'Done');
    await seen(page, 'lab', 'nav a');
    assert.deepEqual(tab.faults, []);
  } finally {
    await tab.close();
  }
});

test('a link has a command for programs, which works, and its visitor sees pictures small', async () => {
  const tab = await open(browser, drive.url);
  const { page } = tab;
  try {
    await signIn(page, drive);
    await page.waitForSelector('[role=grid]');
    await page.goto(`${drive.url}/files/ana`);
    await page.waitForSelector(row('notes.txt'));
    const make = (body) => page.evaluate(async (json) => (await fetch('/api/v1/shares', { method: 'POST', headers: { 'content-type': 'application/json' }, body: json })).json(), JSON.stringify(body));
    await make({ space: 'ana', path: '/notes.txt', access: 'read', label: '' });
    await press(page, 'More actions for notes.txt');
    await press(page, 'Share…', '[role=menuitem]');
    await press(page, 'For programs', 'summary');
    const command = await page.$eval('details .copy pre', (element) => element.textContent);
    assert.match(command, /^curl -f -H 'Authorization: Bearer [^']+' -o 'notes.txt' 'http:/);
    await look(page, 'command');
    const { stdout } = await run('sh', ['-c', `${command.replace("-o 'notes.txt'", '-s')}`]);
    assert.equal(stdout, 'text');
    assert.deepEqual(tab.faults, []);
    const { link } = await make({ space: 'ana', path: '/', access: 'read' });
    const visitor = await open(browser, drive.url + link);
    const { of, errors } = watch(visitor.page);
    await visitor.page.waitForSelector('[role=grid]');
    await look(visitor.page, 'link');
    assert.deepEqual(errors, []);
    await press(visitor.page, 'Show as grid');
    await visitor.page.waitForSelector(`${row('photo 00.png')} img.loaded`);
    assert.equal(of('thumbnails/link/photo%2000.png'), 1);
    assert.deepEqual(visitor.faults, []);
    await visitor.close();
  } finally {
    await tab.close();
  }
});
