import { describe, expect, it } from 'vitest';
import { collectPicked } from '../src/lib/dropped';
import { familyOf, showOf } from '../src/lib/kinds';
import { queryOf } from '../src/lib/searching';
import { quote, setupText } from '../src/lib/setup';

describe('what a file is shown as', () => {
  it('is text for markup: HTML and SVG are never documents of this origin', () => {
    expect(showOf('page.html', 'text/html')).toBe('code');
    expect(showOf('drawing.svg', 'image/svg+xml')).toBe('code');
    expect(showOf('drawing', 'image/svg+xml')).toBe('none');
    expect(showOf('page', 'text/html')).toBe('text');
  });

  it('follows the name, then the type', () => {
    expect(showOf('a.PDF', '')).toBe('pdf');
    expect(showOf('Makefile', '')).toBe('code');
    expect(showOf('x', 'image/png')).toBe('image');
    expect(showOf('x.bin', 'application/octet-stream')).toBe('none');
    expect(familyOf('a.zip', 'file', '')).toBe('archive');
    expect(familyOf('a.zip', 'folder', '')).toBe('folder');
  });

  it('is not fooled by names of what every object has', () => {
    for (const name of ['constructor', 'a.constructor', '__proto__', 'x.__proto__', 'toString']) {
      expect(typeof showOf(name, ''), name).toBe('string');
    }
  });
});

describe('set-up text', () => {
  it('stays one word in a shell, whatever the names hold', () => {
    expect(quote('plain-name')).toBe('plain-name');
    expect(quote("a b'; rm -rf /")).toBe(`'a b'\\''; rm -rf /'`);
    expect(setupText('curl', 'https://drive.example', 'ana', 'my space')).toContain('https://drive.example/dav/my%20space/');
  });

  it('writes addresses the way each program wants them', () => {
    expect(setupText('windows', 'https://drive.example:8443', 'ana', 'lab')).toContain('\\\\drive.example@SSL@8443\\dav\\lab');
    expect(setupText('gnome', 'https://drive.example', 'ana', 'lab')).toBe('davs://ana@drive.example/dav/lab/');
    expect(setupText('holdfast', 'https://drive.example', 'ana', "ana's lab")).toContain(
      "holdfast mount https://drive.example ~/holdfast --space 'ana'\\''s lab' --token-file ~/.holdfast-token",
    );
    expect(setupText('macos', 'http://127.0.0.1:8642', 'ana', 'lab')).toBe('http://127.0.0.1:8642/dav/lab/');
  });
});

describe('a search from a URL', () => {
  it('takes what is known and leaves the rest', () => {
    const query = queryOf(new URLSearchParams('q= a b &kind=evil&type=x/y&size=large&age=week&tag=t'));
    expect(query).toMatchObject({ q: 'a b', tag: ['t'], min_bytes: 100 * 1024 * 1024 });
    expect(query.kind).toBeUndefined();
    expect(query.type).toBeUndefined();
  });
});

describe('a picked folder', () => {
  it('makes its folders, parents first, each once', () => {
    const pick = (path: string) => ({ name: path.split('/').at(-1), webkitRelativePath: path }) as File;
    const found = collectPicked([pick('a/b/c.txt'), pick('a/d.txt'), pick('a/b/e.txt')]);
    expect(found.folders).toEqual(['a', 'a/b']);
    expect(found.files.map(({ path }) => path)).toEqual(['a/b/c.txt', 'a/d.txt', 'a/b/e.txt']);
  });
});
