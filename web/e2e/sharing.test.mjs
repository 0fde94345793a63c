/** Sharing: a folder with an account, links with their visitors, drop boxes, and the page of shares. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gone, launch, open, press, row, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';
import { look } from './lib/look.mjs';

const BEN = 'a ladder of wet granite';
let drive;
let browser;
let page;
let files;

async function api(method, path, json, as = drive.auth) {
  const response = await fetch(`${drive.url}/api/v1${path}`, {
    method,
    headers: { authorization: as, 'content-type': 'application/json' },
    ...(json !== undefined && { body: JSON.stringify(json) }),
  });
  assert.ok(response.ok, `${method} ${path}: ${response.status}`);
  return response.status === 204 ? null : response.json();
}

const shareTrip = (more) => api('POST', '/shares', { space: 'ana', path: '/private/trip', access: 'read', ...more });

/** A browser of somebody who has no account here. */
async function visitor(link, size = {}) {
  const tab = await open(browser, `${drive.url}/readyz`, size);
  await tab.page.goto(drive.url + link);
  return tab;
}

before(async () => {
  files = mkdtempSync(join(tmpdir(), 'holdfast-sharing-'));
  drive = await startDrive();
  browser = await launch();
  await api('POST', '/accounts', { name: 'ben', password: BEN });
  for (const folder of ['ana/private', 'ana/private/trip', 'ana/private/trip/day']) await drive.folder(folder);
  await drive.put('ana/private/diary.txt', 'secret');
  await drive.put('ana/private/trip/map.txt', 'a map');
  await drive.put('ana/private/trip/day/one.txt', 'one');
  ({ page } = await open(browser, drive.url));
  await signIn(page, drive);
});
after(async () => {
  await browser?.close();
  await drive?.stop();
  rmSync(files, { recursive: true, force: true });
});

describe('sharing', () => {
  test('a folder is shared with an account from its menu, marked, and found by that account', async () => {
    await page.goto(`${drive.url}/files/ana/private`);
    await page.waitForSelector(row('trip'));
    await page.click(`${row('trip')} .more button`);
    await press(page, 'Share…', '[role=menuitem]');
    await page.waitForSelector('#share-account');
    await page.type('#share-account', 'nobody');
    await press(page, 'Share', 'dialog form button');
    await seen(page, 'no account', 'dialog');
    await page.$eval('#share-account', (input) => input.select());
    await page.type('#share-account', 'ben');
    await press(page, 'Share', 'dialog form button');
    await seen(page, 'ben', 'dialog li');
    await look(page, 'share-dialog');
    await press(page, 'Done', 'dialog button');
    await page.waitForSelector(`${row('trip')} .shared`);

    const ben = (await open(browser, drive.url)).page;
    await signIn(ben, { ...drive, admin: 'ben', password: BEN });
    await (await ben.waitForSelector('nav a[href="/files/trip%20(ana)"]')).click();
    await ben.waitForSelector(row('map.txt'));
    assert.equal(await ben.$('button.primary'), null, 'nothing to change for a reader');
    await ben.goto(`${drive.url}/shared`);
    await seen(ben, 'shared by ana');
    await look(ben, 'shared-with-me');
    await ben.browserContext().close();
  });

  test('a link is made with options, and its visitor sees the folder and nothing else', async () => {
    await page.goto(`${drive.url}/files/ana/private`);
    await page.waitForSelector(row('trip'));
    await page.click(`${row('trip')} .more button`);
    await press(page, 'Share…', '[role=menuitem]');
    await page.waitForSelector('#link-access');
    await press(page, 'Options', 'dialog button');
    await press(page, 'Make one up', 'dialog button');
    const password = await page.$eval('[data-testid=link-password]', (input) => input.value);
    assert.match(password, /^(\w{4}-){3}\w{4}$/);
    await page.type('[data-testid=link-label]', 'Our trip');
    await press(page, 'Make a link', 'dialog button');
    await seen(page, 'Our trip', 'dialog li');
    const address = await page.$eval('dialog .copy pre', (box) => box.textContent);
    assert.ok(address.startsWith(`${drive.url}/l/`) && address.includes('#'));

    const { page: guest } = await visitor(address.slice(drive.url.length));
    await guest.waitForSelector('#visit-password');
    await look(guest, 'link-password');
    await guest.type('#visit-password', 'not this one');
    await press(guest, 'Open', 'form button');
    await seen(guest, 'The password is wrong.');
    await guest.type('#visit-password', password);
    await press(guest, 'Open', 'form button');
    await guest.waitForSelector(row('map.txt'));
    await seen(guest, 'Our trip');
    await look(guest, 'link-folder');
    await guest.click(`${row('day')} a`);
    await guest.waitForSelector(row('one.txt'));
    assert.ok(guest.url().includes('/day#'), 'the address stays one that can be passed on');
    await guest.click(`${row('one.txt')} a`);
    await seen(guest, 'one', '.code');
    await guest.reload();
    await seen(guest, 'one', '.code');
    const around = await guest.evaluate(() => fetch('/api/v1/me', { headers: { 'X-Requested-With': 'holdfast' } }).then((answer) => answer.status));
    assert.equal(around, 401);
    // Its terms are changed where it is.
    await press(page, 'Change how Our trip is shared', 'dialog button');
    await page.waitForSelector('dialog li [data-testid=link-downloads]');
    await page.type('dialog li [data-testid=link-downloads]', '5');
    await look(page, 'link-edit');
    await press(page, 'Save', 'dialog button');
    await seen(page, '0 of 5 downloads', 'dialog li');
    await press(page, 'Done', 'dialog button');

    // The page of shares takes it back, and who is there is told.
    await page.goto(`${drive.url}/shared`);
    await seen(page, 'Our trip');
    await look(page, 'shared-by-me');
    await press(page, 'Revoke the share of trip', 'li:has(.small) button');
    await press(page, 'Revoke', 'dialog button');
    // The server has done it.
    await gone(page, 'Our trip');
    await guest.reload();
    await seen(guest, 'This link does not open');
    await look(guest, 'link-closed');
    await guest.browserContext().close();
  });

  test('a narrow window and a link to one file', async () => {
    const link = (await api('POST', '/shares', { space: 'ana', path: '/private/trip/map.txt', access: 'read' })).link;
    const { page: guest } = await visitor(link, { width: 360, height: 740 });
    await seen(guest, 'a map', '.code');
    await look(guest, 'link-file-360');
    const folder = await visitor((await shareTrip({ downloads_max: 3 })).link, { width: 360, height: 740 });
    await folder.page.waitForSelector(row('map.txt'));
    await seen(folder.page, '3 downloads left');
    await look(folder.page, 'link-folder-360');
    await guest.browserContext().close();
    await folder.page.browserContext().close();
  });

  test('a visitor who may write uploads into the folder', async () => {
    const { page: guest } = await visitor((await shareTrip({ access: 'write' })).link);
    await guest.waitForSelector(row('map.txt'));
    const path = join(files, 'by a guest.txt');
    writeFileSync(path, 'from outside');
    await (await guest.$('[data-testid=pick-files]')).uploadFile(path);
    await guest.waitForSelector(row('by a guest.txt'));
    assert.equal(await drive.read('ana/private/trip/by a guest.txt'), 'from outside');
    await guest.browserContext().close();
  });

  test('a drop box takes files beside what is there, and shows nothing', async () => {
    const { page: guest } = await visitor((await shareTrip({ access: 'upload', label: 'Letters' })).link);
    await seen(guest, 'Send files to');
    const path = join(files, 'map.txt');
    writeFileSync(path, 'another map');
    await (await guest.$('[data-testid=pick-files]')).uploadFile(path);
    await seen(guest, '1 file arrived');
    await look(guest, 'drop-box');
    assert.equal(await drive.read('ana/private/trip/map.txt'), 'a map');
    assert.equal(await drive.read('ana/private/trip/map (2).txt'), 'another map');
    await gone(guest, 'day');
    await guest.setViewport({ width: 360, height: 740 });
    await look(guest, 'drop-box-360');
    await guest.browserContext().close();
  });

  test('owners set the members of their space', async () => {
    await page.goto(`${drive.url}/files/ana`);
    await page.waitForSelector(row('private'));
    await press(page, 'Share this folder', 'header button');
    await page.waitForSelector('#member-account');
    await page.type('#member-account', 'ben');
    await page.select('#member-choice', 'editor');
    await press(page, 'Add', 'dialog form button');
    await seen(page, 'ben', 'dialog li');
    assert.deepEqual((await api('GET', '/spaces/ana/members')).map((one) => [one.account, one.role]), [['ana', 'owner'], ['ben', 'editor']]);
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }]).catch(() => {});
    await look(page, 'members-dark');
    await press(page, 'Remove ben', 'dialog button');
    await gone(page, 'ben', 'dialog ul');
    assert.equal((await api('GET', '/spaces/ana/members')).length, 1);
  });
});
