/**
 * What stands between a browser and a drive, and can fail as it does: a balancer that holds a body back half way, breaks connections off,
 * takes none, or answers itself. It works for every browser, and nothing of it takes time: what is held is held until it is let go.
 */
import { createServer, request } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { freePort } from './drive.mjs';

export async function between(drive) {
  const port = await freePort();
  const upstream = new URL(drive.url);
  let room = Infinity;
  let more = () => {};
  let opened = new Promise((resolve) => (more = resolve));
  let answer = () => null;
  let sent = 0;
  let refused = 0;
  let parts = 0;

  /** The bytes of a part, as far as there is room. */
  async function* counted(part) {
    for await (const piece of part) {
      for (let at = 0; at < piece.length; ) {
        if (room <= 0) await opened;
        const bytes = Math.min(room, piece.length - at);
        yield piece.subarray(at, at + bytes);
        at += bytes;
        room -= bytes;
        sent += bytes;
      }
    }
  }

  const server = createServer((incoming, outgoing) => {
    const own = answer(incoming);
    if (own) {
      refused += 1;
      incoming.resume();
      outgoing.writeHead(own.status, { 'content-type': 'text/plain', ...own.headers }).end('not now\n');
      return;
    }
    const { method, url, headers } = incoming;
    const call = request({ host: upstream.hostname, port: upstream.port, method, path: url, headers, agent: false });
    call.on('response', (response) => {
      outgoing.writeHead(response.statusCode, response.headers);
      response.pipe(outgoing);
      response.on('error', () => outgoing.destroy());
    });
    call.on('error', () => outgoing.destroy());
    const isPart = method === 'PATCH';
    parts += isPart;
    outgoing.on('close', () => {
      parts -= isPart;
      call.destroy();
    });
    (isPart ? pipeline(incoming, counted, call) : pipeline(incoming, call)).catch(() => call.destroy());
  });
  const listen = () => new Promise((ready) => server.listen(port, '127.0.0.1', ready));
  const release = () => {
    room = Infinity;
    more();
    opened = new Promise((resolve) => (more = resolve));
  };
  await listen();
  return {
    url: `http://127.0.0.1:${port}`,
    /** Bytes of parts of uploads that went through. */
    get sent() { return sent; },
    /** Parts of uploads that are under way. */
    get parts() { return parts; },
    /** Requests that were answered here. */
    get refused() { return refused; },
    /** Lets so many bytes of parts of uploads through, and no more until `release`. */
    hold(bytes) {
      room = bytes;
    },
    release,
    /** Breaks off every connection. */
    cut() {
      server.closeAllConnections();
      release();
    },
    /** Takes no connections until `listen`. */
    refuse() {
      server.close();
      this.cut();
    },
    listen,
    /** Answers by itself what `which` says; nothing, if it says null. */
    answering(which) {
      answer = which ?? (() => null);
    },
    stop() {
      server.close();
      this.cut();
    },
  };
}
