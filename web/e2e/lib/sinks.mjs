/** Servers that throw away what they are sent, as cheaply as Node can: what a browser sends them is limited by the browser. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createSecureServer } from 'node:http2';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PAGE = '<!doctype html><input type=file>';
/** Of RFC 6455, section 1.3. */
const WEBSOCKET = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/** HTTP/1.1 and WebSocket. */
export async function plainSink() {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    let head = Buffer.alloc(0);
    let left = 0;
    let isWebSocket = false;
    let answer = '';
    const begin = (piece) => {
      head = Buffer.concat([head, piece]);
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) return;
      const text = head.subarray(0, end).toString('latin1');
      const field = (name) => new RegExp(`^${name}: *(.*)$`, 'im').exec(text)?.[1].trim();
      const rest = head.subarray(end + 4);
      head = Buffer.alloc(0);
      const key = field('sec-websocket-key');
      if (key) {
        isWebSocket = true;
        const accept = createHash('sha1').update(key + WEBSOCKET).digest('base64');
        socket.write(`HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
        return;
      }
      const body = text.startsWith('GET') ? PAGE : '';
      answer = `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
      left = Number(field('content-length') ?? 0);
      if (/^expect:/im.test(text)) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
      take(rest);
    };
    const take = (piece) => {
      left -= piece.length;
      if (left <= 0) socket.write(answer);
    };
    socket.on('data', (piece) => {
      if (isWebSocket) return;
      if (left > 0) take(piece);
      else begin(piece);
    });
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

/** HTTP/2, with a certificate that nobody has signed: what a body that is a stream needs. */
export async function sealedSink() {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-sink-'));
  const [key, cert] = [join(folder, 'key'), join(folder, 'cert')];
  const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=localhost', '-keyout', key, '-out', cert]);
  if (made.status !== 0) throw new Error(String(made.stderr));
  const server = createSecureServer({ key: readFileSync(key), cert: readFileSync(cert), settings: { initialWindowSize: 8 << 20 } });
  rmSync(folder, { recursive: true });
  server.on('session', (session) => session.setLocalWindowSize(64 << 20));
  server.on('stream', (stream) => {
    stream.on('error', () => {});
    stream.resume().on('end', () => {
      stream.respond({ ':status': 200, 'content-type': 'text/html' });
      stream.end(PAGE);
    });
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  return { url: `https://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}
