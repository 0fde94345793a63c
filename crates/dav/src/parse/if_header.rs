//! The `If` header (RFC 4918 section 10.4): lists of state tokens and entity tags, each list for a resource.
//!
//! ```text
//! If: (<urn:uuid:a> ["etag"]) (Not <DAV:no-lock>)            lists for the request's own resource
//! If: </dav/s/x> (<urn:uuid:a>) <http://host/dav/s/y> (["e"])  lists for tagged resources
//! ```
//!
//! The header holds if any list holds, a list if all its conditions do. Both forms in one header are not in the grammar;
//! lists before the first tag are taken for the request's own resource.

use crate::limits::{IF_CONDITIONS_MAX, IF_RESOURCES_MAX};
use crate::parse::EntityTag;
use holdfast_base::{Error, Result};

/// One condition of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The resource is in the scope of the lock with this token.
    Token {
        /// Negated.
        not: bool,
        /// The token, without its angle brackets.
        token: String,
    },
    /// The resource's entity tag is this.
    Tag {
        /// Negated.
        not: bool,
        /// The tag.
        tag: EntityTag,
    },
}

/// The lists given for one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IfLists {
    /// The tagged resource's URI as written; none is the request's own resource.
    pub resource: Option<String>,
    /// The lists, each of one condition or more.
    pub lists: Vec<Vec<Condition>>,
}

/// A whole header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IfHeader(pub Vec<IfLists>);

impl IfHeader {
    /// Every state token in the header: appearing at all is what submits a token (RFC 4918 section 6.4).
    pub fn tokens(&self) -> Vec<String> {
        let conditions = self.0.iter().flat_map(|group| group.lists.iter().flatten());
        let mut tokens: Vec<_> = conditions
            .filter_map(|condition| match condition {
                Condition::Token { token, .. } if token != NO_LOCK => Some(token.clone()),
                _ => None,
            })
            .collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }
}

/// The state token that no resource ever has (RFC 4918 section 10.4.8).
pub(crate) const NO_LOCK: &str = "DAV:no-lock";

/// Reads an `If` header.
pub fn if_header(text: &str) -> Result<IfHeader> {
    let mut groups: Vec<IfLists> = Vec::new();
    let mut conditions = 0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(tag) = rest.strip_prefix('<') {
            let (uri, after) = tag.split_once('>').ok_or_else(|| bad("a resource tag has no \">\""))?;
            if groups.len() == IF_RESOURCES_MAX {
                return Err(bad(&format!("it speaks of more than {IF_RESOURCES_MAX} resources")));
            }
            groups.push(IfLists { resource: Some(uri.to_owned()), lists: Vec::new() });
            rest = after.trim_start();
            if !rest.starts_with('(') {
                return Err(bad("a resource tag is followed by a list"));
            }
        } else if let Some(inside) = rest.strip_prefix('(') {
            let (list, after) = read_list(inside, &mut conditions)?;
            if groups.is_empty() {
                groups.push(IfLists { resource: None, lists: Vec::new() });
            }
            if let Some(group) = groups.last_mut() {
                group.lists.push(list);
            }
            rest = after.trim_start();
        } else {
            return Err(bad("a list begins with \"(\" and a resource tag with \"<\""));
        }
    }
    if groups.is_empty() { Err(bad("it is empty")) } else { Ok(IfHeader(groups)) }
}

/// Reads conditions up to and with the closing parenthesis.
fn read_list<'a>(mut rest: &'a str, conditions: &mut usize) -> Result<(Vec<Condition>, &'a str)> {
    let mut list = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix(')') {
            return if list.is_empty() { Err(bad("a list is empty")) } else { Ok((list, after)) };
        }
        *conditions += 1;
        if *conditions > IF_CONDITIONS_MAX {
            return Err(bad(&format!("it has more than {IF_CONDITIONS_MAX} conditions")));
        }
        let not = rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("not"));
        if not {
            rest = rest[3..].trim_start();
        }
        if let Some(inside) = rest.strip_prefix('<') {
            let (token, after) = inside.split_once('>').ok_or_else(|| bad("a state token has no \">\""))?;
            list.push(Condition::Token { not, token: token.to_owned() });
            rest = after;
        } else if let Some(inside) = rest.strip_prefix('[') {
            let (tag, after) = EntityTag::read(inside.trim_start())?;
            let after = after.trim_start().strip_prefix(']').ok_or_else(|| bad("an entity tag has no \"]\""))?;
            list.push(Condition::Tag { not, tag });
            rest = after;
        } else {
            return Err(bad("a condition is <token> or [\"etag\"], with \"Not\" before it or without"));
        }
    }
}

fn bad(why: &str) -> Error {
    Error::invalid(format!("the If header cannot be read: {why} (RFC 4918 section 10.4)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(not: bool, token: &str) -> Condition {
        Condition::Token { not, token: token.into() }
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let header = if_header(r#"(<urn:uuid:181d> ["I am an ETag"]) (["I am another ETag"])"#).expect("10.4.6");
        assert_eq!(header.0.len(), 1);
        assert_eq!(header.0[0].lists.len(), 2);
        assert_eq!(header.tokens(), ["urn:uuid:181d"]);
        let header = if_header("(Not <urn:uuid:181d> <urn:uuid:58f2>)").expect("10.4.7");
        assert_eq!(header.0[0].lists[0], [token(true, "urn:uuid:181d"), token(false, "urn:uuid:58f2")]);
        let header = if_header("</specs/rfc2518.doc> (<urn:uuid:181d>)").expect("10.4.10");
        assert_eq!(header.0[0].resource.as_deref(), Some("/specs/rfc2518.doc"));
        assert!(if_header("(<urn:uuid:a>) (Not <DAV:no-lock>)").expect("10.4.8").tokens() == ["urn:uuid:a"]);
    }

    #[test]
    fn broken_headers_are_refused() {
        for bad in ["", "()", "(", "(<a>", "<a>", "<a> <b>", "(a)", "([\"a\")", "(Not)", "x", "<a (b)", "(<a>) x"] {
            assert!(if_header(bad).is_err(), "{bad}");
        }
        assert!(if_header(&"(<a>)".repeat(IF_CONDITIONS_MAX + 1)).is_err());
        assert!(if_header(&"<a>(<a>)".repeat(IF_RESOURCES_MAX + 1)).is_err());
    }

    fn write(header: &IfHeader) -> String {
        let mut out = String::new();
        for group in &header.0 {
            if let Some(resource) = &group.resource {
                out.extend(["<", resource, "> "]);
            }
            for list in &group.lists {
                let conditions = list.iter().map(|condition| match condition {
                    Condition::Token { not, token } => format!("{}<{token}>", if *not { "Not " } else { "" }),
                    Condition::Tag { not, tag } => {
                        format!(
                            "{}[{}{}]",
                            if *not { "Not " } else { "" },
                            if tag.weak { "W/" } else { "" },
                            tag.quoted
                        )
                    }
                });
                out.extend(["(", &conditions.collect::<Vec<_>>().join(" "), ")"]);
            }
        }
        out
    }

    fn condition() -> impl Strategy<Value = Condition> {
        prop_oneof![
            (any::<bool>(), "[a-z:0-9-]{1,20}").prop_map(|(not, token)| Condition::Token { not, token }),
            (any::<bool>(), any::<bool>(), "[a-z)\\] 0-9-]{0,20}").prop_map(|(not, weak, tag)| Condition::Tag {
                not,
                tag: EntityTag { weak, quoted: format!("\"{tag}\"") }
            }),
        ]
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in r#"[<>()\[\]"Not W/aé]{0,60}"#) {
            let _ = if_header(&text);
        }

        #[test]
        fn a_written_header_reads_back(
            lists in prop::collection::vec(prop::collection::vec(condition(), 1..4), 1..4),
            resource in prop::option::of("/[a-z/]{0,10}"),
        ) {
            let header = IfHeader(vec![IfLists { resource, lists }]);
            prop_assert_eq!(if_header(&write(&header)).expect("own output"), header);
        }
    }
}
