/**
 * How the pages are built. Nothing may end up inline in the shell: the server's content security policy allows scripts and
 * styles of its own origin as files only. So no asset is turned into a data URL and no polyfill is put into the page.
 *
 * In development `/api` goes to a drive on this machine (HOLDFAST_URL, by default the one `make run` starts).
 */
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

const drive = process.env.HOLDFAST_URL ?? 'http://127.0.0.1:8642';

export default defineConfig({
  plugins: [svelte()],
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // A worker's script must have the type of a script, which servers know by its ending.
    rolldownOptions: { output: { assetFileNames: (asset) => `assets/[name]-[hash]${asset.names[0]?.endsWith('.mjs') ? '.js' : '[extname]'}` } },
    manifest: true,
    chunkSizeWarningLimit: 2000,
  },
  server: { proxy: { '/api': { target: drive, changeOrigin: false } } },
  test: { include: ['test/**/*.test.ts'], environment: 'node', testTimeout: 60_000 },
});
