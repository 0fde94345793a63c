//! Atom feed (RFC 4287), sitemap (sitemaps.org, protocol 0.9) and robots.txt (RFC 9309).

use super::pages::{Page, clean};
use super::{Output, Site, escape};
use std::fmt::Write;

/// Entries of a feed: what a reader shows.
const ENTRIES_MAX: usize = 50;

fn output(route: &str, kind: &str, text: String) -> Output {
    Output { route: route.into(), bytes: text.into(), kind: kind.into(), listing: false }
}

/// The feed of pages that have a date; none if there is none. `url` is the site's own.
pub(super) fn feeds(site: &Site<'_>, url: &str) -> Option<Output> {
    let dated = |page: &&Page| page.front.date.is_some() && !page.front.draft;
    let mut pages: Vec<&Page> = site.pages.iter().filter(dated).collect();
    pages.sort_by(|a, b| b.front.date.cmp(&a.front.date).then_with(|| a.route.cmp(&b.route)));
    let newest = pages.first()?.front.date.clone()?;
    let config = &site.config;
    let title = escape::text(if config.title.is_empty() { url } else { &config.title });
    let author = escape::text(if config.author.is_empty() { url } else { &config.author });
    let url = escape::text(url);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n<title>{title}</title>\n\
         <id>{url}/</id>\n<link href=\"{url}/\"/>\n<link rel=\"self\" href=\"{url}/feed.xml\"/>\n<updated>{newest}</updated>\n\
         <author><name>{author}</name></author>\n"
    );
    for page in pages.into_iter().take(ENTRIES_MAX) {
        let address = format!("{url}{}", escape::text(&page.url[site.place.path.len()..]));
        let date = page.front.date.as_deref().unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "<entry><title>{}</title><id>{address}</id><link href=\"{address}\"/><updated>{date}</updated>",
            escape::text(&page.title)
        );
        if let Some(description) = &page.front.description {
            let _ = write!(out, "<summary>{}</summary>", escape::text(description));
        }
        out.push_str("</entry>\n");
    }
    out.push_str("</feed>\n");
    Some(output("/feed.xml", "application/atom+xml; charset=utf-8", out))
}

/// Every composed page but the one for what is not found.
pub(super) fn sitemap(site: &Site<'_>, url: &str, outputs: &[Output]) -> Output {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
    );
    let hidden = site.config.not_found.as_deref().unwrap_or("/404.html");
    for page in outputs.iter().filter(|output| output.kind.starts_with("text/html") && output.route != hidden) {
        let address = escape::text(&format!("{url}{}", escape::path(&clean(&page.route))));
        let _ = writeln!(out, "<url><loc>{address}</loc></url>");
    }
    out.push_str("</urlset>\n");
    output("/sitemap.xml", "application/xml; charset=utf-8", out)
}

/// Crawlers may read what everybody may read.
pub(super) fn robots(site: &Site<'_>) -> Output {
    let mut text =
        String::from(if site.place.public { "User-agent: *\nAllow: /\n" } else { "User-agent: *\nDisallow: /\n" });
    if let (true, Some(url)) = (site.place.public, &site.url) {
        let _ = writeln!(text, "Sitemap: {url}/sitemap.xml");
    }
    output("/robots.txt", "text/plain; charset=utf-8", text)
}
