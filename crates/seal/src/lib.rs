//! Sealing: keys, and the encodings of blocks, packs and manifests.
//!
//! Everything that touches a cipher, a key or a byte layout of stored content is in this crate and nowhere else.
//! docs/FORMAT.md describes the same encodings for somebody who writes a reader.

pub mod aside;
pub mod block;
mod codec;
pub mod keys;
pub mod manifest;
pub mod note;
pub mod pack;
pub mod proof;

pub use block::{BlockKeys, Opener, Sealer};
pub use codec::Codec;
pub use keys::{AccountKey, SpaceKey};

#[cfg(test)]
mod test_data;
