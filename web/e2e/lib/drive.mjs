/** A drive for tests: the program named by HOLDFAST_BIN on a free port of this machine, with a folder that is thrown away. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const START_MS = 60_000;

export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** `config` is the text of a configuration file; a port that was asked for before may be given. */
export async function startDrive(admin = 'ana', { config = '', port: wanted = 0 } = {}) {
  const program = process.env.HOLDFAST_BIN;
  if (!program) throw new Error('HOLDFAST_BIN names no program');
  const data = mkdtempSync(join(tmpdir(), 'holdfast-e2e-'));
  const port = wanted || (await freePort());
  const file = `${data}.toml`;
  writeFileSync(file, config);
  const child = spawn(program, ['serve', '--data', data, '--listen', `127.0.0.1:${port}`, '--init-admin', admin], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, HOLDFAST_CONFIG: file },
  });
  const password = await new Promise((resolve, reject) => {
    let out = '';
    let found = '';
    const timer = setTimeout(() => reject(new Error(`the drive did not start:\n${out}`)), START_MS);
    child.stdout.on('data', (some) => {
      out += some;
      found ||= /^\s*password\s+(\S+)$/m.exec(out)?.[1] ?? '';
      if (found !== '' && out.includes('address')) {
        clearTimeout(timer);
        resolve(found);
      }
    });
    child.once('exit', () => reject(new Error(`the drive ended:\n${out}`)));
  });
  const backend = `http://127.0.0.1:${port}`;
  const shell = await fetch(`${backend}/files/x`, { headers: { accept: 'text/html' } });
  if (!(await shell.text()).includes('id="app"')) throw new Error(`${program} was built without its pages: make build`);
  const drive = {
    admin,
    password,
    url: backend,
    data,
    auth: `Basic ${Buffer.from(`${admin}:${password}`).toString('base64')}`,
    /** What nobody looks at is made by WebDAV. */
    async put(path, body) {
      const response = await fetch(`${backend}/dav/${path.split('/').map(encodeURIComponent).join('/')}`, {
        method: 'PUT',
        body,
        headers: { authorization: drive.auth },
      });
      if (!response.ok) throw new Error(`PUT ${path}: ${response.status}`);
    },
    async folder(path) {
      const response = await fetch(`${backend}/dav/${path.split('/').map(encodeURIComponent).join('/')}`, {
        method: 'MKCOL',
        headers: { authorization: drive.auth },
      });
      if (!response.ok) throw new Error(`MKCOL ${path}: ${response.status}`);
    },
    async read(path) {
      const response = await fetch(`${backend}/dav/${path.split('/').map(encodeURIComponent).join('/')}`, { headers: { authorization: drive.auth } });
      return response.ok ? response.text() : null;
    },
    run(...args) {
      const done = spawnSync(program, [...args, '--data', data], { encoding: 'utf8' });
      if (done.status !== 0) throw new Error(done.stderr);
      return done.stdout;
    },
    async stop() {
      child.removeAllListeners('exit');
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await gone;
      rmSync(data, { recursive: true, force: true });
      rmSync(file, { force: true });
    },
  };
  return drive;
}
