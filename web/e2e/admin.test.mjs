/** Administration: monitor, accounts, spaces, store, nodes, audit log, settings; for administrators only, and fit to be used by all. SHOTS=1 keeps pictures. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { gone, launch, open, press, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';
import { look } from './lib/look.mjs';

/** A minute is written when it has passed. */
const MINUTE_MS = 100_000;
const PAGES = [
  ['now', '/admin', 'dl'],
  ['accounts', '/admin/accounts', 'tbody tr'],
  ['spaces', '/admin/spaces', 'tbody tr'],
  ['sites', '/admin/sites', 'tbody tr'],
  ['jobs', '/admin/jobs', '.card'],
  ['store', '/admin/store', 'dl'],
  ['nodes', '/admin/nodes', 'tbody tr'],
  ['audit', '/admin/audit', 'tbody tr'],
  ['settings', '/admin/settings', 'tbody tr'],
];

let drive;
let browser;
let tab;
let page;
let member;

before(async () => {
  drive = await startDrive();
  browser = await launch();
  await drive.folder('ana/site');
  for (let at = 0; at < 5; at += 1) await drive.put(`ana/${at}.txt`, 'x'.repeat(50_000));
  tab = await open(browser, drive.url);
  ({ page } = tab);
  await signIn(page, drive);
});
after(async () => {
  await browser?.close();
  await drive?.stop();
});

const ask = (path, auth = drive.auth) => fetch(`${drive.url}/api/v1${path}`, { headers: { authorization: auth } });

describe('administration', () => {
  test('makes an account whose password is shown once and works', async () => {
    await press(page, 'Administration', 'nav a');
    await press(page, 'Accounts', 'nav a');
    await page.waitForSelector('#account-name');
    await page.type('#account-name', 'ben');
    await page.type('#account-quota', '2');
    await press(page, 'Make an account', 'form button');
    await seen(page, 'it is shown this once', '.made');
    const [password] = await page.$$eval('.made dd', (values) => values.map((value) => value.textContent));
    await seen(page, '2\u00a0GiB', 'tbody td');
    member = { ...drive, admin: 'ben', password, auth: `Basic ${Buffer.from(`ben:${password}`).toString('base64')}` };
    assert.equal((await ask('/me', member.auth)).status, 200);
  });

  test('is not there for a member', async () => {
    const other = await open(browser, drive.url);
    await signIn(other.page, member);
    await other.page.waitForSelector('nav a[href="/account"]');
    assert.equal(await other.page.$('nav a[href="/admin"]'), null);
    await other.page.goto(`${drive.url}/admin/audit`);
    await seen(other.page, 'Only administrators see this page.');
    assert.equal((await ask('/admin/audit', member.auth)).status, 403);
    await press(page, 'Actions for ben');
    await press(page, 'Sign out everywhere', '[role=menuitem]');
    await seen(page, 'sessions of ben ended', '.toast');
    await other.page.goto(`${drive.url}/files/ben`);
    await other.page.waitForSelector('#password');
    await other.close();
  });

  test('shuts an account out when its name was typed, and lets it in again', async () => {
    await press(page, 'Actions for ben');
    await press(page, 'Disable', '[role=menuitem]');
    await page.waitForSelector('dialog input');
    assert.equal(await page.$eval('dialog .danger', (button) => button.disabled), true);
    await page.type('dialog input', 'ben');
    await press(page, 'Disable', 'dialog button');
    await seen(page, 'disabled', 'tbody td');
    assert.equal((await ask('/me', member.auth)).status, 403);
    await press(page, 'Actions for ben');
    await press(page, 'Enable', '[role=menuitem]');
    await gone(page, 'disabled', 'tbody td');
    assert.equal((await ask('/me', member.auth)).status, 200);
    await press(page, 'Actions for ben');
    await press(page, 'Change quota', '[role=menuitem]');
    await page.waitForSelector('#quota-of');
    await page.$eval('#quota-of', (input) => input.select());
    await page.type('#quota-of', '3');
    await press(page, 'Save', 'dialog button');
    await seen(page, '3\u00a0GiB', 'tbody td');
  });

  test('changes the bounds of a space', async () => {
    await press(page, 'Spaces', 'nav a');
    await press(page, 'Change bounds of ben');
    await page.waitForSelector('#space-quota');
    await page.type('#space-quota', '0.5');
    await press(page, 'Save', 'dialog button');
    await seen(page, '512\u00a0MiB', 'tbody td');
  });

  test('tells who did what, by filter, and exports it', async () => {
    await press(page, 'Audit log', 'nav a');
    await seen(page, 'account.make', 'tbody td');
    await page.type('#audit-action', 'account.change');
    await press(page, 'Filter', 'form button');
    await gone(page, 'account.make', 'tbody td');
    await seen(page, 'disabled true', 'tbody td');
    assert.equal(new URL(page.url()).searchParams.get('action'), 'account.change');
    await page.goBack();
    await seen(page, 'account.make', 'tbody td');
    const href = await page.$eval('a[download]', (link) => link.getAttribute('href'));
    const text = await (await fetch(`${drive.url}${href}`, { headers: { authorization: drive.auth } })).text();
    assert.ok(text.startsWith('at_ms,account,') && text.includes('"account.make","ben"'), text);
  });

  test('rolls a site back, and takes it off when its name was typed', async () => {
    await drive.put('ana/site/index.html', '<p>one</p>');
    const post = (path, body) => fetch(`${drive.url}/api/v1/sites/blog/${path}`, { method: 'POST', body: JSON.stringify(body), headers: { authorization: drive.auth, 'content-type': 'application/json' } });
    for (const text of ['one', 'two']) {
      await drive.put('ana/site/index.html', `<p>${text}</p>`);
      assert.equal((await post('publish', { space: 'ana', path: 'site' })).status, 200);
    }
    const live = async () => (await (await ask('/sites/blog')).json()).live;
    const second = await live();
    await press(page, 'Sites', 'nav a');
    await press(page, 'Actions for site blog');
    await press(page, 'Roll back', '[role=menuitem]');
    await seen(page, 'shows the snapshot before', '.toast');
    assert.notEqual(await live(), second);
    await press(page, 'Actions for site blog');
    await press(page, 'Unpublish', '[role=menuitem]');
    await page.waitForSelector('dialog input');
    await page.type('dialog input', 'blog');
    await press(page, 'Unpublish', 'dialog button');
    await seen(page, 'off', 'tbody td');
    assert.equal(await live(), undefined);
  });

  test('asks for a reclaim, and tells what it did', async () => {
    await press(page, 'Store', 'nav a');
    await press(page, 'Reclaim now');
    await seen(page, 'Reclaim has begun', '.toast');
    await press(page, 'Nodes and upkeep', 'nav a');
    await seen(page, 'packs deleted', 'tbody td');
  });

  test('tells what is done now, and keeps it for a day', async () => {
    for (let at = 0; at < 20; at += 1) await drive.put(`ana/${at}.txt`, 'y'.repeat(20_000));
    await page.goto(`${drive.url}/admin`);
    await seen(page, 'dav PUT', 'tbody td');
    await seen(page, '127.0.0.1', 'tbody td');
    await page.waitForSelector('svg[role=img]', { timeout: MINUTE_MS });
    await seen(page, 'The same by hour', 'summary');
  }, { timeout: 2 * MINUTE_MS });

  for (const [size, width, height] of [['wide', 1280, 800], ['small', 360, 740]]) {
    for (const [name, url, mark] of PAGES) {
      test(`${name} is fit to be used by all at ${width} pixels`, async () => {
        await page.setViewport({ width, height });
        await page.goto(drive.url + url);
        await page.waitForSelector(mark);
        await look(page, `admin-${name}-${size}`);
      });
    }
  }

  test('nothing was refused by the policy, and no script failed', () => assert.deepEqual(tab.faults, []));
});
