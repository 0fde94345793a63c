/** A saved search as a folder: its hits are the entries, each with a place of its own. */
import { savedNodes } from '../api/find';
import type { Hit, Place, SavedSearch } from '../api/types';
import { entryOf, type Entry } from '../lib/entries';
import { join, parent } from '../lib/paths';
import { folderUrl } from '../lib/routes';
import { keep } from '../lib/selection';
import { toldApart } from '../lib/smart';
import type { DropPlace } from './dragging.svelte';
import { FolderState, lasting } from './folder.svelte';
import { t } from './i18n.svelte';
import type { MenuItem } from './overlays.svelte';
import { Pane } from './pane.svelte';
import { go } from './router.svelte';
import { mayWrite } from './session.svelte';

/** Hits shown at most, as over WebDAV; more is not looked through but searched again. */
const SHOWN_MAX = 1_000;

export class SmartFolder extends FolderState {
  hits = $state.raw<ReadonlyMap<string, Hit>>(new Map());
  more = $state(false);
  indexing = $state(false);

  constructor(readonly saved: SavedSearch) {
    super('', '');
  }

  /** Loads all pages; what is shown stays until the new is complete. */
  override async load(): Promise<void> {
    this.abort.abort();
    const abort = (this.abort = new AbortController());
    const found: Hit[] = [];
    this.loading = true;
    try {
      let cursor: string | undefined;
      do {
        const page = await savedNodes(this.saved.id, cursor, abort.signal);
        if (abort.signal.aborted) return;
        found.push(...page.hits);
        this.more = page.more;
        this.indexing = page.indexing;
        cursor = page.cursor;
      } while (cursor !== undefined && found.length < SHOWN_MAX);
      this.hits = toldApart(found);
      this.entries = [...this.hits].map(([name, { node }]) => entryOf(node.name === name ? node : { ...node, name }));
      this.selection = keep(this.selection, (name) => this.hits.has(name));
      this.error = null;
      this.complete = true;
    } catch (error) {
      if (!abort.signal.aborted) this.error = error;
    } finally {
      if (!abort.signal.aborted) this.loading = false;
    }
  }
}

export class SmartPane extends Pane {
  constructor(private readonly smart: SmartFolder) {
    super(smart);
  }

  override get title(): string {
    return this.smart.saved.name;
  }

  override get target(): DropPlace | null {
    return targetOf(this.smart.saved);
  }

  override get takesFolders(): boolean {
    return false;
  }

  override get shareable(): boolean {
    return false;
  }

  /** Whether anything that is shown may be changed; what may not, the drive refuses by itself. */
  override get writable(): boolean {
    return [...this.smart.hits.values()].some((hit) => mayWrite(hit.space));
  }

  override get copyable(): boolean {
    return true;
  }

  override get closed(): string {
    return t(this.smart.saved.folder ? 'files.readOnly' : 'smart.noFolder');
  }

  override get emptiness(): { title: string; text: string } {
    const { target } = this;
    const tagged = this.smart.saved.query.tags.length > 0;
    const text = target && t(tagged ? 'smart.emptyDropTags' : 'smart.emptyDrop', { folder: join(target.space, target.path) });
    return { title: t('smart.empty'), text: [t('smart.emptyHint'), ...(text === null ? [] : [text])].join(' ') };
  }

  /** As anywhere, and where it lies. */
  override menuFor(entries: Entry[]): MenuItem[] {
    const [open, ...others] = super.menuFor(entries);
    const [first] = entries;
    if (!open || !first) return [];
    if (entries.length > 1) return [open, ...others];
    const at = this.placeOf(first.node.name);
    const show = () => go(folderUrl({ space: at.space, path: parent(at.path) }));
    return [open, { label: t('smart.show'), icon: 'folder', run: show }, ...others];
  }

  override placeOf(name: string): Place {
    const hit = this.smart.hits.get(name);
    return hit ? { space: hit.space, path: hit.path } : { space: '', path: name };
  }
}

/** Where files go that are put into a saved search; null if they cannot be. */
export function targetOf({ folder, query }: SavedSearch): DropPlace | null {
  return folder && mayWrite(folder.space) ? { ...folder, tags: query.tags, filesOnly: true } : null;
}

/** Those seen lately keep their entries, so that going back shows them at once. */
const KEPT_MAX = 4;
const kept = new Map<string, SmartFolder>();

export function smartFolder(saved: SavedSearch): SmartFolder {
  const key = `${saved.id} ${saved.changed_ms}`;
  const folder = kept.get(key) ?? lasting(() => new SmartFolder(saved));
  kept.delete(key);
  kept.set(key, folder);
  const [oldest] = kept.keys();
  if (kept.size > KEPT_MAX && oldest !== undefined) kept.delete(oldest);
  return folder;
}
