/** What a saved search looks for, in words. */
import type { SavedQuery } from '../api/types';
import { bytes, when } from '../lib/format';
import { TYPES } from '../lib/searching';
import { locale, t } from '../state/i18n.svelte';

export function describe({ q, space, kind, type, min_bytes, max_bytes, after_ms, before_ms, tags }: SavedQuery): string[] {
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
    ...(space === undefined ? [] : [t('smart.in', { space })]),
  ];
}
