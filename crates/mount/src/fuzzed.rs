//! What fuzz targets reach and nobody else is to: the frames of a journal.

/// Reads bytes as a frame of a journal and as what is in one. What can be read is written as it was read.
pub fn journal(bytes: &[u8]) {
    crate::behind::read_anything(bytes);
}
