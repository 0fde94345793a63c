//! From sources to static files, when a site is published.
//!
//! | in the folder | becomes |
//! |---|---|
//! | `site.toml` | title, languages, redirects, headers ([`Config`]); not published |
//! | `_templates/`, `_fragments/` | templates and fragments, by their path in there; not published |
//! | `NAME.md` | `NAME.html`: Markdown, put into a template |
//! | `NAME.html` with front matter | a template itself: it may include fragments |
//! | other names that begin with `_` or `.` | not published (but `.well-known/` is) |
//! | anything else | itself |
//!
//! Every mistake is a [`Problem`] with file and line; with one problem nothing is published. Raw HTML in Markdown is kept (who
//! publishes may publish HTML files as well) unless `raw_html = false`, which makes it text.

mod builtin;
mod config;
mod escape;
mod feeds;
mod front;
mod listing;
mod markdown;
mod pages;
mod search;
mod templates;

pub use config::Config;
pub use search::{Found, SearchDocument, search};

use crate::limits::{PAGES_BYTES_MAX, SOURCE_BYTES_MAX};
use bytes::Bytes;
use holdfast_base::{Error, Result};
use pages::Page;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A mistake in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as a path in the folder.
    pub file: String,
    /// The line, from 1, if one is known.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl Problem {
    fn new(file: impl Into<String>, line: Option<usize>, message: impl Into<String>) -> Self {
        Self { file: file.into(), line, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// Problems shown at once; who repairs these sees the rest the next time.
const PROBLEMS_SHOWN_MAX: usize = 20;

fn refusal(problems: &[Problem]) -> Error {
    let shown: Vec<String> = problems.iter().take(PROBLEMS_SHOWN_MAX).map(ToString::to_string).collect();
    let more = problems.len().saturating_sub(PROBLEMS_SHOWN_MAX);
    let end = if more > 0 { format!("\nand {more} more") } else { String::new() };
    Error::invalid(format!("the site has mistakes, so nothing was published:\n{}{end}", shown.join("\n")))
}

/// What a file of the folder is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `site.toml`.
    Config,
    /// A template or fragment.
    Template,
    /// A page to be composed, or perhaps (HTML) one that is published as it is.
    Page,
    /// Published as it is.
    Plain,
    /// Not published.
    Hidden,
}

/// Tells what a file is for, by its path in the folder (without a slash before it) and its size.
pub fn part_of(path: &str, bytes: u64) -> Part {
    if path == "site.toml" {
        return Part::Config;
    }
    let template = ["_templates/", "_fragments/"].iter().any(|folder| path.starts_with(folder));
    if template {
        return Part::Template;
    }
    let hidden = |name: &str| name.starts_with('_') || (name.starts_with('.') && name != ".well-known");
    if path.split('/').any(hidden) {
        return Part::Hidden;
    }
    let (_, end) = path.rsplit_once('.').unwrap_or_default();
    match end.to_ascii_lowercase().as_str() {
        "md" | "markdown" => Part::Page,
        "html" | "htm" if bytes <= SOURCE_BYTES_MAX => Part::Page,
        _ => Part::Plain,
    }
}

/// What a folder is composed from.
#[derive(Debug, Default)]
pub struct Sources {
    /// Config, templates and pages, by path in the folder.
    pub texts: BTreeMap<String, Bytes>,
    /// Plain files by path, with size and modification time, for listings.
    pub plain: BTreeMap<String, (u64, Option<i64>)>,
}

/// Where the site will be, as far as it is known.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// Path prefix without a slash at its end.
    pub path: String,
    /// `https://host` and path, without a slash at its end.
    pub url: Option<String>,
    /// Whether everybody may read it.
    pub public: bool,
}

/// A composed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its path, which begins with a slash.
    pub route: String,
    /// Its content.
    pub bytes: Bytes,
    /// Its type.
    pub kind: String,
    /// A listing; see [`crate::index::Route::listing`].
    pub listing: bool,
}

/// A composed site.
#[derive(Debug, Default)]
pub struct Composed {
    /// What was composed, by path in order.
    pub outputs: Vec<Output>,
    /// HTML files that turned out to be published as they are.
    pub as_is: BTreeMap<String, Bytes>,
    /// From `site.toml`.
    pub config: Config,
    /// What is searched.
    pub search: SearchDocument,
    /// The page for what is not there, if there is one.
    pub not_found: Option<String>,
    /// What is missing and why, for the publisher.
    pub notes: Vec<String>,
}

/// Composes a site; all its mistakes together are one `InvalidInput`.
pub fn compose(mut sources: Sources, place: &Place) -> Result<Composed> {
    let mut composed = Composed::default();
    let (config, mut problems) = match sources.texts.get("site.toml") {
        Some(bytes) => Config::read(bytes),
        None => (Config::default(), Vec::new()),
    };
    let mut site = Site { url: config.url.clone().or_else(|| place.url.clone()), place, config, pages: Vec::new() };
    for (path, bytes) in sources.texts.iter().filter(|(path, _)| part_of(path, 0) == Part::Page) {
        match Page::read(path, bytes, &site.config, &place.path) {
            Ok(Some(page)) => site.pages.push(page),
            Ok(None) => {
                composed.as_is.insert(path.clone(), bytes.clone());
            }
            Err(problem) => problems.push(problem),
        }
    }
    sources.plain.extend(composed.as_is.iter().map(|(path, bytes)| (path.clone(), (bytes.len() as u64, None))));
    refuse_doubles(&site.pages, &sources, &mut problems);
    let (templates, broken) = templates::Templates::new(&sources.texts, &site);
    problems.extend(broken);
    if problems.is_empty() {
        compose_pages(&site, &templates, &mut composed, &mut problems);
    }
    if !problems.is_empty() {
        return Err(refusal(&problems));
    }
    add_the_rest(&site, &sources, &mut composed);
    composed.outputs.sort_by(|a, b| a.route.cmp(&b.route));
    composed.config = site.config;
    Ok(composed)
}

/// What all pages of a site share.
struct Site<'a> {
    place: &'a Place,
    url: Option<String>,
    config: Config,
    pages: Vec<Page>,
}

/// A path as it is written in a URL.
pub(crate) fn path_in_url(path: &str) -> String {
    escape::path(path)
}

/// Text as it is written in HTML.
pub(crate) fn text_in_html(text: &str) -> String {
    escape::text(text)
}

fn refuse_doubles(pages: &[Page], sources: &Sources, problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    for page in pages {
        if !seen.insert(&page.route) || sources.plain.contains_key(&page.route[1..]) {
            problems.push(Problem::new(&page.source, None, format!("another file becomes {} as well", page.route)));
        }
    }
}

fn compose_pages(
    site: &Site<'_>,
    templates: &templates::Templates<'_>,
    composed: &mut Composed,
    problems: &mut Vec<Problem>,
) {
    let mut bytes = 0;
    for page in site.pages.iter().filter(|page| !page.front.draft) {
        match templates.render(site, page) {
            Ok(html) => {
                bytes += html.len();
                if bytes > PAGES_BYTES_MAX {
                    let limit = PAGES_BYTES_MAX >> 20;
                    return problems.push(Problem::new(
                        &page.source,
                        None,
                        format!("the pages exceed {limit} MiB together"),
                    ));
                }
                composed.search.add(page, &html);
                composed.outputs.push(Output {
                    route: page.route.clone(),
                    bytes: html.into(),
                    kind: "text/html; charset=utf-8".into(),
                    listing: false,
                });
            }
            Err(problem) => problems.push(problem),
        }
    }
}

/// Feed, sitemap, robots and listings: whatever the folder has not got itself.
fn add_the_rest(site: &Site<'_>, sources: &Sources, composed: &mut Composed) {
    let taken = |composed: &Composed, route: &str| {
        sources.plain.contains_key(&route[1..]) || composed.outputs.iter().any(|output| output.route == route)
    };
    let mut made = Vec::new();
    match &site.url {
        Some(url) => {
            made.extend(feeds::feeds(site, url));
            made.push(feeds::sitemap(site, url, &composed.outputs));
        }
        None => composed.notes.push(
            "no feed and no sitemap were made: they need the site's address; give it a host, or url in site.toml"
                .into(),
        ),
    }
    made.push(feeds::robots(site));
    made.retain(|output| !taken(composed, &output.route));
    composed.outputs.extend(made);
    let not_found = site.config.not_found.clone().unwrap_or_else(|| "/404.html".into());
    if taken(composed, &not_found) {
        composed.not_found = Some(not_found);
    } else if site.config.not_found.is_some() {
        composed.notes.push(format!("there is no page {not_found} for what is not found"));
    }
    let listings = listing::listings(site, sources, &composed.outputs);
    composed.outputs.extend(listings);
}
