/** Uploads the drive remembers; their bytes go by tus. */
import { normal } from '../lib/paths';
import { API, ask } from './http';
import type { Conflict, Unfinished } from './types';

const urlOf = (id: string) => `/uploads/${encodeURIComponent(id)}`;

export const addressOf = (id: string) => API + urlOf(id);

export async function unfinished(): Promise<Unfinished[]> {
  const list = await ask<Unfinished[]>('GET', '/uploads');
  return list.map((upload) => ({ ...upload, path: normal(upload.path) }));
}

export const upload = (id: string) => ask<Unfinished>('GET', urlOf(id));

/** Makes the file of an upload that waits. */
export const finish = (id: string, conflict: Conflict) => ask<Unfinished>('POST', `${urlOf(id)}/finish`, { json: { conflict } });

/** Gives an upload up; if the drive cannot be told, it expires. */
export function forget(id: string): void {
  ask('DELETE', urlOf(id), { headers: { 'Tus-Resumable': '1.0.0' } }).catch(() => {});
}
