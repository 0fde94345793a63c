/** What is shared by whoever is signed in, as far as lists show it, and the dialog to share something. */
import { shares } from '../api/shares';
import type { Kind, Place } from '../api/types';
import { normal } from '../lib/paths';

export interface Shareable extends Place {
  kind: Kind;
}

let asked = $state.raw<Shareable | null>(null);
let shared = $state.raw<ReadonlySet<string>>(new Set());
let loaded = false;

export const sharing = {
  /** What the dialog is open for. */
  get asked() { return asked; },
};

export function askShare(at: Shareable): void {
  asked = at;
}

export function closeShare(): void {
  asked = null;
  void refreshShared();
}

const key = (at: Place) => `${at.space}/${at.path}`;

/** Whether a place is shared. The list is asked for once, and again when something was shared. */
export function isShared(at: Place): boolean {
  if (!loaded) {
    loaded = true;
    queueMicrotask(() => void refreshShared());
  }
  return shared.has(key(at));
}

async function refreshShared(): Promise<void> {
  try {
    const { by_me } = await shares();
    shared = new Set(by_me.flatMap((one) => (one.path === undefined ? [] : [key({ space: one.space, path: normal(one.path) })])));
  } catch {
    // A mark less in a list; the page of shares says what is the matter.
  }
}
