//! The body of PROPFIND (RFC 4918 section 14.20).

use super::DAV;
use super::reader::{XmlReader, bad};
use crate::limits::PROPERTIES_NAMED_MAX;
use holdfast_base::Result;

/// A property's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PropName {
    /// Namespace name; may be empty.
    pub namespace: String,
    /// Local name.
    pub name: String,
}

/// What a PROPFIND asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropFind {
    /// The properties RFC 4918 defines and all dead ones, and these besides.
    All {
        /// `DAV:include`.
        include: Vec<PropName>,
    },
    /// The names of what there is.
    Names,
    /// These, each once, in the order asked for.
    Named(Vec<PropName>),
}

/// Reads the body of PROPFIND; an empty one asks for all (RFC 4918 section 9.1).
pub fn prop_find(body: &[u8]) -> Result<PropFind> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(PropFind::All { include: Vec::new() });
    }
    let mut reader = XmlReader::new(body)?;
    reader.root(DAV, "propfind")?;
    let mut what: Option<PropFind> = None;
    let mut include = Vec::new();
    while let Some(element) = reader.next_child()? {
        let found = match element.name.local.as_str() {
            _ if element.name.namespace != DAV => None,
            "prop" => {
                let mut names = Vec::new();
                read_names(&mut reader, &mut names)?;
                merge(&mut what, PropFind::Named(names))?;
                continue;
            }
            "include" => {
                read_names(&mut reader, &mut include)?;
                continue;
            }
            "allprop" => Some(PropFind::All { include: Vec::new() }),
            "propname" => Some(PropFind::Names),
            _ => None,
        };
        reader.skip()?;
        if let Some(found) = found {
            merge(&mut what, found)?;
        }
    }
    reader.finish()?;
    match what {
        Some(PropFind::All { .. }) => Ok(PropFind::All { include }),
        Some(what) => Ok(what),
        None => Err(bad("propfind asks for none of prop, allprop and propname")),
    }
}

fn merge(what: &mut Option<PropFind>, found: PropFind) -> Result<()> {
    if what.replace(found).is_some() {
        return Err(bad("propfind asks for more than one of prop, allprop and propname"));
    }
    Ok(())
}

fn read_names(reader: &mut XmlReader<'_>, names: &mut Vec<PropName>) -> Result<()> {
    while let Some(element) = reader.next_child()? {
        reader.skip()?;
        let name = PropName { namespace: element.name.namespace, name: element.name.local };
        if !names.contains(&name) {
            names.push(name);
        }
        if names.len() > PROPERTIES_NAMED_MAX {
            return Err(bad(&format!("it names more than {PROPERTIES_NAMED_MAX} properties")));
        }
    }
    Ok(())
}
