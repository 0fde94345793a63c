/** A browser for tests: Chromium, or Firefox with BROWSER=firefox, and what tests do with it. */
import { existsSync } from 'node:fs';
import puppeteer from 'puppeteer-core';

const PATHS = {
  chrome: [process.env.CHROME_BIN, '/usr/bin/chromium', '/usr/bin/google-chrome'],
  firefox: [process.env.FIREFOX_BIN, '/usr/bin/firefox-esr', '/usr/bin/firefox'],
};
export const kind = process.env.BROWSER === 'firefox' ? 'firefox' : 'chrome';
const WAIT_MS = 60_000;

export async function launch({ args = [], ...more } = {}) {
  const executablePath = PATHS[kind].find((path) => path && existsSync(path));
  if (!executablePath) throw new Error(`no ${kind} here`);
  return puppeteer.launch({
    browser: kind,
    executablePath,
    headless: true,
    args: kind === 'chrome' ? ['--no-sandbox', '--lang=en', ...args] : args,
    extraPrefsFirefox: { 'intl.accept_languages': 'en', 'intl.locale.requested': 'en' },
    ...more,
  });
}

/** A page of its own profile, which fails the test on errors of scripts and on what the policy refused. */
export async function open(browser, url, { width = 1280, height = 800 } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  const faults = [];
  page.setDefaultTimeout(WAIT_MS);
  await page.setViewport({ width, height });
  // A raw file opened by its address has no icon, and may load none: the browser asks by itself.
  const note = (text) => text.includes('/favicon.ico') || faults.push(text);
  page.on('pageerror', (error) => note(String(error.stack ?? error)));
  page.on('console', (message) => {
    if (message.type() === 'error' && /Content.Security.Policy|violates/i.test(message.text())) note(message.text());
  });
  page.on('dialog', (dialog) => void dialog.accept());
  await page.goto(url);
  return { page, faults, close: () => context.close() };
}

export async function signIn(page, drive) {
  await page.waitForSelector('#password');
  await page.type('#name', drive.admin);
  await page.type('#password', drive.password);
  await page.click('form button[type=submit]');
  await page.waitForSelector('main#main');
}

/** Waits for a text to be somewhere on the page. */
export async function seen(page, text, selector = 'body') {
  await page.waitForFunction(
    (wanted, where) => [...document.querySelectorAll(where)].some((element) => element.textContent.includes(wanted)),
    {},
    text,
    selector,
  );
}

export async function gone(page, text, selector = 'body') {
  await page.waitForFunction(
    (wanted, where) => ![...document.querySelectorAll(where)].some((element) => element.textContent.includes(wanted)),
    {},
    text,
    selector,
  );
}

/** Clicks what a person would read the name of. */
export async function press(page, name, selector = 'button, a, [role=menuitem]') {
  const handle = await page.waitForFunction(
    (wanted, where) =>
      [...document.querySelectorAll(where)].find(
        (element) => (element.getAttribute('aria-label') ?? element.textContent).trim() === wanted && element.checkVisibility() && !element.disabled,
      ),
    {},
    name,
    selector,
  );
  await handle.evaluate((element) => element.click());
}

export const row = (name) => `[data-name="${CSS_escape(name)}"]`;
function CSS_escape(text) {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"');
}

/** The list has the keyboard. */
export async function focusList(page) {
  await page.waitForSelector('[role=grid]');
  await page.focus('[role=grid]');
}
