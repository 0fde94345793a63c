//! Content set aside for a while: encrypted in pieces of any size, for a scratch file that this process reads back itself.
//!
//! A block that is received slowly leaves memory for a scratch file until it is whole. It comes in drips, so it is encrypted as a stream:
//! AES-256 in counter mode (NIST SP 800-38A section 6.5), under a random key of its own for each block, which therefore starts at
//! counter zero. The key lies in memory only and goes with the block, so what is left on the disk can be opened by nobody.
//!
//! Limits: counter mode keeps a secret and proves nothing. Whoever reads a block back compares its id ([`IdHasher`], fed
//! with the same pieces) with that of what came back.

use crate::keys::{KEY_BYTES, random_bytes};
use aws_lc_rs::cipher::{
    AES_256, DecryptionContext, EncryptionContext, StreamingDecryptingKey, StreamingEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::iv::FixedLength;
use holdfast_base::{BlockId, Error, Result};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of an AES block: what the cipher wants as room beyond its input, though counter mode writes no more than that.
const CIPHER_BLOCK_BYTES: usize = 16;

/// Encrypts one block's pieces, and decrypts the whole. Between two pieces it keeps the key and the place in the stream and nothing else.
pub struct AsideCipher {
    key: Zeroizing<[u8; KEY_BYTES]>,
    /// Bytes encrypted so far.
    bytes: usize,
}

impl AsideCipher {
    /// A cipher with a new random key.
    pub fn new() -> Result<Self> {
        Ok(Self { key: Zeroizing::new(random_bytes()?), bytes: 0 })
    }

    /// Encrypts the next piece into `sealed`, which has its length afterwards.
    pub fn encrypt(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> Result<()> {
        let mut stream = unbound(&self.key)
            .and_then(|key| StreamingEncryptingKey::less_safe_ctr(key, EncryptionContext::Iv128(counter(self.bytes))))
            .map_err(refused)?;
        // The part of the counter's block that the piece before has used is passed over.
        let mut used = [0; 2 * CIPHER_BLOCK_BYTES];
        stream.update(&[0; CIPHER_BLOCK_BYTES][..self.bytes % CIPHER_BLOCK_BYTES], &mut used).map_err(refused)?;
        sealed.clear();
        sealed.resize(plain.len() + CIPHER_BLOCK_BYTES, 0);
        let written = stream.update(plain, sealed).map_err(refused)?.written().len();
        sealed.truncate(written);
        self.bytes += written;
        if written == plain.len() { Ok(()) } else { Err(refused(Unspecified)) }
    }

    /// Decrypts everything that was encrypted so far, in one piece, and appends it to `plain`.
    pub fn decrypt(&self, sealed: &[u8], plain: &mut Vec<u8>) -> Result<()> {
        let mut stream = unbound(&self.key)
            .and_then(|key| StreamingDecryptingKey::ctr(key, DecryptionContext::Iv128(counter(0))))
            .map_err(refused)?;
        let start = plain.len();
        plain.resize(start + sealed.len() + CIPHER_BLOCK_BYTES, 0);
        let written = stream.update(sealed, &mut plain[start..]).map_err(refused)?.written().len();
        plain.truncate(start + written);
        if written == sealed.len() { Ok(()) } else { Err(refused(Unspecified)) }
    }
}

fn unbound(key: &[u8; KEY_BYTES]) -> Result<UnboundCipherKey, Unspecified> {
    UnboundCipherKey::new(&AES_256, key)
}

/// The counter at this place of the stream: the number of the cipher's block, as 128 bits, big-endian.
fn counter(bytes: usize) -> FixedLength<CIPHER_BLOCK_BYTES> {
    FixedLength::from(((bytes / CIPHER_BLOCK_BYTES) as u128).to_be_bytes())
}

fn refused(_: Unspecified) -> Error {
    Error::internal("the cipher of content set aside failed")
}

/// Computes a block's id from its pieces. Takes 2 KiB of memory.
pub struct IdHasher(Box<blake3::Hasher>);

impl IdHasher {
    pub(crate) fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self(Box::new(blake3::Hasher::new_keyed(key)))
    }

    /// Takes the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The id of the pieces so far.
    pub fn id(&self) -> BlockId {
        BlockId(*self.0.finalize().as_bytes())
    }
}

impl Drop for IdHasher {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockKeys, SpaceKey};
    use holdfast_base::Uid;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_of_any_size_come_back_as_one_and_have_the_id_of_the_whole(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..40),
        ) {
            let keys = BlockKeys::derive(Uid([1; 16]), &SpaceKey::from_bytes([2; 32]));
            let (mut cipher, mut hasher) = (AsideCipher::new().expect("ciphers"), keys.id_hasher());
            let (mut sealed, mut piece_sealed) = (Vec::new(), Vec::new());
            for piece in &pieces {
                cipher.encrypt(piece, &mut piece_sealed).expect("ciphers");
                hasher.update(piece);
                sealed.extend_from_slice(&piece_sealed);
            }
            let whole = pieces.concat();
            let mut plain = b"before".to_vec();
            cipher.decrypt(&sealed, &mut plain).expect("ciphers");
            prop_assert_eq!(&plain[..6], b"before");
            prop_assert_eq!(&plain[6..], &whole[..]);
            prop_assert_eq!(hasher.id(), keys.id(&whole));
            prop_assert!(whole.len() < 16 || sealed != whole);
        }
    }

    #[test]
    fn equal_content_never_looks_equal() {
        let mut sealed = [Vec::new(), Vec::new()];
        for out in &mut sealed {
            AsideCipher::new().expect("ciphers").encrypt(&[7; 100], out).expect("ciphers");
        }
        assert_ne!(sealed[0], sealed[1]);
        assert_eq!(sealed[0].len(), 100);
    }
}
