//! What a mount on another machine and its server send each other, and what it finds in its cache.

/// Frames with calls, answers, events and errors: read or refused, and what was read of a call is written as it was.
pub fn wire(data: &[u8]) {
    holdfast_remote::wire::read_anything(data);
}

/// A file of a cache, its name, or what was sealed in it: refused, or written as it was read; what is sealed opens to the same by its name and by no other.
pub fn cache(data: &[u8]) {
    holdfast_remote::fuzzed::cache(data);
}

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 2] = [("wire", wire), ("cache", cache)];
