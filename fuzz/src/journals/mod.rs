//! What a mount reads of its own journals, which a disk may have changed.

/// A frame, or what is in one: read or refused, and what was read is written as it was.
pub fn journal(data: &[u8]) {
    holdfast_mount::fuzzed::journal(data);
}

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 1] = [("journal", journal)];
