/** Files and folders dropped or picked, as one flat list with paths. Folders are walked one after the other, bounded. */
import { join, normal } from './paths';

export interface Found {
  files: { path: string; file: File }[];
  /** Folders to be made, also empty ones, parents first. */
  folders: string[];
  /** There were more than a drop may hold. */
  cut: boolean;
}

export const DROPPED_MAX = 200_000;

export function hasFiles(transfer: DataTransfer | null): transfer is DataTransfer {
  return transfer?.types.includes('Files') === true;
}

/** The entries must be taken at once: after the event the list is empty. */
export function collectDropped(transfer: DataTransfer): Promise<Found> {
  const entries: FileSystemEntry[] = [];
  const plain: File[] = [];
  for (const item of transfer.items) {
    if (item.kind !== 'file') continue;
    const entry = item.webkitGetAsEntry();
    if (entry) entries.push(entry);
    else {
      const file = item.getAsFile();
      if (file) plain.push(file);
    }
  }
  return walk(entries, plain);
}

async function walk(entries: FileSystemEntry[], plain: File[]): Promise<Found> {
  const found: Found = { files: plain.map((file) => ({ path: file.name, file })), folders: [], cut: false };
  const queue = entries.map((entry) => ({ entry, path: entry.name }));
  for (let at = 0; at < queue.length; at += 1) {
    const next = queue[at];
    if (!next) break;
    if (found.files.length + found.folders.length >= DROPPED_MAX) return { ...found, cut: true };
    if (next.entry.isFile) {
      const file = await fileOf(next.entry as FileSystemFileEntry);
      if (file) found.files.push({ path: next.path, file });
    } else {
      found.folders.push(next.path);
      for (const entry of await members(next.entry as FileSystemDirectoryEntry)) {
        queue.push({ entry, path: join(next.path, entry.name) });
      }
    }
  }
  return found;
}

function fileOf(entry: FileSystemFileEntry): Promise<File | null> {
  // A file that cannot be read (a dead link, no permission) is left out.
  return new Promise((resolve) => entry.file(resolve, () => resolve(null)));
}

async function members(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    // A browser hands out a hundred at a time.
    const some = await new Promise<FileSystemEntry[]>((resolve) => reader.readEntries(resolve, () => resolve([])));
    if (some.length === 0) return all;
    all.push(...some);
  }
}

/** Files of an `<input>`: a picked folder tells its paths in `webkitRelativePath`. */
export function collectPicked(list: Iterable<File>): Found {
  const folders = new Set<string>();
  const files = [...list].map((file) => {
    const path = normal(file.webkitRelativePath === '' ? file.name : file.webkitRelativePath);
    const parts = path.split('/');
    for (let end = 1; end < parts.length; end += 1) folders.add(parts.slice(0, end).join('/'));
    return { path, file };
  });
  return { files: files.slice(0, DROPPED_MAX), folders: [...folders].sort(), cut: files.length > DROPPED_MAX };
}
