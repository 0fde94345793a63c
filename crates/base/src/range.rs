//! Byte ranges inside a file.

/// A half-open range of bytes, `start..end`, with `start <= end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ByteRange {
    /// The whole of a file of `size` bytes.
    pub const fn whole(size: u64) -> Self {
        Self { start: 0, end: size }
    }

    /// Bytes in the range.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether the range has no bytes.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
}
