/** What a file is, by its name and the type the drive tells, and how it can be shown. */

export type Show = 'image' | 'pdf' | 'text' | 'code' | 'markdown' | 'csv' | 'audio' | 'video' | 'none';
export type Family = 'folder' | 'image' | 'audio' | 'video' | 'document' | 'table' | 'code' | 'archive' | 'other';

/** Text above this is not loaded into the page. */
export const TEXT_BYTES_MAX = 4 * 1024 * 1024;
/** Text above this is shown but not edited. */
export const EDIT_BYTES_MAX = 1024 * 1024;
/** Pictures above this have no thumbnails: what the drive tries at most. */
const THUMBNAIL_BYTES_MAX = 32 * 1024 * 1024;
/** Pictures of types that the drive draws no thumbnails of are their own, up to this size. */
const OWN_THUMBNAIL_BYTES_MAX = 1024 * 1024;
const DRAWN = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp']);

/** What is shown of a file in a grid: a picture that the drive draws, the file itself, or an icon. */
export function smallOf(file: { name: string; type?: string; kind: 'file' | 'folder'; size_bytes: number }): 'drawn' | 'own' | 'icon' {
  if (file.kind !== 'file' || file.size_bytes === 0) return 'icon';
  if (DRAWN.has(file.type ?? '')) return file.size_bytes <= THUMBNAIL_BYTES_MAX ? 'drawn' : 'icon';
  return showOf(file.name, file.type) === 'image' && file.size_bytes <= OWN_THUMBNAIL_BYTES_MAX ? 'own' : 'icon';
}

/** Longest edge of what the drive draws for a first look, in pixels. */
export const PREVIEW_EDGE = 1024;
/** Below this a picture is as quickly there itself. */
const PREVIEW_BYTES_MIN = 256 * 1024;

/** Whether a picture is first shown as the drive draws it. What may move (GIF, WebP) is not: it would stand still. */
export function hasPreview(file: { type?: string; size_bytes: number }): boolean {
  const still = file.type === 'image/jpeg' || file.type === 'image/png';
  return still && file.size_bytes >= PREVIEW_BYTES_MIN && file.size_bytes <= THUMBNAIL_BYTES_MAX;
}

// Maps, not objects: a file may be called `constructor`.
const BY_EXTENSION = new Map<string, Show>();
function put(show: Show, extensions: string): void {
  for (const extension of extensions.split(' ')) BY_EXTENSION.set(extension, show);
}
put('image', 'png jpg jpeg jfif gif webp avif bmp ico apng');
put('pdf', 'pdf');
put('markdown', 'md markdown mdown');
put('csv', 'csv tsv');
put('audio', 'mp3 m4a ogg oga opus wav flac aac weba');
put('video', 'mp4 m4v webm ogv mov');
put('text', 'txt log text nfo srt vtt tex bib rst adoc org diff patch ini conf cfg env lock gitignore dockerignore editorconfig');
put(
  'code',
  'js mjs cjs ts tsx jsx json jsonl json5 yaml yml toml xml html htm svg css scss less rs go py rb php java kt kts swift ' +
    'c h cc cpp cxx hpp cs m mm sh bash zsh fish ps1 bat sql lua pl r jl hs ex exs erl clj scala dart vue svelte graphql proto ' +
    'tf nix cmake gradle properties vim el lisp asm s v vhd zig',
);
const NAMES = new Map<string, Show>([
  ['makefile', 'code'],
  ['dockerfile', 'code'],
  ['license', 'text'],
  ['readme', 'text'],
  ['changelog', 'text'],
  ['authors', 'text'],
  ['copying', 'text'],
]);

export function extensionOf(name: string): string {
  const dot = name.lastIndexOf('.');
  return dot < 0 ? '' : name.slice(dot + 1).toLowerCase();
}

/** How a file is shown; a name is believed before a type, since the type is made from the name. */
export function showOf(name: string, type = ''): Show {
  const known = BY_EXTENSION.get(extensionOf(name)) ?? NAMES.get(name.toLowerCase());
  if (known) return known;
  if (/^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(type)) return 'image';
  if (type.startsWith('audio/')) return 'audio';
  if (type.startsWith('video/')) return 'video';
  if (type === 'application/pdf') return 'pdf';
  if (type.startsWith('text/')) return 'text';
  return 'none';
}

export function isText(show: Show): boolean {
  return show === 'text' || show === 'code' || show === 'markdown' || show === 'csv';
}

const DOCUMENTS = new Set('doc docx odt rtf pages epub ppt pptx odp key pdf md txt tex'.split(' '));
const TABLES = new Set('xls xlsx ods csv tsv numbers parquet sqlite db'.split(' '));
const ARCHIVES = new Set('zip tar gz tgz bz2 xz zst 7z rar jar iso dmg deb rpm'.split(' '));

/** For the icon and for sorting by type. */
export function familyOf(name: string, kind: 'file' | 'folder', type = ''): Family {
  if (kind === 'folder') return 'folder';
  const extension = extensionOf(name);
  if (DOCUMENTS.has(extension)) return 'document';
  if (TABLES.has(extension)) return 'table';
  if (ARCHIVES.has(extension)) return 'archive';
  const show = showOf(name, type);
  if (show === 'image' || show === 'audio' || show === 'video' || show === 'code') return show;
  if (show === 'text') return 'document';
  return 'other';
}
