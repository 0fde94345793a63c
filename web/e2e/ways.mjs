/**
 * Which way from a picked file to a server is the fastest in Chromium, and what each costs: `node web/e2e/ways.mjs`. Needs curl and openssl.
 *
 *   ROUNDS  turns of all ways (3)
 *   MIB     size of the file (512)
 *   WAYS    names of those to try, separated by semicolons (all)
 *   ARGS    more arguments for Chromium
 *
 * The server throws everything away. Beside the speed of each round stands the processor time of all of Chromium's processes for a GiB, which depends
 * less on what else the machine does: with it goes what is left of the machine for a server on it.
 */
import { spawn } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { launch } from './lib/browser.mjs';
import { plainSink, sealedSink } from './lib/sinks.mjs';

const ROUNDS = Number(process.env.ROUNDS ?? 3);
const MIB = Number(process.env.MIB ?? 512);
const TICKS_PER_S = 100;

/** Run in the page: `file` is the picked one, `from` where its server is. */
const WAYS = {
  'XMLHttpRequest, File': ({ file, put }) => put(file),
  'XMLHttpRequest, FormData with the File': ({ file, put }) => {
    const form = new FormData();
    form.append('file', file);
    return put(form);
  },
  'XMLHttpRequest, slice of all of it': ({ file, put }) => put(file.slice(0)),
  'fetch, File': ({ file }) => fetch('/', { method: 'PUT', body: file }),
  'fetch, 4 slices at once': ({ file }) => Promise.all([0, 1, 2, 3].map((n) => fetch('/', { method: 'PUT', body: file.slice((n * file.size) / 4, ((n + 1) * file.size) / 4) }))),
  'pieces of 8 MiB, the next read meanwhile': ({ pieces }) => pieces(8, 0, 1),
  'pieces of 32 MiB, the next read meanwhile': ({ pieces }) => pieces(32, 0, 1),
  'pieces of 64 MiB, the next read meanwhile': ({ pieces }) => pieces(64, 0, 1),
  'pieces of 8 MiB on 4 connections': ({ pieces }) => Promise.all([0, 1, 2, 3].map((n) => pieces(8, n, 4))),
  'one worker, FileReaderSync, 8 MiB': ({ workers }) => workers(1),
  'two workers, FileReaderSync, 8 MiB': ({ workers }) => workers(2),
  'four workers, FileReaderSync, 8 MiB': ({ workers }) => workers(4),
  'WebSocket, pieces of 1 MiB': ({ file, webSocket }) => webSocket(file),
  'fetch, ReadableStream, HTTP/2 over TLS': ({ file }) => fetch('/', { method: 'POST', body: file.stream(), duplex: 'half' }),
  'only reading, 8 MiB': async ({ file, piecesOf }) => {
    for (const piece of piecesOf(8, 0, 1)) await piece().arrayBuffer();
    return file;
  },
  'only sending 8 MiB of memory again and again': async ({ put, piecesOf }) => {
    const memory = new Uint8Array(8 << 20);
    for (const piece of piecesOf(8, 0, 1)) await put(piece && memory);
  },
};
const SEALED = 'fetch, ReadableStream, HTTP/2 over TLS';

function makeFile(path) {
  const file = openSync(path, 'w');
  const piece = Buffer.allocUnsafe(1 << 20);
  for (let at = 0; at < MIB; at += 1) writeSync(file, randomFillSync(piece));
  closeSync(file);
}

/** Seconds of processor time of a process and all that it started. */
function processorTime(root) {
  const all = new Map();
  for (const id of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const text = readFileSync(`/proc/${id}/stat`, 'utf8');
      const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
      all.set(id, { parent: fields[1], seconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S });
    } catch {
      // It ended meanwhile.
    }
  }
  const within = (id) => id === String(root) || (all.has(id) && within(all.get(id).parent));
  return [...all].filter(([id]) => within(id)).reduce((sum, [, { seconds }]) => sum + seconds, 0);
}

/** Puts what the ways share into a page. */
function prepare() {
  const file = document.querySelector('input').files[0];
  const put = (body) =>
    new Promise((done, failed) => {
      const call = new XMLHttpRequest();
      call.open('PUT', '/');
      call.onload = done;
      call.onerror = () => failed(new Error('not sent'));
      call.send(body);
    });
  /** Every `of`-th piece, from the `first` on. */
  const piecesOf = (mib, first, of) => {
    const step = mib << 20;
    return Array.from({ length: Math.ceil(file.size / step) }, (_, n) => n).filter((n) => n % of === first).map((n) => () => file.slice(n * step, (n + 1) * step));
  };
  async function pieces(mib, first, of) {
    const list = piecesOf(mib, first, of);
    let next = list[0]().arrayBuffer();
    let sending = null;
    for (let n = 0; n < list.length; n += 1) {
      const body = await next;
      next = list[n + 1]?.().arrayBuffer();
      await sending;
      sending = put(body);
    }
    await sending;
  }
  const source = `onmessage = async ({ data: { file, first, of, url } }) => {
    const step = 8 << 20;
    let sending = null;
    for (let at = first * step; at < file.size; at += of * step) {
      const body = new FileReaderSync().readAsArrayBuffer(file.slice(at, at + step));
      await sending;
      sending = fetch(url, { method: 'PUT', body });
    }
    await sending;
    postMessage(null);
  };`;
  const workers = (of) =>
    Promise.all(
      Array.from({ length: of }, (_, first) => new Promise((done, failed) => {
        const worker = new Worker(URL.createObjectURL(new Blob([source])));
        worker.onmessage = () => (worker.terminate(), done());
        worker.onerror = ({ message }) => failed(new Error(message));
        worker.postMessage({ file, first, of, url: location.href });
      })),
    );
  async function webSocket() {
    const socket = new WebSocket(location.href.replace('http', 'ws'));
    await new Promise((open) => (socket.onopen = open));
    const drained = async (bytes) => {
      while (socket.bufferedAmount > bytes) await new Promise((turn) => setTimeout(turn, 0));
    };
    for (const piece of piecesOf(1, 0, 1)) {
      socket.send(await piece().arrayBuffer());
      await drained(8 << 20);
    }
    await drained(0);
    socket.close();
  }
  window.shared = { file, put, piecesOf, pieces, workers, webSocket };
}

async function measure(browser, page, way) {
  const root = browser.process().pid;
  const before = processorTime(root);
  const ms = await page.evaluate(`(async () => { const begun = performance.now(); await (${WAYS[way]})(window.shared); return performance.now() - begun; })()`);
  return { rate: (MIB / ms) * 1000, cost: ((processorTime(root) - before) * 1024) / MIB };
}

const folder = mkdtempSync(join(tmpdir(), 'holdfast-ways-'));
const file = join(folder, 'random.bin');
makeFile(file);
const sinks = { plain: await plainSink(), sealed: await sealedSink() };
// Without the tools' view of the network, which has the bodies handed to it.
const browser = await launch({ networkEnabled: false, acceptInsecureCerts: true, args: (process.env.ARGS ?? '').split(' ').filter(Boolean) });
try {
  const page = await browser.newPage();
  const names = process.env.WAYS?.split(';').map((name) => Object.keys(WAYS).find((way) => way.startsWith(name.trim()))) ?? Object.keys(WAYS);
  const found = new Map([['curl', []], ...names.map((name) => [name, []])]);
  for (let round = 0; round < ROUNDS; round += 1) {
    const begun = performance.now();
    const [code] = await once(spawn('curl', ['-sS', '--fail', '-o', '/dev/null', '-T', file, `${sinks.plain.url}x`], { stdio: 'inherit' }), 'close');
    if (code !== 0) throw new Error('curl failed');
    found.get('curl').push({ rate: (MIB / (performance.now() - begun)) * 1000 });
    for (const name of names) {
      await page.goto((name === SEALED ? sinks.sealed : sinks.plain).url);
      await (await page.$('input')).uploadFile(file);
      await page.evaluate(prepare);
      found.get(name).push(await measure(browser, page, name));
    }
  }
  console.log('way | MiB/s | processor seconds of the browser for a GiB');
  for (const [name, all] of found) console.log(`${name} | ${all.map(({ rate }) => Math.round(rate)).join(' ')} | ${all.map(({ cost }) => cost?.toFixed(1) ?? '').join(' ')}`);
} finally {
  await browser.close();
  sinks.plain.close();
  sinks.sealed.close();
  rmSync(folder, { recursive: true, force: true });
}
