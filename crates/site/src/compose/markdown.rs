//! Markdown (`CommonMark` with tables, footnotes, strikethrough and task lists) into HTML.
//!
//! Links to other pages may be written as files: `about.md` becomes the page's address; an absolute path gets the site's prefix.
//! Headings get ids made of their words, so that they can be linked to.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use std::collections::HashMap;

/// Text as HTML.
pub(crate) struct Rendered {
    pub(crate) html: String,
    /// The first heading of the first level.
    pub(crate) title: Option<String>,
}

/// Renders Markdown of a page below `prefix`.
pub(crate) fn render(text: &str, prefix: &str, raw_html: bool) -> Rendered {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_HEADING_ATTRIBUTES;
    let mut events: Vec<Event<'_>> = Parser::new_ext(text, options)
        .map(|event| match event {
            Event::Html(html) | Event::InlineHtml(html) if !raw_html => Event::Text(html),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                Event::Start(Tag::Link { link_type, dest_url: target(dest_url, prefix), title, id })
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                Event::Start(Tag::Image { link_type, dest_url: target(dest_url, prefix), title, id })
            }
            event => event,
        })
        .collect();
    let title = name_headings(&mut events);
    let mut out = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut out, events.into_iter());
    Rendered { html: out, title }
}

/// Gives every heading an id; answers the text of the first one of the first level.
fn name_headings(events: &mut [Event<'_>]) -> Option<String> {
    let mut title = None;
    let mut used: HashMap<String, usize> = HashMap::new();
    for start in 0..events.len() {
        let Event::Start(Tag::Heading { level, id: None, .. }) = &events[start] else { continue };
        let level = *level;
        let words: String = events[start + 1..]
            .iter()
            .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))))
            .filter_map(|event| match event {
                Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
                _ => None,
            })
            .collect();
        if level == HeadingLevel::H1 && title.is_none() {
            title = Some(words.clone());
        }
        let slug = slug(&words);
        let count = used.entry(slug.clone()).or_default();
        *count += 1;
        let name = if *count == 1 { slug } else { format!("{slug}-{count}") };
        if let Event::Start(Tag::Heading { id, .. }) = &mut events[start] {
            *id = (!name.is_empty()).then(|| CowStr::from(name));
        }
    }
    title
}

fn slug(words: &str) -> String {
    let mut slug = String::new();
    for c in words.chars() {
        if c.is_alphanumeric() {
            slug.extend(c.to_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// What a link is to be in the published page.
fn target<'a>(link: CowStr<'a>, prefix: &str) -> CowStr<'a> {
    let absolute = link.starts_with('/') && !link.starts_with("//");
    if !absolute && (link.contains("://") || link.starts_with("//") || link.starts_with("mailto:")) {
        return link;
    }
    let (path, rest) = link.find(['#', '?']).map_or((link.as_ref(), ""), |at| link.split_at(at));
    let page = path.strip_suffix(".md").map(|page| match page.strip_suffix("index") {
        Some("") => "./".to_owned(),
        Some(folder) if folder.ends_with('/') => folder.to_owned(),
        _ => page.to_owned(),
    });
    if page.is_none() && (!absolute || prefix.is_empty()) {
        return link;
    }
    let path = page.unwrap_or_else(|| path.to_owned());
    let prefix = if absolute { prefix } else { "" };
    CowStr::from(format!("{prefix}{path}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        render(text, "/blog", true).html
    }

    #[test]
    fn links_to_pages_and_absolute_paths_lead_where_the_site_is() {
        for (link, published) in [
            ("about.md", "about"),
            ("../a/index.md#x", "../a/#x"),
            ("index.md", "./"),
            ("/about.md?x", "/blog/about?x"),
            ("/pic.png", "/blog/pic.png"),
            ("pic.png", "pic.png"),
            ("//host/x.md", "//host/x.md"),
            ("https://example.org/x.md", "https://example.org/x.md"),
            ("#x", "#x"),
        ] {
            assert_eq!(html(&format!("[x]({link})")), format!("<p><a href=\"{published}\">x</a></p>\n"), "{link}");
        }
    }

    #[test]
    fn headings_have_ids_and_the_first_is_the_title() {
        let rendered = render("# Über `uns`!\n\n## A\n\n## A\n", "", true);
        assert_eq!(rendered.title.as_deref(), Some("Über uns!"));
        for id in ["über-uns", "a", "a-2"] {
            assert!(rendered.html.contains(&format!(" id=\"{id}\"")), "{id}: {}", rendered.html);
        }
    }

    #[test]
    fn html_in_markdown_is_kept_or_becomes_text() {
        assert_eq!(html("<b>x</b>\n"), "<p><b>x</b></p>\n");
        assert_eq!(render("<script>x</script>\n", "", false).html, "&lt;script&gt;x&lt;/script&gt;\n");
    }
}
