/** Sign-in by a provider, at a real one: the first time, again, linking, who is not let in, groups, and everything that is wrong on the way. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { gone, kind, launch, open, press, seen, signIn } from './lib/browser.mjs';
import { freePort, startDrive } from './lib/drive.mjs';
import { look } from './lib/look.mjs';
import { atProvider, leaveProvider, startProvider } from './lib/provider.mjs';

const PASSPHRASE = 'gravel ivory tundra piano';
let provider;
let drive;
let browser;

before(async () => {
  const [port, at] = [await freePort(), await freePort()];
  provider = await startProvider(at, `http://localhost:${port}/signin`);
  const config = `
    public_url = "http://localhost:${port}"
    [[sign_in.providers]]
    id = "lab"
    name = "The lab"
    issuer = "${provider.issuer}"
    client_id = "drive"
    client_secret_env = "E2E_CLIENT_SECRET"
    scopes = ["profile", "email", "groups"]
    create_accounts = true
    allow_groups = ["staff"]
    spaces = [{ group = "lab", space = "results", role = "editor" }]
    sign_out = "offer"
    [[sign_in.providers]]
    id = "always"
    name = "The lab for a moment"
    issuer = "${provider.issuer}"
    client_id = "drive"
    client_secret_env = "E2E_CLIENT_SECRET"
    sign_out = "always"
  `;
  process.env.E2E_CLIENT_SECRET = 'a secret of the drive';
  drive = await startDrive('ana', { config, port });
  drive.url = drive.url.replace('127.0.0.1', 'localhost');
  writeFileSync(`${drive.data}.pass`, drive.password);
  drive.run('space', 'create', 'results', '--user', 'ana', '--password-file', `${drive.data}.pass`);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await drive?.stop();
  await provider?.stop();
});

/** A window at the provider's pages. */
async function leave(name = 'The lab') {
  const tab = await open(browser, drive.url);
  await tab.page.waitForSelector('#password');
  await press(tab.page, `Sign in with ${name}`);
  return tab;
}

/** A window of somebody who came back from the provider. */
async function come(login, name) {
  const tab = await leave(name);
  await atProvider(tab.page, login);
  await tab.page.waitForFunction((url) => location.href.startsWith(url), {}, drive.url);
  return tab;
}

async function enterPassphrase(page, passphrase = PASSPHRASE) {
  await page.waitForSelector('#passphrase');
  await page.type('#passphrase', passphrase);
  await press(page, 'Open');
}

const me = (page) => page.evaluate(async () => (await fetch('/api/v1/me', { headers: { 'X-Requested-With': 'holdfast' } })).json());

describe('somebody from the provider', () => {
  test('chooses a drive passphrase the first time, is told why, and gets a recovery code', async () => {
    const { page, faults, close } = await come('dora');
    await seen(page, 'Choose a drive passphrase');
    await seen(page, 'It does not have the key to your files');
    assert.equal(new URL(page.url()).search, '', 'code and state are out of the address');
    await page.type('#passphrase', 'password1234');
    await page.type('#passphrase-again', 'password1234');
    await press(page, 'Make my account');
    await seen(page, 'too easy to guess', '#arrive-failure');
    for (const field of ['#passphrase', '#passphrase-again']) {
      await page.$eval(field, (input) => input.select());
      await page.type(field, PASSPHRASE);
    }
    await press(page, 'Make my account');
    await seen(page, 'Welcome, dora');
    assert.match(await page.$eval('.copy pre', (box) => box.textContent), /^(\w{5}-){6}\w{5}$/);
    await press(page, 'Continue');
    await page.waitForSelector('main#main');
    assert.equal((await me(page)).name, 'dora');
    assert.deepEqual(faults, []);
    await close();
  });

  test('is asked for it the next time, and a wrong one is refused', async () => {
    const { page, close } = await come('dora');
    await enterPassphrase(page, 'not this one at all');
    await seen(page, 'wrong', '#arrive-failure');
    await page.$eval('#passphrase', (input) => input.select());
    await enterPassphrase(page);
    await page.waitForSelector('main#main');
    assert.equal((await me(page)).name, 'dora');
    await close();
  });

  test('is a member by group as soon as somebody with the key was there, and no longer when the group is left', async () => {
    const spaces = async (login) => {
      const { page, close } = await come(login);
      await enterPassphrase(page);
      await page.waitForSelector('main#main');
      const found = (await me(page)).spaces.map(({ name, role }) => `${name} ${role}`);
      await close();
      return found;
    };
    const { page, close } = await open(browser, drive.url);
    await signIn(page, drive);
    await close();
    assert.deepEqual(await spaces('dora'), ['dora owner', 'results editor']);
    const { people } = await import('./lib/provider.mjs');
    people.dora.groups = ['staff'];
    assert.deepEqual(await spaces('dora'), ['dora owner']);
  });

  test('is asked for a passkey after the passphrase, where it is the second factor', { skip: kind !== 'chrome' }, async () => {
    const { page, faults, close } = await come('dora');
    await enterPassphrase(page);
    await page.waitForSelector('main#main');
    const cdp = await page.createCDPSession();
    await cdp.send('WebAuthn.enable');
    const options = { protocol: 'ctap2', ctap2Version: 'ctap2_1', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true, hasPrf: false };
    await cdp.send('WebAuthn.addVirtualAuthenticator', { options });
    await page.goto(`${drive.url}/account/security`);
    await page.waitForSelector('#passkey-label');
    await page.type('#passkey-label', 'Stick');
    await press(page, 'Add a passkey');
    await page.waitForSelector('dialog input[type=password]');
    await page.type('dialog input[type=password]', PASSPHRASE);
    await press(page, 'Continue', 'dialog button');
    await seen(page, 'Stick', '.card li');
    await press(page, 'Account dora');
    await press(page, 'Sign out', '[role=menuitem]');
    await press(page, 'Sign in with The lab');
    // The provider may still know who it is.
    await page.waitForSelector('#passphrase, input[name=login]');
    if (await page.$('input[name=login]')) await atProvider(page, 'dora');
    await enterPassphrase(page);
    await seen(page, 'Use a passkey');
    await look(page, 'arrive-second');
    await press(page, 'Use a passkey');
    await page.waitForSelector('main#main');
    assert.equal((await me(page)).name, 'dora');
    await page.goto(`${drive.url}/account/security`);
    await press(page, 'Remove Stick');
    await page.waitForSelector('dialog input[type=password]');
    await page.type('dialog input[type=password]', PASSPHRASE);
    await press(page, 'Remove', 'dialog button');
    await gone(page, 'Stick', '.card li');
    assert.deepEqual(faults, []);
    await close();
  });

  test('is not let in who is on no list', async () => {
    const { page, close } = await come('fred');
    await seen(page, '@else.example may sign in at The lab, but not here', '[role=alert]');
    await close();
  });
});

describe('signing out', () => {
  const signOut = async (page) => {
    await page.waitForSelector('main#main');
    await press(page, 'Account dora');
    await press(page, 'Sign out', '[role=menuitem]');
  };
  /** Whether the provider asks anew who somebody is. */
  const isForgotten = async (page, name) => {
    await page.waitForFunction((url) => location.href.startsWith(url), {}, drive.url);
    await page.waitForSelector('#password');
    assert.equal(new URL(page.url()).pathname, '/');
    await press(page, `Sign in with ${name}`);
    await page.waitForSelector('input[name=login]');
  };

  test('offers to sign out at the provider as well, and it is done there', async () => {
    const { page, faults, close } = await come('dora');
    await enterPassphrase(page);
    await signOut(page);
    await seen(page, 'At The lab you are still signed in');
    await press(page, 'Sign out at The lab');
    await leaveProvider(page);
    await isForgotten(page, 'The lab');
    assert.deepEqual(faults, []);
    await close();
  });

  test('goes to the provider at once where the operator wants it', async () => {
    const name = 'The lab for a moment';
    const { page, faults, close } = await come('dora', name);
    await enterPassphrase(page);
    await signOut(page);
    await leaveProvider(page);
    await isForgotten(page, name);
    assert.deepEqual(faults, []);
    await close();
  });

  test('offers nothing to who came by name and password', async () => {
    const { page, close } = await open(browser, drive.url);
    await signIn(page, drive);
    await press(page, 'Account ana');
    await press(page, 'Sign out', '[role=menuitem]');
    await page.waitForSelector('#password');
    assert.equal(await page.$('.left'), null);
    await close();
  });
});

test('an account that was there before is linked by its owner, and by nobody else', async () => {
  const other = await come('ana');
  await seen(other.page, 'not linked with this identity', '[role=alert]');
  await other.close();
  const { page, faults, close } = await open(browser, drive.url);
  await signIn(page, drive);
  await page.goto(`${drive.url}/account/security`);
  await press(page, 'Link The lab');
  await page.waitForSelector('dialog input[type=password]');
  await page.type('dialog input[type=password]', drive.password);
  await press(page, 'Continue', 'dialog button');
  await atProvider(page, 'ana');
  await seen(page, 'ana@lab.example', '.card li');
  assert.deepEqual(faults, []);
  await close();
  const again = await come('ana');
  await enterPassphrase(again.page, drive.password);
  await again.page.waitForSelector('main#main');
  assert.equal((await me(again.page)).name, 'ana');
  await again.page.goto(`${drive.url}/account/security`);
  await press(again.page, 'Unlink ana@lab.example');
  await press(again.page, 'Unlink', 'dialog button');
  await seen(again.page, 'Nothing is linked yet');
  await again.close();
});

describe('an answer is refused', () => {
  /** A window whose page sends and hears something else than it should: `changes` go into what is sent to an address of the API or comes from it. */
  async function tampered(path, changes, pattern = '', replacement = '') {
    const { page, close } = await open(browser, drive.url);
    await page.evaluateOnNewDocument(
      (where, into, from, to) => {
        const real = window.fetch;
        window.fetch = async (at, call) => {
          if (!String(at).endsWith(where)) return real(at, call);
          window.sent = call.body;
          const response = await real(at, { ...call, body: JSON.stringify({ ...JSON.parse(call.body), ...into }) });
          if (from === '') return response;
          return new Response((await response.text()).replace(new RegExp(from), to), { status: response.status, headers: response.headers });
        };
      },
      path,
      changes,
      pattern,
      replacement,
    );
    await page.reload();
    await page.waitForSelector('#password');
    await press(page, 'Sign in with The lab');
    await atProvider(page, 'dora');
    return { page, close };
  }

  /** What somebody is told whose browser sent something else. */
  async function changed(changes) {
    const { page, close } = await tampered('/session/provider/answer', changes);
    await seen(page, 'You are not signed in');
    const text = await page.$eval('[role=alert]', (alert) => alert.textContent);
    await close();
    return text;
  }

  test('with another state', async () => assert.match(await changed({ state: 'another' }), /another request/));
  test('with a code nobody gave', async () => assert.match(await changed({ code: 'made-up' }), /refused a call/));
  test('of another issuer', async () => assert.match(await changed({ issuer: 'https://evil.example' }), /Another provider/));

  test('with the token of another request', async () => {
    const { page, close } = await tampered('/session/provider', {}, 'nonce=[^&]+', 'nonce=another');
    await seen(page, 'its token answers another request', '[role=alert]');
    await close();
  });

  test('in a browser that did not begin it, and a second time', async () => {
    const { page, close } = await tampered('/session/provider/answer', {});
    await page.waitForSelector('#passphrase');
    const answer = await page.evaluate(() => window.sent);
    const send = (where) =>
      where.evaluate(async (body) => {
        const headers = { 'Content-Type': 'application/json', 'X-Requested-With': 'holdfast' };
        return (await fetch('/api/v1/session/provider/answer', { method: 'POST', body, headers })).status;
      }, answer);
    assert.equal(await send(page), 409);
    const other = await open(browser, drive.url);
    assert.equal(await send(other.page), 409);
    await other.close();
    await close();
  });

  test('if the person turns back at the provider', async () => {
    const { page, close } = await open(browser, `${drive.url}/signin?error=access_denied&state=x`);
    await seen(page, 'you turned back there', '[role=alert]');
    await close();
  });
});

test('new keys of the provider are fetched', async () => {
  await provider.rotate('second');
  // Keys are asked for again no more often than this.
  await new Promise((resolve) => setTimeout(resolve, 10_500));
  const { page, close } = await come('dora');
  await enterPassphrase(page);
  await page.waitForSelector('main#main');
  await close();
});

test('a provider that is away is told of, and the password still works', async () => {
  const { page, close } = await open(browser, drive.url);
  await page.waitForSelector('#password');
  const leaving = await leave();
  await atProvider(leaving.page, 'dora').catch(() => {});
  await leaving.close();
  await provider.stop();
  // What it publishes is still known: the browser is sent there, and finds nobody. Coming back with a code finds nobody either.
  const answer = await page.evaluate(async () => {
    const headers = { 'Content-Type': 'application/json', 'X-Requested-With': 'holdfast' };
    const post = async (path, body) => {
      const response = await fetch(`/api/v1/session/provider${path}`, { method: 'POST', body: JSON.stringify(body), headers });
      return { status: response.status, body: await response.json() };
    };
    const begun = await post('', { provider: 'lab' });
    const state = new URL(begun.body.url).searchParams.get('state');
    return post('/answer', { code: 'x', state });
  });
  assert.equal(answer.status, 503);
  assert.match(answer.body.detail, /the provider cannot be asked/);
  await signIn(page, drive);
  await close();
  await provider.start('third');
});
