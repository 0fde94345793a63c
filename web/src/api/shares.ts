/** Shared folders, links, and members of spaces. */
import { encodePath } from '../lib/paths';
import { ask } from './http';
import type { LinkInfo, Member, NewShare, Place, Role, Share, ShareChange, Shares } from './types';

const rooted = (at: Place) => `/${at.path}`;

export const shares = () => ask<Shares>('GET', '/shares');
export const sharesOf = async (at: Place) =>
  (await ask<Shares>('GET', '/shares', { query: { space: at.space, path: rooted(at) } })).by_me;
export const share = (at: Place, wanted: NewShare) =>
  ask<Share>('POST', '/shares', { json: { space: at.space, path: rooted(at), ...wanted } });
export const changeShare = (id: string, change: ShareChange) => ask<Share>('PATCH', `/shares/${id}`, { json: change });
export const endShare = (id: string) => ask<void>('DELETE', `/shares/${id}`);

const memberUrl = (space: string, account = '') => `/spaces/${encodePath(space)}/members${account && `/${encodePath(account)}`}`;
export const members = (space: string) => ask<Member[]>('GET', memberUrl(space));
export const setMember = (space: string, account: string, role: Role) =>
  ask<void>('PUT', memberUrl(space, account), { json: { role } });
export const removeMember = (space: string, account: string) => ask<void>('DELETE', memberUrl(space, account));

/** A link, for its visitor. The calls go to where the API of a visitor is: see `setApi`. */
/** Null: it needs a password. */
export const openLink = (secret: string, password?: string) =>
  ask<LinkInfo | null>('POST', '/session', { json: { secret, ...(password !== undefined && { password }) }, signingIn: true });
/** Null: it is not open. */
export const visited = () => ask<LinkInfo | null>('GET', '/session', { signingIn: true });
