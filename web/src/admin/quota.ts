/** Quotas as people write them: GiB, nothing for none. */
const GIB = 2 ** 30;

export const gibOf = (bytes: number | undefined) => (bytes === undefined ? '' : String(Math.round((bytes / GIB) * 1_000) / 1_000));

/** Null is unlimited. What is no number is one that the drive refuses: NaN would be null on its way. */
export function quotaOf(text: string): number | null {
  const clean = text.trim().replace(',', '.');
  const bytes = Math.round(Number(clean) * GIB);
  return clean === '' ? null : Number.isSafeInteger(bytes) ? bytes : -1;
}
