import { expect, it } from 'vitest';
import { turns } from '../src/lib/turns';

it('a few run at once, the last that asked is next, and a wish can be taken back', () => {
  const begun: number[] = [];
  const some = turns(2);
  const ends = [1, 2, 3, 4, 5].map((one) => some.ask(() => begun.push(one)));
  expect(begun).toEqual([1, 2]);
  ends[4]?.();
  ends[0]?.();
  expect(begun).toEqual([1, 2, 4]);
  // Once given back, a turn is not given back again.
  ends[0]?.();
  expect(begun).toEqual([1, 2, 4]);
  ends[1]?.();
  ends[3]?.();
  expect(begun).toEqual([1, 2, 4, 3]);
});
