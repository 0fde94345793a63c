/**
 * How a file goes out. Small ones are written whole in one request; large ones by tus, which goes on where it was after a
 * lost network or a reload. The tus client is a chunk of its own, loaded with the first large file.
 */
import { ApiError } from '../api/http';
import { makeFolder, write } from '../api/nodes';
import { forget } from '../api/uploads';
import { nameOf, numbered, parent, join } from '../lib/paths';
import { spaceOf } from './session.svelte';
import { LARGE_BYTES, type Item, type Outcome, type Transport } from '../lib/queue';

/** Names tried for keeping both. */
const NUMBERED_MAX = 100;

export class Uploader implements Transport {
  async send(item: Item, progress: (sent: number) => void, signal: AbortSignal): Promise<Outcome> {
    const { file } = item;
    // A drop box takes nothing written under a name: only uploads, which find one that is free.
    if (item.size >= LARGE_BYTES || item.remembered !== null || spaceOf(item.space)?.uploads_only) {
      if (file) await readable(file.slice(0, 1));
      const { sendResumable } = await import('./resumable');
      return sendResumable(item, progress, signal);
    }
    if (!file) throw new ApiError(400, 'the file is not here any more');
    return sendWhole(item, file, signal);
  }

  discard(item: Item): void {
    if (item.remembered !== null) forget(item.remembered);
  }
}

/** A file that changed or went since it was picked fails here, with words, and not in the middle of a request. */
async function readable(file: Blob): Promise<ArrayBuffer> {
  try {
    return await file.arrayBuffer();
  } catch {
    throw new ApiError(400, 'the file cannot be read: it may have been moved, changed or be a folder');
  }
}

async function sendWhole(item: Item, file: File, signal: AbortSignal): Promise<Outcome> {
  // Read first: a small file is at hand then for every name that is tried, and a browser sends memory faster than a file.
  const body = await readable(file);
  const options = { modifiedMs: file.lastModified, tags: item.tags, signal };
  for (let n = 1; n <= NUMBERED_MAX; n += 1) {
    const name = n === 1 ? nameOf(item.path) : numbered(nameOf(item.path), n);
    const at = { space: item.space, path: join(parent(item.path), name) };
    try {
      await write(at, body, item.conflict === 'replace' ? null : { ifAbsent: true }, options);
      return { kind: 'done' };
    } catch (error) {
      if (!isTaken(error)) throw error;
      if (item.conflict !== 'keep-both') return { kind: 'conflict' };
    }
  }
  return { kind: 'conflict' };
}

function isTaken(error: unknown): boolean {
  return error instanceof ApiError && error.status === 412;
}

/** Makes folders, parents first; those that exist are fine. */
export async function makeFolders(space: string, paths: string[]): Promise<void> {
  const byDepth = new Map<number, string[]>();
  for (const path of paths) {
    const depth = path.split('/').length;
    byDepth.set(depth, [...(byDepth.get(depth) ?? []), path]);
  }
  for (const depth of [...byDepth.keys()].sort((a, b) => a - b)) {
    await inTurns(byDepth.get(depth) ?? [], async (path) => {
      try {
        await makeFolder({ space, path });
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 409)) throw error;
      }
    });
  }
}

const SIDE_BY_SIDE = 4;
async function inTurns<T>(items: T[], run: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const item = items[next++];
      if (item !== undefined) await run(item);
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker));
}
