/** Search and tags. */
import { normal } from '../lib/paths';
import { ask } from './http';
import type { ItemResult, Place, SearchPage, SearchQuery, TagCount } from './types';

export async function search(query: SearchQuery, signal?: AbortSignal): Promise<SearchPage> {
  const page = await ask<SearchPage>('GET', '/search', { query: { ...query }, ...(signal && { signal }) });
  return { ...page, hits: page.hits.map((hit) => ({ ...hit, path: normal(hit.path) })) };
}

export const tagsInUse = (space: string, prefix: string, signal?: AbortSignal) =>
  ask<TagCount[]>('GET', '/tags', { query: { space, prefix }, ...(signal && { signal }) });

export const tag = (items: Place[], add: string[], remove: string[]) =>
  ask<{ results: ItemResult[] }>('POST', '/tags', { json: { items, add, remove } });
