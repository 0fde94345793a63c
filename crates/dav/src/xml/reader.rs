//! A strict reader: quick-xml's events with namespaces resolved (Namespaces in XML 1.0) and everything bounded.
//!
//! quick-xml finds tags, text and references and checks that end tags match. Added here: the whole must be UTF-8 with one
//! root element; no DOCTYPE, so no entity but the five of XML itself; names, characters and namespace bindings must be
//! lawful (they are written into other documents later); depth, elements, attributes and bindings have limits.
//! Comments and processing instructions are passed over.

use super::escape::is_char;
use super::namespaces::{Name, Namespaces, XML_NAMESPACE, split};
use crate::limits::{XML_ATTRIBUTES_MAX, XML_DEPTH_MAX, XML_ELEMENTS_MAX};
use holdfast_base::{Error, ErrorKind, Result};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// A start tag. Declarations of namespaces are not among the attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: Name,
    pub(crate) attributes: Vec<(Name, String)>,
    /// Prefixes bound on this very tag.
    pub(crate) declared: Vec<(String, String)>,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    Start(Element),
    End,
    Text(String),
    Eof,
}

/// See the module.
pub(crate) struct XmlReader<'a> {
    reader: Reader<&'a [u8]>,
    namespaces: Namespaces,
    languages: Vec<(usize, String)>,
    depth: usize,
    elements: usize,
    root_seen: bool,
}

impl<'a> XmlReader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Result<Self> {
        let text = std::str::from_utf8(body).map_err(|_| bad("it is not UTF-8"))?;
        let mut reader = Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
        reader.config_mut().expand_empty_elements = true;
        Ok(Self {
            reader,
            namespaces: Namespaces::new(),
            languages: Vec::new(),
            depth: 0,
            elements: 0,
            root_seen: false,
        })
    }

    /// The next token; text comes in pieces.
    pub(crate) fn next(&mut self) -> Result<Token> {
        loop {
            let event = self.reader.read_event().map_err(|error| bad("it is not well-formed").with_source(error))?;
            let text = match event {
                Event::Start(tag) => return self.start(&tag).map(Token::Start),
                Event::Empty(_) => return Err(Error::internal("an empty element was not expanded")),
                Event::End(_) => return self.end(),
                Event::Text(text) => text.xml10_content().into_owned(),
                Event::CData(text) => text.xml10_content().into_owned(),
                Event::GeneralRef(reference) => match reference.resolve_char_ref() {
                    Ok(Some(c)) => c.to_string(),
                    Ok(None) => quick_xml::escape::resolve_xml_entity(&reference)
                        .ok_or_else(|| bad("it refers to an entity, of which only the five of XML itself exist here"))?
                        .to_owned(),
                    Err(error) => return Err(bad("it has a broken character reference").with_source(error)),
                },
                Event::Comment(_) | Event::PI(_) => continue,
                Event::Decl(declaration) => {
                    self.check_declaration(declaration.encoding().map(|name| name.is_ok_and(|name| is_utf8(&name))))?;
                    continue;
                }
                Event::DocType(_) => return Err(bad("document type declarations are not accepted")),
                Event::Eof if self.depth == 0 && self.root_seen => return Ok(Token::Eof),
                Event::Eof => return Err(bad("it ends too early")),
            };
            if !text.chars().all(is_char) {
                return Err(bad("it has a character that XML does not allow"));
            }
            if self.depth > 0 {
                return Ok(Token::Text(text));
            }
            if !text.trim_matches([' ', '\t', '\r', '\n']).is_empty() {
                return Err(bad("it has text outside its root element"));
            }
        }
    }

    /// Reads up to and with the end of the element that was started last.
    pub(crate) fn skip(&mut self) -> Result<()> {
        let outside = self.depth.saturating_sub(1);
        while self.depth > outside {
            self.next()?;
        }
        Ok(())
    }

    /// Reads the root's start tag, which must be this one.
    pub(crate) fn root(&mut self, namespace: &str, local: &str) -> Result<()> {
        match self.next()? {
            Token::Start(element) if element.name.is(namespace, local) => Ok(()),
            _ => Err(bad(&format!("its root element is not {local} in the namespace {namespace}"))),
        }
    }

    /// Reads what is behind the root's end: nothing but comments and white space.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match self.next()? {
            Token::Eof => Ok(()),
            _ => Err(bad("it goes on after its root element")),
        }
    }

    /// The child elements' start tags, one a call, until the end of the element started last; text is passed over.
    pub(crate) fn next_child(&mut self) -> Result<Option<Element>> {
        loop {
            match self.next()? {
                Token::Start(element) => return Ok(Some(element)),
                Token::End => return Ok(None),
                Token::Text(_) => {}
                Token::Eof => return Err(bad("it ends too early")),
            }
        }
    }

    /// Elements open now.
    pub(crate) const fn depth(&self) -> usize {
        self.depth
    }

    /// The language in force (`xml:lang`), if any.
    pub(crate) fn language(&self) -> Option<&str> {
        self.languages.last().map(|(_, language)| language.as_str())
    }

    /// Prefixes in scope and their namespaces, the innermost binding of each.
    pub(crate) fn in_scope(&self) -> Vec<(&str, &str)> {
        self.namespaces.in_scope()
    }

    fn start(&mut self, tag: &BytesStart<'_>) -> Result<Element> {
        if self.depth == 0 && self.root_seen {
            return Err(bad("it has a second root element"));
        }
        self.root_seen = true;
        self.depth += 1;
        self.elements += 1;
        if self.depth > XML_DEPTH_MAX || self.elements > XML_ELEMENTS_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the XML body is nested over {XML_DEPTH_MAX} deep or has over {XML_ELEMENTS_MAX} elements"),
            ));
        }
        let mut plain = Vec::new();
        let mut declared = Vec::new();
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|error| bad("an attribute is broken or doubled").with_source(error))?;
            if plain.len() + declared.len() == XML_ATTRIBUTES_MAX {
                return Err(bad(&format!("an element has more than {XML_ATTRIBUTES_MAX} attributes")));
            }
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| bad("an attribute's value is broken").with_source(error))?
                .into_owned();
            if attribute.value.contains('<') || !value.chars().all(is_char) {
                return Err(bad("an attribute's value has a character that XML does not allow"));
            }
            let (prefix, local) = split(attribute.key.as_ref())?;
            match (prefix, local) {
                ("", "xmlns") => declared.push((String::new(), value)),
                ("xmlns", local) => declared.push((local.to_owned(), value)),
                _ => plain.push((prefix.to_owned(), local.to_owned(), value)),
            }
        }
        for (prefix, namespace) in &declared {
            self.namespaces.bind(self.depth, prefix, namespace)?;
        }
        let qualified = tag.name();
        let (prefix, local) = split(qualified.as_ref())?;
        let name = self.namespaces.resolve(prefix, local, true)?;
        let mut attributes: Vec<(Name, String)> = Vec::with_capacity(plain.len());
        for (prefix, local, value) in plain {
            let name = self.namespaces.resolve(&prefix, &local, false)?;
            if attributes.iter().any(|(other, _)| other.is(&name.namespace, &name.local)) {
                return Err(bad("an attribute is doubled"));
            }
            if name.is(XML_NAMESPACE, "lang") {
                self.languages.push((self.depth, value.clone()));
            }
            attributes.push((name, value));
        }
        Ok(Element { name, attributes, declared })
    }

    fn end(&mut self) -> Result<Token> {
        self.depth = self.depth.checked_sub(1).ok_or_else(|| bad("it has an end tag too many"))?;
        let open = self.depth;
        self.namespaces.leave(open);
        self.languages.retain(|(depth, _)| *depth <= open);
        Ok(Token::End)
    }

    fn check_declaration(&self, utf8: Option<bool>) -> Result<()> {
        if self.root_seen {
            return Err(bad("it has an XML declaration in the middle"));
        }
        if utf8 == Some(false) {
            return Err(bad("it states an encoding other than UTF-8"));
        }
        Ok(())
    }
}

fn is_utf8(encoding: &str) -> bool {
    ["utf-8", "utf8", "us-ascii"].iter().any(|name| encoding.eq_ignore_ascii_case(name))
}

/// An error that says what is wrong with the body.
pub(crate) fn bad(why: &str) -> Error {
    Error::invalid(format!("the XML body cannot be read: {why}"))
}
