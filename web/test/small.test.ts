import { expect, it } from 'vitest';
import type { Share } from '../src/api/types';
import { hasPreview, smallOf } from '../src/lib/kinds';
import { commandOf } from '../src/sharing/terms';

const MIB = 1024 * 1024;

it('shows pictures small that the drive draws, small ones of other types as they are, and the rest as icons', () => {
  const file = (name: string, type: string, size_bytes = 1000) => smallOf({ name, type, size_bytes, kind: 'file' });
  expect(file('a.jpg', 'image/jpeg', 20 * MIB)).toBe('drawn');
  expect(file('a.png', 'image/png', 33 * MIB)).toBe('icon');
  expect(file('a.avif', 'image/avif')).toBe('own');
  expect(file('a.avif', 'image/avif', 2 * MIB)).toBe('icon');
  expect(file('a.svg', 'image/svg+xml')).toBe('icon');
  expect(file('a.png', 'image/png', 0)).toBe('icon');
  expect(smallOf({ name: 'a.png', type: '', size_bytes: 0, kind: 'folder' })).toBe('icon');
});

it('shows a first look at large pictures that stand still, and others themselves', () => {
  const file = (type: string, size_bytes = 2 * MIB) => hasPreview({ type, size_bytes });
  expect([file('image/jpeg'), file('image/png')]).toEqual([true, true]);
  expect([file('image/gif'), file('image/webp'), file('image/avif'), file('image/jpeg', 1000), file('image/jpeg', 33 * MIB)]).toEqual([false, false, false, false, false]);
});

it('writes a command whose words a shell takes as they are, and none where a program cannot get through', () => {
  const share: Share = {
    id: 'abc', by: 'ana', space: 'ana', path: "/a/it's $(mine).txt", kind: 'file', access: 'read', label: '', link: '/l/abc#s3cret',
    has_password: false, downloads: 0, created_ms: 0,
  };
  const origin = 'https://drive.example';
  expect(commandOf(share, origin)).toBe(
    `curl -f -H 'Authorization: Bearer s3cret' -o 'it'\\''s $(mine).txt' 'https://drive.example/api/v1/links/abc/content/link/'`,
  );
  expect(commandOf({ ...share, path: '/', kind: 'folder' }, origin)).toContain(`-o 'ana.zip' 'https://drive.example/api/v1/links/abc/archive/link/'`);
  const { link: _link, ...others } = share;
  for (const none of [{ ...share, has_password: true }, { ...share, access: 'upload' as const }, others]) expect(commandOf(none, origin)).toBe('');
});
