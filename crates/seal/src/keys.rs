//! The key hierarchy: account keys, space keys, credential slots. (In progress.)

use holdfast_base::{Error, Result, Uid};
use zeroize::ZeroizeOnDrop;

/// A space's random data key; everything that seals the space's content is derived from it.
#[derive(Clone, ZeroizeOnDrop)]
pub struct SpaceKey(pub(crate) [u8; 32]);

/// An account's unlocked private key (X25519).
#[derive(Clone, ZeroizeOnDrop)]
pub struct AccountKey(pub(crate) [u8; 32]);

impl AccountKey {
    /// Unwraps a space's data key that was wrapped to this account's public key.
    pub fn unwrap_space_key(&self, _space: Uid, _wrapped: &[u8]) -> Result<SpaceKey> {
        Err(Error::internal("not yet"))
    }
}
