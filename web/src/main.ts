/** Where the pages begin: theme first, so that nothing flashes; then the language; then who is signed in. */
import { mount } from 'svelte';
import App from './App.svelte';
import { applyLanguage, applyTheme } from './state/prefs.svelte';
import { start } from './state/session.svelte';
import './styles/tokens.css';
import './styles/base.css';

applyTheme();
const starting = start();
void applyLanguage().then(() => {
  const target = document.getElementById('app');
  if (target) mount(App, { target });
  return starting;
});
