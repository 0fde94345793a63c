//! Listing pages of web servers: the names that a page links to in its own folder.
//!
//! Of a page in HTML only the links of `<a href>` count, and of those only what is one step below the page: servers differ in all else, and what a
//! page shows of sizes and times is rounded. nginx can write JSON instead (`autoindex_format json`).

use holdfast_base::{Error, ErrorKind, NodeName, Result};
use percent_encoding::percent_decode;
use std::collections::BTreeMap;

/// Bytes of a page: some 300,000 links.
pub const PAGE_BYTES_MAX: usize = 32 << 20;
/// Characters of a reference such as `&amp;`, and `&#x10ffff;`.
const REFERENCE_MAX: usize = 10;

/// What a page links to: names in order, each with whether it is a folder.
pub type Links = BTreeMap<NodeName, bool>;

/// Links of a page in HTML, whose address has this path. Names that cannot be carried are told apart.
pub fn html(page: &[u8], path: &str) -> (Links, Vec<(String, Error)>) {
    let (mut links, mut refused) = (Links::new(), Vec::new());
    for href in hrefs(page) {
        match below(&href, path) {
            Some(Ok((name, folder))) => drop(links.insert(name, folder)),
            Some(Err(why)) => refused.push(why),
            None => {}
        }
    }
    (links, refused)
}

/// Entries of a page in JSON.
pub fn json(page: &[u8]) -> Result<(Links, Vec<(String, Error)>)> {
    #[derive(serde::Deserialize)]
    struct Entry {
        name: String,
        #[serde(rename = "type")]
        kind: String,
    }
    let entries: Vec<Entry> = serde_json::from_slice(page).map_err(|error| {
        Error::new(ErrorKind::Unsupported, "the page is no list of files in JSON").with_source(error)
    })?;
    let (mut links, mut refused) = (Links::new(), Vec::new());
    for entry in entries {
        match (NodeName::new(&entry.name), entry.kind.as_str()) {
            (Ok(name), "directory") => drop(links.insert(name, true)),
            (Ok(name), "file") => drop(links.insert(name, false)),
            (Ok(_), _) => refused.push((entry.name, Error::new(ErrorKind::WrongKind, "it is no file or folder"))),
            (Err(why), _) => refused.push((entry.name, why)),
        }
    }
    Ok((links, refused))
}

/// The name that a link leads to, if that is one step below a path.
fn below(href: &str, path: &str) -> Option<Result<(NodeName, bool), (String, Error)>> {
    let href = href.trim();
    if href.contains(['?', '#']) || href.starts_with("//") {
        return None;
    }
    let rest = match href.strip_prefix('/') {
        Some(_) => after(href, path)?,
        // What has a scheme leads elsewhere; a colon later on is part of a name.
        None if href.split('/').next().is_some_and(|first| first.contains(':')) && !href.starts_with("./") => {
            return None;
        }
        None => href.strip_prefix("./").unwrap_or(href).to_owned(),
    };
    let (name, folder) = match rest.strip_suffix('/') {
        Some(name) => (name, true),
        None => (rest.as_str(), false),
    };
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return None;
    }
    let refused = |error| (name.chars().take(300).collect(), error);
    let decoded = percent_decode(name.as_bytes()).decode_utf8();
    let decoded = decoded.map_err(|_| refused(Error::invalid("its name is not UTF-8")));
    Some(decoded.and_then(|name| NodeName::new(&name).map_err(refused)).map(|name| (name, folder)))
}

/// What of a path is after another, however each of them is written.
fn after(href: &str, path: &str) -> Option<String> {
    let mut rest = href.split('/').skip(1);
    for part in path.split('/').skip(1).filter(|part| !part.is_empty()) {
        if percent_decode(rest.next()?.as_bytes()).ne(percent_decode(part.as_bytes())) {
            return None;
        }
    }
    Some(rest.collect::<Vec<_>>().join("/"))
}

/// The values of `href` of all `<a>` of a page.
fn hrefs(page: &[u8]) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), page);
    while let Some(start) = rest.iter().position(|byte| *byte == b'<') {
        rest = &rest[start + 1..];
        if let Some(comment) = rest.strip_prefix(b"!--") {
            let end = comment.windows(3).position(|three| three == b"-->");
            rest = end.map_or(&[][..], |end| &comment[end + 3..]);
        } else if matches!(rest, [b'a' | b'A', space, ..] if space.is_ascii_whitespace()) {
            let (href, after) = attribute(&rest[1..]);
            found.extend(href);
            rest = after;
        }
    }
    found
}

/// The value of `href` among attributes, and what is after the tag.
fn attribute(mut rest: &[u8]) -> (Option<String>, &[u8]) {
    let mut href = None;
    loop {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| matches!(byte, b'=' | b'>') || byte.is_ascii_whitespace());
        let Some(end) = end else { return (None, &[]) };
        let (name, after) = rest.split_at(end);
        rest = after.trim_ascii_start();
        match rest {
            [b'=', after @ ..] => {
                let (value, after) = value(after.trim_ascii_start());
                if name.eq_ignore_ascii_case(b"href") && href.is_none() {
                    href = Some(referred(&String::from_utf8_lossy(value)));
                }
                rest = after;
            }
            [b'>', after @ ..] => return (href, after),
            [] => return (None, &[]),
            _ => {}
        }
    }
}

/// The value of an attribute, in quotes or without, and what is after it.
fn value(rest: &[u8]) -> (&[u8], &[u8]) {
    let until =
        |from: &[u8], is_end: &dyn Fn(u8) -> bool| from.iter().position(|byte| is_end(*byte)).unwrap_or(from.len());
    match rest {
        [quote @ (b'"' | b'\''), inside @ ..] => {
            let end = until(inside, &|byte| byte == *quote);
            (&inside[..end], inside.get(end + 1..).unwrap_or_default())
        }
        bare => {
            let end = until(bare, &|byte| byte == b'>' || byte.is_ascii_whitespace());
            bare.split_at(end)
        }
    }
}

/// Text with its references put in; those that are not known stay as they are.
fn referred(text: &str) -> String {
    let (mut all, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('&') {
        all.push_str(before);
        let found = after.split_once(';').filter(|(name, _)| name.len() <= REFERENCE_MAX);
        if let Some((character, after)) = found.and_then(|(name, after)| Some((character(name)?, after))) {
            all.push(character);
            rest = after;
        } else {
            all.push('&');
            rest = after;
        }
    }
    all.push_str(rest);
    all
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(page: &str, path: &str) -> Vec<(String, bool)> {
        html(page.as_bytes(), path).0.into_iter().map(|(name, folder)| (name.to_string(), folder)).collect()
    }

    #[test]
    fn links_below_a_page_are_its_members_and_all_others_are_not() {
        let page = "<html><!-- <a href=hidden> --><h1>Index of /data/</h1><pre><a href=\"../\">../</a>\n\
            <a href=\"sub%20folder/\">sub folder/</a> 23-Nov-2026 10:00 -\n<A class=x HREF='a&amp;b.bin'>a</A><a href=plain>p</a>\
            <a href=\"?C=N;O=D\">Name</a><a href=\"/\">up</a><a href=\"/data/abs.txt\">x</a><a href=\"/data%2Fno\">x</a>\
            <a href=\"http://elsewhere/e\">e</a><a href=\"//elsewhere/e\">e</a><a href=\"mailto:a@b\">m</a><a href=\"./c:d\">c</a>\
            <a href=\"deep/er\">d</a><a name=here>n</a><a href=\"#top\">t</a><a href=\"..%2f..%2fpasswd\">bad</a><abbr href=no>";
        let all = ["a&b.bin", "abs.txt", "c:d", "plain", "sub folder"];
        assert_eq!(names(page, "/data/"), all.map(|name| (name.to_owned(), name == "sub folder")));
        assert_eq!(html(page.as_bytes(), "/data/").1.len(), 1, "a name with slashes is told");
        assert_eq!(names("<a href=/a%20b/c>", "/a b/"), [("c".to_owned(), false)]);
    }

    #[test]
    fn a_list_in_json_is_read_and_what_is_none_is_refused() {
        let page = br#"[{"name":"a","type":"file","mtime":"x","size":1},{"name":"b","type":"directory"},{"name":"..","type":"directory"},{"name":"d","type":"other"}]"#;
        let (links, refused) = json(page).expect("reads");
        assert_eq!(
            links.into_iter().map(|(name, folder)| (name.to_string(), folder)).collect::<Vec<_>>(),
            [("a".to_owned(), false), ("b".to_owned(), true)]
        );
        assert_eq!(refused.len(), 2);
        assert_eq!(json(b"<html>").expect_err("no JSON").kind(), ErrorKind::Unsupported);
    }

    proptest! {
        #[test]
        fn no_page_panics_or_leads_out(page in "(<a |href|=|\"|'|>|/|\\.\\.|%2f|&#|;|x|<!--|-->| ){0,40}") {
            for name in html(page.as_bytes(), "/x/").0.keys() {
                prop_assert!(!name.as_str().contains('/') && name.as_str() != "..");
            }
        }
    }
}
