//! What goes over the pipes between server and worker. Both ends are the same program, so there are no versions.
//!
//! The worker says [`READY`] when it has given everything up. Then, for each picture: edge (4 bytes), length of the file (8), the file; and back:
//! 1 and length (4) and the picture, or 0. Numbers are little-endian.

use crate::{EDGES, SOURCE_BYTES_MAX};

/// The worker's first byte.
pub(crate) const READY: u8 = b'R';
/// Before a picture.
pub(crate) const PICTURE: u8 = 1;
/// Instead of one.
pub(crate) const NONE: u8 = 0;

/// Length of [`Head::bytes`].
pub(crate) const HEAD_BYTES: usize = 12;

/// What comes before a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) edge: u32,
    pub(crate) length: u64,
}

impl Head {
    pub(crate) fn bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&self.edge.to_le_bytes());
        bytes[4..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// None if it is not one of ours.
    pub(crate) fn read(bytes: [u8; HEAD_BYTES]) -> Option<Self> {
        let [a, b, c, d, length @ ..] = bytes;
        let head = Self { edge: u32::from_le_bytes([a, b, c, d]), length: u64::from_le_bytes(length) };
        (EDGES.contains(&head.edge) && head.length <= SOURCE_BYTES_MAX).then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_and_one_over_the_limits_does_not() {
        let head = Head { edge: EDGES[0], length: 77 };
        assert_eq!(Head::read(head.bytes()), Some(head));
        assert_eq!(Head::read(Head { edge: 4_000, ..head }.bytes()), None);
        assert_eq!(Head::read(Head { length: SOURCE_BYTES_MAX + 1, ..head }.bytes()), None);
    }
}
