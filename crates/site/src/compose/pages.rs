//! A page: a source that is composed.

use super::config::Config;
use super::front::{self, Front};
use super::{Problem, escape, markdown};
use bytes::Bytes;

/// See the module.
#[derive(Debug)]
pub(crate) struct Page {
    /// The source's path in the folder.
    pub(crate) source: String,
    /// The published file's path, with a slash before it.
    pub(crate) route: String,
    /// The address for links, with the site's prefix, percent-encoded.
    pub(crate) url: String,
    pub(crate) lang: String,
    /// The same for all translations of a page.
    pub(crate) key: String,
    pub(crate) title: String,
    pub(crate) front: Front,
    pub(crate) body: Body,
}

/// What a page is made of.
#[derive(Debug)]
pub(crate) enum Body {
    /// Markdown, rendered.
    Html(String),
    /// A template; so many lines of its file come before it.
    Template(String, usize),
}

impl Page {
    /// Reads a source; none if it is an HTML file that is published as it is.
    pub(crate) fn read(source: &str, bytes: &Bytes, config: &Config, prefix: &str) -> Result<Option<Self>, Problem> {
        let text = std::str::from_utf8(bytes);
        let (stem, end) = source.rsplit_once('.').unwrap_or((source, ""));
        let is_html = end.eq_ignore_ascii_case("html") || end.eq_ignore_ascii_case("htm");
        let Ok(text) = text else {
            return if is_html { Ok(None) } else { Err(Problem::new(source, None, "is not UTF-8")) };
        };
        let found = front::split(source, text)?;
        if is_html && found.is_none() {
            return Ok(None);
        }
        let (front, body, lines) = found.unwrap_or_else(|| (Front { nav: true, ..Front::default() }, text, 0));
        let (body, heading) = if is_html {
            (Body::Template(body.to_owned(), lines), None)
        } else {
            let rendered = markdown::render(body, prefix, config.raw_html);
            (Body::Html(rendered.html), rendered.title)
        };
        let (folder_lang, key) = language_folder(stem, config);
        let lang = front.lang.clone().or(folder_lang).unwrap_or_else(|| config.language.clone());
        let name = stem.rsplit('/').next().unwrap_or(stem);
        let title = front.title.clone().or(heading).unwrap_or_else(|| name.replace(['-', '_'], " "));
        let route = format!("/{stem}.html");
        let url = format!("{prefix}{}", escape::path(&clean(&route)));
        Ok(Some(Self { source: source.to_owned(), route, url, lang, key: key.to_owned(), title, front, body }))
    }

    /// The folder it is the page of, if it is an index page; else the folder it is in.
    pub(crate) fn folder(&self) -> &str {
        self.route.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    pub(crate) fn is_index(&self) -> bool {
        self.route.ends_with("/index.html")
    }
}

/// The language a path's first folder names, and the path without it.
fn language_folder<'a>(stem: &'a str, config: &Config) -> (Option<String>, &'a str) {
    match stem.split_once('/') {
        Some((first, rest)) if config.languages.iter().any(|lang| lang == first) => (Some(first.to_owned()), rest),
        _ => (None, stem),
    }
}

/// The address of a file as people see it: without `.html`, and a folder's page as the folder.
pub(crate) fn clean(route: &str) -> String {
    match route.strip_suffix("/index.html") {
        Some(folder) => format!("{folder}/"),
        None => route.strip_suffix(".html").unwrap_or(route).to_owned(),
    }
}
