//! The key hierarchy: what opens what.
//!
//! ```text
//! credential (password, app token, recovery code, escrow key)
//!   └─ opens a slot ([`slot`])            → the account's private key, X25519 ([`AccountKey`])
//!        └─ opens a wrapped key ([`wrap`]) → a space's data key, 32 random bytes ([`SpaceKey`])
//!             └─ seals the space's blocks, manifests and inline content
//! ```
//!
//! The catalogue keeps the slots, the wrapped keys and the accounts' public keys; none of them yields a key without a
//! credential. Keys live in memory only while something uses them, are overwritten when dropped, and are never printed.
//!
//! Limits: the catalogue is trusted to name the right public key for an account to which a space key is wrapped. Somebody who
//! can *write* to it can put their own key there and wait for an owner to add that account to a space; sign-in therefore
//! compares an account's public key with the private key that its credential opens.

pub mod kdf;
pub mod slot;
pub mod wrap;

use aws_lc_rs::agreement::{PrivateKey, X25519};
use holdfast_base::{Error, Result, Uid};
use std::fmt;
use zeroize::{ZeroizeOnDrop, Zeroizing};

pub use kdf::Argon2Params;
pub use slot::{CredentialKind, SlotContext, open_escrow_slot, open_slot, seal_escrow_slot, seal_slot};
pub use wrap::wrap_space_key;

/// Length of every key here, in bytes.
pub const KEY_BYTES: usize = 32;

/// Fills `bytes` from the operating system's generator, by way of aws-lc-rs.
pub fn fill_random(bytes: &mut [u8]) -> Result<()> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| Error::internal("the random number generator failed"))
}

/// `N` random bytes.
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    fill_random(&mut bytes)?;
    Ok(bytes)
}

/// A space's random data key; everything that seals the space's content is derived from it.
#[derive(Clone, ZeroizeOnDrop)]
pub struct SpaceKey([u8; KEY_BYTES]);

impl SpaceKey {
    /// Makes a new random key.
    pub fn generate() -> Result<Self> {
        random_bytes().map(Self)
    }

    /// Takes a key's bytes over.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The key's bytes, to derive from.
    pub const fn expose(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Debug for SpaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpaceKey(…)")
    }
}

/// An account's unlocked key pair (X25519, RFC 7748). The operator's escrow key is one, too.
#[derive(Clone, ZeroizeOnDrop)]
pub struct AccountKey {
    private: [u8; KEY_BYTES],
    #[zeroize(skip)]
    public: [u8; KEY_BYTES],
}

impl AccountKey {
    /// Makes a new random key pair; answers its public key beside it.
    pub fn generate() -> Result<(Self, [u8; KEY_BYTES])> {
        let key = Self::from_private(&Zeroizing::new(random_bytes()?))?;
        let public = key.public;
        Ok((key, public))
    }

    /// Takes a private key over and computes its public key.
    pub fn from_private(private: &[u8; KEY_BYTES]) -> Result<Self> {
        let public = PrivateKey::from_private_key(&X25519, private)
            .and_then(|pair| pair.compute_public_key().map_err(Into::into))
            .map_err(|_| Error::internal("an X25519 private key was refused"))?;
        let public = public.as_ref().try_into().map_err(|_| Error::internal("an X25519 public key has 32 bytes"))?;
        Ok(Self { private: *private, public })
    }

    /// The public key: what others wrap space keys to.
    pub const fn public(&self) -> [u8; KEY_BYTES] {
        self.public
    }

    /// The private key's bytes, for sealing them into a slot or showing an escrow key to its operator.
    pub const fn expose(&self) -> &[u8; KEY_BYTES] {
        &self.private
    }

    /// Unwraps a space's data key that was wrapped to this account's public key. Anything else (another account's, another
    /// space's, a damaged one) is `Damaged`.
    pub fn unwrap_space_key(&self, space: Uid, wrapped: &[u8]) -> Result<SpaceKey> {
        wrap::unwrap_space_key(self, space, wrapped)
    }
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountKey(…)")
    }
}

#[cfg(test)]
mod tests;
