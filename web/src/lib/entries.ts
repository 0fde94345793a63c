/** Entries of a folder, ready to be sorted and filtered: what comparing needs is worked out once. */
import type { Node } from '../api/types';
import { extensionOf, familyOf } from './kinds';
import { compareKeys, fold, naturalKey } from './natural';

export interface Entry {
  readonly node: Node;
  readonly key: string;
  readonly folded: string;
}

export function entryOf(node: Node): Entry {
  return { node, key: naturalKey(node.name), folded: fold(node.name) };
}

export type SortBy = 'name' | 'size' | 'date' | 'type';

/** Folders first, then by what was asked, then by name. */
export function arrange(entries: readonly Entry[], by: SortBy, descending: boolean): Entry[] {
  const sign = descending ? -1 : 1;
  const main = comparison(by);
  return [...entries].sort(
    (a, b) =>
      Number(a.node.kind === 'file') - Number(b.node.kind === 'file') ||
      sign * main(a, b) ||
      compareKeys(a.key, b.key) ||
      compareKeys(a.node.name, b.node.name),
  );
}

function comparison(by: SortBy): (a: Entry, b: Entry) => number {
  switch (by) {
    case 'name':
      return (a, b) => compareKeys(a.key, b.key);
    case 'size':
      return (a, b) => a.node.size_bytes - b.node.size_bytes;
    case 'date':
      return (a, b) => a.node.modified_ms - b.node.modified_ms;
    case 'type':
      return (a, b) => compareKeys(typeKey(a), typeKey(b));
  }
}

function typeKey({ node }: Entry): string {
  return `${familyOf(node.name, node.kind, node.type)} ${extensionOf(node.name)}`;
}
