//! What the drive reads back from a store and a catalogue that it does not trust, and the small texts of [`holdfast_base`].

mod edited;
mod forged;
mod input;
mod keys;
mod pack;
mod record;
mod text;

pub use edited::edited;
pub use forged::forged;
pub use keys::keys;
pub use pack::pack;
pub use record::record;
pub use text::text;

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 6] =
    [("edited", edited), ("forged", forged), ("keys", keys), ("pack", pack), ("record", record), ("text", text)];
