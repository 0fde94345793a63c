/**
 * Messages in the person's language. Only the language in use is loaded. `{name}` is filled in; a key that ends in `_one`
 * has a twin in `_other`, chosen by `n`.
 */
import type English from '../messages/en.json';

export type Language = 'en' | 'de';
type Catalogue = Record<string, string>;
type Plural<K> = K extends `${infer Base}_one` ? Base : K extends `${string}_other` ? never : K;
export type Key = Plural<keyof typeof English>;

export const LANGUAGES: { code: Language; name: string }[] = [
  { code: 'en', name: 'English' },
  { code: 'de', name: 'Deutsch' },
];

const load: Record<Language, () => Promise<{ default: Catalogue }>> = {
  en: () => import('../messages/en.json'),
  de: () => import('../messages/de.json'),
};

let current = $state.raw<{ language: Language; messages: Catalogue; plural: Intl.PluralRules }>({
  language: 'en',
  messages: {},
  plural: new Intl.PluralRules('en'),
});

export async function speak(language: Language): Promise<void> {
  const { default: messages } = await load[language]();
  current = { language, messages, plural: new Intl.PluralRules(language) };
  document.documentElement.lang = language;
}

export function languageInUse(): Language {
  return current.language;
}

/** For dates and numbers: the browser's own flavour of the language in use, if it has one. */
export function locale(): string {
  return navigator.languages.find((tag) => tag.split('-')[0] === current.language) ?? current.language;
}

export function t(key: Key, values: Record<string, string | number> = {}): string {
  const { messages, plural, language } = current;
  let text = messages[key];
  if (text === undefined && typeof values.n === 'number') text = messages[`${key}_${plural.select(values.n)}`] ?? messages[`${key}_other`];
  if (text === undefined) return key;
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    return typeof value === 'number' ? new Intl.NumberFormat(language).format(value) : (value ?? '');
  });
}
