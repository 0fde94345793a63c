//! What fuzz targets reach and nobody else is to: the files of a mount's cache.

/// Reads bytes as anything that may lie in a cache: refused, or written as it was read.
pub fn cache(bytes: &[u8]) {
    crate::client::read_anything(bytes);
}
