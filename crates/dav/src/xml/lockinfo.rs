//! The body of LOCK (RFC 4918 section 14.11).

use super::DAV;
use super::fragment;
use super::reader::{XmlReader, bad};
use crate::limits::LOCK_OWNER_BYTES_MAX;
use holdfast_base::Result;

/// The lock a LOCK asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockInfo {
    /// Exclusive or shared.
    pub exclusive: bool,
    /// The `DAV:owner` element, serialized; empty if there is none.
    pub owner_xml: String,
}

/// Reads the body of LOCK.
pub fn lock_info(body: &[u8]) -> Result<LockInfo> {
    let mut reader = XmlReader::new(body)?;
    reader.root(DAV, "lockinfo")?;
    let mut exclusive = None;
    let mut write = false;
    let mut owner_xml = String::new();
    while let Some(element) = reader.next_child()? {
        match element.name.local.as_str() {
            "lockscope" if element.name.namespace == DAV => {
                while let Some(scope) = reader.next_child()? {
                    reader.skip()?;
                    match scope.name.local.as_str() {
                        "exclusive" if scope.name.namespace == DAV => exclusive = Some(true),
                        "shared" if scope.name.namespace == DAV => exclusive = Some(false),
                        _ => {}
                    }
                }
            }
            "locktype" if element.name.namespace == DAV => {
                while let Some(kind) = reader.next_child()? {
                    reader.skip()?;
                    write |= kind.name.is(DAV, "write");
                }
            }
            // One at most: each costs as much as all namespaces declared around it.
            "owner" if element.name.namespace == DAV && !owner_xml.is_empty() => {
                return Err(bad("lockinfo has more than one owner"));
            }
            "owner" if element.name.namespace == DAV => owner_xml = fragment::read(&mut reader, &element)?.xml,
            _ => reader.skip()?,
        }
    }
    reader.finish()?;
    if owner_xml.len() > LOCK_OWNER_BYTES_MAX {
        return Err(bad(&format!("the lock's owner is longer than {LOCK_OWNER_BYTES_MAX} bytes")));
    }
    match exclusive {
        Some(exclusive) if write => Ok(LockInfo { exclusive, owner_xml }),
        _ => Err(bad("lockinfo has a lockscope of exclusive or shared and a locktype of write")),
    }
}
