/** Quotas as people write them: GiB, nothing for none. */
import { t } from '../state/i18n.svelte';

const GIB = 2 ** 30;

export const gibOf = (bytes: number | undefined) => (bytes === undefined ? '' : String(Math.round((bytes / GIB) * 1_000) / 1_000));

/** Null is unlimited. What is no number is thrown, in words: NaN would be null on its way. */
export function quotaOf(text: string): number | null {
  const clean = text.trim().replace(',', '.');
  const bytes = Math.round(Number(clean) * GIB);
  if (!Number.isSafeInteger(bytes) || bytes < 0) throw new Error(t('admin.noNumber'));
  return clean === '' ? null : bytes;
}
