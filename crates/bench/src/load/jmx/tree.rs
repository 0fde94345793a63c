//! The XML of a plan as a tree, read strictly and within limits.

use anyhow::{Context, bail, ensure};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::{ATTRIBUTES_MAX, DEPTH_MAX, ELEMENTS_MAX, FILE_BYTES_MAX};

/// One element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) tag: String,
    attributes: Vec<(String, String)>,
    pub(super) children: Vec<Element>,
    pub(super) text: String,
}

impl Element {
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Its name for people.
    pub(super) fn name(&self) -> &str {
        self.attribute("testname").filter(|name| !name.is_empty()).unwrap_or(&self.tag)
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.attribute("enabled") != Some("false")
    }

    /// A property, whatever its type.
    fn property(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.tag.ends_with("Prop") && child.attribute("name") == Some(name))
    }

    /// A simple property's text; empty when there is none.
    pub(super) fn text_of(&self, name: &str) -> &str {
        self.property(name).map_or("", |property| property.text.as_str())
    }

    /// The properties inside an `elementProp` or a `collectionProp` of that name.
    pub(super) fn inside(&self, name: &str) -> &[Self] {
        self.property(name).map_or(&[], |property| &property.children)
    }

    /// An `elementProp` of that name.
    pub(super) fn element(&self, name: &str) -> Option<&Self> {
        self.property(name).filter(|property| property.tag == "elementProp")
    }
}

/// Reads a whole file.
pub(super) fn parse(file: &[u8]) -> anyhow::Result<Element> {
    ensure!(file.len() <= FILE_BYTES_MAX, "the plan is longer than {FILE_BYTES_MAX} bytes");
    let text = std::str::from_utf8(file).context("the plan is not UTF-8")?;
    let mut reader = Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    let mut count = 0;
    loop {
        let piece = match reader.read_event().context("the plan is not well-formed XML")? {
            Event::Start(tag) => {
                count += 1;
                ensure!(root.is_none(), "the plan has a second root element");
                ensure!(count <= ELEMENTS_MAX, "the plan has more than {ELEMENTS_MAX} elements");
                ensure!(open.len() < DEPTH_MAX, "the plan is nested more than {DEPTH_MAX} deep");
                open.push(start(&tag)?);
                continue;
            }
            Event::End(_) => {
                let Some(done) = open.pop() else { bail!("the plan has an end tag too many") };
                match open.last_mut() {
                    Some(parent) => parent.children.push(done),
                    None => root = Some(done),
                }
                continue;
            }
            Event::Text(text) => text.xml10_content().into_owned(),
            Event::CData(text) => text.xml10_content().into_owned(),
            Event::GeneralRef(reference) => {
                match reference.resolve_char_ref().context("a broken character reference")? {
                    Some(c) => c.to_string(),
                    None => quick_xml::escape::resolve_xml_entity(&reference)
                        .context("the plan refers to an entity, of which only the five of XML itself exist here")?
                        .to_owned(),
                }
            }
            Event::DocType(_) => bail!("the plan has a document type declaration, which is not accepted"),
            Event::Empty(_) | Event::Comment(_) | Event::PI(_) | Event::Decl(_) => continue,
            Event::Eof => break,
        };
        ensure!(piece.chars().all(is_xml), "the plan has a character that XML does not allow");
        match open.last_mut() {
            Some(element) => element.text.push_str(&piece),
            None => ensure!(piece.trim().is_empty(), "the plan has text outside its root element"),
        }
    }
    ensure!(open.is_empty(), "the plan ends too early");
    root.context("the plan is empty")
}

fn start(tag: &BytesStart<'_>) -> anyhow::Result<Element> {
    let mut element = Element { tag: tag.name().as_ref().to_owned(), ..Element::default() };
    for attribute in tag.attributes() {
        let attribute = attribute.context("an attribute is broken or doubled")?;
        ensure!(element.attributes.len() < ATTRIBUTES_MAX, "an element has more than {ATTRIBUTES_MAX} attributes");
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).context("an attribute's value is broken")?;
        ensure!(value.chars().all(is_xml), "an attribute has a character that XML does not allow");
        element.attributes.push((attribute.key.as_ref().to_owned(), value.into_owned()));
    }
    Ok(element)
}

/// Whether XML 1.0 allows the character (section 2.2).
pub(super) fn is_xml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}
