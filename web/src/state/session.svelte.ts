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
/** A session was opened, ended by itself, or was left. */
type Turn = 'open' | 'ended' | 'left';
const sessionListeners: ((turn: Turn, name: string) => void)[] = [];

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
  turn('open');
}

/** Calls `listener` when a session is opened, ends or is left; `name` is whose it is, or nothing for a visitor. */
export function onSession(listener: (turn: Turn, name: string) => void): void {
  sessionListeners.push(listener);
}

function turn(now: Turn): void {
  for (const listener of sessionListeners) listener(now, me?.name ?? '');
}

export async function start(): Promise<void> {
  status = 'loading';
  try {
    me = await api.who();
    status = me === null ? 'out' : 'in';
    if (status === 'in') turn('open');
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
  turn('open');
}

export async function signOut(): Promise<void> {
  try {
    await api.signOut();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
  turn('left');
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

const PROBE_FIRST_MS = 1_000;
const PROBE_MAX_MS = 15_000;
/** An answer that takes longer is none. */
const PROBE_TIMEOUT_MS = 10_000;
let nextProbe: ReturnType<typeof setTimeout> | undefined;
let probes = 0;
let probing = false;

function setOnline(now: boolean): void {
  clearTimeout(nextProbe);
  probes = now ? 0 : probes + 1;
  // Not all pages at the same moment: a drive that comes back has enough to do.
  if (!now) nextProbe = setTimeout(() => void probe(), Math.min(PROBE_MAX_MS, PROBE_FIRST_MS * 2 ** (probes - 1)) * (0.75 + Math.random() / 2));
  if (now === online) return;
  online = now;
  for (const listener of networkListeners) listener(now);
}

/** Whether the drive answers at all; any answer counts. */
async function probe(): Promise<void> {
  if (probing) return;
  probing = true;
  try {
    await fetch('/api/v1/sign-in', {
      method: 'HEAD', cache: 'no-store', headers: { 'X-Requested-With': 'holdfast' }, signal: AbortSignal.timeout(PROBE_TIMEOUT_MS),
    });
    setOnline(true);
  } catch {
    setOnline(false);
  } finally {
    probing = false;
  }
}

/** A call that failed says little: its own body may be why. The drive is asked. */
function reached(yes: boolean): void {
  if (yes) setOnline(true);
  else if (online) void probe();
}

addEventListener('offline', () => setOnline(false));
addEventListener('online', () => void probe());
// Who looks again does not wait for the next turn.
addEventListener('visibilitychange', () => {
  if (!online && document.visibilityState === 'visible') void probe();
});
onReached(reached);
onSignedOut(() => {
  if (status !== 'in') return;
  expired = true;
  status = 'out';
  turn('ended');
});
