import { describe, expect, it } from 'vitest';
import { activate, all, clear, extend, keep, NOTHING, only, step, toggle } from '../src/lib/selection';

const order = ['a', 'b', 'c', 'd', 'e'];
const ids = (selection: { ids: ReadonlySet<string> }) => [...selection.ids].sort().join('');

describe('a selection', () => {
  it('is one item after a click', () => {
    expect(ids(only('b'))).toBe('b');
  });

  it('takes and gives items with ctrl', () => {
    const two = toggle(only('a'), 'c');
    expect(ids(two)).toBe('ac');
    expect(ids(toggle(two, 'a'))).toBe('c');
  });

  it('reaches from the anchor with shift, both ways, and shrinks again', () => {
    const down = extend(only('b'), 'd', order);
    expect(ids(down)).toBe('bcd');
    expect(ids(extend(down, 'c', order))).toBe('bc');
    expect(ids(extend(down, 'a', order))).toBe('ab');
  });

  it('adds a range to what was there with ctrl and shift', () => {
    const start = toggle(only('a'), 'c');
    expect(ids(extend(start, 'd', order, true))).toBe('acd');
  });

  it('begins anew if its anchor is gone', () => {
    expect(ids(extend({ ...NOTHING, anchor: 'gone' }, 'c', order))).toBe('c');
  });

  it('does not change for an item that is not shown', () => {
    const start = only('a');
    expect(extend(start, 'zzz', order)).toBe(start);
  });

  it('forgets what was deleted, and the keyboard goes on from its place', () => {
    const start = extend(only('b'), 'd', order);
    const after = keep(start, (id) => id !== 'd', 'e');
    expect(ids(after)).toBe('bc');
    expect(after.active).toBe('e');
  });

  it('keeps the keyboard where it is when cleared', () => {
    expect(clear(only('c'))).toMatchObject({ active: 'c', anchor: null });
    expect(ids(clear(all(NOTHING, order)))).toBe('');
  });

  it('steps within the list and no further', () => {
    expect(step(NOTHING, order, 1)).toBe('a');
    expect(step(NOTHING, order, -1)).toBe('e');
    expect(step(activate(NOTHING, 'd'), order, 5)).toBe('e');
    expect(step(activate(NOTHING, 'a'), order, -1)).toBe('a');
    expect(step(NOTHING, [], 1)).toBeNull();
  });

  it('is never changed in place', () => {
    const start = only('a');
    toggle(start, 'b');
    expect(ids(start)).toBe('a');
  });
});
