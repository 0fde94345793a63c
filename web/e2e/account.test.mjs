/** The account: tokens, devices, password, and a session that ends. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { gone, launch, open, press, row, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';

let drive;
let browser;
let tab;
let page;

before(async () => {
  drive = await startDrive();
  browser = await launch();
  await drive.put('ana/kept.txt', 'x');
  tab = await open(browser, drive.url);
  ({ page } = tab);
  await signIn(page, drive);
});
after(async () => {
  await browser?.close();
  await drive?.stop();
});

describe('the account page', () => {
  test('makes a token that works, shows it once, and revokes it', async () => {
    await page.goto(`${drive.url}/account/connect`);
    await page.waitForSelector('#token-label');
    await page.type('#token-label', 'laptop');
    await press(page, 'Make a token');
    await seen(page, 'It is shown this once', '.made');
    const token = await page.$eval('.made pre', (box) => box.textContent);
    const ask = () => fetch(`${drive.url}/api/v1/me`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal((await ask()).status, 200);
    await press(page, 'Revoke laptop');
    await press(page, 'Revoke', 'dialog button');
    await gone(page, 'laptop', '.card li');
    assert.equal((await ask()).status, 401);
  });

  test('has the address of the drive ready for each program', async () => {
    await page.select('.choices select', 'rclone');
    await seen(page, `${drive.url}/dav/ana/`, '.copy pre');
    await page.select('.choices select', 'holdfast');
    await seen(page, `holdfast mount ${drive.url} `, '.copy pre');
  });

  test('ends the session of another browser, which is asked to sign in and goes on where it was', async () => {
    const other = await open(browser, drive.url);
    await signIn(other.page, drive);
    await other.page.goto(`${drive.url}/files/ana`);
    await other.page.waitForSelector(row('kept.txt'));
    await page.goto(`${drive.url}/account/devices`);
    await seen(page, 'this one', '.card li');
    await press(page, 'Sign out all others');
    await page.waitForFunction(() => document.querySelectorAll('.card li').length === 1);
    await other.page.$eval('nav a[href^="/trash/"]', (link) => link.click());
    await seen(other.page, 'Your session ended.');
    assert.equal(new URL(other.page.url()).pathname, '/trash/ana');
    await other.page.type('#password', drive.password);
    await other.page.click('form button[type=submit]');
    await seen(other.page, 'The trash is empty');
    await other.close();
  });

  test('says why a new password is bad, takes a good one, and it holds', async () => {
    await page.goto(`${drive.url}/account/password`);
    await page.waitForSelector('#password-new');
    await seen(page, 'should not be, the password of your organisation');
    await page.type('#password-new', 'password1234');
    await seen(page, 'Easy to guess.', '#password-verdict');
    await page.$eval('#password-new', (input) => input.select());
    await page.type('#password-new', 'gravel ivory tundra piano');
    await seen(page, 'Very good.', '#password-verdict');
    await page.type('#password-again', 'gravel ivory tundra piano');
    await page.type('#password-now', 'wrong wrong wrong');
    await press(page, 'Change password');
    await seen(page, 'current password is wrong', '[role=alert]');
    await page.$eval('#password-now', (input) => input.select());
    await page.type('#password-now', drive.password);
    await press(page, 'Change password');
    await seen(page, 'Password changed.', '.toast');
    await page.goto(`${drive.url}/files/ana`);
    await page.waitForSelector(row('kept.txt'));
    const basic = (password) => fetch(`${drive.url}/api/v1/me`, { headers: { authorization: `Basic ${btoa(`ana:${password}`)}` } });
    assert.equal((await basic('gravel ivory tundra piano')).status, 200);
  });

  test('keeps theme and language in this browser', async () => {
    await page.goto(`${drive.url}/account/look`);
    await page.waitForSelector('fieldset');
    await page.$eval('input[value=dark]', (radio) => radio.click());
    await page.reload();
    await page.waitForSelector('fieldset');
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  });

  test('met no error', () => assert.deepEqual(tab.faults, []));
});
