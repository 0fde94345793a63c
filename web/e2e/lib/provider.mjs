/** A real provider of OpenID Connect on this machine: the package oidc-provider, certified, with its own pages for signing in. */
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

/** Who there is, by the login that is typed. */
export const people = {
  dora: { groups: ['staff', 'lab'], email: 'dora@lab.example' },
  emil: { groups: ['staff'], email: 'emil@lab.example' },
  fred: { groups: ['guests'], email: 'fred@else.example' },
  ana: { groups: ['staff'], email: 'ana@lab.example' },
};

function jwk(kid) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' };
}

export async function startProvider(port, redirect) {
  const issuer = `http://localhost:${port}`;
  let server;
  /** Makes the provider anew, with keys of its own: those of before are gone. */
  async function start(kid) {
    const provider = new Provider(issuer, {
      clients: [{ client_id: 'drive', client_secret: 'a secret of the drive', redirect_uris: [redirect], post_logout_redirect_uris: [redirect] }],
      jwks: { keys: [jwk(kid)] },
      cookies: { keys: ['for tests'] },
      pkce: { required: () => true },
      claims: { openid: ['sub'], profile: ['preferred_username', 'name'], email: ['email', 'email_verified'], groups: ['groups'] },
      scopes: ['openid', 'profile', 'email', 'groups'],
      findAccount: (_, id) => ({
        accountId: id,
        claims: () => ({ sub: `subject-of-${id}`, preferred_username: id, name: id, email: people[id]?.email, email_verified: true, groups: people[id]?.groups ?? [] }),
      }),
    });
    server = createServer(provider.callback());
    await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  }
  async function stop() {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  await start('first');
  return {
    issuer,
    stop,
    start,
    async rotate(kid) {
      await stop();
      await start(kid);
    },
  };
}

/** Says at the provider's own page that one means to sign out there. */
export async function leaveProvider(page) {
  await page.waitForSelector('button[name=logout]');
  await Promise.all([page.waitForNavigation(), page.click('button[name=logout]')]);
}

/** Signs in at the provider's own pages, and agrees to what the drive asks for. */
export async function atProvider(page, login) {
  await page.waitForSelector('input[name=login]');
  await page.type('input[name=login]', login);
  await page.type('input[name=password]', 'any');
  await Promise.all([page.waitForNavigation(), page.click('button[type=submit]')]);
  await page.waitForSelector('button[type=submit]');
  await page.evaluate(() => document.querySelector('button[type=submit]').click());
}
