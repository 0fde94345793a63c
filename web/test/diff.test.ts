import { describe, expect, it } from 'vitest';
import { diffLines } from '../src/lib/diff';

const show = (a: string, b: string) => diffLines(a, b).map((line) => line.mark + line.text);

/** What is left of the old and of the new text must be these texts. */
function holds(a: string[], b: string[]) {
  const lines = diffLines(a.join('\n'), b.join('\n'));
  expect(lines.filter((line) => line.mark !== '+').map((line) => line.text)).toEqual(a);
  expect(lines.filter((line) => line.mark !== '-').map((line) => line.text)).toEqual(b);
  return lines;
}

describe('a difference', () => {
  it('tells what came and what went', () => {
    expect(show('a\nb\nc\n', 'a\nx\nc\n')).toEqual([' a', '-b', '+x', ' c']);
    expect(show('', 'a')).toEqual(['+a']);
    expect(show('a', '')).toEqual(['-a']);
    expect(show('a\nb', 'a\nb')).toEqual([' a', ' b']);
  });

  it('numbers the lines of both sides', () => {
    expect(diffLines('a\nb', 'b').map((line) => [line.old, line.new])).toEqual([[1, undefined], [2, 1]]);
  });

  it('holds both texts, whatever they are, and is no longer than it must be', () => {
    let seed = 7;
    const random = (below: number) => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
    for (let round = 0; round < 200; round += 1) {
      const a = Array.from({ length: 1 + random(12) }, () => 'abc'[random(3)] ?? '');
      const b = Array.from({ length: 1 + random(12) }, () => 'abc'[random(3)] ?? '');
      const changes = holds(a, b).filter((line) => line.mark !== ' ').length;
      expect(changes).toBe(a.length + b.length - 2 * longestCommon(a, b));
    }
  });

  it('ends on large texts with nothing in common', () => {
    const many = (word: string) => Array.from({ length: 20_000 }, (_, at) => `${word}${at}`);
    expect(holds(many('a'), many('b'))).toHaveLength(40_000);
  });
});

function longestCommon(a: string[], b: string[]): number {
  const row = Array.from({ length: b.length + 1 }, () => 0);
  for (const one of a) {
    let diagonal = 0;
    for (let at = 1; at <= b.length; at += 1) {
      const before = row[at] ?? 0;
      row[at] = one === b[at - 1] ? diagonal + 1 : Math.max(before, row[at - 1] ?? 0);
      diagonal = before;
    }
  }
  return row[b.length] ?? 0;
}
