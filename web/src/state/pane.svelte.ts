/** A folder's pane: what the mouse and the keyboard do to its selection, and the actions on what is selected. */
import type { Place } from '../api/types';
import type { Entry } from '../lib/entries';
import { join, nameOf } from '../lib/paths';
import { fileUrl, folderUrl } from '../lib/routes';
import * as select from '../lib/selection';
import * as actions from './actions';
import type { DropPlace } from './dragging.svelte';
import type { FolderState } from './folder.svelte';
import { t } from './i18n.svelte';
import type { MenuItem } from './overlays.svelte';
import { go } from './router.svelte';
import { mayWrite, session, spaceOf, spaceTitle } from './session.svelte';
import { askShare } from './sharing.svelte';

export class Pane {
  /** Whether what is listed can be opened from here. */
  readonly opens: boolean = true;
  renaming = $state<string | null>(null);
  details = $state<string | null>(null);

  constructor(readonly folder: FolderState) {}

  get place(): Place {
    return { space: this.folder.space, path: this.folder.path };
  }

  /** What is here called. */
  get title(): string {
    return nameOf(this.folder.path) || spaceTitle(this.folder.space);
  }

  /** Where files that are put here go; null if none can be. */
  get target(): DropPlace | null {
    return this.writable ? this.place : null;
  }

  /** Whether folders can be made here. */
  get takesFolders(): boolean {
    return this.writable;
  }

  /** Why nothing can be put here. */
  get closed(): string {
    if (session.status === 'visit') return t('link.readOnly');
    return t(spaceOf(this.folder.space)?.shared_by === undefined ? 'files.readOnly' : 'share.readOnly');
  }

  /** What is said where nothing is. */
  get emptiness(): { title: string; text: string } {
    return { title: t('files.empty'), text: this.writable ? t('files.emptyHint') : t('files.emptyReader') };
  }

  /** Whether the caller may share what is here. */
  get shareable(): boolean {
    return spaceOf(this.folder.space)?.role === 'owner' && session.me?.read_only === false;
  }

  /** Whether there is anywhere to copy to. */
  get copyable(): boolean {
    return this.writable || session.status !== 'visit';
  }

  get writable(): boolean {
    return mayWrite(this.folder.space);
  }

  placeOf(name: string): Place {
    return { space: this.folder.space, path: join(this.folder.path, name) };
  }

  urlOf({ node }: Entry): string {
    const at = this.placeOf(node.name);
    return node.kind === 'folder' ? folderUrl(at) : fileUrl(at);
  }

  open(entry: Entry): void {
    go(this.urlOf(entry));
  }

  /** Who comes by the Tab key finds the first row active; who just opened the folder sees it calm. */
  focused(event: FocusEvent): void {
    const { folder } = this;
    if (event.relatedTarget === null || folder.selection.active !== null) return;
    if (event.target instanceof Element && event.target.matches(':focus-visible')) {
      folder.selection = select.activate(folder.selection, folder.order[0] ?? null);
    }
  }

  /** A click on a row, but not on its name. */
  click(event: MouseEvent, name: string): void {
    const { folder } = this;
    if (event.shiftKey) folder.selection = select.extend(folder.selection, name, folder.order, event.ctrlKey || event.metaKey);
    else if (event.ctrlKey || event.metaKey) folder.selection = select.toggle(folder.selection, name);
    else folder.selection = select.only(name);
  }

  tick(event: MouseEvent, name: string): void {
    const { folder } = this;
    folder.selection = event.shiftKey
      ? select.extend(folder.selection, name, folder.order, true)
      : select.toggle(folder.selection, name);
  }

  toggleAll(): void {
    const { folder } = this;
    if (folder.chosen.length === folder.shown.length) folder.unselect();
    else folder.selection = select.all(folder.selection, folder.order);
  }

  /** What an action on `name` is about: the selection if `name` is in it. */
  subjects(name: string): Entry[] {
    const { folder } = this;
    if (folder.selection.ids.has(name)) return folder.chosen;
    const entry = folder.byName.get(name);
    return entry ? [entry] : [];
  }

  /** What the keyboard acts on. */
  get current(): Entry[] {
    const { folder } = this;
    if (folder.chosen.length > 0) return folder.chosen;
    const entry = folder.selection.active === null ? undefined : folder.byName.get(folder.selection.active);
    return entry ? [entry] : [];
  }

  private places(entries: Entry[]): Place[] {
    return entries.map((entry) => this.placeOf(entry.node.name));
  }

  download(entries: Entry[]): void {
    actions.download(entries.map(({ node }) => ({ ...this.placeOf(node.name), kind: node.kind })));
  }

  async remove(entries: Entry[]): Promise<void> {
    if (!this.writable || entries.length === 0) return;
    const order = this.folder.order;
    const first = order.indexOf(entries[0]?.node.name ?? '');
    const gone = new Set(entries.map((entry) => entry.node.name));
    const next = order.slice(first).find((name) => !gone.has(name)) ?? order.slice(0, first).findLast((name) => !gone.has(name));
    if (await actions.remove(this.places(entries))) {
      this.folder.selection = { ids: new Set(), anchor: null, active: next ?? null };
    }
  }

  async transfer(kind: 'move' | 'copy', entries: Entry[]): Promise<void> {
    if (entries.length === 0 || (kind === 'move' ? !this.writable : !this.copyable)) return;
    if (await actions.pickAndTransfer(kind, this.places(entries))) this.folder.unselect();
  }

  rename(entries: Entry[]): void {
    const [entry] = entries;
    if (this.writable && entry && entries.length === 1) {
      this.folder.selection = select.only(entry.node.name);
      this.renaming = entry.node.name;
    }
  }

  async renameTo(from: string, to: string): Promise<void> {
    this.renaming = null;
    if (to === from) return;
    if (await actions.rename(this.placeOf(from), to)) this.folder.selection = select.only(to);
  }

  async newFolder(): Promise<void> {
    if (!this.takesFolders) return;
    const name = await actions.newFolder(this.place, (wanted) => this.folder.byName.has(wanted));
    if (name !== null) this.folder.selection = select.only(name);
  }

  showDetails(name: string): void {
    this.details = name;
  }

  menuFor(entries: Entry[]): MenuItem[] {
    const [first] = entries;
    if (!first) return [];
    const one = entries.length === 1;
    const { writable } = this;
    const items: MenuItem[] = [];
    if (one && this.opens) items.push({ label: t('action.open'), icon: first.node.kind === 'folder' ? 'folder' : 'file', shortcut: 'Enter', run: () => this.open(first) });
    items.push({ label: t(one && first.node.kind === 'file' ? 'action.download' : 'action.downloadZip'), icon: 'download', shortcut: '⇧D', run: () => this.download(entries) });
    if (one && writable) items.push({ label: t('action.rename'), icon: 'pencil', shortcut: 'F2', run: () => this.rename(entries) });
    if (writable) items.push({ label: t('action.move'), icon: 'move', shortcut: '⇧M', run: () => void this.transfer('move', entries) });
    if (one && this.shareable) {
      const at = { ...this.placeOf(first.node.name), kind: first.node.kind };
      items.push({ label: t('share.action'), icon: 'share', run: () => askShare(at) });
    }
    if (this.copyable) items.push({ label: t('action.copy'), icon: 'copy', shortcut: '⇧C', run: () => void this.transfer('copy', entries) });
    if (one) {
      if (first.node.kind === 'file' && session.status !== 'visit') {
        items.push({ label: t('versions.title'), icon: 'history', run: () => go(fileUrl(this.placeOf(first.node.name), 'versions')) });
      }
      items.push({ label: t(session.status === 'visit' ? 'details.title' : 'details.titleTags'), icon: 'info', shortcut: '⇧I', run: () => this.showDetails(first.node.name) });
    }
    if (writable) items.push({ label: t('action.delete'), icon: 'trash', shortcut: 'Del', danger: true, apart: true, run: () => void this.remove(entries) });
    return items;
  }
}
