/** The pages' URLs: what a URL shows, and the URL of what is shown. */
import { decodePath, nameOf, parent, placeUrl, split } from './paths';
import type { Place } from '../api/types';

export type Tab = 'preview' | 'details' | 'versions';

export type Route =
  | { page: 'home' }
  | { page: 'files'; space: string; path: string; view: string | null; tab: Tab }
  | { page: 'trash'; space: string }
  | { page: 'search'; params: URLSearchParams }
  | { page: 'smart'; id: number }
  | { page: 'account'; section: string }
  | { page: 'shared' }
  | { page: 'link'; id: string; path: string; view: string | null; tab: Tab }
  | { page: 'admin'; section: string; params: URLSearchParams }
  | { page: 'signin' }
  | { page: 'forgotten' }
  | { page: 'unknown' };

export function parseRoute(pathname: string, search: string): Route {
  const [page, ...rest] = pathname.split('/').filter((part) => part !== '');
  const params = new URLSearchParams(search);
  const place = split(decodeFirst(rest));
  switch (page) {
    case undefined:
      return { page: 'home' };
    case 'files': {
      const [space, ...path] = place;
      if (space === undefined) return { page: 'home' };
      return { page: 'files', space, path: path.join('/'), view: params.get('view') || null, tab: tabOf(params.get('tab')) };
    }
    case 'trash':
      return place[0] === undefined ? { page: 'unknown' } : { page: 'trash', space: place[0] };
    case 'search':
      return { page: 'search', params };
    case 'smart':
      return /^\d{1,15}$/.test(place[0] ?? '') ? { page: 'smart', id: Number(place[0]) } : { page: 'unknown' };
    case 'shared':
      return { page: 'shared' };
    case 'l': {
      const [id, ...path] = place;
      if (id === undefined) return { page: 'unknown' };
      return { page: 'link', id, path: path.join('/'), view: params.get('view') || null, tab: tabOf(params.get('tab')) };
    }
    case 'signin':
      return { page: place[0] === 'forgotten' ? 'forgotten' : 'signin' };
    case 'account':
      return { page: 'account', section: place[0] ?? '' };
    case 'admin':
      return { page: 'admin', section: place[0] ?? '', params };
    default:
      return { page: 'unknown' };
  }
}

function decodeFirst(parts: string[]): string {
  return decodePath(parts.join('/'));
}

function tabOf(text: string | null): Tab {
  return text === 'details' || text === 'versions' ? text : 'preview';
}

/** What stands for a space's name where the visitor of a link is. */
export const LINK_SPACE = 'link';
/** The link that is visited, and the end of its address, which is kept so that the address can be passed on. */
let visited: { id: string; fragment: string } | null = null;

export function visitLink(id: string, fragment: string): void {
  visited = { id, fragment };
}

function pageUrl(at: Place, query = ''): string {
  if (visited === null || at.space !== LINK_SPACE) return `/files/${placeUrl(at.space, at.path)}${query}`;
  return `/l/${placeUrl(visited.id, at.path)}${query}${visited.fragment}`;
}

export function folderUrl(at: Place): string {
  return pageUrl(at);
}

/** A file is shown over its folder, so that its neighbours are known. */
export function fileUrl(at: Place, tab: Tab = 'preview'): string {
  const query = new URLSearchParams({ view: nameOf(at.path) });
  if (tab !== 'preview') query.set('tab', tab);
  return pageUrl({ space: at.space, path: parent(at.path) }, `?${query}`);
}

export const sharedUrl = () => '/shared';
export const trashUrl = (space: string) => `/trash/${placeUrl(space, '')}`;
export const searchUrl = (params: URLSearchParams) => `/search?${params}`;
export const smartUrl = (id: number) => `/smart/${id}`;
export const adminUrl = (section = '') => (section === '' ? '/admin' : `/admin/${section}`);
export const accountUrl = (section = '') => (section === '' ? '/account' : `/account/${section}`);
