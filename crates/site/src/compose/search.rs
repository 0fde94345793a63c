//! Search in a site: the text of its composed pages, made when publishing and scanned per query.
//!
//! Words are found anywhere in title or text, without regard to case; all of them must be there. Only a snapshot's own pages are
//! in it, so a reader finds what that reader may open, and no draft.

use super::pages::Page;
use crate::limits::{RESULTS_MAX, SEARCH_BYTES_MAX, SEARCHED_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// Characters of text shown with a result.
const EXCERPT_CHARS: usize = 160;

/// Words of one query that count.
const WORDS_MAX: usize = 8;

/// What is searched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchDocument {
    pages: Vec<SearchedPage>,
    #[serde(skip)]
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SearchedPage {
    url: String,
    title: String,
    lang: String,
    text: String,
}

/// A result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Address of the page.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Its language.
    pub lang: String,
    /// Text around the first word.
    pub excerpt: String,
}

impl SearchDocument {
    pub(super) fn add(&mut self, page: &Page, html: &str) {
        let mut text = text_of(html);
        truncate(&mut text, SEARCHED_BYTES_MAX.min(SEARCH_BYTES_MAX.saturating_sub(self.bytes)));
        self.bytes += text.len();
        self.pages.push(SearchedPage {
            url: page.url.clone(),
            title: page.title.clone(),
            lang: page.lang.clone(),
            text,
        });
    }

    /// Whether there is nothing to search.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

fn truncate(text: &mut String, most: usize) {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// The words of the page's main part, without markup; of all of it if it has no `main` element.
fn text_of(html: &str) -> String {
    let main = html.find("<main").and_then(|start| {
        let rest = &html[start..];
        rest.find("</main").map(|end| &rest[..end])
    });
    let mut out = String::new();
    let mut rest = main.unwrap_or(html);
    while let Some(open) = rest.find('<') {
        push_words(&mut out, &rest[..open]);
        let tag = &rest[open..];
        let skipped = ["script", "style", "head", "nav"].into_iter().find_map(|name| {
            let is_it = tag[1..].get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
                && !tag.as_bytes().get(1 + name.len()).is_some_and(u8::is_ascii_alphanumeric);
            is_it.then(|| tag.find(&format!("</{name}"))).flatten()
        });
        let tag = &tag[skipped.unwrap_or(0)..];
        rest = tag.find('>').map_or("", |close| &tag[close + 1..]);
    }
    push_words(&mut out, rest);
    out
}

fn push_words(out: &mut String, text: &str) {
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        let plain = ["&lt;", "&gt;", "&quot;", "&#39;", "&#x27;", "&amp;"].iter().zip(["<", ">", "\"", "'", "'", "&"]);
        let word = plain.fold(word.to_owned(), |word, (name, c)| word.replace(name, c));
        out.push_str(&word);
    }
}

/// The pages that have all words of a query, those with a word in their title first.
pub fn search(document: &SearchDocument, query: &str) -> Vec<Found> {
    let words: Vec<String> = query.split_whitespace().take(WORDS_MAX).map(str::to_lowercase).collect();
    if words.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(bool, Found)> = document
        .pages
        .iter()
        .filter_map(|page| {
            let (title, text) = (page.title.to_lowercase(), page.text.to_lowercase());
            let all = words.iter().all(|word| title.contains(word) || text.contains(word));
            all.then(|| (words.iter().any(|word| title.contains(word)), result(page, &text, &words[0])))
        })
        .collect();
    found.sort_by_key(|(in_title, _)| !in_title);
    found.into_iter().take(RESULTS_MAX).map(|(_, found)| found).collect()
}

fn result(page: &SearchedPage, lower: &str, word: &str) -> Found {
    // Lower case may be longer or shorter, so the place is taken in characters, and is near enough.
    let at = lower.find(word).map_or(0, |at| lower[..at].chars().count());
    let start = at.saturating_sub(EXCERPT_CHARS / 3);
    let excerpt: String = page.text.chars().skip(start).take(EXCERPT_CHARS).collect();
    Found { url: page.url.clone(), title: page.title.clone(), lang: page.lang.clone(), excerpt }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_people_read_is_searched() {
        let html = "<head><title>T</title></head><nav>menu</nav><p>One &amp; <b>two</b></p><script>var x='<p>';</script><p>end";
        assert_eq!(text_of(html), "One & two end");
        assert_eq!(text_of("<header>no</header><main id=x><p>yes</p></main><footer>no</footer>"), "yes");
    }

    #[test]
    fn all_words_must_be_there_and_titles_come_first() {
        let page = |title: &str, text: &str| SearchedPage {
            url: format!("/{title}"),
            title: title.into(),
            lang: "en".into(),
            text: text.into(),
        };
        let document = SearchDocument {
            pages: vec![page("one", "About ÄPFEL"), page("Äpfel", "more"), page("x", "")],
            bytes: 0,
        };
        let urls = |query: &str| search(&document, query).into_iter().map(|found| found.url).collect::<Vec<_>>();
        assert_eq!(urls("äpfel"), ["/Äpfel", "/one"]);
        assert_eq!(urls("äpfel about"), ["/one"]);
        assert!(urls("").is_empty() && urls("äpfel nowhere").is_empty());
    }

    proptest! {
        #[test]
        fn any_markup_and_any_query_are_read(html in "[<>/a-zé &;]{0,80}", query in ".{0,20}") {
            let text = text_of(&html);
            let page = SearchedPage { url: String::new(), title: String::new(), lang: String::new(), text };
            let _ = search(&SearchDocument { pages: vec![page], bytes: 0 }, &query);
        }
    }
}
