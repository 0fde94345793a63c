/** The account's saved searches, and the dialog that saves or changes one. */
import * as api from '../api/find';
import type { Place, SavedQuery, SavedSearch } from '../api/types';
import { smartUrl } from '../lib/routes';
import { complain } from './errors';
import { t } from './i18n.svelte';
import { confirm } from './overlays.svelte';
import { go } from './router.svelte';
import { session } from './session.svelte';
import { notify } from './toasts.svelte';

/** What the dialog is open for; without an id, a new one. */
export interface Draft {
  id?: number;
  name: string;
  query: SavedQuery;
  folder: Place | null;
}

let all = $state.raw<SavedSearch[] | null>(null);
let draft = $state.raw<Draft | null>(null);

export const searches = {
  /** By name; null until they are known. */
  get all() { return all; },
  get draft() { return draft; },
};

export function askSave(what: Draft): void {
  draft = what;
}

export function closeSave(): void {
  draft = null;
}

export async function loadSearches(): Promise<void> {
  try {
    all = await api.savedSearches();
  } catch (error) {
    // A list less at the side; the page of a saved search says what is the matter.
    all ??= [];
    if (session.online) complain(error);
  }
}

function put(saved: SavedSearch): void {
  const others = (all ?? []).filter((one) => one.id !== saved.id);
  all = [...others, saved].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Saves what the dialog says; fails with what the drive says. */
export async function save({ id, name, query, folder }: Draft): Promise<void> {
  const saved = id === undefined ? await api.saveSearch({ name, query, folder }) : await api.changeSearch(id, { name, folder });
  put(saved);
  closeSave();
  notify(t('smart.saved', { name }));
  go(smartUrl(saved.id));
}

/** Another query for a search that is kept. */
export async function requery(saved: SavedSearch, query: SavedQuery): Promise<void> {
  try {
    put(await api.changeSearch(saved.id, { query }));
    notify(t('smart.saved', { name: saved.name }));
    go(smartUrl(saved.id));
  } catch (error) {
    complain(error);
  }
}

export async function remove(saved: SavedSearch): Promise<void> {
  const sure = await confirm({ title: t('smart.removeTitle'), text: t('smart.removeText', { name: saved.name }), action: t('smart.remove'), danger: true });
  if (!sure) return;
  try {
    await api.removeSearch(saved.id);
    all = (all ?? []).filter((one) => one.id !== saved.id);
    go('/');
  } catch (error) {
    complain(error);
  }
}

$effect.root(() => {
  // Of its own: what the session knows of the account changes with each change of a file, and a list that is loaded anew is empty for a while.
  const name = $derived(session.status === 'in' ? session.me?.name : undefined);
  $effect(() => {
    all = null;
    if (name !== undefined) void loadSearches();
  });
});
