import { describe, expect, it } from 'vitest';
import type { Hit } from '../src/api/types';
import { parseRoute, smartUrl } from '../src/lib/routes';
import { paramsOf, queryOf, savedOf } from '../src/lib/searching';
import { toldApart } from '../src/lib/smart';

const hit = (id: number, name: string): Hit => ({
  space: 'ana', path: `${id}/${name}`,
  node: { id, name, kind: 'file', size_bytes: 0, created_ms: 0, modified_ms: 0, etag: '', tags: [] },
});
const shown = (...hits: Hit[]) => [...toldApart(hits)].map(([name, { node }]) => `${name}=${node.id}`).sort();

describe('a smart folder', () => {
  it('keeps the name of the first and tells others by their number', () => {
    expect(shown(hit(9, 'a.txt'), hit(3, 'a.txt'), hit(7, 'a.txt'))).toEqual(['a [7].txt=7', 'a [9].txt=9', 'a.txt=3']);
    expect(shown(hit(1, 'a'), hit(2, 'a'), hit(3, 'a [2]'))).toEqual(['a [2] [2]=2', 'a [2]=3', 'a=1']);
  });

  it('has a query that goes to a URL and comes back as it was', () => {
    const query = {
      q: 'été 2024', space: 'ana', kind: 'file' as const, type: 'pdf', min_bytes: 5, max_bytes: 6, after_ms: -7, before_ms: 8, within_days: 30,
      tags: ['To do', 'b&c'],
    };
    expect(savedOf(queryOf(new URLSearchParams(paramsOf(query).toString())))).toEqual(query);
    expect(savedOf(queryOf(new URLSearchParams('q=a&min_bytes=x&tag=')))).toEqual({ q: 'a', tags: [] });
  });

  it('goes on to mean the last week', () => {
    expect(savedOf(queryOf(new URLSearchParams('q=a&age=week')))).toEqual({ q: 'a', within_days: 7, tags: [] });
    expect(paramsOf({ q: 'a', within_days: 7, tags: [] }).toString()).toBe('q=a&age=week');
  });

  it('has a URL', () => {
    expect(parseRoute(smartUrl(17), '')).toEqual({ page: 'smart', id: 17 });
    for (const bad of ['/smart', '/smart/x', '/smart/-1', `/smart/${'9'.repeat(30)}`]) expect(parseRoute(bad, '')).toEqual({ page: 'unknown' });
  });
});
