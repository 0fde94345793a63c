/**
 * What a person waits for, measured in Chromium against the built program beside curl: `make bench-web`.
 *
 *   ROUNDS   uploads of each side (3)
 *   MIB      size of the uploaded file (1024)
 *   ENTRIES  files of the large folder (100,000)
 *   ONLY     uploads, small or folder: that part alone
 *
 * Both sides send an incompressible file to the same server by turns, who begins changes from round to round, and Chromium also sends it to a server that
 * throws it away: more than that no drive could get from it on this machine. Each time every block of the file is a new one, since a drive
 * keeps equal blocks once; then both send once more what is there already, when the server has nothing to seal and to write and
 * is as fast as it can be. `ways.mjs` compares other ways from a file to a server. Memory of the tab is what its process has
 * for itself (private pages) and what its scripts hold. Prints every figure.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes, randomFillSync } from 'node:crypto';
import { createServer } from 'node:http';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { launch, open, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';

const number = (name, fallback) => Number(process.env[name] ?? fallback);
const ROUNDS = number('ROUNDS', 3);
const MIB = number('MIB', 1024);
const ENTRIES = number('ENTRIES', 100_000);
const SMALL_FILES = 2_000;
const MEMORY_MS = 500;
const UPLOAD_MS = 600_000;
const PICK = '[data-testid=pick-files]';
const median = (all) => [...all].sort((a, b) => a - b)[Math.floor(all.length / 2)];
const shown = (all) => all.map((value) => Math.round(value)).join(' ');

const BLOCK_BYTES = 1 << 20;

function makeFile(path, mib) {
  const file = openSync(path, 'w');
  const piece = Buffer.allocUnsafe(BLOCK_BYTES);
  for (let at = 0; at < mib; at += 1) writeSync(file, randomFillSync(piece));
  closeSync(file);
}

/** Makes each of its blocks one that nobody has seen. */
function renew(path) {
  const file = openSync(path, 'r+');
  for (let at = 0; at < MIB; at += 1) writeSync(file, randomBytes(16), 0, 16, at * BLOCK_BYTES);
  closeSync(file);
}

/** MiB of the process of the pages that has most for itself. */
async function ownMemory(browser) {
  const whole = await browser.target().createCDPSession();
  const { processInfo } = await whole.send('SystemInfo.getProcessInfo');
  await whole.detach();
  const own = processInfo
    .filter(({ type }) => type === 'renderer')
    .map(({ id }) => {
      const sums = readFileSync(`/proc/${id}/smaps_rollup`, 'utf8');
      return [...sums.matchAll(/^Private_\w+:\s+(\d+) kB$/gm)].reduce((sum, [, kib]) => sum + Number(kib), 0) / 1024;
    });
  return Math.max(...own);
}

/** What this page's process has, and its scripts, after a collection. */
async function memory(browser, page) {
  const session = await page.createCDPSession();
  await session.send('HeapProfiler.collectGarbage');
  await session.detach();
  const { JSHeapUsedSize } = await page.metrics();
  return { process: await ownMemory(browser), scripts: JSHeapUsedSize / (1 << 20) };
}

/** A page of a server that throws away what it is sent; answers how fast Chromium sends it `file`, in MiB/s, as the drive's page sends it. */
async function nowhere(browser, file) {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'text/html');
    request.resume().on('end', () => response.end('<input type=file>'));
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  const address = `http://127.0.0.1:${server.address().port}/`;
  const page = await browser.newPage();
  const rate = async () => {
    await page.bringToFront();
    await page.goto(address);
    await (await page.$('input')).uploadFile(file);
    const took = await page.evaluate(
      () =>
        new Promise((done, failed) => {
          const begun = performance.now();
          const call = new XMLHttpRequest();
          call.open('PUT', '/');
          call.onload = () => done(performance.now() - begun);
          call.onerror = failed;
          call.send(document.querySelector('input').files[0]);
        }),
    );
    return (MIB / took) * 1000;
  };
  return { rate, close: () => page.close().then(() => server.close()) };
}

function byCurl(drive, file, folder) {
  const begun = performance.now();
  const to = `${drive.url}/dav/${drive.admin}/${encodeURIComponent(folder)}/by-curl`;
  const curl = spawnSync('curl', ['-sS', '--fail', '-o', '/dev/null', '-u', `${drive.admin}:${drive.password}`, '-T', file, to]);
  if (curl.status !== 0) throw new Error(String(curl.stderr));
  return (MIB / (performance.now() - begun)) * 1000;
}

async function byPage(drive, browser, page, file, folder, watch) {
  await page.bringToFront();
  await page.goto(`${drive.url}/files/${drive.admin}/${encodeURIComponent(folder)}`);
  const input = await page.waitForSelector(PICK);
  const name = file.split('/').at(-1);
  const sent = performance.now();
  const watching = setInterval(() => void ownMemory(browser).then(watch, () => {}), MEMORY_MS);
  await input.uploadFile(file);
  await page.waitForSelector(`[data-name="${name}"]`, { timeout: UPLOAD_MS });
  clearInterval(watching);
  return (MIB / (performance.now() - sent)) * 1000;
}

async function uploads(drive, browser, page, file) {
  const rates = { browser: [], curl: [], nowhere: [], browserAgain: [], curlAgain: [] };
  const sink = await nowhere(browser, file);
  let most = 0;
  const sides = [
    (folder, again) => rates[again ? 'curlAgain' : 'curl'].push(byCurl(drive, file, folder)),
    async (folder, again) => rates[again ? 'browserAgain' : 'browser'].push(await byPage(drive, browser, page, file, folder, (now) => (most = Math.max(most, now)))),
  ];
  for (let round = 0; round < ROUNDS; round += 1) {
    await drive.folder(`${drive.admin}/new ${round}`);
    await drive.folder(`${drive.admin}/again ${round}`);
    for (const at of [round, round + 1]) {
      renew(file);
      await sides[at % 2](`new ${round}`, false);
    }
    for (const at of [round, round + 1]) await sides[at % 2](`again ${round}`, true);
    rates.nowhere.push(await sink.rate());
  }
  await sink.close();
  const ratio = (one, other) => (median(one) / median(other)).toFixed(2);
  console.log(`upload of ${MIB} MiB that are new: Chromium ${shown(rates.browser)} MiB/s, curl ${shown(rates.curl)}; medians' ratio ${ratio(rates.browser, rates.curl)}`);
  console.log(`that are there already: Chromium ${shown(rates.browserAgain)} MiB/s, curl ${shown(rates.curlAgain)}; medians' ratio ${ratio(rates.browserAgain, rates.curlAgain)}`);
  console.log(`Chromium to a server that throws it away ${shown(rates.nowhere)} MiB/s; the tab had ${Math.round(most)} MiB at most`);
}

async function largeFolder(drive, browser, page) {
  await drive.folder(`${drive.admin}/many`);
  let next = 0;
  const put = async () => {
    while (next < ENTRIES) {
      const at = next;
      next += 1;
      await drive.put(`${drive.admin}/many/file ${String(at).padStart(6, '0')}.txt`, 'x');
    }
  };
  await Promise.all(Array.from({ length: 16 }, put));
  const first = [];
  const all = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await page.goto(`${drive.url}/files/${drive.admin}`);
    await page.waitForSelector('[data-name="many"]');
    const begun = performance.now();
    await page.goto(`${drive.url}/files/${drive.admin}/many`);
    await page.waitForSelector('[data-name="file 000000.txt"]');
    first.push(performance.now() - begun);
    await page.waitForFunction((n) => document.querySelector('[role=grid]').ariaRowCount === String(n + 1), {}, ENTRIES);
    all.push(performance.now() - begun);
  }
  const held = await memory(browser, page);
  console.log(`folder of ${ENTRIES} files: first rows after ${shown(first)} ms, all after ${shown(all)} ms; the tab has ${Math.round(held.process)} MiB, ${Math.round(held.scripts)} of them its scripts'`);
}

async function smallFiles(drive, page, folder) {
  const paths = Array.from({ length: SMALL_FILES }, (_, at) => join(folder, `small ${at}`));
  for (const path of paths) writeFileSync(path, randomFillSync(Buffer.allocUnsafe(4096)));
  const rates = [];
  for (let round = 1; round <= ROUNDS; round += 1) {
    await drive.folder(`${drive.admin}/small ${round}`);
    await page.goto(`${drive.url}/files/${drive.admin}/small%20${round}`);
    const input = await page.waitForSelector(PICK);
    const begun = performance.now();
    await input.uploadFile(...paths);
    await page.waitForFunction(() => document.querySelector('.panel')?.textContent.includes('all done'), { timeout: UPLOAD_MS });
    rates.push((SMALL_FILES / (performance.now() - begun)) * 1000);
  }
  console.log(`${SMALL_FILES} files of 4 KiB at once: ${shown(rates)} files/s`);
}

const work = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));
const drive = await startDrive();
// What a person has is no browser whose every request is told to a tool.
const browser = await launch({ networkEnabled: false });
try {
  const file = join(work, 'random.bin');
  makeFile(file, MIB);
  const { page } = await open(browser, drive.url);
  await signIn(page, drive);
  const asked = (part) => [undefined, '', part].includes(process.env.ONLY);
  if (asked('uploads')) await uploads(drive, browser, page, file);
  if (asked('small')) await smallFiles(drive, page, work);
  if (asked('folder')) await largeFolder(drive, browser, page);
} finally {
  await browser.close();
  await drive.stop();
  rmSync(work, { recursive: true, force: true });
}
