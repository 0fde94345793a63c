/** A folder of 100,000 entries: there at once, and scrolled without waiting. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { launch, open, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';

const ENTRIES = 100_000;
const PAGE = 10_000;
let drive;
let browser;
let page;

/** Answers the API's questions for one folder itself: making 100,000 files would be another test. */
async function pretend() {
  const node = (at) => ({ id: at, name: `file ${String(at).padStart(6, '0')}.txt`, kind: 'file', size_bytes: at, created_ms: 0, modified_ms: 1.7e12 + at * 1000, etag: '"x"', type: 'text/plain', tags: [] });
  await page.setRequestInterception(true);
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.pathname !== '/api/v1/folders/ana/many') return request.continue();
    const after = url.searchParams.get('after');
    const from = after === null ? 0 : Number(after.slice(5, 11)) + 1;
    const to = Math.min(ENTRIES, from + Math.min(PAGE, Number(url.searchParams.get('limit'))));
    const entries = Array.from({ length: to - from }, (_, at) => node(from + at));
    const body = JSON.stringify({ folder: { ...node(0), kind: 'folder', name: 'many' }, role: 'owner', entries, ...(to < ENTRIES && { next: entries.at(-1).name }) });
    return request.respond({ status: 200, contentType: 'application/json', body });
  });
}

before(async () => {
  drive = await startDrive();
  browser = await launch();
  ({ page } = await open(browser, drive.url));
  await signIn(page, drive);
  await pretend();
});
after(async () => {
  await browser?.close();
  await drive?.stop();
});

describe('a folder of 100,000 entries', () => {
  test('shows its first rows while the rest comes, then all of them', async (context) => {
    const begun = Date.now();
    await page.goto(`${drive.url}/files/ana/many`);
    await page.waitForSelector('[data-name="file 000000.txt"]');
    context.diagnostic(`first rows after ${Date.now() - begun} ms`);
    await page.waitForFunction((n) => document.querySelector('[role=grid]').ariaRowCount === String(n + 1), {}, ENTRIES);
    context.diagnostic(`all rows after ${Date.now() - begun} ms`);
    assert.ok((await page.$$('.row-item')).length < 100, 'rows out of view exist');
  });

  test('scrolls from end to end, and draws what is in view in every frame', async (context) => {
    const frames = await page.$eval('[role=grid]', async (grid) => {
      const found = [];
      let last = performance.now();
      for (let frame = 0; frame < 180; frame += 1) {
        grid.scrollTop = (grid.scrollHeight * frame) / 180;
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        found.push({ ms: now - last, rows: grid.querySelectorAll('.row-item').length });
        last = now;
      }
      return found.slice(2);
    });
    const times = frames.map(({ ms }) => ms).sort((a, b) => a - b);
    const median = times[Math.floor(times.length / 2)];
    context.diagnostic(`a frame takes ${median.toFixed(1)} ms, the slowest ${times.at(-1).toFixed(1)} ms`);
    assert.ok(frames.every(({ rows }) => rows > 5), 'a frame was empty');
  });

  test('goes to its end by one key, and is filtered and sorted', async (context) => {
    await page.focus('[role=grid]');
    await page.keyboard.press('End');
    await page.waitForSelector('[data-name="file 099999.txt"]');
    let begun = Date.now();
    await page.keyboard.type('9999');
    await page.waitForFunction(() => document.querySelector('[role=grid]')?.ariaRowCount === '20');
    context.diagnostic(`filtered after ${Date.now() - begun} ms`);
    await page.keyboard.press('Escape');
    await page.waitForFunction((n) => document.querySelector('[role=grid]')?.ariaRowCount === String(n + 1), {}, ENTRIES);
    begun = Date.now();
    await page.$eval('.size button', (button) => button.click());
    await page.keyboard.press('Home');
    await seen(page, 'file 099999.txt', '[role=grid]');
    context.diagnostic(`sorted after ${Date.now() - begun} ms`);
  });
});
