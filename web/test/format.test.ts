import { describe, expect, it } from 'vitest';
import { bytes, clock, percent, share } from '../src/lib/format';

describe('sizes', () => {
  const plain = (n: number) => bytes(n, 'en').replace('\u00a0', ' ');
  it('are told in the unit people read', () => {
    expect(plain(0)).toBe('0 B');
    expect(plain(1023)).toBe('1,023 B');
    expect(plain(1024)).toBe('1 KiB');
    expect(plain(1536)).toBe('1.5 KiB');
    expect(plain(5 * 1024 ** 3)).toBe('5 GiB');
  });

  it('never say 1,024 of a unit', () => {
    expect(plain(1024 ** 2 - 1)).toBe('1 MiB');
    expect(plain(1024 ** 3 - 1)).toBe('1 GiB');
  });

  it('are never less than nothing, and nothing is not a number', () => {
    expect(plain(-5)).toBe('0 B');
    expect(plain(Number.NaN)).toBe('0 B');
  });
});

describe('a share', () => {
  it('stays between none and all, whatever the figures', () => {
    expect(share(5, 10)).toBe(0.5);
    expect(share(15, 10)).toBe(1);
    expect(share(-1, 10)).toBe(0);
    expect(share(1, 0)).toBe(1);
    expect(share(0, 0)).toBe(0);
  });
});

describe('time left', () => {
  it('is told like a clock, or as a dash when nobody knows', () => {
    expect(clock(75)).toBe('1:15');
    expect(clock(3675)).toBe('1:01:15');
    expect(clock(Infinity)).toBe('–');
  });
});

describe('shares', () => {
  it('are told in percent, to a tenth', () => {
    expect(percent(0.0123, 'en').replace('\u00a0', ' ')).toBe('1.2 %');
    expect(percent(0.0123, 'de').replace('\u00a0', ' ')).toBe('1,2 %');
  });
});
