/**
 * Serves `dist` under the policy the drive has, and passes the API on: for a program that has no pages in it yet, and for
 * looking at a build. `node e2e/lib/front.mjs http://127.0.0.1:8642 [port]`.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { extname, join, normalize } from 'node:path';

export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; font-src 'self'; connect-src 'self'; " +
  "manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const dist = new URL('../../dist', import.meta.url).pathname;
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.mjs': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

export function startFront(backend, port = 0) {
  const { hostname, port: to } = new URL(backend);
  const server = createServer((from, answer) => {
    if (/^\/(api|dav|healthz)/.test(from.url)) {
      const onward = request({ hostname, port: to, method: from.method, path: from.url, headers: from.headers }, (back) => {
        answer.writeHead(back.statusCode, back.headers);
        back.pipe(answer);
      });
      onward.on('error', () => answer.destroy());
      from.on('error', () => onward.destroy());
      answer.on('close', () => onward.destroy());
      from.pipe(onward);
      return;
    }
    const path = join(dist, normalize(decodeURIComponent(new URL(from.url, 'http://x').pathname)));
    const isFile = path.startsWith(dist) && existsSync(path) && statSync(path).isFile();
    const file = isFile ? path : join(dist, 'index.html');
    answer.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff' });
    answer.end(readFileSync(file));
  });
  return new Promise((resolve) => {
    server.listen(port, '127.0.0.1', () => {
      resolve({ url: `http://127.0.0.1:${server.address().port}`, stop: () => (server.closeAllConnections(), server.close()) });
    });
  });
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const { url } = await startFront(process.argv[2] ?? 'http://127.0.0.1:8642', Number(process.argv[3] ?? 0));
  console.log(url);
}
