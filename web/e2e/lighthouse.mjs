/** Lighthouse on the file list with 200 files, as on a telephone and on a desk: performance and best practices have at least 95 (`make lighthouse`). */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { launch, open, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';

const LEAST = 95;
const FILES = 200;
const WANTED = ['performance', 'best-practices', 'accessibility'];
const reports = new URL('./shots', import.meta.url).pathname;

// Large, and of no use to the other tests: it has a folder of its own.
const tools = createRequire(new URL('../lighthouse/package.json', import.meta.url));
const load = async (name) => import(pathToFileURL(tools.resolve(name)).href);
const { startFlow } = await load('lighthouse');
const { default: desktop } = await load('lighthouse/core/config/desktop-config.js');

const drive = await startDrive();
const browser = await launch();
let low = false;
try {
  mkdirSync(reports, { recursive: true });
  for (let at = 0; at < FILES; at += 1) await drive.put(`ana/file ${at}.txt`, 'x'.repeat(at));
  const { page } = await open(browser, drive.url);
  await signIn(page, drive);
  for (const [name, config] of [['telephone', undefined], ['desk', desktop]]) {
    // The session is in the browser's storage.
    const flow = await startFlow(page, { ...(config && { config }), flags: { disableStorageReset: true } });
    await flow.navigate(`${drive.url}/files/ana`);
    const { lhr } = (await flow.createFlowResult()).steps[0];
    writeFileSync(`${reports}/lighthouse-${name}.json`, JSON.stringify(lhr));
    for (const category of WANTED) {
      const score = Math.round((lhr.categories[category]?.score ?? 0) * 100);
      console.log(`${name}: ${category} ${score}`);
      low ||= score < LEAST;
    }
    const faults = Object.values(lhr.audits).filter(({ score }) => score !== null && score < 0.9);
    for (const { id, displayValue = '', title } of faults) console.log(`  ${id}: ${title} ${displayValue}`);
  }
} finally {
  await browser.close();
  await drive.stop();
}
if (low) {
  console.error(`less than ${LEAST}: the reports are in web/e2e/shots`);
  process.exitCode = 1;
}
