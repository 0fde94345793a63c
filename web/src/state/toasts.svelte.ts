/** Short notices, with at most one thing to do. */

export interface Toast {
  id: number;
  text: string;
  kind: 'info' | 'error';
  action?: { label: string; run: () => void };
}

const SHOWN_MS = 6_000;
/** Something to do stays long enough to be reached by keyboard. */
const ACTION_MS = 12_000;
const TOASTS_MAX = 4;

let list = $state.raw<Toast[]>([]);
let nextId = 1;

export const toasts = {
  get all() { return list; },
};

export function notify(text: string, more: Partial<Pick<Toast, 'kind' | 'action'>> = {}): void {
  const toast: Toast = { id: nextId++, text, kind: 'info', ...more };
  list = [...list, toast].slice(-TOASTS_MAX);
  const stay = toast.action || toast.kind === 'error' ? ACTION_MS : SHOWN_MS;
  setTimeout(() => dismiss(toast.id), stay);
}

export function dismiss(id: number): void {
  list = list.filter((toast) => toast.id !== id);
}
