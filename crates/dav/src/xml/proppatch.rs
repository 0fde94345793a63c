//! The body of PROPPATCH (RFC 4918 section 14.19).

use super::DAV;
use super::fragment::{self, Fragment};
use super::propfind::PropName;
use super::reader::{XmlReader, bad};
use crate::limits::PROPERTIES_NAMED_MAX;
use holdfast_base::limits::PROPERTIES_BYTES_MAX;
use holdfast_base::{Error, ErrorKind, Result};

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropPatch {
    /// Sets a property.
    Set(Fragment),
    /// Removes a property.
    Remove(PropName),
}

/// A whole body: instructions in document order, which is the order in which they apply.
pub type PropUpdate = Vec<PropPatch>;

/// Reads the body of PROPPATCH.
pub fn property_update(body: &[u8]) -> Result<PropUpdate> {
    let mut reader = XmlReader::new(body)?;
    reader.root(DAV, "propertyupdate")?;
    let mut updates = Vec::new();
    while let Some(element) = reader.next_child()? {
        let set = match element.name.local.as_str() {
            "set" if element.name.namespace == DAV => true,
            "remove" if element.name.namespace == DAV => false,
            _ => {
                reader.skip()?;
                continue;
            }
        };
        while let Some(element) = reader.next_child()? {
            if element.name.is(DAV, "prop") {
                read_properties(&mut reader, set, &mut updates)?;
            } else {
                reader.skip()?;
            }
        }
    }
    reader.finish()?;
    if updates.is_empty() { Err(bad("propertyupdate neither sets nor removes a property")) } else { Ok(updates) }
}

fn read_properties(reader: &mut XmlReader<'_>, set: bool, updates: &mut PropUpdate) -> Result<()> {
    while let Some(element) = reader.next_child()? {
        if updates.len() == PROPERTIES_NAMED_MAX {
            return Err(bad(&format!("it changes more than {PROPERTIES_NAMED_MAX} properties")));
        }
        if set {
            updates.push(PropPatch::Set(fragment::read(reader, &element)?));
            refuse_growth(updates)?;
        } else {
            reader.skip()?;
            updates.push(PropPatch::Remove(PropName { namespace: element.name.namespace, name: element.name.local }));
        }
    }
    Ok(())
}

/// A node could not hold more anyhow. Tested after each property, because a short body can ask for very much: every
/// property repeats the declarations it stands among.
fn refuse_growth(updates: &[PropPatch]) -> Result<()> {
    let bytes = |update: &PropPatch| match update {
        PropPatch::Set(fragment) => fragment.xml.len(),
        PropPatch::Remove(_) => 0,
    };
    if updates.iter().map(bytes).sum::<usize>() > PROPERTIES_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("the properties of a file or folder can have {PROPERTIES_BYTES_MAX} bytes at most"),
        ));
    }
    Ok(())
}
