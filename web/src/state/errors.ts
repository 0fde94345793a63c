/** Failures in words: the drive's own, and ours where it could say none. */
import { ApiError } from '../api/http';
import { t } from './i18n.svelte';
import { notify } from './toasts.svelte';

export function explain(error: unknown): string {
  if (!(error instanceof ApiError)) return error instanceof Error && error.message !== '' ? error.message : t('error.unknown');
  switch (error.status) {
    case 0:
      return t('error.unreachable');
    case 401:
      return t('error.signedOut');
    case 507:
      return t('error.quota');
    default:
      return error.detail === '' ? t('error.status', { status: String(error.status) }) : sentence(error.detail);
  }
}

/** What to do about it. */
export function advice(error: unknown): string {
  if (!(error instanceof ApiError)) return t('advice.again');
  switch (error.status) {
    case 0:
      return t('advice.network');
    case 403:
      return t('advice.forbidden');
    case 404:
      return t('advice.gone');
    case 409:
    case 412:
      return t('advice.changed');
    case 423:
      return t('advice.locked');
    case 507:
      return t('advice.quota');
    default:
      return t('advice.again');
  }
}

export function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

export function complain(error: unknown): void {
  notify(explain(error), { kind: 'error' });
}
