/** Whether a page is fit to be used by all: in every theme nothing serious for axe, and nothing wider than the window. SHOTS=1 keeps pictures in e2e/shots. */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const shots = new URL('../shots', import.meta.url).pathname;
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

export async function findings(page) {
  // Once for each page that was loaded.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe);
  const { violations } = await page.evaluate((rules) => window.axe.run(document, { runOnly: rules }), RULES);
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ''}`).join(' | ')}`);
}

/** `name` is that of the pictures. The page is left in the theme it came in. */
export async function look(page, name, themes = ['light', 'dark', 'contrast']) {
  if (process.env.SHOTS) mkdirSync(shots, { recursive: true });
  // Firefox has no emulation of the system's scheme: it is told by the page's own setting.
  const before = await page.evaluate(() => document.documentElement.dataset.theme ?? null);
  const wear = (theme) =>
    page.evaluate((chosen) => {
      if (chosen === null) delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = chosen;
    }, theme);
  for (const theme of themes) {
    await wear(theme);
    if (process.env.SHOTS) await page.screenshot({ path: `${shots}/${name}-${theme}.png` });
    assert.deepEqual(await findings(page), [], `${name}, ${theme}`);
  }
  await wear(before);
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(over <= 0, `${name} is ${over} pixels wider than the window`);
}
