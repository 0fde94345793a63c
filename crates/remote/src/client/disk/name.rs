//! What is kept in a cache on the disk, by name. A name is a file's name as well, so it is read back when a cache is opened; what is no name is left alone.

use holdfast_base::{BlockId, ContentId, NodeId};
use std::fmt;

/// What something in the cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::client) enum Name {
    /// A block, as its record. Its id says what is in it, so whatever contents have it share it.
    Block(BlockId),
    /// What the catalogue knows of a content, a tiny one with all that is in it.
    Content(ContentId),
    /// A part of a content's manifest.
    Manifest(ContentId, u64),
    /// A folder with the members that are known of it.
    Folder(NodeId),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(id) => write!(f, "b-{id}"),
            Self::Content(id) => write!(f, "c-{}", id.0),
            Self::Manifest(id, chunk) => write!(f, "m-{}-{chunk}", id.0),
            Self::Folder(node) => write!(f, "f-{}", node.0),
        }
    }
}

impl Name {
    /// Reads what [`fmt::Display`] wrote, and nothing else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('-')?;
        let name = match kind {
            "b" => Self::Block(rest.parse().ok()?),
            "c" => Self::Content(ContentId(rest.parse().ok()?)),
            "m" => {
                let (content, chunk) = rest.rsplit_once('-')?;
                Self::Manifest(ContentId(content.parse().ok()?), chunk.parse().ok()?)
            }
            "f" => Self::Folder(NodeId(rest.parse().ok()?)),
            _ => return None,
        };
        // One name has one spelling.
        (name.to_string() == text).then_some(name)
    }

    /// The folder it lies in, so that none gets too many files.
    pub(super) const fn shard(&self) -> u8 {
        match self {
            Self::Block(id) => id.0[0],
            Self::Content(ContentId(number)) | Self::Manifest(ContentId(number), _) | Self::Folder(NodeId(number)) => {
                number.to_le_bytes()[0]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_and_anything_else_is_none() {
        let names = [
            Name::Block(BlockId([0xab; 32])),
            Name::Content(ContentId(7)),
            Name::Manifest(ContentId(i64::MAX), u64::MAX),
            Name::Folder(NodeId(-1)),
        ];
        for name in names {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        for bad in [
            "",
            "b-",
            "c-",
            "c-07",
            "c-+7",
            "m-1",
            "m-1-",
            "f-x",
            "x-1",
            "b-AB",
            "c-7 ",
            "c-7/../c-8",
            "c-99999999999999999999",
        ] {
            assert_eq!(Name::parse(bad), None, "{bad:?}");
        }
        assert_eq!(Name::parse(&format!("b-{}", "AB".repeat(32))), None, "another spelling");
    }
}
