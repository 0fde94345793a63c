/**
 * Takes the pictures of docs/pictures anew (`make pictures`), on a drive that it fills with the files of a small research group.
 */
import assert from 'node:assert/strict';
import { launch, open, seen, signIn } from './lib/browser.mjs';
import { startDrive } from './lib/drive.mjs';

const OUT = new URL('../../docs/pictures', import.meta.url).pathname;
const HOUR_MS = 3_600_000;
const PICTURES = ['Bay', 'Coast', 'Delta', 'Dunes', 'Fjord', 'Glacier', 'Harbour', 'Heath', 'Lake at dawn', 'Meadow', 'Moor', 'Night walk', 'Old quarry', 'Orchard', 'Pass', 'Pines', 'Ridge', 'Shore', 'Valley', 'Weir'];

const REPORT = `# Gauges in spring

We read **twelve** gauges twice a day.

| gauge | cm |
| --- | --- |
| north | 143 |
| mill | 131 |

- [x] readings
- [ ] map

\`\`\`
level = reading - zero
\`\`\`
`;
const readings = (rows) => `hour,north,mill\n${Array.from({ length: rows }, (_, at) => `${at},${(143 + 9 * Math.sin(at / 17)).toFixed(1)},${(131 + 7 * Math.cos(at / 23)).toFixed(1)}\n`).join('')}`;
const prose = (lines) => 'The level of the river follows the rain of the hills by a day.\n'.repeat(lines);

/** Draws hills before a sky, as a JPEG. */
function landscape(seed, width, height) {
  let state = seed * 2654435761;
  const random = () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    return state / 2 ** 32;
  };
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d');
  const hue = random() * 360;
  const sky = context.createLinearGradient(0, 0, 0, height);
  sky.addColorStop(0, `hsl(${hue} 75% 70%)`);
  sky.addColorStop(1, `hsl(${hue + 40} 80% 86%)`);
  context.fillStyle = sky;
  context.fillRect(0, 0, width, height);
  context.fillStyle = 'hsl(50 90% 92%)';
  context.beginPath();
  context.arc(width * (0.2 + 0.6 * random()), height * (0.15 + 0.15 * random()), height / 14, 0, 7);
  context.fill();
  for (let layer = 0; layer < 4; layer += 1) {
    const [base, phase, wave] = [height * (0.45 + 0.14 * layer), random() * 7, 2 + random() * 3];
    context.fillStyle = `hsl(${hue + 150 + layer * 14} 32% ${46 - layer * 10}%)`;
    context.beginPath();
    context.moveTo(0, height);
    for (let x = 0; x <= width; x += 4) context.lineTo(x, base + height * 0.07 * Math.sin(phase + (wave * x) / width * 3) - height * 0.03 * Math.sin(phase * 3 + x / 60));
    context.lineTo(width, height);
    context.fill();
  }
  return canvas.convertToBlob({ type: 'image/jpeg', quality: 0.85 }).then(async (blob) => [...new Uint8Array(await blob.arrayBuffer())]);
}

const drive = await startDrive();
const browser = await launch();
try {
  const { page } = await open(browser, drive.url);
  await signIn(page, drive);
  const now = Date.now();
  /** Writes as the pages do, since WebDAV has neither times nor tags. */
  async function put(path, body, hoursAgo, ...tags) {
    const query = new URLSearchParams([['modified_ms', String(now - hoursAgo * HOUR_MS)], ...tags.map((tag) => ['tag', tag])]);
    await ask('PUT', `content/${path.split('/').map(encodeURIComponent).join('/')}?${query}`, Buffer.from(body));
  }
  async function ask(method, path, body) {
    const isJson = body && !Buffer.isBuffer(body);
    const answer = await fetch(`${drive.url}/api/v1/${path}`, {
      method,
      headers: { authorization: drive.auth, 'content-type': isJson ? 'application/json' : 'application/octet-stream' },
      ...(body && { body: isJson ? JSON.stringify(body) : body }),
    });
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${answer.ok ? '' : await answer.text()}`);
    return answer.status === 204 ? null : answer.json();
  }
  const shot = (name) => page.screenshot({ path: `${OUT}/${name}.png` });
  async function visit(path, mark, ...texts) {
    await page.goto(drive.url + path);
    await page.waitForSelector(mark);
    for (const text of texts) await seen(page, text);
    await page.waitForNetworkIdle();
  }
  const wear = (theme) =>
    page.evaluate((chosen) => {
      document.documentElement.dataset.theme = chosen;
    }, theme);

  // --- what the group has
  for (const folder of ['Field notes', 'Field trip', 'Gauges', 'Invoices', 'Maps', 'Pictures', 'Thesis', 'Übersicht']) await drive.folder(`ana/${folder}`);
  await put('ana/abstract.txt', prose(40), 70);
  await put('ana/abstract.txt', prose(41), 50);
  await put('ana/abstract.txt', prose(39), 30);
  await put('ana/archive.tar.gz', Buffer.alloc(1_800_000, 7), 900);
  await put('ana/Budget 2026.csv', 'what,euro\nboat,900\ngauges,1200\nprinting,300\n', 400);
  await put('ana/model.py', 'def level(reading, zero):\n    return reading - zero\n'.repeat(14), 26);
  for (const [number, rows] of [[1, 2_000], [2, 4_000], [10, 2_500]]) await put(`ana/readings-${number}.csv`, readings(rows), 200 - 10 * number);
  await put('ana/recording.wav', Buffer.alloc(400_000), 300);
  await put('ana/Report.md', REPORT, 3, 'important');
  for (const [at, name] of PICTURES.entries()) {
    const bytes = await page.evaluate(landscape, at + 1, ...(at % 6 === 5 ? [600, 800] : [800, 600]));
    await put(`ana/Pictures/${name}.jpg`, Buffer.from(bytes), 500 - at);
  }
  for (const [at, [name, tags]] of Object.entries({ 'Invoice 1042.pdf': [], 'Invoice 1043.pdf': [], 'Invoice heating 2026.pdf': ['House'], 'Invoice roof.pdf': ['House'], 'Invoices.csv': ['Sums'] }).entries()) {
    await put(`ana/Invoices/${name}`, Buffer.alloc(47_000 + 21_000 * at, 5), 700 - 100 * at, 'Paid', ...tags);
  }
  await put('ana/Field trip/Route.md', '# Route\n', 80);
  await put('ana/Field trip/Budget.csv', readings(12), 81);
  for (let number = 1; number <= 9; number += 1) await put(`ana/Field trip/sample ${number}.csv`, readings(300 * number), 90 - number);
  await ask('POST', 'tags', { items: [{ space: 'ana', path: '/Thesis' }], add: ['important'], remove: [] });
  for (const [name, query] of [['Large files', { q: '', min_bytes: 1_000_000, tags: [] }], ['Paid invoices', { q: 'invoice', tags: ['Paid'] }], ['To do', { q: '', tags: ['important'] }]]) {
    await ask('POST', 'searches', { name, query, folder: null });
  }
  const link = await ask('POST', 'shares', { space: 'ana', path: '/Field trip', access: 'read', label: 'For the reviewers', downloads_max: 20 });

  // --- as it is seen
  await visit('/files/ana', '[data-name="Report.md"]');
  await shot('files-light');
  await wear('dark');
  await shot('files-dark');
  await wear('light');
  const [saved] = (await ask('GET', 'searches')).filter(({ name }) => name === 'Paid invoices');
  await visit(`/smart/${saved.id}`, '[data-name="Invoice roof.pdf"]');
  await shot('smart-light');
  await visit('/files/ana?view=abstract.txt&tab=versions', '.versions li');
  await shot('versions-light');
  await visit('/files/ana/Pictures', '[data-name="Bay.jpg"]');
  await page.click('button[aria-label="Show as grid"]');
  await page.waitForFunction(() => [...document.querySelectorAll('[data-name]')].every((tile) => tile.querySelector('img')?.naturalWidth > 0));
  await page.mouse.move(640, 799);
  await shot('grid-light');
  await page.click('button[aria-label="Show as list"]');
  await visit('/admin', 'table', 'Per second');
  await shot('admin-light');
  const visitor = await open(browser, new URL(link.link, drive.url).href);
  await visitor.page.waitForSelector('[data-name="Route.md"]');
  await visitor.page.screenshot({ path: `${OUT}/link-light.png` });
  await visitor.close();

  // --- three of a telephone's, side by side
  await page.setViewport({ width: 360, height: 740 });
  const phones = [];
  for (const [path, mark, theme] of [
    ['/files/ana', '[data-name="Report.md"]', 'light'],
    ['/files/ana?view=Report.md', '.markdown h1', 'light'],
    ['/files/ana?view=abstract.txt&tab=versions', '.versions li', 'dark'],
  ]) {
    await visit(path, mark);
    await wear(theme);
    phones.push(`<img src="data:image/png;base64,${await page.screenshot({ encoding: 'base64' })}">`);
  }
  await page.goto('about:blank');
  await page.setViewport({ width: 1128, height: 740 });
  await page.setContent(`<body style="margin:0 8px;display:flex;gap:16px">${phones.join('')}`);
  await shot('phone');
} finally {
  await browser.close();
  await drive.stop();
}
