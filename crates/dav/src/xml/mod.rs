//! XML: reading request bodies without trusting them, and writing answers without building a tree.
//!
//! [`reader`] is a thin, strict layer over quick-xml that knows namespaces and has limits; [`fragment`] turns what it reads
//! back into self-contained text (dead properties, lock owners); one small parser for each request body lies on top.

pub(crate) mod escape;
mod fragment;
mod lockinfo;
mod namespaces;
mod propfind;
mod proppatch;
mod reader;
#[cfg(test)]
mod tests;

pub use fragment::Fragment;
pub use lockinfo::{LockInfo, lock_info};
pub use propfind::{PropFind, PropName, prop_find};
pub use proppatch::{PropPatch, PropUpdate, property_update};

/// The namespace of WebDAV.
pub(crate) const DAV: &str = "DAV:";
