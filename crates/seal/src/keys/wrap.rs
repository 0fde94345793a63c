//! Wrapping a key to a public key: HPKE (RFC 9180), base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM.
//!
//! A wrapped space key is 81 bytes: format version (1), HPKE's encapsulated key (32), AES-256-GCM ciphertext of the space's
//! key with its tag (48). HPKE's `info` is `"holdfast space key v1"` followed by the space's uid, so that a wrapped key does
//! not open under another space; its `aad` is the version byte. HPKE in base mode does not say who wrapped: see the limits
//! in [`super`].

use super::{AccountKey, KEY_BYTES, SpaceKey};
use holdfast_base::{Error, Result, Uid};
use rustls::crypto::aws_lc_rs::hpke::DH_KEM_X25519_HKDF_SHA256_AES_256 as SUITE;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke, HpkePrivateKey, HpkePublicKey};
use zeroize::Zeroizing;

/// Format version of a wrapped space key.
const VERSION: u8 = 1;

/// Label that separates this use of HPKE from every other.
const SPACE_KEY_INFO: &[u8] = b"holdfast space key v1";

/// Bytes of HPKE's encapsulated X25519 key.
const ENCAPSULATED_BYTES: usize = 32;

/// Bytes HPKE adds to 32 bytes of key: the encapsulated key and the AES-GCM tag.
pub(super) const HPKE_KEY_BYTES: usize = ENCAPSULATED_BYTES + KEY_BYTES + 16;

/// Length of a wrapped space key.
pub const WRAPPED_KEY_BYTES: usize = 1 + HPKE_KEY_BYTES;

/// Wraps a space's data key to a member's public key.
pub fn wrap_space_key(public: &[u8; KEY_BYTES], space: Uid, key: &SpaceKey) -> Result<Vec<u8>> {
    let mut wrapped = Vec::with_capacity(WRAPPED_KEY_BYTES);
    wrapped.push(VERSION);
    wrapped.extend(seal_to(public, &labelled(SPACE_KEY_INFO, space), &[VERSION], key.expose())?);
    Ok(wrapped)
}

pub(super) fn unwrap_space_key(account: &AccountKey, space: Uid, wrapped: &[u8]) -> Result<SpaceKey> {
    match wrapped.split_first() {
        Some((&VERSION, sealed)) if wrapped.len() == WRAPPED_KEY_BYTES => {
            let key = open_with(account, &labelled(SPACE_KEY_INFO, space), &[VERSION], sealed).map_err(|()| {
                Error::damaged(
                    "the key of this space does not open with the key of this account: one of them is damaged",
                )
            })?;
            Ok(SpaceKey::from_bytes(*key))
        }
        Some((&version, _)) if version > VERSION => Err(Error::damaged(format!(
            "the wrapped key of this space has format version {version}, which this program is too old to read"
        ))),
        _ => Err(Error::damaged("the wrapped key of this space is damaged")),
    }
}

/// An HPKE `info`: a label and the uid of what the key belongs to.
pub(super) fn labelled(label: &[u8], uid: Uid) -> Vec<u8> {
    [label, &uid.0].concat()
}

/// Seals 32 bytes to `public`: encapsulated key, ciphertext, tag.
pub(super) fn seal_to(public: &[u8; KEY_BYTES], info: &[u8], aad: &[u8], key: &[u8; KEY_BYTES]) -> Result<Vec<u8>> {
    // Fails for a public key of low order (RFC 9180 section 7.1.4), which no honest account has.
    let (EncapsulatedSecret(mut sealed), ciphertext) = SUITE
        .seal(info, aad, key, &HpkePublicKey(public.to_vec()))
        .map_err(|error| Error::damaged("a key cannot be wrapped to this public key").with_source(error))?;
    sealed.extend(ciphertext);
    Ok(sealed)
}

/// Opens what [`seal_to`] made. Says no more than that it failed: the caller knows what it means.
pub(super) fn open_with(
    account: &AccountKey,
    info: &[u8],
    aad: &[u8],
    sealed: &[u8],
) -> Result<Zeroizing<[u8; KEY_BYTES]>, ()> {
    let (encapsulated, ciphertext) = sealed.split_at_checked(ENCAPSULATED_BYTES).ok_or(())?;
    let private = HpkePrivateKey::from(account.expose().to_vec());
    let opened = SUITE
        .open(&EncapsulatedSecret(encapsulated.to_vec()), info, aad, ciphertext, &private)
        .map(Zeroizing::new)
        .map_err(|_| ())?;
    <[u8; KEY_BYTES]>::try_from(opened.as_slice()).map(Zeroizing::new).map_err(|_| ())
}
