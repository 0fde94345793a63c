/** Menus and questions over the page: asked by any code, shown by one host each. */
import type { IconName } from '../icons/paths';
import type { Answer } from '../lib/queue';
import type { Place } from '../api/types';

export interface MenuItem {
  label: string;
  icon?: IconName;
  shortcut?: string;
  danger?: boolean;
  disabled?: boolean;
  checked?: boolean;
  /** A line above it. */
  apart?: boolean;
  run: () => void;
}

export interface OpenMenu {
  label: string;
  items: MenuItem[];
  x: number;
  y: number;
  /** Right edge at x rather than left. */
  alignEnd: boolean;
}

let menu = $state.raw<OpenMenu | null>(null);
export const menus = {
  get open() { return menu; },
};

export function closeMenu(): void {
  menu = null;
}

export function menuAt(event: MouseEvent, label: string, items: MenuItem[]): void {
  event.preventDefault();
  menu = { label, items, x: event.clientX, y: event.clientY, alignEnd: false };
}

export function menuUnder(anchor: Element, label: string, items: MenuItem[], alignEnd = true): void {
  const box = anchor.getBoundingClientRect();
  menu = { label, items, x: alignEnd ? box.right : box.left, y: box.bottom + 4, alignEnd };
}

export interface Confirmation {
  kind: 'confirm';
  title: string;
  text: string;
  action: string;
  danger: boolean;
}
export interface NameQuestion {
  kind: 'name';
  title: string;
  label: string;
  action: string;
  initial: string;
  taken: (name: string) => boolean;
}
export interface FolderQuestion {
  kind: 'folder';
  title: string;
  action: string;
  start: Place;
  /** Places that cannot be chosen: what is to be moved, and below it. */
  forbidden: Place[];
}
export interface ConflictQuestion {
  kind: 'conflict';
  name: string;
  more: number;
}
export type Question = Confirmation | NameQuestion | FolderQuestion | ConflictQuestion;

interface Asked {
  id: number;
  question: Question;
  answer: (value: unknown) => void;
}
let asked = $state.raw<Asked[]>([]);
let nextId = 1;
export const questions = {
  get all() { return asked; },
};

function put<T>(question: Question, none: T): Promise<T> {
  return new Promise((resolve) => {
    const id = nextId++;
    const answer = (value: unknown) => {
      asked = asked.filter((one) => one.id !== id);
      resolve((value ?? none) as T);
    };
    asked = [...asked, { id, question, answer }];
  });
}

export const confirm = (question: Omit<Confirmation, 'kind'>) => put<boolean>({ kind: 'confirm', ...question }, false);
export const askName = (question: Omit<NameQuestion, 'kind'>) => put<string | null>({ kind: 'name', ...question }, null);
export const askFolder = (question: Omit<FolderQuestion, 'kind'>) => put<Place | null>({ kind: 'folder', ...question }, null);

export interface ConflictAnswer {
  answer: Answer;
  forAll: boolean;
}
export const askConflict = (question: Omit<ConflictQuestion, 'kind'>) =>
  put<ConflictAnswer | null>({ kind: 'conflict', ...question }, null);
