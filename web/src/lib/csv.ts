/** CSV and TSV into rows (RFC 4180, forgiving), bounded: a table in a page has rows and columns at most. */

export const CSV_ROWS_MAX = 5_000;
export const CSV_COLUMNS_MAX = 200;

export interface Table {
  rows: string[][];
  /** More rows or columns were there. */
  cut: boolean;
}

/** The separator the first line uses most, outside quotes. */
export function separatorOf(text: string): string {
  const counts = new Map<string, number>([[',', 0], [';', 0], ['\t', 0], ['|', 0]]);
  let quoted = false;
  for (const c of text.slice(0, 10_000)) {
    if (c === '"') quoted = !quoted;
    else if (c === '\n' && !quoted) break;
    else if (!quoted && counts.has(c)) counts.set(c, (counts.get(c) ?? 0) + 1);
  }
  let best = ',';
  for (const [separator, n] of counts) if (n > (counts.get(best) ?? 0)) best = separator;
  return best;
}

export function parseCsv(source: string, separator = separatorOf(source)): Table {
  const text = source.startsWith('\ufeff') ? source.slice(1) : source;
  const rows: string[][] = [];
  let row: string[] = [];
  let cut = false;
  let at = 0;

  const cell = (value: string) => {
    if (row.length < CSV_COLUMNS_MAX) row.push(value);
    else cut = true;
  };
  while (at < text.length) {
    if (rows.length >= CSV_ROWS_MAX) return { rows, cut: true };
    const [value, next] = text[at] === '"' ? quotedCell(text, at, separator) : plainCell(text, at, separator);
    cell(value);
    const stop = text[next];
    at = next + 1;
    if (stop === separator) {
      if (at >= text.length) cell('');
      continue;
    }
    if (stop === '\r' && text[at] === '\n') at += 1;
    rows.push(row);
    row = [];
  }
  if (row.length > 0) rows.push(row);
  return { rows, cut };
}

/** A cell and where it stops: at a separator, an end of line or the end. */
function plainCell(text: string, from: number, separator: string): [string, number] {
  let end = from;
  while (end < text.length && text[end] !== separator && text[end] !== '\n' && text[end] !== '\r') end += 1;
  return [text.slice(from, end), end];
}

function quotedCell(text: string, from: number, separator: string): [string, number] {
  let value = '';
  let at = from + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return [value + text.slice(at), text.length];
    value += text.slice(at, quote);
    if (text[quote + 1] !== '"') {
      // What follows a closing quote belongs to the cell, as spreadsheets read it.
      const [rest, end] = plainCell(text, quote + 1, separator);
      return [value + rest, end];
    }
    value += '"';
    at = quote + 2;
  }
}
