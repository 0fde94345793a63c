import { describe, expect, it } from 'vitest';
import { LARGE_BYTES, Queue, type Item, type Outcome, type Transport, type Verdict } from '../src/lib/queue';

class Passing extends Error {}
class Final extends Error {}
class Away extends Error {
  constructor(readonly afterMs = 0) {
    super('away');
  }
}
class SignedOut extends Error {}

function judge(error: unknown): { verdict: Verdict; afterMs?: number } {
  if (error instanceof Away) return { verdict: 'away', afterMs: error.afterMs };
  if (error instanceof SignedOut) return { verdict: 'signed-out' };
  return { verdict: error instanceof Passing ? 'again' : 'failed' };
}

/** A transport that does what the test says when it says so. */
class Hand implements Transport {
  readonly open = new Map<string, { item: Item; done(outcome?: Outcome): void; fail(error: Error): void; progress(sent: number): void }>();
  readonly started: string[] = [];
  readonly discarded: string[] = [];
  most = 0;

  send(item: Item, progress: (sent: number) => void, signal: AbortSignal): Promise<Outcome> {
    this.started.push(item.path);
    return new Promise((resolve, reject) => {
      const end = () => this.open.delete(item.path);
      this.open.set(item.path, {
        item,
        progress,
        done: (outcome = { kind: 'done' }) => (end(), resolve(outcome)),
        fail: (error) => (end(), reject(error)),
      });
      this.most = Math.max(this.most, this.open.size);
      signal.addEventListener('abort', () => (end(), reject(new Passing('aborted'))));
    });
  }

  discard(item: Item): void {
    this.discarded.push(item.path);
  }
}

function setUp() {
  const hand = new Hand();
  const finished: string[] = [];
  const waits: { ms: number; run: () => void }[] = [];
  let now = 0;
  const queue = new Queue({
    transport: hand,
    changed: () => {},
    finished: (item) => finished.push(item.path),
    judge,
    explain: (error) => (error as Error).message,
    now: () => now,
    wait: (ms, run) => waits.push({ ms, run }),
  });
  return { hand, queue, finished, waits, tick: (ms: number) => (now += ms) };
}

const file = (size = 10) => ({ size }) as File;
const files = (n: number, size = 10) => Array.from({ length: n }, (_, at) => ({ path: `f${at}`, file: file(size) }));
const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

describe('a queue of uploads', () => {
  it('sends small files five at a time, in order, and all of them', async () => {
    const { hand, queue, finished } = setUp();
    queue.add('s', files(23));
    expect(hand.open.size).toBe(5);
    while (hand.open.size > 0) {
      hand.open.values().next().value?.done();
      await settle();
    }
    expect(hand.most).toBe(5);
    expect(hand.started).toEqual(files(23).map(({ path }) => path));
    expect(finished).toHaveLength(23);
    expect(queue.busy).toBe(false);
  });

  it('sends two large files at a time, and leaves room for a small one', () => {
    const { hand, queue } = setUp();
    queue.add('s', files(4, LARGE_BYTES));
    expect(hand.open.size).toBe(2);
  });

  it('asks once for all, and what was answered holds for later conflicts of the same errand', async () => {
    const { hand, queue } = setUp();
    const items = queue.add('s', files(7));
    hand.open.get('f0')?.done({ kind: 'conflict' });
    hand.open.get('f1')?.done({ kind: 'conflict' });
    await settle();
    expect(queue.totals().conflicts).toBe(2);
    queue.answer(items[0] as Item, 'keep-both', true);
    expect(queue.totals().conflicts).toBe(0);
    expect(items[1]?.conflict).toBe('keep-both');
    hand.open.get('f2')?.done({ kind: 'conflict' });
    await settle();
    expect(items[2]?.conflict).toBe('keep-both');
    expect(queue.totals().conflicts).toBe(0);
  });

  it('skips without sending, and without counting the bytes', async () => {
    const { hand, queue } = setUp();
    const [item] = queue.add('s', files(1, 100));
    hand.open.get('f0')?.done({ kind: 'conflict' });
    await settle();
    queue.answer(item as Item, 'skip', false);
    expect(queue.totals()).toMatchObject({ items: 0, bytes: 0, sent: 0 });
    expect(hand.started).toHaveLength(1);
  });

  it('tries again what may pass, later each time, and gives up at last', async () => {
    const { hand, queue, waits } = setUp();
    const [item] = queue.add('s', files(1));
    for (;;) {
      hand.open.get('f0')?.fail(new Passing('busy'));
      await settle();
      if (item?.state !== 'retrying') break;
      waits.at(-1)?.run();
    }
    expect(waits.map(({ ms }) => ms)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000]);
    expect(item).toMatchObject({ state: 'failed', error: 'busy' });
    queue.resume(item as Item);
    expect(item?.state).toBe('running');
  });

  it('does not try again what cannot pass', async () => {
    const { hand, queue, waits } = setUp();
    const [item] = queue.add('s', files(1));
    hand.open.get('f0')?.fail(new Final('no room'));
    await settle();
    expect(item).toMatchObject({ state: 'failed', error: 'no room' });
    expect(waits).toHaveLength(0);
  });

  it('waits while the network is away and goes on by itself', async () => {
    const { hand, queue, waits } = setUp();
    queue.add('s', files(8));
    queue.network(false);
    for (const open of [...hand.open.values()]) open.fail(new Passing('unreachable'));
    await settle();
    for (const { run } of waits) run();
    expect(hand.open.size).toBe(0);
    queue.network(true);
    expect(hand.open.size).toBe(5);
    while (hand.open.size > 0) {
      hand.open.values().next().value?.done();
      await settle();
    }
    expect(queue.totals()).toMatchObject({ done: 8, failed: 0 });
  });

  it('leaves a drive that is away alone, for longer each time, and never gives up', async () => {
    const { hand, queue, waits } = setUp();
    const [item] = queue.add('s', files(8));
    const asked: number[] = [];
    for (let n = 0; n < 12; n += 1) {
      for (const open of [...hand.open.values()]) open.fail(new Away(n === 9 ? 45_000 : 0));
      await settle();
      expect(queue.away).toBe(true);
      expect(hand.open.size).toBe(0);
      asked.push(waits.at(-1)?.ms ?? 0);
      waits.at(-1)?.run();
      expect(hand.open.size).toBe(5);
    }
    expect(waits).toHaveLength(12);
    expect(asked).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000, 45_000, 30_000, 30_000]);
    expect(item?.tries).toBe(0);
    while (hand.open.size > 0) {
      hand.open.values().next().value?.done();
      await settle();
    }
    expect(queue.totals()).toMatchObject({ done: 8, failed: 0 });
  });

  it('tries a drive that is away at once if somebody says so', async () => {
    const { hand, queue } = setUp();
    const [item] = queue.add('s', files(1));
    hand.open.get('f0')?.fail(new Away());
    await settle();
    queue.resume(item as Item);
    expect(hand.open.size).toBe(1);
  });

  it('waits while nobody is signed in, and goes on with whoever was', async () => {
    const { hand, queue } = setUp();
    const items = queue.add('s', files(7));
    hand.open.get('f0')?.fail(new SignedOut());
    await settle();
    queue.session(false);
    await settle();
    expect(hand.open.size).toBe(0);
    expect(items.map(({ state }) => state)).toEqual([...Array<string>(5).fill('retrying'), 'waiting', 'waiting']);
    queue.network(true);
    expect(hand.open.size).toBe(0);
    queue.session(true);
    while (hand.open.size > 0) {
      hand.open.values().next().value?.done();
      await settle();
    }
    expect(queue.totals()).toMatchObject({ done: 7, failed: 0 });
  });

  it('lets go of what is another’s without a word to the drive', async () => {
    const { hand, queue, finished } = setUp();
    queue.add('s', files(7, 100));
    hand.open.get('f0')?.progress(40);
    queue.clear();
    await settle();
    expect(queue.totals()).toMatchObject({ items: 0, bytes: 0, sent: 0, running: 0, waiting: 0 });
    expect([hand.open.size, hand.discarded, finished]).toEqual([0, [], []]);
    queue.add('s', files(1));
    expect(hand.open.size).toBe(1);
  });

  it('counts tries anew when one came further than the last', async () => {
    const { hand, queue, waits } = setUp();
    const [item] = queue.add('s', files(1, 1_000)) as [Item];
    item.remembered = 'u1';
    for (let n = 0; n < 20; n += 1) {
      hand.open.get('f0')?.progress(n * 10);
      hand.open.get('f0')?.progress(1_000);
      hand.open.get('f0')?.fail(new Passing('broke off'));
      await settle();
      expect(item, 'what was sent may be lost').toMatchObject({ state: 'retrying', sent: n * 10 });
      waits.at(-1)?.run();
    }
    expect(item.state).toBe('running');
    expect(waits.at(-1)?.ms).toBe(1_000);
  });

  it('pauses and goes on where it was; a pause is not a failure', async () => {
    const { hand, queue } = setUp();
    const [item] = queue.add('s', files(1, 100));
    hand.open.get('f0')?.progress(40);
    queue.pause(item as Item);
    await settle();
    expect(item).toMatchObject({ state: 'paused', sent: 40 });
    expect(hand.open.size).toBe(0);
    queue.network(true);
    expect(item?.state).toBe('paused');
    queue.resume(item as Item);
    expect(item?.state).toBe('running');
    expect(hand.started).toEqual(['f0', 'f0']);
  });

  it('holds everything and lets everything go', async () => {
    const { hand, queue } = setUp();
    queue.add('s', files(6));
    queue.hold(true);
    await settle();
    expect(hand.open.size).toBe(0);
    queue.add('s', [{ path: 'late', file: file() }]);
    expect(hand.open.size).toBe(0);
    queue.hold(false);
    expect(hand.open.size).toBe(5);
  });

  it('tells the drive to forget what was given up half way', async () => {
    const { hand, queue } = setUp();
    const [item] = queue.add('s', files(1, 100));
    hand.open.get('f0')?.progress(40);
    queue.cancel(item as Item);
    await settle();
    expect(hand.discarded).toEqual(['f0']);
    expect(queue.totals()).toMatchObject({ items: 0, bytes: 0, sent: 0 });
  });

  it('takes an interrupted upload up only with a file of its size', () => {
    const { hand, queue } = setUp();
    const item = queue.addInterrupted('s', 'big', 100, 60, 'u1');
    expect(queue.provide(item, file(99))).toBe(false);
    expect(queue.provide(item, file(100))).toBe(true);
    expect(hand.open.has('big')).toBe(true);
    expect(queue.totals()).toMatchObject({ bytes: 100, sent: 60 });
  });

  it('tells speed and time left from what moved lately, not from what was there already', () => {
    const { hand, queue, tick } = setUp();
    queue.add('s', files(1, 10_000));
    queue.totals();
    tick(1_000);
    hand.open.get('f0')?.progress(2_000);
    expect(queue.totals()).toMatchObject({ speed: 2_000, left: 4 });
  });

  it('finishes ten thousand files', async () => {
    const { hand, queue } = setUp();
    queue.add('s', files(10_000));
    for (let n = 0; n < 10_000; n += 1) {
      hand.open.values().next().value?.done();
      // Every few, so that the promises settle.
      if (hand.open.size === 0) await settle();
    }
    await settle();
    expect(queue.totals().done).toBe(10_000);
    queue.tidy();
    expect(queue.totals()).toMatchObject({ items: 0, bytes: 0, sent: 0, done: 0 });
  });
});
