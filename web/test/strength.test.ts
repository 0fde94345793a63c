import { describe, expect, it } from 'vitest';
import { strength } from '../src/account/strength';

describe('the strength of a password', () => {
  it('is low for what is tried first, and says why', () => {
    expect(strength('password12', 'ana')).toMatchObject({ score: expect.any(Number) });
    expect(strength('password12', 'ana').score).toBeLessThan(3);
    expect(strength('qwertyuiop', 'ana').why).not.toBeNull();
    expect(strength('anaanaanaana', 'ana').score).toBeLessThan(3);
    expect(strength('holdfast2024', 'ana').score).toBeLessThan(3);
  });

  it('is high for words chosen at random, and ends on any length', () => {
    expect(strength('gravel ivory tundra piano', 'ana').score).toBe(4);
    expect(strength('x'.repeat(100_000), 'ana').score).toBeLessThan(3);
  });
});
