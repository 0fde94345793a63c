/** Dragging nodes within the pages: what is dragged, and what may take it. */
import type { Place } from '../api/types';
import { collectDropped, hasFiles } from '../lib/dropped';
import { within } from '../lib/paths';
import { copyTo, moveTo } from './actions';
import { uploads, type Target } from './uploads.svelte';

/** The type marks drags of our own; what is dragged stays in this page. */
const TYPE = 'application/x-holdfast';
let dragged: Place[] = [];

export function startDrag(event: DragEvent, items: Place[], label: string): void {
  dragged = items;
  event.dataTransfer?.setData(TYPE, '1');
  event.dataTransfer?.setData('text/plain', label);
  if (event.dataTransfer) event.dataTransfer.effectAllowed = 'copyMove';
}

export function endDrag(): void {
  dragged = [];
}

function isOurs(event: DragEvent): boolean {
  return event.dataTransfer?.types.includes(TYPE) === true && dragged.length > 0;
}

/** What a smart folder takes is files alone: what is in the drive already lies somewhere, and stays there. */
export interface DropPlace extends Target {
  filesOnly?: boolean;
}

function accepts(to: DropPlace): boolean {
  return !to.filesOnly && dragged.every((from) => from.space !== to.space || !within(from.path, to.path));
}

/** An element that takes files from outside and nodes from within into a folder. Ctrl copies. */
export function dropTarget(folder: () => DropPlace | null) {
  return (element: HTMLElement) => {
    const over = (event: DragEvent) => {
      const to = folder();
      if (!to || !(hasFiles(event.dataTransfer) || (isOurs(event) && accepts(to)))) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.dataTransfer) event.dataTransfer.dropEffect = hasFiles(event.dataTransfer) || event.ctrlKey ? 'copy' : 'move';
      element.classList.add('drop');
    };
    const leave = (event: DragEvent) => {
      if (!(event.relatedTarget instanceof Node && element.contains(event.relatedTarget))) element.classList.remove('drop');
    };
    const drop = (event: DragEvent) => {
      element.classList.remove('drop');
      const to = folder();
      if (!to) return;
      if (hasFiles(event.dataTransfer)) {
        event.preventDefault();
        event.stopPropagation();
        void collectDropped(event.dataTransfer).then((found) => uploads.add(to, found));
      } else if (isOurs(event) && accepts(to)) {
        event.preventDefault();
        event.stopPropagation();
        const items = dragged;
        dragged = [];
        void (event.ctrlKey ? copyTo(items, to) : moveTo(items, to));
      }
    };
    element.addEventListener('dragover', over);
    element.addEventListener('dragleave', leave);
    element.addEventListener('drop', drop);
    return () => {
      element.removeEventListener('dragover', over);
      element.removeEventListener('dragleave', leave);
      element.removeEventListener('drop', drop);
    };
  };
}
