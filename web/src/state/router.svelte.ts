/** Where we are: the URL, as a route. Links of the pages are followed without loading them anew. */
import { parseRoute, type Route } from '../lib/routes';

let route = $state.raw<Route>(parseRoute(location.pathname, location.search));
let guard: (() => boolean) | null = null;

export function here(): Route {
  return route;
}

/** Asks before leaving (an editor with changes). */
export function guardLeaving(ask: (() => boolean) | null): void {
  guard = ask;
}

export function go(url: string, options: { replace?: boolean } = {}): void {
  if (guard && !guard()) return;
  if (options.replace) history.replaceState(null, '', url);
  else if (url !== location.pathname + location.search + location.hash) history.pushState(null, '', url);
  route = parseRoute(location.pathname, location.search);
}

let shown = location.href;
addEventListener('popstate', () => {
  if (guard && !guard()) {
    history.pushState(null, '', shown);
    return;
  }
  route = parseRoute(location.pathname, location.search);
  shown = location.href;
});

/** Follows plain clicks on links of our own. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!link || link.target !== '' || link.hasAttribute('download') || link.origin !== location.origin) return;
  if (/^\/(api|dav|sites|healthz)(\/|$)/.test(link.pathname) || link.getAttribute('href')?.startsWith('#')) return;
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
}
