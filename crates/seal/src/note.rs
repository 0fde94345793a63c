//! Short texts sealed under a key: what is kept or carried for an account that is no content.
//!
//! A note is format version (1 byte), nonce (12), AES-256-GCM ciphertext and tag (16). Its key is derived with HKDF-SHA256 from a key of 32
//! random bytes and the label of its use; the label and whom it belongs to are authenticated with it. So a note moved to another
//! account or another use does not open. Notes under one key are few (a sign-in or a setting each), so random nonces do.

use crate::keys::{AccountKey, KEY_BYTES, random_bytes};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use holdfast_base::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

/// Format version of a note.
const VERSION: u8 = 1;

/// Where derivation of these keys begins.
const SALT: &[u8] = b"holdfast note v1";

/// Longest note that is sealed or opened, in bytes.
pub const NOTE_BYTES_MAX: usize = 16 << 10;

/// Seals notes of one use.
pub struct NoteKey(LessSafeKey, Vec<u8>);

impl NoteKey {
    /// Of a random key, for a use and an owner (empty if there is none).
    pub fn new(key: &[u8; KEY_BYTES], label: &str, owner: &[u8]) -> Result<Self> {
        let mut derived = Zeroizing::new([0; KEY_BYTES]);
        Salt::new(HKDF_SHA256, SALT)
            .extract(key)
            .expand(&[label.as_bytes()], HKDF_SHA256)
            .and_then(|output| output.fill(&mut derived[..]))
            .map_err(|_| Error::internal("HKDF failed"))?;
        let sealing =
            UnboundKey::new(&AES_256_GCM, &derived[..]).map_err(|_| Error::internal("AES-256-GCM refused a key"))?;
        let aad = [&[VERSION], label.as_bytes(), &[0], owner].concat();
        Ok(Self(LessSafeKey::new(sealing), aad))
    }

    /// Of an account's own key: nobody else opens it.
    pub fn of_account(key: &AccountKey, label: &str) -> Result<Self> {
        Self::new(key.expose(), label, &key.public())
    }

    /// Seals a note.
    pub fn seal(&self, plain: &[u8]) -> Result<Vec<u8>> {
        if plain.len() > NOTE_BYTES_MAX {
            return Err(Error::internal("a note is too long"));
        }
        let nonce = random_bytes::<NONCE_LEN>()?;
        let mut body = plain.to_vec();
        let tag = self
            .0
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&self.1), &mut body)
            .map_err(|_| Error::internal("AES-256-GCM failed"))?;
        Ok([&[VERSION], &nonce[..], &body, tag.as_ref()].concat())
    }

    /// Opens a note; whatever is wrong with it is `Unauthenticated`.
    pub fn open(&self, note: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        let wrong = || Error::new(ErrorKind::Unauthenticated, "a sealed note does not open");
        let (version, rest) = note.split_first().ok_or_else(wrong)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN).ok_or_else(wrong)?;
        if *version != VERSION || sealed.len() > NOTE_BYTES_MAX + AES_256_GCM.tag_len() {
            return Err(wrong());
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| wrong())?;
        let mut body = Zeroizing::new(sealed.to_vec());
        let length = self.0.open_in_place(nonce, Aad::from(&self.1), &mut body).map_err(|_| wrong())?.len();
        body.truncate(length);
        Ok(body)
    }
}

impl std::fmt::Debug for NoteKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NoteKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_opens_for_its_use_and_owner_alone() {
        let key = NoteKey::new(&[7; 32], "test", b"ana").expect("derives");
        let note = key.seal(b"hello").expect("seals");
        assert_eq!(&key.open(&note).expect("opens")[..], b"hello");
        for other in [([8; 32], "test", "ana"), ([7; 32], "text", "ana"), ([7; 32], "test", "ben")] {
            let other = NoteKey::new(&other.0, other.1, other.2.as_bytes()).expect("derives");
            assert!(other.open(&note).is_err());
        }
        for at in 0..note.len() {
            let mut flipped = note.clone();
            flipped[at] ^= 1;
            assert!(key.open(&flipped).is_err() && key.open(&note[..at]).is_err(), "{at}");
        }
        assert_ne!(key.seal(b"hello").expect("seals"), note);
    }
}
