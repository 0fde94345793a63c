/**
 * The names by which a smart folder shows hits, as WebDAV has them: of several of one name the oldest keeps it, the others are told
 * apart by their number, which never changes.
 */
import type { Hit } from '../api/types';
import { stemAndExtension } from './paths';

export function toldApart(hits: readonly Hit[]): Map<string, Hit> {
  const shown = new Map<string, Hit>();
  const others: Hit[] = [];
  for (const hit of hits.toSorted((a, b) => a.node.id - b.node.id)) {
    if (shown.has(hit.node.name)) others.push(hit);
    else shown.set(hit.node.name, hit);
  }
  for (const hit of others) {
    let name = hit.node.name;
    while (shown.has(name)) name = beside(name, hit.node.id);
    shown.set(name, hit);
  }
  return shown;
}

function beside(name: string, id: number): string {
  const [stem, extension] = stemAndExtension(name);
  return `${stem} [${id}]${extension}`;
}
