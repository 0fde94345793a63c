/** Who is signed in, and whether the drive can be reached. */
import { ApiError, onReached, onSignedOut } from '../api/http';
import * as api from '../api/session';
import type { Me, Space } from '../api/types';
import { forgetFolders } from './folder.svelte';
import { cameBy, leaveProvider, type Left } from './provider';

type Status = 'loading' | 'in' | 'out' | 'failed' | 'visit';

let me = $state.raw<Me | null>(null);
let status = $state<Status>('loading');
let expired = $state(false);
let failure = $state.raw<unknown>(null);
let online = $state(navigator.onLine);
const networkListeners: ((online: boolean) => void)[] = [];

/** A provider where somebody may want to sign out as well. */
let left = $state.raw<Left | null>(null);

export const session = {
  get me() { return me; },
  get status() { return status; },
  get expired() { return expired; },
  get failure() { return failure; },
  get online() { return online; },
  get left() { return left; },
};

export function spaceOf(name: string): Space | undefined {
  return me?.spaces.find((space) => space.name === name);
}

/** Whether the caller may change things in a space. */
export function mayWrite(name: string): boolean {
  const space = spaceOf(name);
  return space !== undefined && space.role !== 'reader' && me?.read_only !== true;
}

/** What a space is called. */
export function spaceTitle(name: string): string {
  return spaceOf(name)?.title ?? name;
}

/** Nobody is signed in here: somebody visits a link, which leads to one place. */
export function beVisitor(place: Pick<Space, 'name' | 'role'> & Partial<Space>): void {
  const nothing = { home: false, used_bytes: 0, version_bytes: 0, reserved_bytes: 0, retention_days: 0 };
  me = { name: '', admin: false, read_only: false, spaces: [{ ...nothing, ...place }] };
  status = 'visit';
}

export async function start(): Promise<void> {
  status = 'loading';
  try {
    me = await api.who();
    status = me === null ? 'out' : 'in';
  } catch (error) {
    failure = error;
    status = 'failed';
  }
}

/** Usage changed: asks for it again, without hurry and not in a crowd. */
let refreshing: ReturnType<typeof setTimeout> | undefined;
export function refreshUsage(): void {
  clearTimeout(refreshing);
  refreshing = setTimeout(async () => {
    try {
      if (status === 'in') me = await api.me();
    } catch {
      // The figures shown stay; the next change asks again.
    }
  }, 800);
}

export const signIn = (name: string, password: string, remember: boolean, second?: api.Second) =>
  enter(() => api.signIn(name, password, remember, second));

/** Signs in by what `come` does. */
export async function enter(come: () => Promise<Me>): Promise<void> {
  const before = me?.name;
  me = await come();
  if (before !== me.name) forgetFolders();
  // What answers is not yet proof that the cookie was kept.
  me = await api.me();
  expired = false;
  left = null;
  // A provider says so itself, afterwards.
  cameBy('');
  status = 'in';
}

export async function signOut(): Promise<void> {
  try {
    await api.signOut();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
  me = null;
  forgetFolders();
  expired = false;
  status = 'out';
  left = await leaveProvider();
}

/** Calls `listener` when the network goes or comes. */
export function onNetwork(listener: (online: boolean) => void): void {
  networkListeners.push(listener);
}

const PROBE_MS = 3_000;
let probing: ReturnType<typeof setInterval> | undefined;

function setOnline(now: boolean): void {
  if (now === online) return;
  online = now;
  for (const listener of networkListeners) listener(now);
  clearInterval(probing);
  if (!now) probing = setInterval(() => void probe(), PROBE_MS);
}

/** Whether the drive answers at all; any answer counts. */
async function probe(): Promise<void> {
  try {
    await fetch('/api/v1/sign-in', { method: 'HEAD', cache: 'no-store', headers: { 'X-Requested-With': 'holdfast' } });
    setOnline(true);
  } catch {
    setOnline(false);
  }
}

addEventListener('offline', () => setOnline(false));
addEventListener('online', () => void probe());
onReached(setOnline);
onSignedOut(() => {
  if (status !== 'in') return;
  expired = true;
  status = 'out';
});
