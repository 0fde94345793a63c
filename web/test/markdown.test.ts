import { describe, expect, it } from 'vitest';
import { markdown, target, type Content, type Element } from '../src/lib/markdown';

function elements(content: Content[]): Element[] {
  return content.flatMap((one) => (typeof one === 'string' ? [] : [one, ...elements(one.children)]));
}
const tags = (source: string) => elements(markdown(source, 'docs/a.md')).map((element) => element.tag);
const text = (content: Content[]): string => content.map((one) => (typeof one === 'string' ? one : text(one.children))).join('');

const ALLOWED = new Set('h1 h2 h3 h4 h5 h6 p blockquote strong em del hr br pre code ul ol li table thead tbody tr th td a img'.split(' '));

describe('Markdown', () => {
  it('makes headings, lists, tasks, tables, code and emphasis', () => {
    expect(tags('# a\n\n- [x] b\n\n| c | d |\n|---|--:|\n| 1 | 2 |\n\n```js\nx\n```\n\n**e** _f_ ~~g~~')).toEqual(
      expect.arrayContaining(['h1', 'ul', 'li', 'table', 'th', 'td', 'pre', 'code', 'strong', 'em', 'del']),
    );
    const item = elements(markdown('- [x] b', 'a.md')).find((element) => element.tag === 'li');
    expect(item?.checked).toBe(true);
  });

  it('shows HTML as the text it is', () => {
    for (const hostile of [
      '<script>alert(1)</script>',
      '<img src=x onerror=alert(1)>',
      '<svg><g onload=alert(1)>',
      'a <b onclick="x()">b</b>',
      '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
      '<style>body{display:none}</style>',
      '<a href="javascript:alert(1)">x</a>',
      '<!-- --!><img src=x onerror=alert(1)> -->',
    ]) {
      const content = markdown(hostile, 'a.md');
      expect(elements(content).every((element) => ALLOWED.has(element.tag) && element.tag !== 'img'), hostile).toBe(true);
      expect(text(content).replace(/\s/g, ''), hostile).toContain('<');
    }
  });

  it('lets links go only where it is safe', () => {
    for (const hostile of [
      'javascript:alert(1)',
      'JaVaScRiPt:alert(1)',
      'java\nscript:alert(1)',
      '\u0001javascript:alert(1)',
      ' javascript:alert(1)',
      'data:text/html,<script>alert(1)</script>',
      'vbscript:x',
      'file:///etc/passwd',
      'blob:http://drive/x',
      '//evil.example/x',
      '\\\\evil.example\\x',
      'https:\\evil',
    ]) {
      expect(target(hostile, 'docs'), hostile).toBeNull();
    }
    expect(target('https://example.org/a?b#c', '')).toEqual({ href: 'https://example.org/a?b#c' });
    expect(target('mailto:a@example.org', '')).toEqual({ href: 'mailto:a@example.org' });
  });

  it('resolves files of the drive beside the file, and never above the space', () => {
    expect(target('b.md', 'docs/x')).toEqual({ file: 'docs/x/b.md' });
    expect(target('../b%20c.png', 'docs/x')).toEqual({ file: 'docs/b c.png' });
    expect(target('/top.md', 'docs/x')).toEqual({ file: 'top.md' });
    expect(target('../../../../etc/passwd', 'docs/x')).toBeNull();
    expect(target('%2e%2e/%2e%2e/%2e%2e/x', 'docs/x')).toBeNull();
    expect(target('%E0%A4%A', '')).toBeNull();
  });

  it('loads no picture from elsewhere: it becomes a link', () => {
    const [link] = elements(markdown('![tracker](https://evil.example/pixel.png)', 'a.md')).filter((element) => element.tag !== 'p');
    expect(link).toMatchObject({ tag: 'a', href: 'https://evil.example/pixel.png' });
    const picture = elements(markdown('![a](img/b.png)', 'docs/a.md')).find((element) => element.tag === 'img');
    expect(picture).toMatchObject({ file: 'docs/img/b.png', alt: 'a' });
  });

  it('gives headings ids that cannot be taken for those of the page', () => {
    const ids = elements(markdown('# search\n\n# main\n\n# ' + '🦭', 'a.md')).map((element) => element.id);
    expect(ids.every((id) => id === undefined || id.startsWith('md-'))).toBe(true);
  });

  it('ends on deep nesting', () => {
    expect(() => markdown('>'.repeat(2_000) + ' x', 'a.md')).not.toThrow();
    expect(() => markdown('[![a]('.repeat(2_000), 'a.md')).not.toThrow();
  });
});
