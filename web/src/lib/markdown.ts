/**
 * Markdown into a small tree of elements, never into HTML text. The tree can hold only the elements and attributes made
 * here, so nothing a file says becomes markup: raw HTML in it is shown as the text it is.
 *
 * Links go to `http`, `https`, `mailto`, a place in the page, or a file of the drive; pictures only to files of the drive,
 * so reading a file tells nobody outside that it was read.
 */
import { lexer, type Token, type Tokens } from 'marked';
import { normal, parent, split } from './paths';

export interface Element {
  tag: string;
  /** A link's address, of a kind that was allowed. */
  href?: string;
  /** A file of the drive, as path in the same space. */
  file?: string;
  alt?: string;
  id?: string;
  start?: number;
  align?: 'left' | 'center' | 'right';
  checked?: boolean;
  children: Content[];
}
export type Content = string | Element;

/** Deeper nesting is shown as text. */
const DEPTH_MAX = 40;

export function markdown(source: string, path: string): Content[] {
  try {
    return blocks(lexer(source), { folder: parent(path) }, 0);
  } catch (error) {
    // Nested deeper than the stack: nobody writes so, and it is shown as the text it is.
    if (error instanceof RangeError) return [{ tag: 'pre', children: [source] }];
    throw error;
  }
}

interface Context {
  folder: string;
}

function blocks(tokens: Token[] | undefined, context: Context, depth: number): Content[] {
  if (depth > DEPTH_MAX) return (tokens ?? []).map((token) => token.raw);
  return (tokens ?? []).flatMap((token) => one(token, context, depth + 1));
}

function one(token: Token, context: Context, depth: number): Content[] {
  const inner = () => blocks((token as { tokens?: Token[] }).tokens, context, depth);
  const el = (tag: string, more: Partial<Element> = {}, children = inner()): Content[] => [{ tag, children, ...more }];
  switch (token.type) {
    case 'space':
    case 'def':
      return [];
    case 'heading':
      return el(`h${Math.min(6, Math.max(1, (token as Tokens.Heading).depth))}`, { id: slug((token as Tokens.Heading).text) });
    case 'paragraph':
      return el('p');
    case 'blockquote':
    case 'strong':
    case 'em':
    case 'del':
      return el(token.type);
    case 'hr':
    case 'br':
      return el(token.type, {}, []);
    case 'code':
      return el('pre', {}, [{ tag: 'code', children: [(token as Tokens.Code).text] }]);
    case 'codespan':
      return el('code', {}, [(token as Tokens.Codespan).text]);
    case 'list':
      return list(token as Tokens.List, context, depth);
    case 'table':
      return table(token as Tokens.Table, context, depth);
    case 'link':
      return link(token as Tokens.Link, inner(), context);
    case 'image':
      return image(token as Tokens.Image, context);
    case 'text':
      return 'tokens' in token && token.tokens ? inner() : [(token as Tokens.Text).text];
    case 'escape':
      return [(token as Tokens.Escape).text];
    case 'checkbox':
      return [];
    default:
      // Raw HTML and whatever else: as text.
      return [token.raw];
  }
}

function list(token: Tokens.List, context: Context, depth: number): Content[] {
  const children = token.items.map((item): Element => {
    const li: Element = { tag: 'li', children: blocks(item.tokens, context, depth) };
    if (item.task) li.checked = item.checked ?? false;
    return li;
  });
  if (!token.ordered) return [{ tag: 'ul', children }];
  return [{ tag: 'ol', children, ...(typeof token.start === 'number' && token.start !== 1 && { start: token.start }) }];
}

function table(token: Tokens.Table, context: Context, depth: number): Content[] {
  const cell = (tag: string) => (from: Tokens.TableCell): Element => ({
    tag,
    children: blocks(from.tokens, context, depth),
    ...(from.align && { align: from.align }),
  });
  const head: Element = { tag: 'thead', children: [{ tag: 'tr', children: token.header.map(cell('th')) }] };
  const body: Element = { tag: 'tbody', children: token.rows.map((row) => ({ tag: 'tr', children: row.map(cell('td')) })) };
  return [{ tag: 'table', children: [head, body] }];
}

function link(token: Tokens.Link, children: Content[], context: Context): Content[] {
  const to = target(token.href, context.folder);
  if (to === null) return children;
  return [{ tag: 'a', children, ...to }];
}

function image(token: Tokens.Image, context: Context): Content[] {
  const to = target(token.href, context.folder);
  if (to && 'file' in to) return [{ tag: 'img', alt: token.text, file: to.file, children: [] }];
  const label = token.text === '' ? token.href : token.text;
  return to ? [{ tag: 'a', href: to.href, children: [label] }] : [label];
}

/** Where an address may lead; null if nowhere. */
export function target(href: string, folder: string): { href: string } | { file: string } | null {
  // What a browser would drop when reading an address, so that `java\nscript:` is seen for what it is.
  const address = href.replace(/[\p{Cc} ]/gu, '');
  if (/^(https?:\/\/|mailto:)/i.test(address)) return { href: address };
  if (address.startsWith('#')) return { href: `#${slug(address.slice(1))}` };
  if (/^[a-z][a-z0-9+.-]*:/i.test(address) || address.startsWith('//') || address.includes('\\')) return null;
  const clean = href.trim().split(/[?#]/)[0] ?? '';
  if (clean === '') return null;
  return resolve(folder, clean);
}

function resolve(folder: string, relative: string): { file: string } | null {
  let decoded: string;
  try {
    decoded = decodeURIComponent(relative);
  } catch {
    return null;
  }
  const parts = decoded.startsWith('/') ? [] : split(folder);
  for (const part of split(decoded)) {
    if (part === '.') continue;
    if (part === '..') {
      if (parts.pop() === undefined) return null;
    } else parts.push(part);
  }
  return { file: normal(parts.join('/')) };
}

/** A heading's name; led by a word of ours, so that it cannot take the place of an element of the page. */
export function slug(text: string): string {
  const word = text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '');
  return word.startsWith('md-') ? word : `md-${word}`;
}
