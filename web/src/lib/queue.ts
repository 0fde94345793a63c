/**
 * The queue of uploads: what waits, what runs, what became of it. It knows no DOM and no network: files go out through a
 * `Transport`, time comes from a clock, and whoever shows it is told that something changed.
 *
 * A failure of one file is tried again a few times, later each time. What concerns all of them holds all of them and counts against none: the
 * network is away, the session ended, or the drive says that it cannot now. Then everything goes on by itself, from where it was.
 *
 * Many small files go side by side, few large ones: each item has a weight, and the weights under way have a limit. Adding,
 * starting and finishing an item cost the same whether ten or ten thousand wait.
 */
import type { Conflict } from '../api/types';
import { Tally, type Item, type State, type Totals } from './tally';

export type { Item, State, Totals } from './tally';

export type Answer = 'replace' | 'keep-both' | 'skip';

export type Outcome = { kind: 'done' } | { kind: 'conflict' };

/** What a failure means: for this file, that it failed or may be tried again; for all, that the drive is away or the session ended. */
export type Verdict = 'failed' | 'again' | 'away' | 'signed-out';

export interface Transport {
  /** Sends a file; throws what `judge` can judge. An abort leaves what was sent, so that it can go on. */
  send(item: Item, progress: (sent: number) => void, signal: AbortSignal): Promise<Outcome>;
  /** Forgets what was sent of an item that was given up. */
  discard(item: Item): void;
}

export interface QueueOptions {
  transport: Transport;
  changed: () => void;
  finished: (item: Item) => void;
  /** What a failure means, and how long the drive wants to be left alone. */
  judge: (error: unknown) => { verdict: Verdict; afterMs?: number };
  explain: (error: unknown) => string;
  now?: () => number;
  wait?: (ms: number, run: () => void) => void;
}

/** Weights under way at most. Browsers open six connections to a server; one stays free for the pages. */
const WEIGHT_MAX = 10;
/** A file this large takes a share of the limit that leaves room for two more. */
export const LARGE_BYTES = 1024 * 1024;
const LARGE_WEIGHT = 4;
const SMALL_WEIGHT = 2;
/** Tries before a passing failure becomes a failure. */
const TRIES_MAX = 6;
const RETRY_FIRST_MS = 1_000;
/** The longest wait of our own; a drive may ask for longer. */
const RETRY_MAX_MS = 30_000;
/** The longest wait that a drive may ask for. */
const ASKED_MAX_MS = 300_000;

export class Queue {
  readonly items: Item[] = [];
  held = false;
  offline = false;
  signedOut = false;
  /** The drive, or what stands before it, said that it cannot now. */
  away = false;
  private awayTries = 0;
  private pending: Item[] = [];
  private front: Item[] = [];
  private readonly aborts = new Map<number, AbortController>();
  private weight = 0;
  private nextId = 1;
  private answerForAll: Answer | null = null;
  private readonly tally = new Tally();

  constructor(private readonly options: QueueOptions) {}

  add(space: string, files: { path: string; file: File }[], conflict: Conflict = 'fail', tags: readonly string[] = []): Item[] {
    // A new errand: what was answered for all the files of the last one does not hold for it.
    if (!this.busy) this.answerForAll = null;
    const added = files.map(({ path, file }) => this.put(space, path, file.size, file, conflict, tags));
    for (const item of added) this.pending.push(item);
    this.refill();
    this.options.changed();
    return added;
  }

  /** An upload that a reload interrupted: it waits for its file. */
  addInterrupted(space: string, path: string, size: number, sent: number, remembered: string): Item {
    const item = this.put(space, path, size, null, 'fail');
    item.remembered = remembered;
    item.kept = sent;
    this.set(item, 'interrupted');
    this.tally.progress(item, sent, false);
    this.options.changed();
    return item;
  }

  /** An upload whose bytes are all there: only what to do about its name is to be asked. */
  addTaken(space: string, path: string, size: number, remembered: string): Item {
    const item = this.put(space, path, size, null, 'fail');
    item.remembered = remembered;
    this.set(item, 'conflict');
    this.tally.progress(item, size, false);
    this.options.changed();
    return item;
  }

  /** Gives an interrupted upload its file back. */
  provide(item: Item, file: File): boolean {
    if (item.state !== 'interrupted' || file.size !== item.size) return false;
    item.file = file;
    this.requeue(item);
    return true;
  }

  private put(space: string, path: string, size: number, file: File | null, conflict: Conflict, tags: readonly string[] = []): Item {
    const item: Item = {
      id: this.nextId++, space, path, size, tags, file, state: 'waiting', sent: 0, conflict, error: '', tries: 0, kept: 0, remembered: null,
    };
    this.items.push(item);
    this.tally.add(item);
    return item;
  }

  get busy(): boolean {
    return this.tally.of('waiting', 'running', 'retrying') > 0;
  }

  /** Something of it is neither finished nor given up. */
  get unfinished(): boolean {
    return this.busy || this.tally.of('paused', 'conflict') > 0;
  }

  private get blocked(): boolean {
    return this.held || this.offline || this.signedOut || this.away;
  }

  private set(item: Item, state: State): void {
    this.tally.set(item, state);
  }

  /** The next to start, or none: `front` is read from its end, and is what was pending, turned over. */
  private takeNext(): Item | null {
    if (this.front.length === 0) {
      this.front = this.pending.reverse();
      this.pending = [];
    }
    for (;;) {
      const item = this.front.at(-1);
      if (!item) return null;
      if (item.state !== 'waiting') {
        this.front.pop();
        if (this.front.length === 0 && this.pending.length > 0) return this.takeNext();
        continue;
      }
      if (this.weight + weightOf(item) > WEIGHT_MAX) return null;
      this.front.pop();
      return item;
    }
  }

  private async run(item: Item): Promise<void> {
    const abort = new AbortController();
    const weight = weightOf(item);
    this.aborts.set(item.id, abort);
    this.weight += weight;
    this.set(item, 'running');
    this.options.changed();
    // It may have been stopped, and even begun again, meanwhile.
    const current = () => this.aborts.get(item.id) === abort && item.state === 'running';
    // The first word of one that goes on is from where.
    let goesOn = item.remembered !== null;
    const progress = (sent: number) => {
      if (!current()) return;
      if (goesOn) this.wentOn(item, sent);
      else this.tally.progress(item, sent);
      goesOn = false;
      this.options.changed();
    };
    try {
      const outcome = await this.options.transport.send(item, progress, abort.signal);
      if (abort.signal.aborted && !current()) return;
      if (outcome.kind === 'conflict') this.collided(item);
      else this.succeed(item);
    } catch (error) {
      if (current()) this.stumbled(item, error);
    } finally {
      if (this.aborts.get(item.id) === abort) this.aborts.delete(item.id);
      this.weight -= weight;
      this.refill();
      this.options.changed();
    }
  }

  /** Starts what has room now. */
  private refill(): void {
    if (this.blocked) return;
    for (;;) {
      const item = this.takeNext();
      if (!item) return;
      void this.run(item);
    }
  }

  /** What is there already did not move now. Further than the last time, its tries count anew. */
  private wentOn(item: Item, at: number): void {
    if (at > item.kept) item.tries = 0;
    item.kept = at;
    this.tally.progress(item, at, false);
  }

  private succeed(item: Item): void {
    this.awayTries = 0;
    this.tally.progress(item, item.size);
    this.set(item, 'done');
    item.file = null;
    this.options.finished(item);
  }

  private collided(item: Item): void {
    if (this.answerForAll) this.settle(item, this.answerForAll);
    else this.set(item, 'conflict');
  }

  private stumbled(item: Item, error: unknown): void {
    const { verdict, afterMs = 0 } = this.options.judge(error);
    item.error = this.options.explain(error);
    const asked = Math.min(afterMs, ASKED_MAX_MS);
    if (verdict === 'away') this.stepBack(asked);
    else if (verdict === 'signed-out') this.signedOut = true;
    else if (verdict === 'failed' || item.tries + 1 >= TRIES_MAX) return this.set(item, 'failed');
    this.set(item, 'retrying');
    // What was sent and not heard of may be lost.
    this.tally.progress(item, item.kept, false);
    // What holds all is no try of this one: it goes on when that is over.
    if (this.offline || verdict !== 'again') return;
    this.later(Math.max(asked, pauseAfter(item.tries)), () => {
      if (item.state === 'retrying' && !this.blocked) this.requeue(item);
    });
    item.tries += 1;
  }

  /** Leaves the drive alone for a while, for longer each time that nothing came through. */
  private stepBack(askedMs: number): void {
    // What was under way beside it fails with it.
    if (this.away) return;
    this.away = true;
    this.later(Math.max(askedMs, pauseAfter(this.awayTries)), () => this.comeBack());
    this.awayTries += 1;
  }

  private comeBack(): void {
    if (!this.away) return;
    this.away = false;
    this.goOn(['retrying']);
    this.options.changed();
  }

  private later(ms: number, run: () => void): void {
    const wait = this.options.wait ?? ((time, then) => void setTimeout(then, time));
    wait(ms, run);
  }

  private requeue(item: Item): void {
    this.set(item, 'waiting');
    item.error = '';
    this.pending.push(item);
    this.refill();
    this.options.changed();
  }

  pause(item: Item): void {
    if (item.state !== 'running' && item.state !== 'waiting' && item.state !== 'retrying') return;
    this.set(item, 'paused');
    this.aborts.get(item.id)?.abort();
    this.options.changed();
  }

  resume(item: Item): void {
    if ((item.state === 'paused' || item.state === 'retrying' || item.state === 'failed') && (item.file || item.remembered !== null)) {
      item.tries = 0;
      // Somebody knows better than the clock.
      this.away = false;
      this.requeue(item);
    }
  }

  cancel(item: Item): void {
    if (item.state === 'done' || item.state === 'skipped') return;
    const wasRunning = item.state === 'running';
    this.tally.drop(item);
    this.aborts.get(item.id)?.abort();
    if (wasRunning || item.remembered !== null || item.tries > 0) this.options.transport.discard(item);
    item.file = null;
    this.options.changed();
  }

  answer(item: Item, answer: Answer, forAll: boolean): void {
    if (forAll) {
      this.answerForAll = answer;
      for (const other of this.items) if (other.state === 'conflict') this.settle(other, answer);
    } else if (item.state === 'conflict') this.settle(item, answer);
    this.refill();
    this.options.changed();
  }

  private settle(item: Item, answer: Answer): void {
    if (answer === 'skip') {
      this.tally.drop(item);
      item.file = null;
      if (item.remembered !== null) this.options.transport.discard(item);
      return;
    }
    item.conflict = answer;
    this.set(item, 'waiting');
    this.pending.push(item);
  }

  /** Holds or goes on with everything. */
  hold(held: boolean): void {
    this.held = held;
    if (held) {
      for (const item of this.items) if (item.state === 'running') this.pause(item);
    } else this.goOn(['paused', 'retrying']);
    this.options.changed();
  }

  /** The network went or came. */
  network(online: boolean): void {
    this.offline = !online;
    if (online) this.goOn(['retrying']);
    this.options.changed();
  }

  /** The session ended, or there is one again. What is under way with the old one stops: its answer would end the new one. */
  session(open: boolean): void {
    this.signedOut = !open;
    if (open) this.goOn(['retrying']);
    else {
      for (const item of this.items) {
        if (item.state !== 'running') continue;
        this.set(item, 'retrying');
        this.aborts.get(item.id)?.abort();
      }
    }
    this.options.changed();
  }

  private goOn(from: State[]): void {
    for (const item of this.items) {
      if (from.includes(item.state) && (item.file || item.remembered !== null)) {
        this.set(item, 'waiting');
        item.error = '';
        this.pending.push(item);
      }
    }
    this.refill();
  }

  retryFailed(): void {
    for (const item of this.items) if (item.state === 'failed') this.resume(item);
  }

  cancelAll(): void {
    for (const item of this.items) this.cancel(item);
  }

  /** Lets go of everything: it is another's. What the drive has of it, it keeps for whom it belongs to. */
  clear(): void {
    for (const item of this.items) {
      if (item.state !== 'done' && item.state !== 'skipped') {
        this.tally.drop(item);
      }
      this.aborts.get(item.id)?.abort();
      item.file = null;
    }
    this.answerForAll = null;
    this.tidy();
  }

  /** Takes what is finished off the list. */
  tidy(): void {
    const rest = this.items.filter((item) => item.state !== 'done' && item.state !== 'skipped');
    for (const item of this.items) if (item.state === 'done' || item.state === 'skipped') this.tally.remove(item);
    this.items.length = 0;
    for (const item of rest) this.items.push(item);
    this.options.changed();
  }

  totals(): Totals {
    return this.tally.totals((this.options.now ?? Date.now)());
  }
}

/** How long to wait after so many tries. */
const pauseAfter = (tries: number) => Math.min(RETRY_MAX_MS, RETRY_FIRST_MS * 2 ** Math.min(tries, 16));

function weightOf(item: Item): number {
  return item.size >= LARGE_BYTES ? LARGE_WEIGHT : SMALL_WEIGHT;
}
