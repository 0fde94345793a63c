//! Reading XML that other servers send.
//!
//! The reader is a walk over elements that hands each one's path and text to its caller at its end. It takes what services send and nothing
//! fancy: no document types, no entities but the five of XML, names without their namespaces. Depth and size are bounded (the size by whoever
//! read the answer).

use holdfast_base::{Error, Result};
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};

/// Documents of S3 and WebDAV are six levels deep at most.
const DEPTH_MAX: usize = 16;

/// Calls `each` at the end of every element, with the path to it and the text in it.
pub fn walk(xml: &[u8], mut each: impl FnMut(&[String], &str) -> Result<()>) -> Result<()> {
    let xml = std::str::from_utf8(xml).map_err(|error| broken(&error.to_string()))?;
    let mut reader = Reader::from_str(xml);
    let (mut path, mut text, mut seen) = (Vec::new(), String::new(), false);
    loop {
        match reader.read_event().map_err(|error| broken(&error.to_string()))? {
            Event::Start(tag) if path.len() < DEPTH_MAX => {
                path.push(tag.local_name().as_ref().to_owned());
                text.clear();
            }
            Event::Start(_) => return Err(broken("it is too deep")),
            Event::Empty(tag) => {
                path.push(tag.local_name().as_ref().to_owned());
                each(&path, "")?;
                path.pop();
                seen = true;
            }
            Event::Text(more) => text.push_str(&more),
            Event::CData(more) => text.push_str(&more),
            Event::GeneralRef(reference) => text.push_str(&resolve(&reference)?),
            Event::End(_) => {
                each(&path, &text)?;
                path.pop();
                text.clear();
                seen = true;
            }
            // Who sends one wants entities of its own to be resolved.
            Event::DocType(_) => return Err(broken("it has a document type")),
            Event::Eof if path.is_empty() && seen => return Ok(()),
            Event::Eof => return Err(broken("it is cut")),
            _ => {}
        }
    }
}

fn resolve(reference: &BytesRef<'_>) -> Result<String> {
    if let Some(character) = reference.resolve_char_ref().map_err(|error| broken(&error.to_string()))? {
        return Ok(character.to_string());
    }
    let name: &str = reference;
    resolve_predefined_entity(name).map(ToOwned::to_owned).ok_or_else(|| broken("it names an unknown entity"))
}

/// What is said of a document that is not what it should be.
pub(crate) fn broken(why: &str) -> Error {
    Error::damaged("the store's answer is not the XML it should be").with_source(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(xml: &str) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        walk(xml.as_bytes(), |path, text| {
            found.push((path.join("/"), text.to_owned()));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn each_element_comes_with_its_path_and_text() {
        let found = texts("<?xml version='1.0'?><d:a xmlns:d='DAV:'><b>x&amp;<![CDATA[<]]>&#x41;</b><c/></d:a>")
            .expect("reads");
        let of = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        assert_eq!(found, [of("a/b", "x&<A"), of("a/c", ""), of("a", "")]);
    }

    #[test]
    fn what_is_cut_too_deep_or_wants_entities_is_refused() {
        let deep = "<a>".repeat(1_000);
        let bomb = "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>";
        let outside = "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>";
        for bad in ["", "<a>", "<a></b>", "<a>&b;</a>", "text", &deep, bomb, outside] {
            assert!(texts(bad).is_err(), "{bad:.60}");
        }
    }
}
