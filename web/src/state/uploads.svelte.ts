/** The queue of uploads as the pages see it: its figures, refreshed a few times a second, and its panel. */
import type { Place } from '../api/types';
import { ApiError } from '../api/http';
import { unfinished } from '../api/uploads';
import type { Found } from '../lib/dropped';
import { join, parent } from '../lib/paths';
import { Queue, type Totals, type Verdict } from '../lib/queue';
import { changed } from './changes';
import { explain } from './errors';
import { t } from './i18n.svelte';
import { onNetwork, onSession, refreshUsage, session } from './session.svelte';
import { notify } from './toasts.svelte';
import { makeFolders, Uploader } from './uploader';

const REFRESH_MS = 120;
/** A folder on show is asked for again at most this often while files arrive in it. */
const CHANGED_MS = 1_500;

/** Where files go, with the tags they get there. */
export interface Target extends Place {
  tags?: readonly string[];
}

let version = $state(0);
let visible = $state(false);
let totals = $state.raw<Totals>({
  items: 0, done: 0, failed: 0, waiting: 0, running: 0, conflicts: 0, paused: 0, retrying: 0, interrupted: 0,
  bytes: 0, sent: 0, speed: 0, left: Infinity,
});
let folders = new Map<string, Place>();
let timer: ReturnType<typeof setTimeout> | undefined;
let changeTimer: ReturnType<typeof setTimeout> | undefined;
let wasBusy = false;

function refresh(): void {
  timer ??= setTimeout(() => {
    timer = undefined;
    totals = queue.totals();
    version += 1;
    if (wasBusy && !queue.busy) settled();
    wasBusy = queue.busy;
    // The speed falls while nothing arrives, so it is looked at again.
    if (totals.running > 0) setTimeout(refresh, 500);
  }, REFRESH_MS);
}

function settled(): void {
  flushChanged();
  refreshUsage();
  if (totals.failed > 0) notify(t('uploads.someFailed', { n: totals.failed }), { kind: 'error' });
}

function flushChanged(): void {
  clearTimeout(changeTimer);
  changeTimer = undefined;
  const list = [...folders.values()];
  folders = new Map();
  if (list.length > 0) changed(...list);
}

const queue: Queue = new Queue({
  transport: new Uploader(),
  changed: refresh,
  finished: (item) => {
    const folder = { space: item.space, path: parent(item.path) };
    folders.set(`${folder.space}/${folder.path}`, folder);
    changeTimer ??= setTimeout(flushChanged, CHANGED_MS);
  },
  judge: (error) => ({ verdict: verdictOf(error), afterMs: error instanceof ApiError ? (error.retryAfterS ?? 0) * 1_000 : 0 }),
  explain,
});

function verdictOf(error: unknown): Verdict {
  if (!(error instanceof ApiError)) return 'failed';
  if (error.status === 401) return 'signed-out';
  if (error.status === 502 || error.status === 503 || error.status === 504) return 'away';
  return error.passing ? 'again' : 'failed';
}

onNetwork((online) => queue.network(online));

/** Whose uploads these are. */
let whose: string | null = null;
onSession((turn, name) => {
  if (turn === 'ended') return queue.session(false);
  if (whose !== null && (turn === 'left' || whose !== name)) {
    queue.clear();
    visible = false;
    remembered = false;
  }
  whose = turn === 'open' ? name : null;
  queue.session(turn === 'open');
  if (turn === 'open' && session.status === 'in') void recall();
});

addEventListener('beforeunload', (event) => {
  if (queue.busy) event.preventDefault();
});

let remembered = false;
/** Uploads that a reload interrupted, as the drive knows them. */
async function recall(): Promise<void> {
  if (remembered) return;
  remembered = true;
  try {
    for (const { space, path, length_bytes, offset_bytes, id, waits } of await unfinished()) {
      if (waits) queue.addTaken(space, path, length_bytes, id);
      else queue.addInterrupted(space, path, length_bytes, offset_bytes, id);
    }
  } catch {
    // Without the list nothing is lost: dropping the file again goes on where it was.
  }
}

export const uploads = {
  queue,
  get version() { return version; },
  get totals() { return totals; },
  get visible() { return visible && totals.items > 0; },
  get percent() {
    if (totals.items === 0) return 0;
    const part = totals.bytes > 0 ? totals.sent / totals.bytes : totals.done / totals.items;
    return Math.floor(Math.min(1, part) * 100);
  },
  show(yes: boolean) {
    visible = yes;
  },
  async add(to: Target, found: Found): Promise<void> {
    if (found.cut) notify(t('uploads.cut'), { kind: 'error' });
    try {
      if (found.folders.length > 0) {
        await makeFolders(to.space, found.folders.map((folder) => join(to.path, folder)));
        changed(to);
      }
    } catch (error) {
      notify(explain(error), { kind: 'error' });
      return;
    }
    if (found.files.length === 0) return;
    visible = true;
    queue.add(to.space, found.files.map(({ path, file }) => ({ path: join(to.path, path), file })), 'fail', to.tags);
  },
};
