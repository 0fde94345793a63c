//! Lists of files of web servers: plain ones, an address a line, and Metalinks, which know mirrors, sizes and sums of each file (RFC 5854, and
//! version 3 that was before it).

use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use http::Uri;
use percent_encoding::percent_decode_str;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::collections::BTreeMap;

/// Bytes of a list.
pub const LIST_BYTES_MAX: usize = 16 << 20;
/// Files of a list.
const FILES_MAX: usize = 100_000;
/// Mirrors of a file.
const MIRRORS_MAX: usize = 64;
/// Elements within each other: a Metalink has five.
const DEPTH_MAX: usize = 16;

/// A file of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Where it is to be had, the best place first.
    pub mirrors: Vec<Uri>,
    /// Its size, if that is known.
    pub size: Option<u64>,
    /// Its sums, each with the kind's name, in hexadecimal digits.
    pub sums: Vec<(String, String)>,
}

/// Files by where they are to arrive.
pub type Files = BTreeMap<DrivePath, Listed>;

/// Reads a list of addresses: one a line, absolute, or relative to a folder, which is that of the list, or the first line if that is an
/// address that ends in a slash. Empty lines and those with a `#` in front say nothing.
pub fn list(text: &[u8], at: Option<&Uri>) -> Result<Files> {
    let text = std::str::from_utf8(text).map_err(|_| Error::invalid("the list is not UTF-8"))?;
    let mut folder = at.map(|at| folder_of(&at.to_string()).to_owned());
    let mut files = Files::new();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for (number, line) in lines.enumerate() {
        let absolute = web_address(line);
        if number == 0 && line.ends_with('/') {
            folder = Some(absolute.map_or_else(|| Err(bad(line, "no address of a folder")), |_| Ok(line.to_owned()))?);
            continue;
        }
        let (path, url) = match (absolute, &folder) {
            (Some(url), _) => (last_of(url.path()).to_owned(), url),
            (None, Some(folder)) if !line.contains("://") && !line.starts_with('/') => {
                let url = web_address(&format!("{folder}{line}")).ok_or_else(|| bad(line, "no address"))?;
                (line.to_owned(), url)
            }
            (None, _) => return Err(bad(line, "no address, nor a path below the folder in the first line")),
        };
        let file = Listed { mirrors: vec![url], ..Listed::default() };
        add(&mut files, &path, file).map_err(|error| error.context(line))?;
    }
    Ok(files)
}

fn add(files: &mut Files, path: &str, file: Listed) -> Result<()> {
    let decoded = percent_decode_str(path).decode_utf8().map_err(|_| Error::invalid("its name is not UTF-8"))?;
    let at = DrivePath::parse(&decoded)?;
    if at.is_root() {
        return Err(Error::invalid("it has no name to arrive under"));
    }
    if files.len() >= FILES_MAX {
        return Err(Error::new(ErrorKind::TooLarge, format!("the list has more than {FILES_MAX} files")));
    }
    if files.insert(at, file).is_some() {
        return Err(Error::invalid("another line's file would arrive under the same name"));
    }
    Ok(())
}

/// Reads a Metalink.
pub fn metalink(text: &[u8]) -> Result<Files> {
    let text = std::str::from_utf8(text).map_err(|_| broken("it is not UTF-8"))?;
    let mut reader = Reader::from_str(text);
    let (mut parser, mut open) = (Parser::default(), Vec::<String>::new());
    loop {
        let event = reader.read_event();
        match event.map_err(|error| broken("it is no XML").with_source(error))? {
            Event::Eof if open.is_empty() && parser.seen => return Ok(parser.files),
            Event::Eof => return Err(broken("it ends in the middle")),
            Event::DocType(_) => return Err(broken("it has a document type, which none needs")),
            Event::Start(tag) => {
                if open.len() == DEPTH_MAX {
                    return Err(broken("its elements are too deep"));
                }
                open.push(local(&tag));
                parser.begin(&open, &tag)?;
            }
            Event::Empty(tag) => {
                open.push(local(&tag));
                parser.begin(&open, &tag)?;
                parser.end(&open)?;
                open.pop();
            }
            Event::End(_) => {
                parser.end(&open)?;
                open.pop();
            }
            Event::Text(text) => parser.text.push_str(&text),
            Event::GeneralRef(name) => parser.refer(&name)?,
            Event::CData(text) => parser.text.push_str(&text),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Parser {
    files: Files,
    seen: bool,
    name: String,
    file: Listed,
    /// Mirrors with how far behind the best they come.
    mirrors: Vec<(u32, Uri)>,
    /// Of the element that is open.
    kind: String,
    behind: u32,
    text: String,
}

impl Parser {
    fn begin(&mut self, open: &[String], tag: &BytesStart<'_>) -> Result<()> {
        self.text.clear();
        let open: Vec<&str> = open.iter().map(String::as_str).collect();
        match open[..] {
            ["metalink"] => self.seen = true,
            [other] => return Err(broken(&format!("it begins with {other}"))),
            [.., "file"] if is_file(&open) => {
                (self.file, self.mirrors) = (Listed::default(), Vec::new());
                self.name = attribute(tag, "name")?.ok_or_else(|| broken("a file has no name"))?;
            }
            [.., "hash"] => self.kind = attribute(tag, "type")?.unwrap_or_default(),
            [.., "url"] => {
                let number = |text: Option<String>| text.and_then(|text| text.trim().parse::<u32>().ok());
                let preference = number(attribute(tag, "preference")?).map(|best| 1_000_000 - best.min(1_000_000));
                self.behind = number(attribute(tag, "priority")?).or(preference).unwrap_or(999_999);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, open: &[String]) -> Result<()> {
        let open: Vec<&str> = open.iter().map(String::as_str).collect();
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        match open[..] {
            [.., "file"] if is_file(&open) => {
                self.mirrors.sort_by_key(|(behind, _)| *behind);
                self.file.mirrors = self.mirrors.drain(..).map(|(_, url)| url).collect();
                if self.file.mirrors.is_empty() {
                    return Err(broken(&format!("{} has no address that can be used", self.name)));
                }
                let (name, file) = (std::mem::take(&mut self.name), std::mem::take(&mut self.file));
                // A name is one, and not part of an address.
                let name = name.replace('%', "%25");
                add(&mut self.files, &name, file).map_err(|error| error.context(&name))?;
            }
            [.., "file", "size"] => {
                let size = text.parse().ok().filter(|size| *size <= FILE_BYTES_MAX);
                self.file.size = Some(size.ok_or_else(|| broken(&format!("{} has a size that is none", self.name)))?);
            }
            // Those of pieces are within another element.
            [.., "file", "hash"] | [.., "file", "verification", "hash"] => {
                self.file.sums.push((std::mem::take(&mut self.kind).to_ascii_lowercase(), text.to_ascii_lowercase()));
            }
            [.., "url"] if self.mirrors.len() < MIRRORS_MAX => {
                self.mirrors.extend(web_address(text).map(|url| (self.behind, url)));
            }
            _ => {}
        }
        Ok(())
    }

    fn refer(&mut self, name: &str) -> Result<()> {
        let unknown = || broken("it refers to something that it does not have");
        let number = name.strip_prefix('#').map(|number| match number.strip_prefix('x') {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        });
        match number {
            Some(code) => self.text.push(code.ok().and_then(char::from_u32).ok_or_else(unknown)?),
            None => self.text.push_str(quick_xml::escape::resolve_xml_entity(name).ok_or_else(unknown)?),
        }
        Ok(())
    }
}

/// Files are right below the root in version 4, and in `files` in version 3.
fn is_file(open: &[&str]) -> bool {
    matches!(open, ["metalink", "file"] | ["metalink", "files", "file"])
}

fn local(tag: &BytesStart<'_>) -> String {
    tag.local_name().as_ref().to_owned()
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Result<Option<String>> {
    let found = tag.try_get_attribute(name).map_err(|error| broken("an attribute is none").with_source(error))?;
    let Some(found) = found else { return Ok(None) };
    let value = found.normalized_value(quick_xml::XmlVersion::Implicit1_0);
    value.map(|value| Some(value.into_owned())).map_err(|error| broken("an attribute is none").with_source(error))
}

fn broken(why: &str) -> Error {
    Error::invalid(format!("the Metalink cannot be used: {why}"))
}

fn bad(line: &str, why: &str) -> Error {
    let shown: String = line.chars().take(200).collect();
    Error::invalid(format!("{shown}: {why}"))
}

/// An address of a web server, without a name or password in it.
pub(super) fn web_address(text: &str) -> Option<Uri> {
    let url: Uri = text.parse().ok()?;
    let usable = matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|host| !host.is_empty());
    let authority = url.authority()?.as_str();
    (usable && !authority.contains('@')).then_some(url)
}

fn folder_of(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    path.rfind('/').map_or(path, |slash| &path[..=slash])
}

fn last_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(files: &Files) -> Vec<(String, String)> {
        files.iter().map(|(path, file)| (path.to_string(), file.mirrors[0].to_string())).collect()
    }

    #[test]
    fn a_list_may_begin_with_a_folder_or_have_whole_addresses() {
        let files =
            list(b"# of today\nhttps://h/data/\n\na.h5\nsub/b%20c.h5\nhttp://other/x/d?key=1\n", None).expect("reads");
        let pairs = [
            ("/a.h5", "https://h/data/a.h5"),
            ("/d", "http://other/x/d?key=1"),
            ("/sub/b c.h5", "https://h/data/sub/b%20c.h5"),
        ];
        assert_eq!(shown(&files), pairs.map(|(path, url)| (path.to_owned(), url.to_owned())));
        let at: Uri = "http://h/lists/all.txt?x=1".parse().expect("an address");
        assert_eq!(shown(&list(b"a\n", Some(&at)).expect("reads")), [("/a".to_owned(), "http://h/lists/a".to_owned())]);
    }

    #[test]
    fn a_line_that_leads_out_or_to_nothing_is_refused() {
        for bad in [
            "a",
            "https://h/\n../a",
            "https://h/\na\na",
            "https://h/\n/etc",
            "file:///etc/passwd",
            "ftp://h/",
            "https://h/x\nhttps://i/x",
            "https://ann:secret@h/a",
            "https://h/\n%2e%2e/a",
        ] {
            assert_eq!(list(bad.as_bytes(), None).expect_err(bad).kind(), ErrorKind::InvalidInput, "{bad}");
        }
        assert!(list(b"\xff", None).is_err());
    }

    const FOUR: &str = r#"<?xml version="1.0" encoding="UTF-8"?><metalink xmlns="urn:ietf:params:xml:ns:metalink">
        <file name="sub/a%b.bin"><size>5</size><hash type="SHA-256">AB</hash><hash type="md5">cd</hash>
        <pieces length="2" type="sha-1"><hash>11</hash></pieces><url priority="2">http://two/a?x=1&amp;y=2</url><url priority="1" location="de">https://one/a</url>
        <url>ftp://three/a</url><metaurl mediatype="torrent">http://h/t</metaurl></file></metalink>"#;

    #[test]
    fn metalinks_of_both_versions_are_read() {
        let files = metalink(FOUR.as_bytes()).expect("reads");
        let file = &files[&DrivePath::parse("sub/a%b.bin").expect("a path")];
        assert_eq!(
            file.mirrors.iter().map(Uri::to_string).collect::<Vec<_>>(),
            ["https://one/a", "http://two/a?x=1&y=2"]
        );
        assert_eq!((file.size, file.sums.len()), (Some(5), 2));
        assert_eq!(file.sums[0], ("sha-256".to_owned(), "ab".to_owned()));
        let three = r#"<metalink version="3.0"><files><file name="a"><size>7</size><verification><hash type="sha1">ef</hash><pieces length="4" type="sha1"><hash piece="0">11</hash></pieces></verification>
            <resources><url type="http" preference="10">http://slow/a</url><url type="http" preference="100">http://fast/a</url></resources></file></files></metalink>"#;
        let files = metalink(three.as_bytes()).expect("reads");
        let file = &files[&DrivePath::parse("a").expect("a path")];
        assert_eq!((file.mirrors[0].host(), file.size), (Some("fast"), Some(7)));
        assert_eq!(file.sums, [("sha1".to_owned(), "ef".to_owned())]);
    }

    #[test]
    fn a_metalink_that_leads_out_or_is_broken_is_refused() {
        for bad in [
            FOUR.replace("sub/", "../"),
            FOUR.replace("sub/a%b.bin", ""),
            FOUR.replace("<size>5", "<size>99999999999999999999"),
            FOUR.replace("http", "gopher"),
            FOUR.replace("</metalink>", ""),
            FOUR.replace("&amp;", "&bomb;"),
            FOUR.replace("<metalink ", "<!DOCTYPE x [<!ENTITY bomb \"x\">]><metalink "),
            "<html></html>".to_owned(),
            "<a>".repeat(50),
            String::new(),
        ] {
            assert_eq!(metalink(bad.as_bytes()).expect_err(&bad).kind(), ErrorKind::InvalidInput, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_list_panics_or_leads_out(text in "(https://h/|a|/|\\.\\.|\n|%2e|<file name=|'|>|<metalink>|</metalink>|&){0,30}") {
            for files in [list(text.as_bytes(), None), metalink(text.as_bytes())].into_iter().flatten() {
                prop_assert!(files.keys().all(|path| path.names().iter().all(|name| name.as_str() != "..")));
            }
        }
    }
}
