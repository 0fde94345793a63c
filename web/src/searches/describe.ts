/** What a saved search looks for, in words. */
import type { SavedQuery } from '../api/types';
import { bytes, when } from '../lib/format';
import { ageOf, TYPES } from '../lib/searching';
import { locale, t } from '../state/i18n.svelte';

export function describe({ q, space, kind, type, min_bytes, max_bytes, after_ms, before_ms, within_days, tags }: SavedQuery): string[] {
  const age = within_days === undefined ? undefined : ageOf(within_days);
  const known = TYPES.find((one) => one === type);
  return [
    ...(q === '' ? [] : [`“${q}”`]),
    ...tags.map((tag) => t('smart.tag', { tag })),
    ...(known === undefined ? [] : [t(`search.type.${known}`)]),
    ...(kind === undefined ? [] : [t(kind === 'file' ? 'search.files' : 'search.folders')]),
    ...(min_bytes === undefined ? [] : [t('smart.from', { size: bytes(min_bytes, locale()) })]),
    ...(max_bytes === undefined ? [] : [t('smart.upTo', { size: bytes(max_bytes, locale()) })]),
    ...(after_ms === undefined ? [] : [t('smart.since', { date: when(after_ms, locale()) })]),
    ...(before_ms === undefined ? [] : [t('smart.before', { date: when(before_ms, locale()) })]),
    ...(within_days === undefined ? [] : [age === undefined ? t('smart.within', { days: String(within_days) }) : t(`search.age.${age}`)]),
    ...(space === undefined ? [] : [t('smart.in', { space })]),
  ];
}
