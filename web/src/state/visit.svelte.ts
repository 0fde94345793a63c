/** The visit of a link: which one, how far it is opened, and what it leads to. */
import { ApiError, onSignedOut } from '../api/http';
import { openLink, visited } from '../api/shares';
import type { LinkInfo } from '../api/types';
import { LINK_SPACE } from '../lib/routes';
import { beVisitor } from './session.svelte';

type Status = 'opening' | 'open' | 'password' | 'failed';

let status = $state<Status>('opening');
let info = $state.raw<LinkInfo | null>(null);
let failure = $state.raw<unknown>(null);
/** The end of the address, which browsers keep to themselves. */
let secret = '';

export const visit = {
  get status() { return status; },
  get info() { return info; },
  get failure() { return failure; },
};

/** Opens the link that the page was loaded for; a visit that is open already goes on. */
export async function startVisit(fragment: string): Promise<void> {
  secret = fragment;
  onSignedOut(() => void reopen());
  if (secret !== '') return reopen();
  try {
    const found = await visited();
    if (found) settle(found);
    else fail(new ApiError(401, ''));
  } catch (error) {
    fail(error);
  }
}

async function reopen(): Promise<void> {
  status = 'opening';
  try {
    // A visit with its password may be open still, after a reload.
    const found = (await openLink(secret)) ?? (await visited());
    if (found) settle(found);
    else status = 'password';
  } catch (error) {
    fail(error);
  }
}

/** Tries a password; what is wrong is thrown. */
export async function tryPassword(password: string): Promise<void> {
  const found = await openLink(secret, password);
  if (found) settle(found);
}

export async function refreshVisit(): Promise<void> {
  try {
    info = (await visited()) ?? info;
  } catch {
    // What is shown stays.
  }
}

function settle(found: LinkInfo): void {
  info = found;
  beVisitor({
    name: LINK_SPACE,
    title: found.name,
    role: found.access === 'write' ? 'editor' : 'reader',
    uploads_only: found.access === 'upload',
    counted: found.downloads_left !== undefined,
  });
  failure = null;
  status = 'open';
}

function fail(error: unknown): void {
  failure = error;
  status = 'failed';
}
