/** What a person can do to nodes, with the questions and the notices that belong to it. */
import * as history from '../api/history';
import { ApiError, API } from '../api/http';
import * as nodes from '../api/nodes';
import type { Conflict, ItemResult, Kind, Move, Place, Problem } from '../api/types';
import { join, nameOf, numbered, parent } from '../lib/paths';
import { changed } from './changes';
import { complain, sentence } from './errors';
import { t } from './i18n.svelte';
import { askConflict, askFolder, askName, confirm } from './overlays.svelte';
import { refreshUsage } from './session.svelte';
import { notify } from './toasts.svelte';

const folderOf = (at: Place): Place => ({ space: at.space, path: parent(at.path) });

export async function newFolder(at: Place, taken: (name: string) => boolean): Promise<string | null> {
  let initial = t('folder.newName');
  for (let n = 2; taken(initial); n += 1) initial = numbered(t('folder.newName'), n);
  const name = await askName({ title: t('action.newFolder'), label: t('folder.name'), action: t('action.create'), initial, taken });
  if (name === null) return null;
  try {
    await nodes.makeFolder({ space: at.space, path: join(at.path, name) });
    changed(at);
    return name;
  } catch (error) {
    complain(error);
    return null;
  }
}

/** Renames; answers whether it was done. */
export async function rename(at: Place, name: string): Promise<boolean> {
  const to = { space: at.space, path: join(parent(at.path), name) };
  try {
    const [result] = await nodes.move([{ from: at, to }], 'fail');
    if (result?.problem) throw asError(result.problem);
    changed(folderOf(at));
    notify(t('done.renamed', { name }), {
      action: { label: t('action.undo'), run: () => void undoMoves([{ from: to, to: at }]) },
    });
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}

export async function pickAndTransfer(kind: 'move' | 'copy', items: Place[]): Promise<boolean> {
  const first = items[0];
  if (!first) return false;
  const to = await askFolder({
    title: t(kind === 'move' ? 'move.title' : 'copy.title', { n: items.length, name: nameOf(first.path) }),
    action: t(kind === 'move' ? 'action.moveHere' : 'action.copyHere'),
    start: folderOf(first),
    forbidden: kind === 'move' ? items : [],
  });
  if (!to) return false;
  return kind === 'move' ? moveTo(items, to) : copyTo(items, to);
}

export const moveTo = (items: Place[], to: Place) => transfer('move', items, to);
export const copyTo = (items: Place[], to: Place) => transfer('copy', items, to);

async function transfer(kind: 'move' | 'copy', items: Place[], folder: Place): Promise<boolean> {
  const here = (at: Place) => at.space === folder.space && parent(at.path) === folder.path;
  const moving = kind === 'move' ? items.filter((at) => !here(at)) : items;
  const all = moving.map((from): Move => ({ from, to: { space: folder.space, path: join(folder.path, nameOf(from.path)) } }));
  if (all.length === 0) return false;
  const call = kind === 'move' ? nodes.move : nodes.copy;
  // A copy beside its original is meant to be kept beside it.
  const first: Conflict = kind === 'copy' && all.every(({ from }) => here(from)) ? 'keep-both' : 'fail';
  try {
    const { done, failed } = await withConflicts(all, first, call);
    changed(folder, ...uniqueFolders(items));
    refreshUsage();
    if (failed) notify(problemText(failed), { kind: 'error' });
    if (done.length > 0) {
      const text = t(kind === 'move' ? 'done.moved' : 'done.copied', { n: done.length, name: nameOf(folder.path) || folder.space });
      const undo = kind === 'move' && first === 'fail' ? { action: { label: t('action.undo'), run: () => void undoMoves(done) } } : {};
      notify(text, undo);
    }
    return done.length > 0;
  } catch (error) {
    complain(error);
    return false;
  }
}

/** Runs moves; what is taken is asked about and run again. `done` tells the way back. */
async function withConflicts(all: Move[], first: Conflict, call: (items: Move[], conflict: Conflict) => Promise<ItemResult[]>) {
  const done: Move[] = [];
  let failed: Problem | null = null;
  const settle = (moves: Move[], results: ItemResult[]): Move[] => {
    const taken: Move[] = [];
    moves.forEach((move, at) => {
      const problem = results[at]?.problem;
      if (!problem) done.push({ from: { ...move.to, path: join(parent(move.to.path), results[at]?.node?.name ?? nameOf(move.to.path)) }, to: move.from });
      else if (problem.status === 409 || problem.status === 412) taken.push(move);
      else failed ??= problem;
    });
    return taken;
  };
  const taken = settle(all, await call(all, first));
  while (taken.length > 0) {
    const next = taken[0];
    if (!next) break;
    const asked = await askConflict({ name: nameOf(next.to.path), more: taken.length - 1 });
    if (!asked) break;
    const these = taken.splice(0, asked.forAll ? taken.length : 1);
    if (asked.answer === 'skip') continue;
    const results = await call(these, asked.answer);
    settle(these, results);
    failed ??= results.find((result) => result.problem)?.problem ?? null;
  }
  return { done, failed };
}

async function undoMoves(back: Move[]): Promise<void> {
  try {
    const results = await nodes.move(back, 'fail');
    const problem = results.find((result) => result.problem)?.problem;
    if (problem) notify(problemText(problem), { kind: 'error' });
    changed(...uniqueFolders(back.flatMap(({ from, to }) => [from, to])));
  } catch (error) {
    complain(error);
  }
}

/** Into the trash, with a way back. */
export async function remove(items: Place[]): Promise<boolean> {
  try {
    const results = await nodes.remove(items);
    const entries = items.flatMap((at, index) => {
      const entry = results[index]?.trash ?? null;
      return entry === null ? [] : [{ space: at.space, entry }];
    });
    changed(...uniqueFolders(items));
    refreshUsage();
    const problem = results.find((result) => result.problem)?.problem;
    if (problem) notify(problemText(problem), { kind: 'error' });
    const removed = results.filter((result) => !result.problem).length;
    if (removed > 0) {
      const undo = { label: t('action.undo'), run: () => void undoRemove(entries, items) };
      notify(t('done.removed', { n: removed, name: nameOf(items[0]?.path ?? '') }), entries.length > 0 ? { action: undo } : {});
    }
    return removed > 0;
  } catch (error) {
    complain(error);
    return false;
  }
}

/** Restores one after the other, so that folders come before what was removed from them. */
async function undoRemove(entries: { space: string; entry: number }[], items: Place[]): Promise<void> {
  try {
    for (const { space, entry } of entries.toReversed()) await history.restoreTrash(space, entry);
    notify(t('done.restored', { n: entries.length }));
  } catch (error) {
    complain(error);
  }
  changed(...uniqueFolders(items));
  refreshUsage();
}

export interface Downloadable extends Place {
  kind: Kind;
}

/** One file as it is; a folder or several things as a zip. */
export function download(items: Downloadable[]): void {
  const [only] = items;
  if (!only) return;
  if (items.length > 1) postArchive(items);
  else follow(only.kind === 'file' ? nodes.contentUrl(only, { download: true }) : nodes.archiveUrl(only));
}

function follow(href: string): void {
  const link = document.createElement('a');
  link.href = href;
  link.download = '';
  document.body.append(link);
  link.click();
  link.remove();
}

/** A form, so that the browser writes the answer to disk as it comes. */
function postArchive(items: Place[]): void {
  const form = document.createElement('form');
  form.method = 'post';
  form.action = `${API}/archive`;
  form.hidden = true;
  // A window of its own, which the browser closes when the download begins: this page is not left, whatever the answer.
  form.target = '_blank';
  const field = document.createElement('input');
  field.name = 'items';
  field.value = JSON.stringify(items.map(({ space, path }) => ({ space, path })));
  form.append(field);
  document.body.append(form);
  form.submit();
  form.remove();
}

export async function purge(space: string, entry: number, name: string): Promise<boolean> {
  const sure = await confirm({ title: t('trash.purgeTitle'), text: t('trash.purgeText', { name }), action: t('trash.purge'), danger: true });
  if (!sure) return false;
  await history.purge(space, entry);
  refreshUsage();
  return true;
}

function uniqueFolders(items: Place[]): Place[] {
  const seen = new Map(items.map((at) => [`${at.space}/${parent(at.path)}`, folderOf(at)]));
  return [...seen.values()];
}

export function asError(problem: Problem): ApiError {
  return new ApiError(problem.status, problem.detail);
}

function problemText(problem: Problem): string {
  return sentence(problem.detail);
}
