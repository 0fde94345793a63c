//! An element with all it holds, as text that stands on its own.
//!
//! A dead property is kept as the client wrote it (RFC 4918 section 4.3): names with their prefixes, attributes, text with its
//! white space, and the language in force. The text is written anew from checked tokens rather than copied, so that nothing a
//! client sends can break an answer it is put into later. Its start tag declares every namespace in scope (but unused
//! bindings of `DAV:`), because the text of a property may name prefixes too. Comments and processing instructions go.

use super::DAV;
use super::escape::{push_attribute, push_text};
use super::namespaces::Name;
use super::reader::{Element, Token, XmlReader};
use holdfast_base::Result;

/// A self-contained element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// Namespace name; may be empty.
    pub namespace: String,
    /// Local name.
    pub name: String,
    /// The element, serialized.
    pub xml: String,
    /// All its text, without markup.
    pub text: String,
}

/// Reads the rest of `element`, whose start tag was read last, into a fragment.
pub(super) fn read(reader: &mut XmlReader<'_>, element: &Element) -> Result<Fragment> {
    let (namespace, name) = (element.name.namespace.clone(), element.name.local.clone());
    let outside = reader.depth().saturating_sub(1);
    // What is in scope outside the element's own declarations, which start_tag writes itself.
    let inherited: Vec<(String, String)> = reader
        .in_scope()
        .into_iter()
        .filter(|(prefix, namespace)| *prefix != "xml" && !(prefix.is_empty() && namespace.is_empty()))
        .filter(|(prefix, _)| !element.declared.iter().any(|(own, _)| own == prefix))
        .map(|(prefix, namespace)| (prefix.to_owned(), namespace.to_owned()))
        .collect();
    let language = reader.language().map(str::to_owned);
    let mut body = String::new();
    let mut text = String::new();
    let mut prefixes = Vec::new();
    let mut open = vec![qualified(&element.name)];
    note_prefixes(&mut prefixes, element);
    while reader.depth() > outside {
        match reader.next()? {
            Token::Start(child) => {
                note_prefixes(&mut prefixes, &child);
                open.push(qualified(&child.name));
                start_tag(&mut body, &child, std::iter::empty());
                body.push('>');
            }
            Token::End => {
                let name = open.pop().unwrap_or_default();
                end_tag(&mut body, &name);
            }
            Token::Text(piece) => {
                push_text(&mut body, &piece);
                text.push_str(&piece);
            }
            Token::Eof => break,
        }
    }
    let mut xml = String::with_capacity(body.len() + 64);
    let needed = |(prefix, namespace): &&(String, String)| namespace != DAV || prefixes.contains(prefix);
    start_tag(&mut xml, element, inherited.iter().filter(needed));
    if let Some(language) = language
        && !element.attributes.iter().any(|(name, _)| name.prefix == "xml" && name.local == "lang")
    {
        xml.push_str(" xml:lang=\"");
        push_attribute(&mut xml, &language);
        xml.push('"');
    }
    xml.push('>');
    xml.push_str(&body);
    Ok(Fragment { namespace, name, xml: shorten(xml, &qualified(&element.name)), text })
}

/// `<a></a>` becomes `<a/>`.
fn shorten(mut xml: String, name: &str) -> String {
    let tail = format!("></{name}>");
    if xml.ends_with(&tail) && !xml[..xml.len() - tail.len()].contains('>') {
        xml.truncate(xml.len() - tail.len());
        xml.push_str("/>");
    }
    xml
}

fn note_prefixes(prefixes: &mut Vec<String>, element: &Element) {
    // A default namespace never applies to attributes, so an empty prefix there uses nothing.
    let of_attributes = element.attributes.iter().map(|(name, _)| &name.prefix).filter(|prefix| !prefix.is_empty());
    for prefix in std::iter::once(&element.name.prefix).chain(of_attributes) {
        if !prefixes.contains(prefix) {
            prefixes.push(prefix.clone());
        }
    }
}

/// The start tag up to, and without, its closing bracket. All declarations come first, so that writing what was written and
/// read again changes nothing.
fn start_tag<'a>(out: &mut String, element: &'a Element, inherited: impl Iterator<Item = &'a (String, String)>) {
    out.push('<');
    out.push_str(&qualified(&element.name));
    for (prefix, namespace) in element.declared.iter().chain(inherited) {
        declare(out, prefix, namespace);
    }
    for (name, value) in &element.attributes {
        out.push(' ');
        out.push_str(&qualified(name));
        out.push_str("=\"");
        push_attribute(out, value);
        out.push('"');
    }
}

fn end_tag(out: &mut String, name: &str) {
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

fn declare(out: &mut String, prefix: &str, namespace: &str) {
    out.push_str(" xmlns");
    if !prefix.is_empty() {
        out.push(':');
        out.push_str(prefix);
    }
    out.push_str("=\"");
    push_attribute(out, namespace);
    out.push('"');
}

fn qualified(name: &Name) -> String {
    if name.prefix.is_empty() { name.local.clone() } else { format!("{}:{}", name.prefix, name.local) }
}
