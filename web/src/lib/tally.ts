/** The sums of a queue of uploads: how many are in which state, bytes, speed. Every change of an item goes through here, so each sum costs the same however many there are. */
import type { Conflict } from '../api/types';

export type State = 'waiting' | 'running' | 'paused' | 'retrying' | 'conflict' | 'done' | 'failed' | 'skipped' | 'interrupted';

export interface Item {
  readonly id: number;
  readonly space: string;
  readonly path: string;
  readonly size: number;
  /** Tags the file gets with its content. */
  readonly tags: readonly string[];
  file: File | null;
  state: State;
  sent: number;
  conflict: Conflict;
  error: string;
  tries: number;
  /** Bytes that the drive said it has. */
  kept: number;
  /** The upload the drive remembers, for one that a reload interrupted. */
  remembered: string | null;
}

/** Speed is told over this time. */
const SPEED_WINDOW_MS = 6_000;
/** Over less than this nothing is told. */
const SPEED_LEAST_MS = 250;

export interface Totals {
  items: number;
  done: number;
  failed: number;
  waiting: number;
  running: number;
  conflicts: number;
  paused: number;
  retrying: number;
  interrupted: number;
  bytes: number;
  sent: number;
  /** Bytes a second, lately. */
  speed: number;
  /** Seconds; infinite if nothing moves. */
  left: number;
}

export class Tally {
  private readonly counts: Record<State, number> = {
    waiting: 0, running: 0, paused: 0, retrying: 0, conflict: 0, done: 0, failed: 0, skipped: 0, interrupted: 0,
  };
  private bytes = 0;
  private sent = 0;
  /** All that ever went out, which never shrinks. */
  private moved = 0;
  private sample: { at: number; sent: number }[] = [];

  add(item: Item): void {
    this.counts[item.state] += 1;
    this.bytes += item.size;
  }

  /** An item that is finished or dropped is off the list. */
  remove(item: Item): void {
    this.counts[item.state] -= 1;
    if (item.state === 'skipped') return;
    this.bytes -= item.size;
    this.sent -= item.sent;
  }

  /** It will not be sent: its bytes do not count. */
  drop(item: Item): void {
    this.set(item, 'skipped');
    this.bytes -= item.size;
    this.progress(item, 0, false);
  }

  set(item: Item, state: State): void {
    this.counts[item.state] -= 1;
    this.counts[state] += 1;
    item.state = state;
  }

  /** Where an item stands; what did not move now does not count as speed. */
  progress(item: Item, sent: number, moving = true): void {
    const by = sent - item.sent;
    item.sent = sent;
    this.sent += by;
    if (moving && by > 0) this.moved += by;
  }

  of(...states: State[]): number {
    return states.reduce((sum, state) => sum + this.counts[state], 0);
  }

  totals(now: number): Totals {
    const { counts } = this;
    const speed = this.speed(now);
    const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
    return {
      items: all - counts.skipped, done: counts.done, failed: counts.failed, waiting: counts.waiting,
      running: counts.running, conflicts: counts.conflict, paused: counts.paused, retrying: counts.retrying, interrupted: counts.interrupted,
      bytes: this.bytes, sent: this.sent, speed, left: speed > 0 ? (this.bytes - this.sent) / speed : Infinity,
    };
  }

  private speed(now: number): number {
    if (this.counts.running === 0) {
      this.sample = [];
      return 0;
    }
    this.sample.push({ at: now, sent: this.moved });
    while (this.sample.length > 2 && now - (this.sample[0]?.at ?? now) > SPEED_WINDOW_MS) this.sample.shift();
    const first = this.sample[0];
    const span = first ? now - first.at : 0;
    return first && span > SPEED_LEAST_MS ? ((this.moved - first.sent) * 1000) / span : 0;
  }
}
