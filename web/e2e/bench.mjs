/**
 * What a person waits for, measured in Chromium against the built program beside curl: `make bench-web`.
 *
 *   ROUNDS   uploads of each side (3)
 *   MIB      size of the uploaded file (1024)
 *   ENTRIES  files of the large folder (100,000)
 *
 * Both sides send the same incompressible file to the same server by turns, and Chromium also sends it to a server that throws it away, in one request and in
 * several at once: more than that no drive could get from it on this machine. Memory of the tab is what its process has for itself
 * (private pages) and what its scripts hold. Prints every figure.
 */
import { spawnSync } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
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
/** Requests of one page at once, of which more do not make Chromium faster. */
const TOGETHER = 4;
const UPLOAD_MS = 600_000;
const PICK = '[data-testid=pick-files]';
const median = (all) => [...all].sort((a, b) => a - b)[Math.floor(all.length / 2)];
const shown = (all) => all.map((value) => Math.round(value)).join(' ');

function makeFile(path, mib) {
  const file = openSync(path, 'w');
  const piece = Buffer.allocUnsafe(1 << 20);
  for (let at = 0; at < mib; at += 1) writeSync(file, randomFillSync(piece));
  closeSync(file);
}

/** Bytes that only this page's process has, and those of its scripts, after a collection. */
async function memory(browser, page) {
  const session = await page.createCDPSession();
  await session.send('HeapProfiler.collectGarbage');
  await session.detach();
  const { JSHeapUsedSize } = await page.metrics();
  const whole = await browser.target().createCDPSession();
  const { processInfo } = await whole.send('SystemInfo.getProcessInfo');
  await whole.detach();
  const own = processInfo
    .filter(({ type }) => type === 'renderer')
    .map(({ id }) => {
      const sums = readFileSync(`/proc/${id}/smaps_rollup`, 'utf8');
      return [...sums.matchAll(/^Private_\w+:\s+(\d+) kB$/gm)].reduce((sum, [, kib]) => sum + Number(kib), 0) / 1024;
    });
  return { process: Math.max(...own), scripts: JSHeapUsedSize / (1 << 20) };
}

/** A page of a server that throws away what it is sent; answers how fast Chromium sends it `file`, in MiB/s. */
async function nowhere(browser, file) {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'text/html');
    request.resume().on('end', () => response.end('<input type=file>'));
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  const input = await page.$('input');
  await input.uploadFile(file);
  const took = (requests) =>
    page.evaluate(async (parts) => {
      const begun = performance.now();
      const file = document.querySelector('input').files[0];
      const bytes = file.size / parts;
      const send = (_, at) => fetch('/', { method: 'PUT', body: file.slice(at * bytes, (at + 1) * bytes) });
      await Promise.all(Array.from({ length: parts }, send));
      return performance.now() - begun;
    }, requests);
  const close = () => page.close().then(() => server.close());
  return { rate: async (requests) => (MIB / (await took(requests))) * 1000, close };
}

async function uploads(drive, browser, page, file) {
  const rates = { browser: [], curl: [], nowhere: [], together: [] };
  const sink = await nowhere(browser, file);
  let most = 0;
  for (let round = 1; round <= ROUNDS; round += 1) {
    await drive.folder(`${drive.admin}/round ${round}`);
    const begun = performance.now();
    const curl = spawnSync('curl', ['-sS', '--fail', '-o', '/dev/null', '-u', `${drive.admin}:${drive.password}`, '-T', file, `${drive.url}/dav/${drive.admin}/round%20${round}/by-curl`]);
    if (curl.status !== 0) throw new Error(String(curl.stderr));
    rates.curl.push((MIB / (performance.now() - begun)) * 1000);
    rates.nowhere.push(await sink.rate(1));
    rates.together.push(await sink.rate(TOGETHER));
    await page.bringToFront();
    await page.goto(`${drive.url}/files/${drive.admin}/round%20${round}`);
    await page.waitForSelector('[data-name="by-curl"]');
    const input = await page.waitForSelector(PICK);
    const name = file.split('/').at(-1);
    const sent = performance.now();
    await input.uploadFile(file);
    const watching = setInterval(() => void memory(browser, page).then((now) => (most = Math.max(most, now.process)), () => {}), 1_000);
    await page.waitForSelector(`[data-name="${name}"]`, { timeout: UPLOAD_MS });
    rates.browser.push((MIB / (performance.now() - sent)) * 1000);
    clearInterval(watching);
  }
  await sink.close();
  const to = (other) => (median(rates.browser) / median(other)).toFixed(2);
  console.log(`upload of ${MIB} MiB: Chromium ${shown(rates.browser)} MiB/s, curl ${shown(rates.curl)}, Chromium to a server that throws it away ${shown(rates.nowhere)}, and with ${TOGETHER} requests at once ${shown(rates.together)}; medians' ratios ${to(rates.curl)}, ${to(rates.nowhere)} and ${to(rates.together)}; the tab had ${Math.round(most)} MiB at most`);
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
const browser = await launch();
try {
  const file = join(work, 'random.bin');
  makeFile(file, MIB);
  const { page } = await open(browser, drive.url);
  await signIn(page, drive);
  await uploads(drive, browser, page, file);
  await smallFiles(drive, page, work);
  await largeFolder(drive, browser, page);
} finally {
  await browser.close();
  await drive.stop();
  rmSync(work, { recursive: true, force: true });
}
