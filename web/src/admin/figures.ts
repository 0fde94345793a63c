/** Figures of the monitor into rows and lines. */
import type { Figures, Minute, Operations, Traffic } from '../api/admin';

/** Upper bounds of the buckets of latencies, in milliseconds. */
const BOUNDS_MS = [0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1_000, 5_000, 30_000, 120_000];
export const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

export interface KindRow {
  kind: string;
  perSecond: number;
  meanMs: number;
  within99Ms: number;
  failed: number;
}

/** Milliseconds within which so large a part was done. */
export function withinMs(operations: Operations, share: number): number {
  let seen = 0;
  for (const [at, count] of operations.buckets.entries()) {
    seen += count;
    if (seen >= operations.count * share) return BOUNDS_MS[at] ?? 120_000;
  }
  return 0;
}

export function kinds(figures: Figures, most: number): KindRow[] {
  const seconds = Math.max(1, figures.ms / 1_000);
  const rows = Object.entries(figures.operations).map(([kind, it]) => ({
    kind,
    perSecond: it.count / seconds,
    meanMs: it.sum_us / 1_000 / Math.max(1, it.count),
    within99Ms: withinMs(it, 0.99),
    failed: it.failed,
  }));
  return rows.sort((a, b) => b.perSecond - a.perSecond).slice(0, most);
}

export function sources(sums: Record<string, Traffic>, most: number): [string, Traffic][] {
  return Object.entries(sums)
    .sort(([, a], [, b]) => b.bytes_in + b.bytes_out - a.bytes_in - a.bytes_out)
    .slice(0, most);
}

/** The sum of minutes, as one while. */
export function together(minutes: readonly Minute[]): Figures {
  const all: Figures = { ms: 0, operations: {}, accounts: {}, clients: {}, running: 0, memory_bytes: 0 };
  for (const { figures } of minutes) {
    all.ms += figures.ms;
    for (const [kind, it] of Object.entries(figures.operations)) {
      const sum = (all.operations[kind] ??= { count: 0, failed: 0, sum_us: 0, buckets: [] });
      sum.count += it.count;
      sum.failed += it.failed;
      sum.sum_us += it.sum_us;
      it.buckets.forEach((count, at) => (sum.buckets[at] = (sum.buckets[at] ?? 0) + count));
    }
    for (const key of ['accounts', 'clients'] as const) {
      for (const [name, it] of Object.entries(figures[key])) {
        const sum = (all[key][name] ??= { requests: 0, bytes_in: 0, bytes_out: 0 });
        sum.requests += it.requests;
        sum.bytes_in += it.bytes_in;
        sum.bytes_out += it.bytes_out;
      }
    }
  }
  return all;
}

export const bytesOf = (figures: Figures, way: 'bytes_in' | 'bytes_out') => Object.values(figures.accounts).reduce((sum, it) => sum + it[way], 0);
/** What people asked for: requests, not what the catalogue did for them. */
export const requestsOf = (figures: Figures) => Object.values(figures.accounts).reduce((sum, it) => sum + it.requests, 0);

/** A value for each step from `from` to `to`; a minute that is not there is nothing. */
export function series(minutes: readonly Minute[], from: number, to: number, value: (figures: Figures) => number): { at: number; value: number }[] {
  const known = new Map(minutes.map((minute) => [minute.at_ms, value(minute.figures) / 60]));
  const points = [];
  for (let at = Math.ceil(from / MINUTE_MS) * MINUTE_MS; at <= to; at += MINUTE_MS) points.push({ at, value: known.get(at) ?? 0 });
  return points;
}
