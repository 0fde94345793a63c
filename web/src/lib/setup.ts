/** Ready-made set-up text for programs, for this drive, account and space. */
import { encodePath } from './paths';

export type Client = 'windows' | 'macos' | 'gnome' | 'holdfast' | 'rclone' | 'davfs2' | 'cadaver' | 'curl';
export const CLIENTS: Client[] = ['windows', 'macos', 'gnome', 'holdfast', 'rclone', 'davfs2', 'cadaver', 'curl'];

export interface Setup {
  /** Steps before the text, by message key `setup.<client>`. */
  client: Client;
  text: string;
}

/** For a shell: whatever is in it stays one word. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function setupText(client: Client, origin: string, account: string, space: string): string {
  const url = `${origin}/dav/${encodePath(space)}/`;
  const { protocol, host, hostname, port } = new URL(origin);
  const tls = protocol === 'https:';
  const user = quote(account);
  switch (client) {
    case 'windows': {
      // Explorer's own way of writing an address: \\host@SSL@port\path
      const mark = `${tls ? '@SSL' : ''}${port === '' ? '' : `@${port}`}`;
      return `net use H: "\\\\${hostname}${mark}\\dav\\${encodePath(space)}" /user:${account} *`;
    }
    case 'macos':
      return url;
    case 'gnome':
      return `${tls ? 'davs' : 'dav'}://${encodeURIComponent(account)}@${host}/dav/${encodePath(space)}/`;
    case 'holdfast':
      return [
        'mkdir -p ~/holdfast',
        'install -m 600 /dev/stdin ~/.holdfast-token',
        `holdfast mount ${quote(origin)} ~/holdfast --space ${quote(space)} --token-file ~/.holdfast-token`,
      ].join('\n');
    case 'rclone':
      return [
        `rclone config create holdfast webdav url ${quote(url)} vendor other user ${user} pacer_min_sleep 0`,
        'rclone config password holdfast pass',
        'rclone ls holdfast:',
      ].join('\n');
    case 'davfs2':
      return [`sudo mkdir -p /mnt/holdfast`, `sudo mount -t davfs -o uid=$(id -u) ${quote(url)} /mnt/holdfast`].join('\n');
    case 'cadaver':
      return `cadaver ${quote(url)}`;
    case 'curl':
      return [
        `curl -u ${user} -T report.pdf ${quote(url)}`,
        `curl -u ${user} -O ${quote(`${url}report.pdf`)}`,
      ].join('\n');
  }
}
