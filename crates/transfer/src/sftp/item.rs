//! What a server says of something, as an [`Item`].

use super::session::Session;
use super::wire::{Ask, Attrs};
use crate::site::{Item, Kind, Version};
use holdfast_base::{Error, ErrorKind, NodeName, Result};

/// Permission bits that are moved: not those that lend somebody's rights.
const MODE_BITS: u32 = 0o777;
const NS: i64 = 1_000_000_000;

/// What sort of thing something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    File,
    Folder,
    Link,
    /// In words.
    Other(&'static str),
}

/// What the bits of a mode say it is, as POSIX has them.
pub(super) fn sort(attrs: &Attrs) -> Sort {
    match attrs.permissions.map(|mode| mode & 0o170_000) {
        Some(0o100_000) => Sort::File,
        Some(0o040_000) => Sort::Folder,
        Some(0o120_000) => Sort::Link,
        Some(0o010_000) => Sort::Other("a FIFO"),
        Some(0o140_000) => Sort::Other("a socket"),
        Some(0o020_000 | 0o060_000) => Sort::Other("a device"),
        Some(_) => Sort::Other("of an unknown kind"),
        None => Sort::Other("of a kind that the server does not tell"),
    }
}

/// An item of what is at a path. What a link says is asked for.
pub(super) async fn found(session: &Session, path: &str, name: NodeName, attrs: &Attrs) -> Result<Item> {
    if sort(attrs) != Sort::Link {
        return plain(name, attrs);
    }
    let text = session.path(Ask::ReadLink, path).await?.map_err(|status| status.error("reading the link", path))?;
    let text = std::str::from_utf8(&text)
        .map_err(|_| Error::invalid(format!("the link {name} leads to a name that is not UTF-8")))?;
    Ok(of(name, Kind::Link(text.to_owned()), attrs))
}

/// An item of what is no link.
pub(super) fn plain(name: NodeName, attrs: &Attrs) -> Result<Item> {
    match sort(attrs) {
        Sort::File if attrs.size.is_none() => {
            Err(Error::new(ErrorKind::Unsupported, format!("the server does not tell the size of {name}")))
        }
        Sort::File => Ok(of(name, Kind::File, attrs)),
        Sort::Folder => Ok(of(name, Kind::Folder, attrs)),
        Sort::Link => Err(Error::internal(format!("{name} is a link, and nobody asked where it leads"))),
        Sort::Other(what) => {
            let what = format!("{name} is {what}, and only files, folders and links are moved");
            Err(Error::new(ErrorKind::Unsupported, what))
        }
    }
}

fn of(name: NodeName, kind: Kind, attrs: &Attrs) -> Item {
    let folder = kind == Kind::Folder;
    Item {
        name,
        size: if kind == Kind::File { attrs.size.unwrap_or(0) } else { 0 },
        modified_ns: attrs.modified_s.filter(|_| !folder).map(|seconds| i64::from(seconds) * NS),
        mode: attrs.permissions.map(|mode| mode & MODE_BITS),
        version: if folder { Version("folder".into()) } else { version(attrs) },
        kind,
    }
}

/// Size and time, which is all that the protocol tells.
pub(super) fn version(attrs: &Attrs) -> Version {
    Version(format!("{}-{}", attrs.size.unwrap_or(0), attrs.modified_s.unwrap_or(0)))
}
