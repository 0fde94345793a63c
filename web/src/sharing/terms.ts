/** A share's terms in words, and what forms make of them. */
import type { Access, Share } from '../api/types';
import { fullDate } from '../lib/format';
import { locale, t } from '../state/i18n.svelte';

export function accessWord(access: Access): string {
  return t(`share.access.${access}`);
}

/** `may read · until … · 2 of 5 downloads · with a password`. */
export function terms(share: Share): string {
  return [
    accessWord(share.access),
    ...(share.expires_ms === undefined ? [] : [t('share.until', { when: fullDate(share.expires_ms, locale()) })]),
    ...(share.downloads_max === undefined ? [] : [t('share.downloads', { n: share.downloads, most: String(share.downloads_max) })]),
    ...(share.has_password ? [t('share.withPassword')] : []),
  ].join(' · ');
}

/** The last moment of a day as `<input type="date">` tells it; undefined for none. */
export function endOfDay(text: string): number | undefined {
  const [year, month, day] = text.split('-').map(Number);
  if (year === undefined || month === undefined || day === undefined) return undefined;
  return new Date(year, month - 1, day, 23, 59, 59).getTime();
}

/** A moment's day as `<input type="date">` takes it. */
export function dayOf(ms: number | undefined): string {
  if (ms === undefined) return '';
  const day = new Date(ms);
  return [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, '0')).join('-');
}

/** Today as `<input type="date">` takes it. */
export const today = () => dayOf(Date.now());

/** What a form asks for a link. */
export interface LinkTerms {
  password: string;
  ends: string;
  downloads: number | null;
  label: string;
}

export const noTerms = (): LinkTerms => ({ password: '', ends: '', downloads: null, label: '' });

const LETTERS = 'abcdefghijkmnpqrstuvwxyz23456789';
/** Four groups of four letters and digits that are told apart easily: 79 bits. */
export function makePassword(): string {
  const groups = Array.from({ length: 4 }, () =>
    Array.from(crypto.getRandomValues(new Uint8Array(4)), (byte) => LETTERS[byte % LETTERS.length]).join(''),
  );
  return groups.join('-');
}

/** A text as one word of a shell. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** How a program gets what a link leads to, in one command; none for links that take a password, or give nothing. The secret is in a header, which no log keeps. */
export function commandOf(share: Share, origin = location.origin): string {
  const [, id, secret] = /^\/l\/([^#]+)#(.+)$/.exec(share.link ?? '') ?? [];
  if (id === undefined || secret === undefined || share.has_password || share.access === 'upload' || share.kind === undefined) return '';
  const name = (share.path ?? '').split('/').findLast((part) => part !== '') ?? share.space;
  const [what, file] = share.kind === 'folder' ? ['archive/link/', `${name}.zip`] : ['content/link/', name];
  return `curl -f -H ${quoted(`Authorization: Bearer ${secret}`)} -o ${quoted(file)} ${quoted(`${origin}/api/v1/links/${id}/${what}`)}`;
}

/** The whole address of a link. */
export function linkAddress(share: Share): string {
  return share.link === undefined ? '' : location.origin + share.link;
}
