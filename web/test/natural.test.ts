import { describe, expect, it } from 'vitest';
import { arrange, entryOf } from '../src/lib/entries';
import { compareKeys, fold, naturalKey } from '../src/lib/natural';
import type { Node } from '../src/api/types';

const sorted = (names: string[]) => [...names].sort((a, b) => compareKeys(naturalKey(a), naturalKey(b)));
const node = (name: string, more: Partial<Node> = {}): Node => ({
  id: 1, name, kind: 'file', size_bytes: 0, created_ms: 0, modified_ms: 0, etag: '', type: '', tags: [], ...more,
});

describe('natural order', () => {
  it('counts numbers as numbers wherever they are', () => {
    expect(sorted(['file10.txt', 'file2.txt', 'file1.txt'])).toEqual(['file1.txt', 'file2.txt', 'file10.txt']);
    expect(sorted(['1.10', '1.9', '1.1'])).toEqual(['1.1', '1.9', '1.10']);
    expect(sorted(['a12b3', 'a12b20', 'a2b100'])).toEqual(['a2b100', 'a12b3', 'a12b20']);
  });

  it('does not mind leading zeros, case or accents', () => {
    expect(sorted(['img010', 'img9', 'img0011'])).toEqual(['img9', 'img010', 'img0011']);
    expect(fold('Ärger')).toBe('arger');
    expect(fold('STRAßE')).toBe('strasse');
    expect(sorted(['zebra', 'Äpfel', 'Birnen'])).toEqual(['Äpfel', 'Birnen', 'zebra']);
  });

  it('puts numbers before letters, and survives numbers longer than any integer', () => {
    expect(sorted(['b', '10', 'a', '9'])).toEqual(['9', '10', 'a', 'b']);
    const [long, longer] = ['x' + '9'.repeat(300), 'x' + '1'.repeat(400)];
    expect(sorted([longer, long])).toHaveLength(2);
  });

  it('tells names apart that differ in case only, so that their order does not change from one time to the next', () => {
    const entries = ['b', 'B', 'a', 'A'].map((name) => entryOf(node(name)));
    const names = (list: typeof entries) => arrange(list, 'name', false).map((entry) => entry.node.name);
    expect(names(entries)).toEqual(names([...entries].reverse()));
  });
});

describe('a folder in order', () => {
  const entries = [
    node('b.txt', { size_bytes: 5, modified_ms: 3 }),
    node('a.zip', { size_bytes: 9, modified_ms: 1 }),
    node('docs', { kind: 'folder', modified_ms: 2 }),
    node('c.txt', { size_bytes: 5, modified_ms: 2 }),
  ].map(entryOf);
  const names = (...order: Parameters<typeof arrange> extends [unknown, ...infer Rest] ? Rest : never) =>
    arrange(entries, ...order).map((entry) => entry.node.name);

  it('has folders first, whichever way it is sorted', () => {
    expect(names('name', false)[0]).toBe('docs');
    expect(names('size', true)[0]).toBe('docs');
  });

  it('sorts by size, date and type, and equals by name', () => {
    expect(names('size', false)).toEqual(['docs', 'b.txt', 'c.txt', 'a.zip']);
    expect(names('date', true)).toEqual(['docs', 'b.txt', 'c.txt', 'a.zip']);
    expect(names('type', false)).toEqual(['docs', 'a.zip', 'b.txt', 'c.txt']);
  });
});
