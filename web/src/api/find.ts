/** Search and tags. */
import { normal } from '../lib/paths';
import { ask } from './http';
import type { ItemResult, Place, SavedSearch, SavedWish, SearchPage, SearchQuery, TagCount } from './types';

export async function search(query: SearchQuery, signal?: AbortSignal): Promise<SearchPage> {
  return read(await ask<SearchPage>('GET', '/search', { query: { ...query }, ...(signal && { signal }) }));
}

const read = (page: SearchPage): SearchPage => ({ ...page, hits: page.hits.map((hit) => ({ ...hit, path: normal(hit.path) })) });

/** Hits of one page, at most. */
export const HITS_MAX = 200;

/** What a saved search finds now. */
export async function savedNodes(id: number, cursor: string | undefined, signal?: AbortSignal): Promise<SearchPage> {
  return read(await ask<SearchPage>('GET', `/searches/${id}/nodes`, { query: { limit: HITS_MAX, cursor }, ...(signal && { signal }) }));
}

const readSaved = (saved: SavedSearch): SavedSearch =>
  saved.folder ? { ...saved, folder: { ...saved.folder, path: normal(saved.folder.path) } } : saved;
const rooted = <W extends Partial<SavedWish>>(wish: W): W => (wish.folder ? { ...wish, folder: { ...wish.folder, path: `/${wish.folder.path}` } } : wish);

export const savedSearches = async () => (await ask<SavedSearch[]>('GET', '/searches')).map(readSaved);
export const saveSearch = async (wish: SavedWish) => readSaved(await ask<SavedSearch>('POST', '/searches', { json: rooted(wish) }));
export const changeSearch = async (id: number, wish: Partial<SavedWish>) =>
  readSaved(await ask<SavedSearch>('PATCH', `/searches/${id}`, { json: rooted(wish) }));
export const removeSearch = (id: number) => ask<void>('DELETE', `/searches/${id}`);

export const tagsInUse = (space: string, prefix: string, signal?: AbortSignal) =>
  ask<TagCount[]>('GET', '/tags', { query: { space, prefix }, ...(signal && { signal }) });

export const tag = (items: Place[], add: string[], remove: string[]) =>
  ask<{ results: ItemResult[] }>('POST', '/tags', { json: { items, add, remove } });
