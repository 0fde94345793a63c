/** The page of one file: the actions of its folder's list, and where each of them leads from there. */
import { entryOf, type Entry } from '../lib/entries';
import type { Node } from '../api/types';
import { fileUrl, folderUrl, type Tab } from '../lib/routes';
import * as actions from './actions';
import type { FolderState } from './folder.svelte';
import { t } from './i18n.svelte';
import { askName } from './overlays.svelte';
import { Pane } from './pane.svelte';
import { go } from './router.svelte';

export class FilePane extends Pane {
  override readonly opens = false;

  constructor(folder: FolderState, readonly name: string, private readonly tab: Tab) {
    super(folder);
  }

  /** The file, as an entry of its folder; `node` stands in while that is not listed. */
  entry(node: Node | null): Entry[] {
    const listed = this.folder.byName.get(this.name);
    if (listed) return [listed];
    return node ? [entryOf(node)] : [];
  }

  get back(): string {
    return folderUrl(this.place);
  }

  /** Names of the files of the folder, as they are shown there. */
  get files(): string[] {
    return this.folder.shown.filter(({ node }) => node.kind === 'file').map(({ node }) => node.name);
  }

  neighbour(by: number): string | undefined {
    const { files } = this;
    const position = files.indexOf(this.name);
    return position < 0 ? undefined : files[position + by];
  }

  lead(to: string | undefined, tab: Tab = 'preview'): void {
    go(to === undefined ? this.back : fileUrl(this.placeOf(to), tab), { replace: true });
  }

  override showDetails(name: string): void {
    go(fileUrl(this.placeOf(name), 'details'));
  }

  override rename(entries: Entry[]): void {
    if (this.writable && entries.length === 1) void this.askForName();
  }

  private async askForName(): Promise<void> {
    const taken = (wanted: string) => wanted !== this.name && this.folder.byName.has(wanted);
    const name = await askName({ title: t('action.rename'), label: t('rename.label', { name: this.name }), action: t('action.rename'), initial: this.name, taken });
    if (name === null || name === this.name) return;
    if (await actions.rename(this.placeOf(this.name), name)) this.lead(name, this.tab);
  }

  override async remove(entries: Entry[]): Promise<void> {
    if (!this.writable || entries.length === 0) return;
    const next = this.neighbour(1) ?? this.neighbour(-1);
    if (await actions.remove([this.placeOf(this.name)])) this.lead(next);
  }

  override async transfer(kind: 'move' | 'copy', entries: Entry[]): Promise<void> {
    if (entries.length === 0 || (kind === 'move' ? !this.writable : !this.copyable)) return;
    if ((await actions.pickAndTransfer(kind, [this.placeOf(this.name)])) && kind === 'move') this.lead(undefined);
  }
}
