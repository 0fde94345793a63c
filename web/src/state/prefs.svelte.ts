/** What a person chose for this browser: theme, language, how lists look. */
import { speak, type Language } from './i18n.svelte';

export type Theme = 'system' | 'light' | 'dark' | 'contrast';
export type Layout = 'list' | 'grid';
export type SortBy = 'name' | 'size' | 'date' | 'type';

interface Stored {
  theme: Theme;
  language: Language | 'auto';
  layout: Layout;
  sortBy: SortBy;
  descending: boolean;
  /** Shortcuts of one key; some people need them off (WCAG 2.1.4). */
  shortcuts: boolean;
}

const KEY = 'holdfast.prefs';
const DEFAULTS: Stored = { theme: 'system', language: 'auto', layout: 'list', sortBy: 'name', descending: false, shortcuts: true };

function read(): Stored {
  try {
    return { ...DEFAULTS, ...(JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<Stored>) };
  } catch {
    return DEFAULTS;
  }
}

let stored = $state.raw<Stored>(read());

export const prefs = {
  get theme() { return stored.theme; },
  get language() { return stored.language; },
  get layout() { return stored.layout; },
  get sortBy() { return stored.sortBy; },
  get descending() { return stored.descending; },
  get shortcuts() { return stored.shortcuts; },
};

export function choose(change: Partial<Stored>): void {
  stored = { ...stored, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(stored));
  } catch {
    // A browser that keeps nothing still works for now.
  }
  if ('theme' in change) applyTheme();
  if ('language' in change) void applyLanguage();
}

export function applyTheme(): void {
  const root = document.documentElement;
  if (stored.theme === 'system') delete root.dataset.theme;
  else root.dataset.theme = stored.theme;
}

export function applyLanguage(): Promise<void> {
  if (stored.language !== 'auto') return speak(stored.language);
  const wanted = navigator.languages.map((tag) => tag.split('-')[0]);
  return speak(wanted.find((tag): tag is Language => tag === 'de' || tag === 'en') ?? 'en');
}
