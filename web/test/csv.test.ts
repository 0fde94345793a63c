import { describe, expect, it } from 'vitest';
import { CSV_COLUMNS_MAX, CSV_ROWS_MAX, parseCsv, separatorOf } from '../src/lib/csv';

describe('CSV', () => {
  it('reads quotes, doubled quotes, separators and ends of lines in quotes', () => {
    expect(parseCsv('a,"b ""x"", c","d\ne"\r\n1,2,3\n').rows).toEqual([['a', 'b "x", c', 'd\ne'], ['1', '2', '3']]);
  });

  it('guesses the separator outside quotes', () => {
    expect(separatorOf('"a,b,c,d";2;3\n')).toBe(';');
    expect(parseCsv('a\tb\n1\t2').rows).toEqual([['a', 'b'], ['1', '2']]);
  });

  it('keeps empty cells at either end', () => {
    expect(parseCsv(',a,').rows).toEqual([['', 'a', '']]);
  });

  it('keeps a cell as text, whatever formula or markup it holds', () => {
    expect(parseCsv('=HYPERLINK("x"),<img src=x onerror=alert(1)>\n').rows[0]).toEqual(['=HYPERLINK("x")', '<img src=x onerror=alert(1)>']);
  });

  it('ends, whatever is not closed', () => {
    expect(parseCsv('"never closed').rows).toEqual([['never closed']]);
    expect(parseCsv('"a"b,c').rows).toEqual([['ab', 'c']]);
    expect(parseCsv('').rows).toEqual([]);
  });

  it('has a limit in both directions and says that it cut', () => {
    expect(parseCsv('x\n'.repeat(CSV_ROWS_MAX + 5))).toMatchObject({ cut: true });
    const wide = parseCsv(`${'x,'.repeat(CSV_COLUMNS_MAX + 5)}x`);
    expect(wide.cut).toBe(true);
    expect(wide.rows[0]).toHaveLength(CSV_COLUMNS_MAX);
  });
});
