import { describe, expect, it } from 'vitest';
import { decodePath, encodePath, join, nameFault, nameOf, normal, numbered, parent, placeUrl, within } from '../src/lib/paths';
import { fileUrl, folderUrl, parseRoute } from '../src/lib/routes';

const HOSTILE = ['a b', '100%', '%2e%2e', 'a?b=c', 'a#b', 'ümläut', '日本語', 'a&b', "it's", '"q"', '<script>', 'a\\b', '+', ' lead', 'trail ', '…', '🦭', '..a', '%'];

describe('paths', () => {
  it('joins, splits and climbs', () => {
    expect(join('', 'a')).toBe('a');
    expect(join('a/b', 'c')).toBe('a/b/c');
    expect(parent('a/b/c')).toBe('a/b');
    expect(parent('a')).toBe('');
    expect(nameOf('a/b/c')).toBe('c');
    expect(normal('//a//b/')).toBe('a/b');
  });

  it('know what is below what, by whole names', () => {
    expect(within('a', 'a/b')).toBe(true);
    expect(within('a', 'a')).toBe(true);
    expect(within('a', 'ab')).toBe(false);
    expect(within('', 'x')).toBe(true);
  });

  it('number a name before its extension', () => {
    expect(numbered('a.txt', 2)).toBe('a (2).txt');
    expect(numbered('.bashrc', 3)).toBe('.bashrc (3)');
    expect(numbered('README', 2)).toBe('README (2)');
  });
});

describe('names in URLs', () => {
  it('come back as they were, whatever is in them', () => {
    for (const name of HOSTILE) expect(decodePath(encodePath(`x/${name}`)), name).toBe(`x/${name}`);
  });

  it('never leave their place: nothing in a URL ends the path or climbs', () => {
    for (const name of HOSTILE) {
      const url = new URL(`/api/v1/nodes/${placeUrl('space', name)}`, 'http://drive');
      expect(url.search + url.hash, name).toBe('');
      expect(url.pathname.startsWith('/api/v1/nodes/space/'), name).toBe(true);
    }
  });

  it('do not throw on half a surrogate pair or on a broken escape', () => {
    expect(() => encodePath('a\ud800b')).not.toThrow();
    expect(decodePath('%E0%A4%A')).toBe('%E0%A4%A');
  });
});

describe('routes', () => {
  const parse = (url: string) => {
    const { pathname, search } = new URL(url, 'http://drive');
    return parseRoute(pathname, search);
  };

  it('are the inverse of the URLs of folders and files', () => {
    for (const name of HOSTILE) {
      expect(parse(folderUrl({ space: 's', path: `f/${name}` })), name).toMatchObject({ page: 'files', space: 's', path: `f/${name}`, view: null });
      expect(parse(fileUrl({ space: 's', path: `f/${name}` }, 'versions')), name).toMatchObject({ path: 'f', view: name, tab: 'versions' });
    }
  });

  it('know home, trash, search, account, and say so of what they do not know', () => {
    expect(parse('/')).toEqual({ page: 'home' });
    expect(parse('/trash/lab')).toEqual({ page: 'trash', space: 'lab' });
    expect(parse('/search?q=x').page).toBe('search');
    expect(parse('/account/devices')).toEqual({ page: 'account', section: 'devices' });
    expect(parse('/nowhere').page).toBe('unknown');
  });
});

describe('a name for a file', () => {
  it('is refused with the reason the drive would have', () => {
    expect(nameFault('')).toBe('empty');
    expect(nameFault('..')).toBe('dots');
    expect(nameFault('a/b')).toBe('slash');
    expect(nameFault('a\u0000')).toBe('control');
    expect(nameFault('ü'.repeat(128))).toBe('long');
    expect(nameFault('ü'.repeat(127))).toBeNull();
    expect(nameFault('...')).toBeNull();
  });
});
