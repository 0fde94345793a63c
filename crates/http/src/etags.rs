//! Entity tags (RFC 9110 section 8.8.3) and the lists of `If-Match` and `If-None-Match`.
//! Clients that forget the quotes are understood.

use crate::limits::ENTITY_TAGS_MAX;
use holdfast_base::{Error, Result};
use std::fmt::Write;

/// Appends the entity tag of a file: `"<node id>-<seq>"` in hexadecimal. The sequence number grows with every change in its space, so
/// the tag is strong, and the id keeps two files of one space apart.
pub fn push_node_tag(out: &mut String, node: i64, seq: i64) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\"{node:x}-{seq:x}\"");
}

/// The same as a text of its own.
pub fn node_tag(node: i64, seq: i64) -> String {
    let mut out = String::with_capacity(24);
    push_node_tag(&mut out, node, seq);
    out
}

/// An entity tag as a client sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag {
    /// Marked `W/`.
    pub weak: bool,
    /// The opaque part with its quotes.
    pub quoted: String,
}

/// The value of `If-Match` or `If-None-Match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagList {
    /// `*`.
    Any,
    /// A list of tags.
    Tags(Vec<EntityTag>),
}

impl EntityTag {
    /// Reads one tag, from the start of `text`; answers it and the rest.
    pub fn read(text: &str) -> Result<(Self, &str)> {
        let bad = || Error::invalid("an entity tag is written \"…\" or W/\"…\"");
        let (weak, rest) = text.strip_prefix("W/").map_or((false, text), |rest| (true, rest));
        if let Some(inner) = rest.strip_prefix('"') {
            let end = inner.find('"').ok_or_else(bad)?;
            return Ok((Self { weak, quoted: format!("\"{}\"", &inner[..end]) }, &inner[end + 1..]));
        }
        let end = rest.find([',', ' ', '\t', ']', ')']).unwrap_or(rest.len());
        if end == 0 || rest[..end].contains('"') {
            return Err(bad());
        }
        Ok((Self { weak, quoted: format!("\"{}\"", &rest[..end]) }, &rest[end..]))
    }

    /// Strong comparison (RFC 9110 section 8.8.3.2) with a tag of ours, which always is strong.
    pub fn matches_strongly(&self, ours: &str) -> bool {
        !self.weak && self.quoted == ours
    }

    /// Weak comparison with a tag of ours.
    pub fn matches_weakly(&self, ours: &str) -> bool {
        self.quoted == ours
    }
}

/// Reads `If-Match` or `If-None-Match`.
pub fn tag_list(text: &str) -> Result<TagList> {
    let mut rest = text.trim();
    if rest == "*" {
        return Ok(TagList::Any);
    }
    let mut tags = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return Ok(TagList::Tags(tags));
        }
        if tags.len() == ENTITY_TAGS_MAX {
            return Err(Error::invalid(format!("a header can list {ENTITY_TAGS_MAX} entity tags at most")));
        }
        let (tag, after) = EntityTag::read(rest)?;
        rest = after.trim_start_matches([' ', '\t']);
        if !rest.is_empty() && !rest.starts_with(',') {
            return Err(Error::invalid("entity tags are separated by commas"));
        }
        tags.push(tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_of_tags_are_read_with_and_without_weakness_and_quotes() {
        let TagList::Tags(tags) = tag_list(r#" "a,b" , W/"c",d "#).expect("a list") else { panic!("not a list") };
        let seen: Vec<_> = tags.iter().map(|tag| (tag.weak, tag.quoted.as_str())).collect();
        assert_eq!(seen, [(false, "\"a,b\""), (true, "\"c\""), (false, "\"d\"")]);
        assert!(!tags[1].matches_strongly("\"c\"") && tags[1].matches_weakly("\"c\""));
        assert_eq!(tag_list("*").expect("any"), TagList::Any);
    }

    #[test]
    fn broken_tags_are_refused() {
        for bad in ["\"a", "\"a\" \"b\"", "a\"b", "W/"] {
            assert!(tag_list(bad).is_err(), "{bad}");
        }
        assert!(tag_list(&"\"a\",".repeat(ENTITY_TAGS_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in r#"[W/"*, a\]é]{0,40}"#) {
            let _ = tag_list(&text);
        }
    }
}
