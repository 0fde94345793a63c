/** What was: trash and versions. */
import { normal } from '../lib/paths';
import { ask } from './http';
import type { Node, Place, TrashEntry, Version } from './types';

const spaceUrl = (space: string) => `/spaces/${encodeURIComponent(space)}`;

/** Entries of the trash told at once, at most. */
export const TRASH_PAGE = 1_000;

export async function trash(space: string, before?: number): Promise<TrashEntry[]> {
  const entries = await ask<TrashEntry[]>('GET', `${spaceUrl(space)}/trash`, { query: { before, limit: TRASH_PAGE } });
  return entries.map((entry) => ({ ...entry, path: normal(entry.path) }));
}

export const restoreTrash = (space: string, entry: number, to?: string) =>
  ask<Node>('POST', `${spaceUrl(space)}/trash/${entry}`, { json: to === undefined ? {} : { to } });

export const purge = (space: string, entry: number) =>
  ask<{ freed_bytes: number }>('DELETE', `${spaceUrl(space)}/trash/${entry}`);

export const emptyTrash = (space: string) => ask<{ freed_bytes: number }>('DELETE', `${spaceUrl(space)}/trash`);

export const versions = (at: Place) => ask<Version[]>('GET', `${spaceUrl(at.space)}/versions`, { query: { path: at.path } });

export const restoreVersion = (at: Place, version: number) =>
  ask<Node>('POST', `${spaceUrl(at.space)}/versions/restore`, { json: { path: at.path, version } });
