//! The XML that S3 speaks: lists, errors, and requests to remove several objects.

use crate::object::{Listed, Page, PartSent};
use crate::xml::{broken, walk};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_base::{Error, Result};
use md5::{Digest, Md5};
use quick_xml::escape::escape;
use std::fmt::Write;

fn is(path: &[String], wanted: &[&str]) -> bool {
    path.len() == wanted.len() && path.iter().zip(wanted).all(|(name, wanted)| name == wanted)
}

/// Reads the answer to `ListObjectsV2`.
pub fn parse_list(xml: &[u8]) -> Result<Page> {
    let mut page = Page::default();
    let (mut key, mut bytes, mut root) = (None, None, false);
    walk(xml, |path, text| {
        match path {
            [_, contents, name] if contents == "Contents" && name == "Key" => key = Some(text.to_owned()),
            [_, contents, size] if contents == "Contents" && size == "Size" => bytes = text.trim().parse().ok(),
            [_, contents] if contents == "Contents" => {
                let (Some(key), Some(bytes)) = (key.take(), bytes.take()) else {
                    return Err(broken("an object without a key or a size"));
                };
                page.entries.push(Listed { key, bytes });
            }
            [_, truncated] if truncated == "IsTruncated" => page.more = text.trim() == "true",
            [name] => root = name == "ListBucketResult",
            _ => {}
        }
        Ok(())
    })?;
    if root { Ok(page) } else { Err(broken("it is no list")) }
}

/// The code and message of an error document, if it is one.
pub fn error_of(xml: &[u8]) -> Option<(String, String)> {
    let (mut code, mut message) = (None, String::new());
    walk(xml, |path, text| {
        if is(path, &["Error", "Code"]) {
            code = Some(text.trim().to_owned());
        } else if is(path, &["Error", "Message"]) {
            message = text.trim().chars().take(500).collect();
        }
        Ok(())
    })
    .ok()?;
    Some((code?, message))
}

/// The text of one element of a document.
pub fn text_of(xml: &[u8], wanted: &[&str]) -> Result<Option<String>> {
    let mut found = None;
    walk(xml, |path, text| {
        if is(path, wanted) {
            found = Some(text.trim().to_owned());
        }
        Ok(())
    })?;
    Ok(found)
}

/// A multipart upload that is under way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unfinished {
    pub(super) key: String,
    pub(super) id: String,
    pub(super) initiated: String,
}

/// Reads the answer to `ListMultipartUploads`, and whether there are more.
pub(super) fn parse_uploads(xml: &[u8]) -> Result<(Vec<Unfinished>, bool)> {
    let (mut uploads, mut more) = (Vec::new(), false);
    let (mut key, mut id, mut initiated) = (String::new(), String::new(), String::new());
    walk(xml, |path, text| {
        match path {
            [_, upload, name] if upload == "Upload" => match name.as_str() {
                "Key" => text.clone_into(&mut key),
                "UploadId" => text.trim().clone_into(&mut id),
                "Initiated" => text.trim().clone_into(&mut initiated),
                _ => {}
            },
            [_, upload] if upload == "Upload" => {
                let (key, id) = (std::mem::take(&mut key), std::mem::take(&mut id));
                uploads.push(Unfinished { key, id, initiated: std::mem::take(&mut initiated) });
            }
            [_, truncated] if truncated == "IsTruncated" => more = text.trim() == "true",
            _ => {}
        }
        Ok(())
    })?;
    Ok((uploads, more))
}

/// The body of `DeleteObjects`.
pub(super) fn delete_request(keys: &[String]) -> String {
    let mut xml = String::from("<Delete><Quiet>true</Quiet>");
    for key in keys {
        // Writing to a string cannot fail.
        let _ = write!(xml, "<Object><Key>{}</Key></Object>", escape(key.as_str()));
    }
    xml + "</Delete>"
}

/// Reads the answer to `DeleteObjects`, which names what it could not remove.
pub(super) fn check_deleted(xml: &[u8]) -> Result<()> {
    let mut refused = None;
    walk(xml, |path, text| {
        if is(path, &["DeleteResult", "Error", "Code"]) && text.trim() != "NoSuchKey" {
            refused = Some(text.trim().to_owned());
        }
        Ok(())
    })?;
    match refused {
        None => Ok(()),
        Some(code) => Err(Error::unavailable("the store did not remove some packs").with_source(code)),
    }
}

/// The body of `CompleteMultipartUpload`.
pub(super) fn complete_request(parts: &[PartSent]) -> String {
    let mut xml = String::from("<CompleteMultipartUpload>");
    for part in parts {
        let (number, tag) = (part.number, escape(part.tag.as_str()));
        // Writing to a string cannot fail.
        let _ = write!(xml, "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>");
    }
    xml + "</CompleteMultipartUpload>"
}

/// The header that S3 wants with `DeleteObjects`.
pub(super) fn content_md5(bytes: &[u8]) -> String {
    STANDARD.encode(Md5::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><IsTruncated>true</IsTruncated>
<Contents><Key>a&amp;b</Key><Size>12</Size></Contents><Contents><Key>c</Key><Size>0</Size><Owner><ID>x</ID></Owner></Contents>
<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>"#;

    #[test]
    fn a_list_has_keys_sizes_and_whether_there_are_more() {
        let page = parse_list(LIST.as_bytes()).expect("a list");
        let entry = |key: &str, bytes| Listed { key: key.into(), bytes };
        assert_eq!(page, Page { entries: vec![entry("a&b", 12), entry("c", 0)], more: true });
    }

    #[test]
    fn what_is_no_list_is_not_taken_for_an_empty_one() {
        let cut = &LIST.as_bytes()[..LIST.len() - 20];
        let deep = "<a>".repeat(100);
        for text in [&b""[..], b"<html></html>", b"{}", cut, b"\xff", deep.as_bytes()] {
            assert!(parse_list(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn an_error_in_a_removal_is_seen_unless_the_object_was_gone() {
        let answer = |code| format!("<DeleteResult><Error><Key>k</Key><Code>{code}</Code></Error></DeleteResult>");
        assert!(check_deleted(answer("NoSuchKey").as_bytes()).is_ok());
        assert!(check_deleted(answer("AccessDenied").as_bytes()).is_err());
        assert!(check_deleted(b"<DeleteResult/>").is_ok());
    }
}
