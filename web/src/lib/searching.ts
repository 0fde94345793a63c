/** A search as it stands in the URL, and as the API takes it. */
import type { SavedQuery, SearchQuery } from '../api/types';

const MIB = 1024 * 1024;

export const TYPES = ['image', 'video', 'audio', 'pdf', 'text', 'document', 'archive'] as const;
export const SIZES = ['small', 'medium', 'large', 'huge'] as const;
export const AGES = ['day', 'week', 'month', 'year'] as const;

const SIZE_RANGES: Record<string, { min_bytes?: number; max_bytes?: number }> = {
  small: { max_bytes: MIB },
  medium: { min_bytes: MIB, max_bytes: 100 * MIB },
  large: { min_bytes: 100 * MIB, max_bytes: 1024 * MIB },
  huge: { min_bytes: 1024 * MIB },
};
const AGE_DAYS: Record<string, number> = { day: 1, week: 7, month: 31, year: 366 };

/** Only what is known is taken from a URL; anybody may have written it. */
export function queryOf(params: URLSearchParams): SearchQuery {
  const query: SearchQuery = { q: (params.get('q') ?? '').trim() };
  const space = params.get('space');
  if (space) query.space = space;
  const kind = params.get('kind');
  if (kind === 'file' || kind === 'folder') query.kind = kind;
  const type = params.get('type');
  if (type && (TYPES as readonly string[]).includes(type)) query.type = type;
  Object.assign(query, SIZE_RANGES[params.get('size') ?? ''] ?? {});
  const days = AGE_DAYS[params.get('age') ?? ''];
  // Counted by the server from when it looks, so that what is saved goes on to mean the last week.
  if (days !== undefined) query.within_days = days;
  // As they stand in a saved search, which may be of any size and time.
  for (const name of BOUNDS) {
    const value = params.get(name);
    if (value && /^-?\d{1,15}$/.test(value)) query[name] = Number(value);
  }
  const tags = params.getAll('tag').filter((tag) => tag !== '');
  if (tags.length > 0) query.tag = tags;
  return query;
}

const BOUNDS = ['min_bytes', 'max_bytes', 'after_ms', 'before_ms', 'within_days'] as const;

/** The choice of so many days, if it is one. */
export function ageOf(days: number): (typeof AGES)[number] | undefined {
  return AGES.find((age) => AGE_DAYS[age] === days);
}

/** A search as it is saved. */
export function savedOf(query: SearchQuery): SavedQuery {
  const { tag, ...saved } = query;
  delete saved.limit;
  delete saved.cursor;
  return { ...saved, tags: tag ?? [] };
}

/** The URL's parameters for what a saved search looks for. */
export function paramsOf({ tags, ...query }: SavedQuery): URLSearchParams {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    const age = name === 'within_days' ? ageOf(Number(value)) : undefined;
    params.set(age === undefined ? name : 'age', age ?? String(value));
  }
  for (const tag of tags) params.append('tag', tag);
  return params;
}
