/**
 * Second factors: one-time codes, passkeys, the recovery code. Passkeys are those of Chromium's virtual authenticator; Firefox has no such thing
 * to be told of, so that it runs what needs none.
 */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { gone, kind, launch, open, press, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';
import { look } from './lib/look.mjs';

const chromium = kind === 'chrome';
let drive;
let browser;
let tab;
let page;

before(async () => {
  drive = await startDrive();
  // Passkeys are bound to a name.
  drive.url = drive.url.replace('127.0.0.1', 'localhost');
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

/** What an authenticator app shows (RFC 6238), `later` steps from now. */
function codeOf(secret, later = 0) {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  const bits = [...secret.replaceAll(' ', '')].map((letter) => letters.indexOf(letter).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => Number.parseInt(byte, 2)));
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + later));
  const tag = createHmac('sha1', key).update(step).digest();
  return String((tag.readUInt32BE(tag.at(-1) & 15) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

async function security() {
  await page.goto(`${drive.url}/account/security`);
  await seen(page, 'Recovery code', '.card h2');
}

/** The password in the question that is open. */
async function prove(action, password = drive.password) {
  await page.waitForSelector('dialog input[type=password]');
  await page.type('dialog input[type=password]', password);
  await press(page, action, 'dialog button');
}

async function signOut(which = page) {
  await which.evaluate(() => fetch('/api/v1/session', { method: 'DELETE', headers: { 'X-Requested-With': 'holdfast' } }));
  await which.goto(`${drive.url}/files/ana`);
  await which.waitForSelector('#password');
}

async function typePassword(which = page) {
  await which.type('#name', drive.admin);
  await which.type('#password', drive.password);
  await which.click('form button[type=submit]');
}

const basic = () => fetch(`${drive.url}/dav/ana/kept.txt`, { headers: { authorization: drive.auth } });

describe('one-time codes', () => {
  let secret = '';

  test('are set up with a picture, a text and the first code', async () => {
    await security();
    await seen(page, 'Signing in takes your password.');
    await press(page, 'Set up codes');
    await prove('Continue', 'wrong wrong wrong');
    await seen(page, 'current password is wrong', 'dialog');
    await page.$eval('dialog input[type=password]', (input) => input.select());
    await prove('Continue');
    await page.waitForSelector('svg[role=img] path');
    secret = await page.$eval('.pair pre', (box) => box.textContent);
    assert.match(secret, /^([A-Z2-7]{4} ){7}[A-Z2-7]{4}$/);
    await page.type('#first-code', '000000');
    await press(page, 'Switch on');
    await seen(page, 'This code is not right', '[role=alert]');
    await page.$eval('#first-code', (input) => input.select());
    await page.type('#first-code', codeOf(secret, -1));
    await press(page, 'Switch on');
    await seen(page, 'A second factor is on', '.state');
    const refused = await basic();
    assert.equal(refused.status, 401);
    assert.match(await refused.text(), /app token/);
  });

  test('are asked for after the password, and each counts once', async () => {
    await signOut();
    await typePassword();
    await page.waitForSelector('#second');
    await look(page, 'second-factor');
    await page.type('#second', '123456');
    await page.click('form button[type=submit]');
    await seen(page, 'That is not right', '#second-failure');
    const code = codeOf(secret);
    await page.type('#second', code);
    await page.click('form button[type=submit]');
    await page.waitForSelector('main#main');
    const other = await open(browser, drive.url);
    await other.page.waitForSelector('#password');
    await typePassword(other.page);
    await other.page.waitForSelector('#second');
    await other.page.type('#second', code);
    await other.page.click('form button[type=submit]');
    await seen(other.page, 'used already', '#second-failure');
    assert.deepEqual(other.faults, []);
    await other.close();
  });

  test('give way to the recovery code, which is renewed, and switches them off', async () => {
    await security();
    await press(page, 'New recovery code');
    await prove('Make a new one');
    await page.waitForSelector('.made pre');
    const recovery = await page.$eval('.made pre', (box) => box.textContent);
    assert.match(recovery, /^(\w{5}-){6}\w{5}$/);
    await signOut();
    await typePassword();
    await page.waitForSelector('#second');
    await press(page, 'Use the recovery code');
    await page.type('#second', recovery.toUpperCase());
    await page.click('form button[type=submit]');
    await page.waitForSelector('main#main');
    await security();
    await press(page, 'Switch codes off');
    await page.click('dialog input[type=checkbox]');
    await page.type('#last-code', recovery);
    await press(page, 'Switch codes off', 'dialog button');
    await seen(page, 'Signing in takes your password.', '.state');
    assert.equal((await basic()).status, 200);
  });
});

describe('passkeys', { skip: !chromium }, () => {
  let cdp;
  let authenticator;

  async function plug(hasPrf) {
    cdp ??= await page.createCDPSession();
    if (authenticator) await cdp.send('WebAuthn.removeVirtualAuthenticator', { authenticatorId: authenticator });
    else await cdp.send('WebAuthn.enable');
    const options = { protocol: 'ctap2', ctap2Version: 'ctap2_1', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true, hasPrf };
    ({ authenticatorId: authenticator } = await cdp.send('WebAuthn.addVirtualAuthenticator', { options }));
  }

  async function add(label) {
    await security();
    await page.type('#passkey-label', label);
    await press(page, 'Add a passkey');
    await prove('Continue');
    await seen(page, label, '.card li');
  }

  async function remove(label) {
    await security();
    await press(page, `Remove ${label}`);
    await prove('Remove');
    await gone(page, label, '.card li');
  }

  /** Keeps what the page sends to an address of the API. */
  function overheard(path) {
    return new Promise((resolve) => {
      const listen = (request) => {
        if (!request.url().endsWith(path) || request.method() !== 'POST') return;
        page.off('request', listen);
        resolve(JSON.parse(request.postData()));
      };
      page.on('request', listen);
    });
  }

  const post = (path, body) =>
    page.evaluate(
      async (at, text) => {
        const answer = await fetch(`/api/v1${at}`, { method: 'POST', body: text, headers: { 'Content-Type': 'application/json', 'X-Requested-With': 'holdfast' } });
        return { status: answer.status, ...(await answer.json()) };
      },
      path,
      JSON.stringify(body),
    );

  test('sign in alone if their authenticator yields a secret, and leave the password as it was', async () => {
    await plug(true);
    await add('Laptop');
    await seen(page, 'Signs in without the password', '.card li');
    await seen(page, 'Signing in takes your password.', '.state');
    assert.equal((await basic()).status, 200);
    await signOut();
    const sent = overheard('/session/passkey');
    await press(page, 'Sign in with a passkey');
    await page.waitForSelector('main#main');
    await page.waitForSelector('[data-name="kept.txt"]');
    const read = await page.evaluate(async () => (await fetch('/api/v1/content/ana/kept.txt')).text());
    assert.equal(read, 'x', 'the key of the files is open');
    const again = await post('/session/passkey', await sent);
    assert.equal(again.status, 401);
    assert.match(again.detail, /answered before/, 'an answer counts once');
  });

  test('are refused with the answer to another question, from another page, and with another signature', async () => {
    await signOut();
    const sent = overheard('/session/passkey');
    await page.setRequestInterception(true);
    const hold = (request) => void (request.url().endsWith('/session/passkey') ? request.abort() : request.continue());
    page.on('request', hold);
    const held = new Promise((resolve) => page.once('requestfailed', resolve));
    await press(page, 'Sign in with a passkey');
    const { answer } = await sent;
    await held;
    page.off('request', hold);
    await page.setRequestInterception(false);
    const other = await post('/session/passkey/question', {});
    assert.match((await post('/session/passkey', { answer: { ...answer, ticket: other.ticket } })).detail, /another question/);
    const client = JSON.parse(Buffer.from(answer.client_data, 'base64url'));
    const evil = Buffer.from(JSON.stringify({ ...client, origin: 'https://evil.example' })).toString('base64url');
    assert.match((await post('/session/passkey', { answer: { ...answer, client_data: evil } })).detail, /another site/);
    const data = Buffer.from(answer.authenticator_data, 'base64url');
    data[36] ^= 1;
    const changed = await post('/session/passkey', { answer: { ...answer, authenticator_data: data.toString('base64url') } });
    assert.match(changed.detail, /not known here, or its answer is wrong/);
    const secret = Buffer.alloc(32, 7).toString('base64url');
    assert.equal((await post('/session/passkey', { answer: { ...answer, secret } })).status, 401, 'another secret opens no key');
    const good = await post('/session/passkey', { answer });
    assert.equal(good.name, 'ana', `the answer itself was good: ${good.detail}`);
  });

  test('open nothing any more when they were removed', async () => {
    await page.goto(`${drive.url}/files/ana`);
    await page.waitForSelector('main#main');
    await remove('Laptop');
    await signOut();
    await press(page, 'Sign in with a passkey');
    await seen(page, 'not known here', '#sign-in-failure');
    await typePassword();
    await page.waitForSelector('main#main');
  });

  test('are a second factor if their authenticator yields no secret', async () => {
    await plug(false);
    await add('Stick');
    await seen(page, 'Second factor, after the password', '.card li');
    await seen(page, 'A second factor is on', '.state');
    assert.equal((await basic()).status, 401);
    await signOut();
    await press(page, 'Sign in with a passkey');
    await seen(page, 'second factor only', '#sign-in-failure');
    await typePassword();
    const sent = overheard('/session');
    await press(page, 'Use a passkey');
    await page.waitForSelector('main#main');
    const again = await post('/session', await sent);
    assert.equal(again.status, 401, 'an answer counts once');
  });

  test('that were copied are found out by their counter', async () => {
    const { credentials } = await cdp.send('WebAuthn.getCredentials', { authenticatorId: authenticator });
    assert.equal(credentials.length, 1);
    // A copy that was made before the last use has the counter of before.
    await cdp.send('WebAuthn.clearCredentials', { authenticatorId: authenticator });
    const copy = { ...credentials[0], signCount: credentials[0].signCount - 1 };
    await cdp.send('WebAuthn.addCredential', { authenticatorId: authenticator, credential: copy });
    await signOut();
    await typePassword();
    await press(page, 'Use a passkey');
    await seen(page, 'not right', '#second-failure');
    // The one that goes on counting is still good, since a question is answered once and the next is there.
    await press(page, 'Use a passkey');
    await page.waitForSelector('main#main');
    await remove('Stick');
    await seen(page, 'Signing in takes your password.', '.state');
    assert.equal((await basic()).status, 200);
  });

  test('can be turned away from, which is no error', async () => {
    await signOut();
    await cdp.send('WebAuthn.clearCredentials', { authenticatorId: authenticator });
    await press(page, 'Sign in with a passkey');
    await seen(page, 'No passkey was used.', '#sign-in-failure');
  });
});

test('met no error', () => assert.deepEqual(tab.faults, []));
