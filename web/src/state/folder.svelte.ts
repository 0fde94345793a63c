/**
 * One folder as it is shown: its entries, loaded in pages, sorted and filtered. Up to 100,000 entries; so entries are plain
 * objects in plain arrays, and only the arrays are watched.
 */
import { folder as ask, FIRST_ENTRIES, PAGE_ENTRIES } from '../api/nodes';
import type { Node, Role } from '../api/types';
import { arrange, entryOf, type Entry } from '../lib/entries';
import { fold } from '../lib/natural';
import { clear, keep, NOTHING, type Selection } from '../lib/selection';
import { prefs } from './prefs.svelte';

export class FolderState {
  entries = $state.raw<Entry[]>([]);
  folder = $state.raw<Node | null>(null);
  role = $state<Role>('reader');
  loading = $state(true);
  /** All pages are here. */
  complete = $state(false);
  error = $state.raw<unknown>(null);
  filter = $state('');
  selection = $state.raw<Selection>(NOTHING);
  /** Where the list was scrolled to. */
  top = $state(0);
  protected abort = new AbortController();

  readonly sorted = $derived(arrange(this.entries, prefs.sortBy, prefs.descending));
  readonly shown = $derived.by(() => {
    const words = fold(this.filter.trim());
    return words === '' ? this.sorted : this.sorted.filter((entry) => entry.folded.includes(words));
  });
  readonly order = $derived(this.shown.map((entry) => entry.node.name));
  readonly byName = $derived(new Map(this.entries.map((entry) => [entry.node.name, entry])));

  constructor(
    readonly space: string,
    readonly path: string,
  ) {}

  /** Loads all pages; the first is small, so that it is there at once. What is shown stays until the new is complete. */
  async load(): Promise<void> {
    this.abort.abort();
    const abort = (this.abort = new AbortController());
    const fresh = this.entries.length === 0;
    const found: Entry[] = [];
    this.loading = true;
    this.complete = false;
    try {
      let after: string | undefined;
      do {
        const limit = after === undefined && fresh ? FIRST_ENTRIES : PAGE_ENTRIES;
        const page = await ask({ space: this.space, path: this.path }, after, limit, abort.signal);
        if (abort.signal.aborted) return;
        this.folder = page.folder;
        this.role = page.role;
        for (const node of page.entries) found.push(entryOf(node));
        if (fresh) this.entries = found.slice();
        after = page.next ?? undefined;
      } while (after !== undefined);
      this.entries = found;
      this.selection = keep(this.selection, (name) => this.byName.has(name));
      this.error = null;
      this.complete = true;
    } catch (error) {
      if (!abort.signal.aborted) this.error = error;
    } finally {
      if (!abort.signal.aborted) this.loading = false;
    }
  }

  stop(): void {
    this.abort.abort();
  }

  /** What is selected, in the order shown; hidden by a filter is not selected. */
  readonly chosen = $derived(this.selection.ids.size === 0 ? [] : this.shown.filter((entry) => this.selection.ids.has(entry.node.name)));

  unselect(): void {
    this.selection = clear(this.selection);
  }
}

/**
 * Makes state that outlives the page which first shows it. What a class derives belongs to whatever runs when it is made, and would not
 * be worked out any more when that is gone.
 */
export function lasting<T>(make: () => T): T {
  let made!: T;
  $effect.root(() => {
    made = make();
  });
  return made;
}

/** Folders seen lately keep their entries, so that going back shows them at once. */
const KEPT_MAX = 12;
const kept = new Map<string, FolderState>();

export function folderAt(space: string, path: string): FolderState {
  const key = `${space}/${path}`;
  const folder = kept.get(key) ?? lasting(() => new FolderState(space, path));
  kept.delete(key);
  kept.set(key, folder);
  const [oldest] = kept.keys();
  if (kept.size > KEPT_MAX && oldest !== undefined) kept.delete(oldest);
  return folder;
}

/** Another person signed in: nothing of the last one stays. */
export function forgetFolders(): void {
  kept.clear();
}
