//! What a mount on another machine and its server send each other.

/// Frames with calls, answers, events and errors: read or refused, and what was read of a call is written as it was.
pub fn wire(data: &[u8]) {
    holdfast_remote::wire::read_anything(data);
}

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 1] = [("wire", wire)];
