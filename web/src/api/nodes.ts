/** Files and folders: looking, making, moving, content. */
import { placeUrl } from '../lib/paths';
import { API, ask, send, url } from './http';
import type { Conflict, FolderPage, ItemResult, Move, Node, NodeDetails, Place } from './types';

/** Entries of a folder asked for at once. */
export const PAGE_ENTRIES = 10_000;
/** Entries asked for first, so that a big folder shows its beginning at once. */
export const FIRST_ENTRIES = 200;
/** Items of a batch, at most. */
export const BATCH_MAX = 1_000;

export const node = (at: Place, signal?: AbortSignal) =>
  ask<NodeDetails>('GET', `/nodes/${placeUrl(at.space, at.path)}`, { ...(signal && { signal }) });

export const folder = (at: Place, after: string | undefined, limit: number, signal?: AbortSignal) =>
  ask<FolderPage>('GET', `/folders/${placeUrl(at.space, at.path)}`, {
    query: { after, limit },
    ...(signal && { signal }),
  });

export const makeFolder = (at: Place) => ask<Node>('POST', `/folders/${placeUrl(at.space, at.path)}`);

export const move = (items: Move[], conflict: Conflict) => batches('/move', items, { conflict });
export const copy = (items: Move[], conflict: Conflict) => batches('/copy', items, { conflict });
export const remove = (items: Place[]) => batches('/remove', items, {});

async function batches(path: string, items: unknown[], more: object): Promise<ItemResult[]> {
  const results: ItemResult[] = [];
  for (let at = 0; at < items.length; at += BATCH_MAX) {
    const json = { items: items.slice(at, at + BATCH_MAX), ...more };
    results.push(...(await ask<{ results: ItemResult[] }>('POST', path, { json })).results);
  }
  return results;
}

/** The address of a file's bytes, for elements that load by themselves. */
export function contentUrl(at: Place, options: { version?: number; download?: boolean; etag?: string } = {}): string {
  return url(`/content/${placeUrl(at.space, at.path)}`, {
    version: options.version,
    download: options.download ? '1' : undefined,
  });
}

/** The address of a small picture of a file that is one; another version has another address. */
export function thumbnailUrl(at: Place, etag: string, size?: 1024): string {
  return url(`/thumbnails/${placeUrl(at.space, at.path)}`, { size, v: etag.replaceAll('"', '') });
}

export function archiveUrl(at: Place): string {
  return `${API}/archive/${placeUrl(at.space, at.path)}`;
}

export interface Text {
  text: string;
  etag: string;
}

/** A file as text, with the ETag to write it back under. */
export async function readText(at: Place, version?: number, signal?: AbortSignal): Promise<Text> {
  const response = await send('GET', `/content/${placeUrl(at.space, at.path)}`, {
    query: { version },
    ...(signal && { signal }),
  });
  return { text: await response.text(), etag: response.headers.get('ETag') ?? '' };
}

export type Condition = { ifMatch: string } | { ifAbsent: true } | null;

/** Writes a file whole. */
export function write(at: Place, body: ArrayBuffer | string, condition: Condition, options: { modifiedMs?: number; tags?: readonly string[]; signal?: AbortSignal } = {}) {
  const headers: Record<string, string> = { 'Content-Type': 'application/octet-stream' };
  if (condition && 'ifMatch' in condition) headers['If-Match'] = condition.ifMatch;
  if (condition && 'ifAbsent' in condition) headers['If-None-Match'] = '*';
  return ask<Node>('PUT', `/content/${placeUrl(at.space, at.path)}`, {
    query: { modified_ms: options.modifiedMs, tag: options.tags },
    body,
    headers,
    ...(options.signal && { signal: options.signal }),
  });
}
