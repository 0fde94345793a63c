//! The conditional headers of a read, in the order of RFC 9110 section 13.2.2.

use crate::{TagList, dates, tag_list};
use holdfast_base::{Error, Result};
use http::HeaderMap;
use http::header::{AsHeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};
use std::borrow::Cow;

/// What is true of the representation asked for.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Its strong entity tag, with quotes.
    pub tag: &'a str,
    /// When it was modified, in milliseconds since 1970.
    pub modified_ms: i64,
}

/// What the conditions of a read come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conditional {
    /// Answer it.
    Proceed,
    /// 304: the client has it.
    NotModified,
    /// 412, and which header does not hold.
    Failed(&'static str),
}

/// A header as text, several of a name joined with commas; bytes that are not UTF-8 are `InvalidInput`.
pub fn header_text(headers: &HeaderMap, name: impl AsHeaderName) -> Result<Option<Cow<'_, str>>> {
    let mut joined: Option<Cow<'_, str>> = None;
    for value in headers.get_all(name) {
        let text = std::str::from_utf8(value.as_bytes())
            .map_err(|_| Error::invalid("a header holds bytes that are not UTF-8"))?;
        joined = Some(match joined {
            None => Cow::Borrowed(text),
            Some(before) => Cow::Owned(format!("{before}, {text}")),
        });
    }
    Ok(joined)
}

/// Evaluates the conditional headers of GET or HEAD. A date that is none is ignored, a broken list of tags is `InvalidInput`.
pub fn read_conditions(headers: &HeaderMap, facts: Facts<'_>) -> Result<Conditional> {
    let modified_s = facts.modified_ms.div_euclid(1_000);
    let date =
        |name| -> Result<Option<i64>> { Ok(header_text(headers, name)?.as_deref().and_then(dates::parse_http_s)) };
    if let Some(text) = header_text(headers, IF_MATCH)? {
        let holds = match tag_list(&text)? {
            TagList::Any => true,
            TagList::Tags(tags) => tags.iter().any(|wanted| wanted.matches_strongly(facts.tag)),
        };
        if !holds {
            return Ok(Conditional::Failed("If-Match"));
        }
    } else if date(IF_UNMODIFIED_SINCE)?.is_some_and(|since| modified_s > since) {
        return Ok(Conditional::Failed("If-Unmodified-Since"));
    }
    let known = if let Some(text) = header_text(headers, IF_NONE_MATCH)? {
        match tag_list(&text)? {
            TagList::Any => true,
            TagList::Tags(tags) => tags.iter().any(|known| known.matches_weakly(facts.tag)),
        }
    } else {
        date(IF_MODIFIED_SINCE)?.is_some_and(|since| modified_s <= since)
    };
    Ok(if known { Conditional::NotModified } else { Conditional::Proceed })
}

/// Whether a range may be answered in part. `If-Range` holds for the strong tag only: a date proves nothing about bytes, so a
/// date never holds (RFC 9110 section 13.1.5) and the whole file is answered.
pub fn if_range_holds(headers: &HeaderMap, tag: &str) -> Result<bool> {
    Ok(header_text(headers, IF_RANGE)?.is_none_or(|condition| condition.trim() == tag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const FACTS: Facts<'_> = Facts { tag: "\"a\"", modified_ms: 784_111_777_000 };
    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn outcome(pairs: &[(&'static str, &'static str)]) -> Conditional {
        let headers = pairs
            .iter()
            .map(|(name, value)| (name.parse::<http::HeaderName>().expect("a name"), HeaderValue::from_static(value)));
        read_conditions(&headers.collect(), FACTS).expect("reads")
    }

    #[test]
    fn tags_win_over_dates_and_strong_conditions_over_weak_ones() {
        assert_eq!(outcome(&[]), Conditional::Proceed);
        assert_eq!(outcome(&[("if-none-match", "\"b\", W/\"a\"")]), Conditional::NotModified);
        assert_eq!(outcome(&[("if-none-match", "\"b\""), ("if-modified-since", THEN)]), Conditional::Proceed);
        assert_eq!(outcome(&[("if-modified-since", THEN)]), Conditional::NotModified);
        assert_eq!(outcome(&[("if-modified-since", BEFORE)]), Conditional::Proceed);
        assert_eq!(outcome(&[("if-match", "W/\"a\"")]), Conditional::Failed("If-Match"));
        assert_eq!(outcome(&[("if-match", "\"a\""), ("if-unmodified-since", BEFORE)]), Conditional::Proceed);
        assert_eq!(outcome(&[("if-unmodified-since", BEFORE)]), Conditional::Failed("If-Unmodified-Since"));
        assert_eq!(outcome(&[("if-modified-since", "yesterday")]), Conditional::Proceed);
    }

    #[test]
    fn a_range_is_answered_in_part_only_for_the_very_tag() {
        let with = |value: &'static str| {
            let headers = std::iter::once((IF_RANGE, HeaderValue::from_static(value))).collect();
            if_range_holds(&headers, "\"a\"").expect("reads")
        };
        assert!(with("\"a\"") && !with("W/\"a\"") && !with("\"b\"") && !with(THEN));
        assert!(if_range_holds(&HeaderMap::new(), "\"a\"").expect("reads"));
    }
}
