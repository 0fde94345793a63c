//! A document of XML as a tree, with limits: [`BYTES_MAX`], [`DEPTH_MAX`] and [`ELEMENTS_MAX`].

use holdfast_base::{Error, ErrorKind, Result};
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// Largest document.
pub const BYTES_MAX: usize = 4 << 20;
const DEPTH_MAX: usize = 64;
const ELEMENTS_MAX: usize = 50_000;

/// An element.
#[derive(Debug, Clone, Default)]
pub(super) struct Element {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
    pub(super) children: Vec<Element>,
    text: String,
}

impl Element {
    /// The value of an attribute that is not empty.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// Elements of a name anywhere in it.
    pub(super) fn all<'e>(&'e self, name: &'e str) -> Box<dyn Iterator<Item = &'e Self> + 'e> {
        let here = self.children.iter().filter(move |child| child.name == name);
        Box::new(here.chain(self.children.iter().flat_map(move |child| child.all(name))))
    }

    /// The first child of a name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of a child that is not empty.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.trim()).filter(|text| !text.is_empty())
    }
}

/// Reads a document.
pub(super) fn read(bytes: &[u8]) -> Result<Element> {
    if bytes.len() > BYTES_MAX {
        return Err(Error::new(ErrorKind::TooLarge, format!("it has more than {BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| bad("it is not UTF-8"))?;
    let mut reader = Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    reader.config_mut().expand_empty_elements = true;
    let (mut open, mut elements): (Vec<Element>, usize) = (vec![Element::default()], 0);
    loop {
        let event =
            reader.read_event().map_err(|error| bad(&format!("at byte {}: {error}", reader.error_position())))?;
        match event {
            Event::Start(tag) => {
                elements += 1;
                if open.len() > DEPTH_MAX || elements > ELEMENTS_MAX {
                    return Err(Error::new(
                        ErrorKind::TooLarge,
                        format!("it has more than {ELEMENTS_MAX} elements, or is deeper than {DEPTH_MAX}"),
                    ));
                }
                open.push(element(&tag)?);
            }
            Event::End(_) => {
                let done = open.pop().unwrap_or_default();
                open.last_mut().ok_or_else(|| bad("it ends what it did not begin"))?.children.push(done);
            }
            Event::Text(more) => push(&mut open, &more),
            Event::CData(more) => push(&mut open, &more),
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref().map_err(|error| bad(&error.to_string()))?;
                let name: &str = &reference;
                match character {
                    Some(character) => push(&mut open, character.encode_utf8(&mut [0; 4])),
                    None => push(
                        &mut open,
                        resolve_predefined_entity(name).ok_or_else(|| bad("it names an unknown entity"))?,
                    ),
                }
            }
            Event::DocType(_) => return Err(bad("document type declarations are not accepted")),
            Event::Eof => break,
            _ => {}
        }
    }
    match (open.pop(), open.is_empty()) {
        (Some(document), true) => document.children.into_iter().next().ok_or_else(|| bad("there is nothing in it")),
        _ => Err(bad("it is cut")),
    }
}

fn push(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

fn element(tag: &BytesStart<'_>) -> Result<Element> {
    let mut element = Element { name: tag.local_name().as_ref().to_owned(), ..Element::default() };
    for attribute in tag.attributes() {
        let attribute = attribute.map_err(|error| bad(&error.to_string()))?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| bad(&error.to_string()))?;
        element.attributes.push((attribute.key.local_name().as_ref().to_owned(), value.into_owned()));
    }
    Ok(element)
}

fn bad(why: &str) -> Error {
    Error::invalid(format!("it is no XML that can be read: {why}"))
}
