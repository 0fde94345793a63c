/** Jobs of the drive in the administrators' pages: what is due, what is under way and how far, what was; starting, stopping, looking ahead. SHOTS=1 keeps pictures. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gone, launch, open, press, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';
import { look } from './lib/look.mjs';

const MIB = 1 << 20;
const JOBS = `
[jobs.by-hand]
from = 'from/{part}/.'
to = 'to/{part}'
variables = { part = 'one' }

[jobs.hourly]
from = 'from/one/.'
to = 'hourly'
cron = '@hourly'

[jobs.slow]
from = 'from/big'
to = 'to'
rate = '512K'

[jobs.wrong]
from = 'nowhere/.'
to = 'to'
retry-for = '1s'
`;

let folder;
let drive;
let browser;
let tab;
let page;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-jobs-'));
  for (const name of ['one', 'two']) {
    mkdirSync(join(folder, 'from', name), { recursive: true });
    writeFileSync(join(folder, 'from', name, `${name}.txt`), name);
  }
  writeFileSync(join(folder, 'from/big'), Buffer.alloc(64 * MIB, 'x'));
  writeFileSync(join(folder, 'jobs.toml'), JOBS);
  drive = await startDrive('ana', { config: `[jobs]\nfiles = ['${folder}']\n` });
  browser = await launch();
  tab = await open(browser, drive.url);
  ({ page } = tab);
  await signIn(page, drive);
});
after(async () => {
  await browser?.close();
  await drive?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const show = async (job) => {
  await page.goto(`${drive.url}/admin/jobs?job=${job}`);
  await page.waitForSelector('.facts');
};

describe('jobs', () => {
  test('are listed with what they do and when they are due', async () => {
    await press(page, 'Administration', 'nav a');
    await press(page, 'Jobs', 'nav a');
    await seen(page, 'hourly', 'tbody td');
    await seen(page, 'runs them.', 'section p');
    const rows = await page.$$eval('tbody tr', (all) => all.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent)));
    const of = (name) => rows.find((row) => row[0] === name);
    assert.deepEqual([of('hourly')[1], of('hourly')[2], of('hourly')[4]], ['waits', 'not yet', 'cron @hourly']);
    assert.match(of('hourly')[3], /\d/);
    assert.deepEqual([of('slow')[3], of('slow')[4]], ['–', 'by hand']);
    await press(page, 'hourly', 'tbody a');
    await seen(page, 'It has not run yet.');
    await press(page, 'All jobs', 'a');
    await seen(page, 'slow', 'tbody td');
  });

  test('are looked ahead at, and nothing is done', async () => {
    await show('hourly');
    await press(page, 'Preview');
    await seen(page, '2 things would be done.', 'dialog p');
    await seen(page, '/hourly/one.txt', 'dialog td');
    await look(page, 'jobs-preview-wide');
    await press(page, 'Done', 'dialog button');
    await gone(page, '/hourly/one.txt', 'dialog td');
    assert.throws(() => readFileSync(join(folder, 'hourly/one.txt')));
  });

  test('are started, with other values where there are variables', async () => {
    await show('by-hand');
    await press(page, 'Start now');
    await page.waitForSelector('#job-part');
    await page.type('#job-part', '../..');
    await press(page, 'Start now', 'dialog button');
    await seen(page, 'slashes', 'dialog [role=alert]');
    await page.$eval('#job-part', (input) => input.select());
    await page.type('#job-part', 'two');
    await press(page, 'Start now', 'dialog button');
    await seen(page, 'starts in a moment', '.toast');
    await seen(page, 'succeeded', 'tbody td');
    await seen(page, 'asked for, ana', 'tbody td');
    assert.equal(readFileSync(join(folder, 'to/two/two.txt'), 'utf8'), 'two');
    assert.throws(() => readFileSync(join(folder, 'to/one/one.txt')));
  });

  test('say why they failed', async () => {
    await show('wrong');
    await press(page, 'Start now');
    await seen(page, 'failed', 'tbody td');
    await press(page, 'One error', 'summary');
    await seen(page, 'nowhere', 'details li');
    await look(page, 'jobs-failed-wide');
  });

  test('are seen moving, and stopped', async () => {
    await show('slow');
    await press(page, 'Start now');
    await page.waitForSelector('progress');
    await seen(page, '/big', 'section li');
    await page.waitForFunction(() => document.querySelector('progress').value > 0);
    await seen(page, 'KiB/s', 'dd');
    for (const [size, width, height] of [['wide', 1280, 800], ['small', 360, 740]]) {
      await page.setViewport({ width, height });
      await look(page, `jobs-progress-${size}`);
    }
    await page.setViewport({ width: 1280, height: 800 });
    await press(page, 'Stop');
    await seen(page, 'does not go on', '.toast');
    await seen(page, 'stopped', 'tbody td');
    assert.equal(await page.$('progress'), null);
  });

  for (const [size, width, height] of [['wide', 1280, 800], ['small', 360, 740]]) {
    test(`are fit to be used by all at ${width} pixels`, async () => {
      await page.setViewport({ width, height });
      await page.goto(`${drive.url}/admin/jobs`);
      await page.waitForSelector('tbody tr');
      await look(page, `jobs-list-${size}`);
      await show('by-hand');
      await page.waitForSelector('tbody tr');
      await look(page, `jobs-detail-${size}`);
    });
  }

  test('that nobody describes are told as that', async () => {
    await page.goto(`${drive.url}/admin/jobs?job=none`);
    await seen(page, 'here is no job', '[role=alert]');
  });

  test('are there in German', async () => {
    await page.evaluate(() => localStorage.clear());
    await page.goto(`${drive.url}/account/look`);
    await page.waitForSelector('fieldset');
    await page.$eval('[lang=de] input', (radio) => radio.click());
    await page.waitForFunction(() => document.documentElement.lang === 'de');
    await page.goto(`${drive.url}/admin/jobs`);
    await seen(page, 'Aufträge', 'h2');
    await page.waitForSelector('tbody tr');
    await page.evaluate(() => localStorage.clear());
  });

  test('nothing was refused by the policy, and no script failed', () => assert.deepEqual(tab.faults, []));
});
