/** Folders that changed, told by whoever changed them to whoever shows them. */
import type { Place } from '../api/types';

type Listener = (folders: Place[]) => void;
const listeners = new Set<Listener>();

export function onChange(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function changed(...folders: Place[]): void {
  for (const listener of listeners) listener(folders);
}
