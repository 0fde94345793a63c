//! The limits of what is parsed here, with their reasons.

/// Ranges one `Range` header may ask for; a header with more is ignored and the whole file answered (RFC 9110 section 14.2).
pub const RANGES_MAX: usize = 64;

/// Ranges whose gap is at most this are answered as one: the header of another part would cost as much.
pub const RANGE_GAP_BYTES: u64 = 128;

/// Entity tags in one `If-Match` or `If-None-Match`.
pub const ENTITY_TAGS_MAX: usize = 256;
