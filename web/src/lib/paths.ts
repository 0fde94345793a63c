/** Paths inside a space as text without slashes at the ends (`''` is the root), and how they travel in URLs. */

export function split(path: string): string[] {
  return path.split('/').filter((part) => part !== '');
}

export function normal(path: string): string {
  return split(path).join('/');
}

export function join(folder: string, name: string): string {
  return folder === '' ? name : `${folder}/${name}`;
}

export function parent(path: string): string {
  const end = path.lastIndexOf('/');
  return end < 0 ? '' : path.slice(0, end);
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** Whether `path` is `folder` or below it. */
export function within(folder: string, path: string): boolean {
  return folder === '' || path === folder || path.startsWith(`${folder}/`);
}

/** Each segment percent-encoded; slashes stay. */
export function encodePath(path: string): string {
  return split(path).map(encodeSegment).join('/');
}

/** `encodeURIComponent` throws on half a surrogate pair, which a name typed in a browser can hold. */
function encodeSegment(segment: string): string {
  return encodeURIComponent(segment.toWellFormed());
}

/** The inverse; a segment that is no valid encoding stays as it is. */
export function decodePath(encoded: string): string {
  return split(encoded).map(decodeSegment).join('/');
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The part of a URL that names a place: `space/a/b`, encoded. */
export function placeUrl(space: string, path: string): string {
  return path === '' ? encodeSegment(space) : `${encodeSegment(space)}/${encodePath(path)}`;
}

/** Splits a name before its last dot: `a.tar.gz` is `a.tar` and `.gz`; a leading dot belongs to the name. */
export function stemAndExtension(name: string): [string, string] {
  const dot = name.lastIndexOf('.');
  return dot <= 0 ? [name, ''] : [name.slice(0, dot), name.slice(dot)];
}

/** The `n`th name to try for keeping both: `report (2).pdf`. */
export function numbered(name: string, n: number): string {
  const [stem, extension] = stemAndExtension(name);
  return `${stem} (${n})${extension}`;
}

/** Longest name, in bytes of UTF-8, as the drive has it. */
export const NAME_BYTES_MAX = 255;

export type NameFault = 'empty' | 'slash' | 'dots' | 'control' | 'long';

/** What is wrong with a name, by the drive's rules, before asking it. */
export function nameFault(name: string): NameFault | null {
  if (name === '') return 'empty';
  if (name === '.' || name === '..') return 'dots';
  if (name.includes('/')) return 'slash';
  if (/\p{Cc}|\p{Cs}/u.test(name)) return 'control';
  if (new TextEncoder().encode(name).length > NAME_BYTES_MAX) return 'long';
  return null;
}
