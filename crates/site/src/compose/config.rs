//! `site.toml`: what a site's content says about itself.

use super::Problem;
use crate::index::{HeaderRule, Redirect};
use crate::limits::RULES_MAX;
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Headers a site may not set: they belong to the protocol, to other headers here, or to the server's own safety.
const RESERVED: [&str; 18] = [
    "accept-ranges",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "etag",
    "host",
    "keep-alive",
    "last-modified",
    "location",
    "set-cookie",
    "server",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "www-authenticate",
];

/// A site's own configuration.
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Title of the site.
    pub title: String,
    /// One sentence about it.
    pub description: String,
    /// Who writes it, for the feed.
    pub author: String,
    /// Its address, if not the first host's.
    pub url: Option<String>,
    /// Language of pages outside a folder named after a language.
    pub language: String,
    /// Languages that have a folder of their own: `/de/about.md` is the translation of `/about.md`.
    pub languages: Vec<String>,
    /// Template of Markdown pages.
    pub template: String,
    /// Whether HTML in Markdown is kept.
    pub raw_html: bool,
    /// Path of the page for what is not found; `/404.html` if it is there.
    pub not_found: Option<String>,
    /// Redirects.
    pub redirect: Vec<Redirect>,
    /// Headers.
    pub header: Vec<HeaderRule>,
    /// Words of the templates in each language.
    pub translations: BTreeMap<String, BTreeMap<String, String>>,
    /// Anything, for templates.
    pub data: toml::Table,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            title: String::new(),
            description: String::new(),
            author: String::new(),
            url: None,
            language: "en".into(),
            languages: Vec::new(),
            template: "page.html".into(),
            raw_html: true,
            not_found: None,
            redirect: Vec::new(),
            header: Vec::new(),
            translations: BTreeMap::new(),
            data: toml::Table::new(),
        }
    }
}

impl Config {
    /// Reads it, with everything that is wrong with it.
    pub(crate) fn read(bytes: &[u8]) -> (Self, Vec<Problem>) {
        let problem = |line, message: String| vec![Problem::new("site.toml", line, message)];
        let Ok(text) = std::str::from_utf8(bytes) else {
            return (Self::default(), problem(None, "is not UTF-8".into()));
        };
        match toml::from_str::<Self>(text) {
            Err(error) => {
                let line = error.span().map(|span| line_of(text, span.start));
                (Self::default(), problem(line, error.message().to_owned()))
            }
            Ok(mut config) => {
                config.url = config.url.map(|url| url.trim_end_matches('/').to_owned());
                let problems = config.mistakes().into_iter().map(|message| Problem::new("site.toml", None, message));
                let problems = problems.collect();
                (config, problems)
            }
        }
    }

    fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.redirect.len().max(self.header.len()) > RULES_MAX {
            mistakes.push(format!("there can be {RULES_MAX} redirects and as many headers at most"));
        }
        if self.url.as_ref().is_some_and(|url| !url.starts_with("https://") && !url.starts_with("http://")) {
            mistakes.push("url begins with https:// or http://".into());
        }
        for redirect in &self.redirect {
            mistakes.extend(mistake_of_redirect(redirect));
        }
        for rule in &self.header {
            mistakes.extend(mistake_of_header(rule));
        }
        mistakes
    }
}

fn mistake_of_redirect(redirect: &Redirect) -> Option<String> {
    let Redirect { from, to, status } = redirect;
    let known = ["/", "http://", "https://"].iter().any(|start| to.starts_with(start)) && !to.starts_with("//");
    if !from.starts_with('/') || !known || HeaderValue::from_str(to).is_err() {
        return Some(format!("the redirect from {from:?} to {to:?}: from is a path, to a path or an http(s) URL"));
    }
    if from == to {
        return Some(format!("the redirect from {from:?} leads to itself"));
    }
    (![301, 302, 303, 307, 308].contains(status)).then(|| format!("the redirect from {from:?} has the status {status}"))
}

fn mistake_of_header(rule: &HeaderRule) -> Option<String> {
    let name = rule.name.to_ascii_lowercase();
    if HeaderName::from_bytes(name.as_bytes()).is_err() || HeaderValue::from_str(&rule.value).is_err() {
        return Some(format!("{:?}: {:?} is not a header", rule.name, rule.value));
    }
    RESERVED.contains(&name.as_str()).then(|| format!("the header {name} cannot be set by a site"))
}

/// The line of a byte, from 1.
pub(crate) fn line_of(text: &str, byte: usize) -> usize {
    text.as_bytes().iter().take(byte).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        Config::read(text.as_bytes()).1.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        assert!(problems("title = 'x'\nlangauge = 'de'\n")[0].starts_with("site.toml:2: "));
        assert!(problems("url = 'ftp://x'")[0].contains("https"));
        for bad in [
            "from = 'a'\nto = '/b'",
            "from = '/a'\nto = '//evil'",
            "from = '/a'\nto = '/a'",
            "from='/a'\nto='/b'\nstatus=200",
        ] {
            assert_eq!(problems(&format!("[[redirect]]\n{bad}\n")).len(), 1, "{bad}");
        }
        for bad in ["Set-Cookie", "content-length", "a b"] {
            assert_eq!(problems(&format!("[[header]]\npath = '*'\nname = '{bad}'\nvalue = 'x'\n")).len(), 1, "{bad}");
        }
        assert!(problems("[[header]]\npath='*'\nname='x-a'\nvalue='b'\n[[redirect]]\nfrom='/a'\nto='/b'\n").is_empty());
    }
}
