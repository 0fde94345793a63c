/** Large uploads that are broken off half way: by the end of the session, by a drive that is away, by a balancer before it. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { between } from './lib/between.mjs';
import { launch, open, press, row, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';

const BEN = 'gravel ivory tundra piano';
const files = mkdtempSync(join(tmpdir(), 'holdfast-pick-'));

describe('uploads that are broken off half way go on where they were', () => {
  const MIB = 1 << 20;
  const bytes = randomBytes(24 * MIB);
  const digest = (content) => createHash('sha256').update(content).digest('hex');
  let drive;
  let browser;
  let middle;
  let tab;
  let page;

  before(async () => {
    drive = await startDrive();
    browser = await launch();
    middle = await between(drive);
    tab = await open(browser, middle.url);
    ({ page } = tab);
    await signIn(page, drive);
  });
  after(async () => {
    await browser?.close();
    middle?.stop();
    await drive?.stop();
    rmSync(files, { recursive: true, force: true });
  });

  /** Asks the drive itself. */
  async function ask(path, method = 'GET', body = undefined) {
    const headers = { authorization: drive.auth, 'content-type': 'application/json' };
    const answer = await fetch(`${drive.url}/api/v1${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
    return answer;
  }

  async function endSessions() {
    for (const { id } of await (await ask('/sessions')).json()) await ask(`/sessions/${id}`, 'DELETE');
  }

  /** An upload of which ten of 24 MiB went through. */
  async function begin(name) {
    writeFileSync(join(files, name), bytes);
    await page.goto(`${middle.url}/files/ana`);
    const input = await page.waitForSelector('[data-testid=pick-files]');
    middle.hold(10 * MIB);
    const before = middle.sent;
    await input.uploadFile(join(files, name));
    await page.waitForFunction(
      (wanted) => [...document.querySelectorAll('.upload')].some(({ textContent }) => textContent.includes(wanted) && Number(/(\d+)%/.exec(textContent)?.[1] ?? 0) >= 40),
      {},
      name,
    );
    while (middle.sent < before + 10 * MIB) await new Promise(setImmediate);
  }

  /** What the drive kept of it, once it told. */
  async function kept() {
    for (;;) {
      const [upload] = await (await ask('/uploads')).json();
      if (upload.offset_bytes > 0) return upload.offset_bytes;
    }
  }

  async function arrives(name, keptBytes, before) {
    await page.waitForSelector(row(name));
    await seen(page, 'all done', '.panel');
    const answer = await ask(`/content/ana/${name}`);
    assert.equal(digest(Buffer.from(await answer.arrayBuffer())), digest(bytes));
    const again = middle.sent - before;
    assert.ok(again <= bytes.length - keptBytes, `${again} bytes were sent, although ${keptBytes} were there`);
  }

  test('when the session ended, after signing in again', async () => {
    await begin('session.bin');
    await endSessions();
    middle.cut();
    await seen(page, 'Your session ended.');
    await seen(page, 'Your uploads wait');
    const there = await kept();
    const before = middle.sent;
    await page.type('#password', drive.password);
    await page.click('form button[type=submit]');
    await arrives('session.bin', there, before);
  });

  test('when the session of another is opened, they are not that one’s', async () => {
    await ask('/accounts', 'POST', { name: 'ben', password: BEN });
    await begin('hers.bin');
    await endSessions();
    middle.cut();
    await seen(page, 'Your session ended.');
    const before = middle.sent;
    await page.$eval('#name', (input) => input.select());
    await page.type('#name', 'ben');
    await page.type('#password', BEN);
    await page.click('form button[type=submit]');
    await page.waitForSelector('main#main');
    await page.waitForFunction(() => !document.querySelector('header .uploads'));
    assert.equal(middle.sent, before);
    // Hers again: it is hers to go on with.
    await page.click('header .account');
    await press(page, 'Sign out', '[role=menuitem]');
    await page.waitForSelector('#password');
    await page.$eval('#name', (input) => input.select());
    await signIn(page, drive);
    await page.waitForSelector('header .uploads');
    await page.click('header .uploads');
    await seen(page, 'interrupted', '.panel');
    await press(page, 'Cancel hers.bin', '.panel button');
    // It is given up even if the page is left at once; what the next page shows may have been asked for before.
    await page.goto(`${middle.url}/files/ana`);
    for (let looks = 0; (await (await ask('/uploads')).json()).length > 0; looks++) {
      assert.ok(looks < 1_000, 'it is still kept');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });

  test('when nothing listened for a while', async () => {
    await begin('refused.bin');
    middle.refuse();
    await seen(page, 'No connection.', '.offline');
    await seen(page, 'waiting for the network', '.panel');
    const there = await kept();
    const before = middle.sent;
    await middle.listen();
    await arrives('refused.bin', there, before);
    assert.equal(await page.$('.offline'), null);
  });

  test('when they were paused', async () => {
    await begin('paused.bin');
    await press(page, 'Pause paused.bin', '.panel button');
    await seen(page, 'paused', '.upload');
    middle.release();
    // Until what is between has heard that the part was broken off, it lets more of it through.
    while (middle.parts > 0) await new Promise(setImmediate);
    const there = await kept();
    const before = middle.sent;
    await press(page, 'Go on with paused.bin', '.panel button');
    await arrives('paused.bin', there, before);
  });

  test('when the page was loaded anew and the file chosen again', async () => {
    await begin('anew.bin');
    await page.goto(`${middle.url}/files/ana`);
    middle.cut();
    await (await page.waitForSelector('header .uploads')).click();
    await seen(page, 'interrupted', '.panel');
    const there = await kept();
    const before = middle.sent;
    await (await page.$('.upload input[type=file]')).uploadFile(join(files, 'anew.bin'));
    await arrives('anew.bin', there, before);
  });

  for (const [status, headers] of [[502, {}], [503, { 'retry-after': '2' }], [504, {}]]) {
    test(`when a balancer answered ${status}`, async () => {
      const name = `balancer ${status}.bin`;
      await begin(name);
      const refused = middle.refused;
      middle.answering(({ url }) => (url.startsWith('/api/v1/uploads') ? { status, headers } : null));
      middle.cut();
      await seen(page, 'the drive is busy or away', '.panel');
      const there = await kept();
      const before = middle.sent;
      // It is asked again by itself, and goes on waiting.
      while (middle.refused < refused + 2) await new Promise((resolve) => setTimeout(resolve, 50));
      await seen(page, 'the drive is busy or away', '.panel');
      middle.answering(null);
      await arrives(name, there, before);
    });
  }

  test('met no error', () => assert.deepEqual(tab.faults, []));
});
