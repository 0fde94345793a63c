/** Where the pages begin: theme first, so that nothing flashes; then the language; then who is signed in. */
import { mount } from 'svelte';
import App from './App.svelte';
import { applyLanguage, applyTheme } from './state/prefs.svelte';
import { setApi } from './api/http';
import { visitLink } from './lib/routes';
import { here } from './state/router.svelte';
import { start } from './state/session.svelte';
import './styles/tokens.css';
import './styles/base.css';

applyTheme();
const route = here();
// A link is visited without signing in, and a session that this browser may have is left alone.
if (route.page === 'link') {
  setApi(`/api/v1/links/${encodeURIComponent(route.id)}`);
  visitLink(route.id, location.hash);
}
const starting = route.page === 'link' ? Promise.resolve() : start();
void applyLanguage().then(() => {
  const target = document.getElementById('app');
  if (target) mount(App, { target });
  return starting;
});
