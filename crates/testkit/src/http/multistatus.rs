//! Reading the answer to PROPFIND and PROPPATCH (RFC 4918 section 13).

use std::collections::BTreeMap;
use std::io;

use quick_xml::NsReader;
use quick_xml::events::{BytesRef, Event};
use quick_xml::name::ResolveResult;

/// Namespace and local name of a property.
pub type PropertyName = (String, String);

/// One `response` of a multistatus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// Path as sent.
    pub href: String,
    /// Path, decoded, without the slash at the end.
    pub path: String,
    /// Status of the whole resource, where given.
    pub status: Option<u16>,
    /// Whether it is a collection.
    pub is_folder: bool,
    /// Properties with their status and text.
    pub properties: BTreeMap<PropertyName, (u16, String)>,
}

impl Resource {
    /// The text of a property that was found (status 200).
    pub fn property(&self, namespace: &str, name: &str) -> Option<&str> {
        let key = (namespace.to_owned(), name.to_owned());
        let (status, text) = self.properties.get(&key)?;
        (*status == 200).then_some(text.as_str())
    }

    /// `getcontentlength`.
    pub fn length(&self) -> Option<u64> {
        self.property("DAV:", "getcontentlength")?.parse().ok()
    }

    /// `getetag`.
    pub fn etag(&self) -> Option<&str> {
        self.property("DAV:", "getetag")
    }
}

/// Reads a multistatus document.
pub fn parse_multistatus(xml: &str) -> io::Result<Vec<Resource>> {
    let mut reader = NsReader::from_str(xml);
    let mut parser = Parser::default();
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(broken)?;
        let namespace = match namespace {
            ResolveResult::Bound(namespace) => namespace.into_inner(),
            _ => "",
        };
        match event {
            Event::Start(tag) => parser.open(namespace, tag.local_name().as_ref()),
            Event::Empty(tag) => {
                parser.open(namespace, tag.local_name().as_ref());
                parser.close();
            }
            Event::End(_) => parser.close(),
            Event::Text(text) => parser.text.push_str(&text),
            Event::CData(text) => parser.text.push_str(&text),
            Event::GeneralRef(reference) => parser.text.push_str(&resolve(&reference)?),
            Event::Eof if parser.open.is_empty() && parser.seen_root => return Ok(parser.done),
            Event::Eof => return Err(broken("a cut document")),
            _ => {}
        }
    }
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn resolve(reference: &BytesRef<'_>) -> io::Result<String> {
    if let Some(character) = reference.resolve_char_ref().map_err(broken)? {
        return Ok(character.to_string());
    }
    let name: &str = reference;
    match quick_xml::escape::resolve_predefined_entity(name) {
        Some(text) => Ok(text.to_owned()),
        None => Err(broken(format!("entity {name}"))),
    }
}

/// Where the parser stands: the open elements, and the resource under way.
#[derive(Default)]
struct Parser {
    open: Vec<PropertyName>,
    text: String,
    resource: Resource,
    propstat: Vec<(PropertyName, String)>,
    propstat_status: u16,
    seen_root: bool,
    done: Vec<Resource>,
}

impl Parser {
    fn open(&mut self, namespace: &str, name: &str) {
        let element = (namespace.to_owned(), name.to_owned());
        self.seen_root = true;
        // Text of a property includes that of elements in it.
        if self.open.len() < PROPERTY_DEPTH {
            self.text.clear();
        }
        if element == dav("collection") && self.inside("resourcetype") {
            self.resource.is_folder = true;
        }
        self.open.push(element);
    }

    fn inside(&self, name: &str) -> bool {
        self.open.last().is_some_and(|element| *element == dav(name))
    }

    fn close(&mut self) {
        let depth = self.open.len();
        let Some(element) = self.open.pop() else {
            return;
        };
        let text = self.text.trim().to_owned();
        match (depth, element.1.as_str()) {
            (2, "response") => self.done.push(std::mem::take(&mut self.resource)),
            (3, "href") => {
                let decoded = super::decode_path(&text);
                decoded.trim_end_matches('/').clone_into(&mut self.resource.path);
                self.resource.href = text;
            }
            (3, "status") => self.resource.status = status(&text),
            (3, "propstat") => {
                let code = self.propstat_status;
                let found = self.propstat.drain(..).map(|(name, text)| (name, (code, text)));
                self.resource.properties.extend(found);
            }
            (4, "status") => self.propstat_status = status(&text).unwrap_or_default(),
            (PROPERTY_DEPTH, _) if self.inside("prop") => {
                self.propstat.push((element, self.text.clone()));
            }
            _ => {}
        }
    }
}

/// multistatus / response / propstat / prop / the property.
const PROPERTY_DEPTH: usize = 5;

fn dav(name: &str) -> PropertyName {
    ("DAV:".to_owned(), name.to_owned())
}

/// The code in a status line such as `HTTP/1.1 200 OK`.
fn status(line: &str) -> Option<u16> {
    line.split(' ').nth(1)?.parse().ok()
}
