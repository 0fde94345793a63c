/**
 * The difference of two texts, line by line (Myers, "An O(ND) Difference Algorithm and Its Variations", 1986).
 * Bounded: texts too different are told as one removed and one added.
 */

export interface DiffLine {
  mark: ' ' | '-' | '+';
  text: string;
  /** Line number in the old and the new text; absent where it is not. */
  old?: number;
  new?: number;
}

/** The most differing lines that are traced; its square bounds the work. */
const DISTANCE_MAX = 2_000;

export function diffLines(before: string, after: string): DiffLine[] {
  const a = lines(before);
  const b = lines(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const middle = trace(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  return numberLines([
    ...a.slice(0, head).map((text) => ({ mark: ' ' as const, text })),
    ...middle,
    ...a.slice(a.length - tail).map((text) => ({ mark: ' ' as const, text })),
  ]);
}

function lines(text: string): string[] {
  if (text === '') return [];
  const parts = text.replaceAll('\r\n', '\n').split('\n');
  if (parts.at(-1) === '') parts.pop();
  return parts;
}

function trace(a: string[], b: string[]): DiffLine[] {
  const all = () => [
    ...a.map((text) => ({ mark: '-' as const, text })),
    ...b.map((text) => ({ mark: '+' as const, text })),
  ];
  if (a.length === 0 || b.length === 0) return all();
  const max = Math.min(a.length + b.length, DISTANCE_MAX);
  const reach = new Map<number, number>([[1, 0]]);
  const steps: Map<number, number>[] = [];
  for (let d = 0; d <= max; d += 1) {
    steps.push(new Map(reach));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reach.get(k - 1) ?? 0) < (reach.get(k + 1) ?? 0));
      let x = down ? (reach.get(k + 1) ?? 0) : (reach.get(k - 1) ?? 0) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      reach.set(k, x);
      if (x >= a.length && y >= b.length) return walkBack(a, b, steps, d);
    }
    // The steps kept grow with the square of the distance; a few million numbers are enough.
    if (d * d > 4_000_000) break;
  }
  return all();
}

function walkBack(a: string[], b: string[], steps: Map<number, number>[], distance: number): DiffLine[] {
  const out: DiffLine[] = [];
  let x = a.length;
  let y = b.length;
  for (let d = distance; d > 0; d -= 1) {
    const reach = steps[d] ?? new Map<number, number>();
    const k = x - y;
    const down = k === -d || (k !== d && (reach.get(k - 1) ?? 0) < (reach.get(k + 1) ?? 0));
    const fromK = down ? k + 1 : k - 1;
    const fromX = reach.get(fromK) ?? 0;
    const fromY = fromX - fromK;
    while (x > fromX && y > fromY) {
      out.push({ mark: ' ', text: a[x - 1] ?? '' });
      x -= 1;
      y -= 1;
    }
    if (x === fromX && y === fromY) continue;
    if (down) {
      out.push({ mark: '+', text: b[y - 1] ?? '' });
      y -= 1;
    } else {
      out.push({ mark: '-', text: a[x - 1] ?? '' });
      x -= 1;
    }
  }
  while (x > 0 && y > 0) {
    out.push({ mark: ' ', text: a[x - 1] ?? '' });
    x -= 1;
    y -= 1;
  }
  return out.reverse();
}

function numberLines(found: DiffLine[]): DiffLine[] {
  let before = 0;
  let after = 0;
  return found.map(({ mark, text }) => {
    const line: DiffLine = { mark, text };
    if (mark !== '+') line.old = before += 1;
    if (mark !== '-') line.new = after += 1;
    return line;
  });
}
