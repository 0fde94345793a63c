//! Credential slots: an account's private key, sealed for one credential.
//!
//! ```text
//! version 1 | kdf id 1 | kdf parameters                                      | nonce 12 | ciphertext 32, tag 16
//!             1 Argon2id:  memory KiB u32, passes u32, lanes u32, salt 16
//!             2 HKDF:      salt 16
//!             3 HPKE:      (none; in place of nonce and ciphertext: encapsulated key 32, ciphertext 32, tag 16)
//! ```
//!
//! Integers are little-endian. The associated data is `"holdfast slot v1"`, kind (1 byte), account uid (16), everything before
//! the nonce, and the lookup to the end: a slot moved to another account, kind or lookup, or one whose parameters were
//! changed, does not open. A wrong secret and a damaged ciphertext are the same to AES-GCM and get the same answer,
//! `Unauthenticated`; only bytes that are no slot at all are `Damaged`.

use super::kdf::{self, Argon2Params, SALT_BYTES};
use super::wrap::{HPKE_KEY_BYTES, labelled, open_with, seal_to};
use super::{AccountKey, KEY_BYTES, random_bytes};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use holdfast_base::{Error, ErrorKind, Result, Uid};
use zeroize::Zeroizing;

/// Format version of a slot.
const VERSION: u8 = 1;

/// Label at the head of the associated data.
const AAD_LABEL: &[u8] = b"holdfast slot v1";

/// Label that separates escrow from every other use of HPKE.
const ESCROW_INFO: &[u8] = b"holdfast escrow slot v1";

const KDF_ARGON2ID: u8 = 1;
const KDF_HKDF: u8 = 2;
const KDF_HPKE: u8 = 3;

/// Ciphertext of a private key with its tag.
const SEALED_KEY_BYTES: usize = KEY_BYTES + 16;

/// What a slot is opened with. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CredentialKind {
    /// A password a person chose: Argon2id.
    Password = 1,
    /// An app token: HKDF.
    Token = 2,
    /// The recovery code: HKDF.
    Recovery = 3,
    /// The operator's escrow key: HPKE.
    Escrow = 4,
    /// A browser's session: HKDF.
    Session = 5,
    /// The secret a passkey's authenticator yields: HKDF.
    Passkey = 6,
}

/// Where a slot belongs; authenticated with it.
#[derive(Debug, Clone, Copy)]
pub struct SlotContext<'a> {
    /// What opens it.
    pub kind: CredentialKind,
    /// Whose private key it holds.
    pub account: Uid,
    /// Public part of the credential by which it is found; empty if there is none.
    pub lookup: &'a str,
}

impl SlotContext<'_> {
    fn aad(&self, header: &[u8]) -> Vec<u8> {
        [AAD_LABEL, &[self.kind as u8], &self.account.0, header, self.lookup.as_bytes()].concat()
    }
}

/// Seals an account's private key for a secret. `params` are the cost for [`CredentialKind::Password`] and of no effect for
/// random secrets. A secret for [`CredentialKind::Escrow`] does not exist: that is [`seal_escrow_slot`].
pub fn seal_slot(context: SlotContext<'_>, secret: &[u8], key: &AccountKey, params: Argon2Params) -> Result<Vec<u8>> {
    seal_slot_with(context, secret, key, params, &random_bytes()?, random_bytes()?)
}

/// [`seal_slot`] with given salt and nonce: for test vectors.
pub(super) fn seal_slot_with(
    context: SlotContext<'_>,
    secret: &[u8],
    key: &AccountKey,
    params: Argon2Params,
    salt: &[u8; SALT_BYTES],
    nonce: [u8; NONCE_LEN],
) -> Result<Vec<u8>> {
    let mut slot = vec![VERSION];
    let sealing = match context.kind {
        CredentialKind::Password => {
            slot.push(KDF_ARGON2ID);
            for parameter in [params.memory_kib, params.passes, params.lanes] {
                slot.extend(parameter.to_le_bytes());
            }
            slot.extend(salt);
            kdf::argon2id(params, salt, secret)?
        }
        CredentialKind::Token | CredentialKind::Recovery | CredentialKind::Session | CredentialKind::Passkey => {
            slot.push(KDF_HKDF);
            slot.extend(salt);
            kdf::hkdf(salt, secret)?
        }
        CredentialKind::Escrow => return Err(Error::internal("an escrow slot is sealed to a key, not with a secret")),
    };
    let aad = context.aad(&slot);
    let mut sealed = Zeroizing::new(key.expose().to_vec());
    let tag = aead(&sealing)?
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), &mut sealed)
        .map_err(|_| Error::internal("AES-256-GCM failed"))?;
    slot.extend(nonce);
    slot.extend(sealed.iter());
    slot.extend(tag.as_ref());
    Ok(slot)
}

/// Opens a slot with its secret. A wrong secret, a slot of another place and a damaged ciphertext are all `Unauthenticated`; bytes
/// that are no slot, a newer version and costs over the limits are `Damaged`.
pub fn open_slot(context: SlotContext<'_>, secret: &[u8], slot: &[u8]) -> Result<AccountKey> {
    let parsed = Parsed::new(slot)?;
    let sealing = match (parsed.derivation, context.kind) {
        (Derivation::Argon2id(params, salt), CredentialKind::Password) => kdf::argon2id(params, salt, secret)?,
        (
            Derivation::Hkdf(salt),
            CredentialKind::Token | CredentialKind::Recovery | CredentialKind::Session | CredentialKind::Passkey,
        ) => kdf::hkdf(salt, secret)?,
        _ => return Err(damaged("is of another kind than it says")),
    };
    let (nonce, sealed) = parsed.body.split_at_checked(NONCE_LEN).ok_or_else(|| damaged("is cut short"))?;
    if sealed.len() != SEALED_KEY_BYTES {
        return Err(damaged("has the wrong length"));
    }
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged("is cut short"))?;
    let mut sealed = Zeroizing::new(sealed.to_vec());
    let private = aead(&sealing)?
        .open_in_place(nonce, Aad::from(context.aad(parsed.header)), &mut sealed)
        .map_err(|_| wrong_secret())?;
    account_key(private)
}

/// Seals an account's private key to the operator's escrow key.
pub fn seal_escrow_slot(escrow: &[u8; KEY_BYTES], account: Uid, key: &AccountKey) -> Result<Vec<u8>> {
    let context = SlotContext { kind: CredentialKind::Escrow, account, lookup: "" };
    let mut slot = vec![VERSION, KDF_HPKE];
    let sealed = seal_to(escrow, &labelled(ESCROW_INFO, account), &context.aad(&slot), key.expose())?;
    slot.extend(sealed);
    Ok(slot)
}

/// Opens an escrow slot with the operator's escrow key.
pub fn open_escrow_slot(escrow: &AccountKey, account: Uid, slot: &[u8]) -> Result<AccountKey> {
    let context = SlotContext { kind: CredentialKind::Escrow, account, lookup: "" };
    let parsed = Parsed::new(slot)?;
    let Derivation::Hpke = parsed.derivation else {
        return Err(damaged("is of another kind than it says"));
    };
    if parsed.body.len() != HPKE_KEY_BYTES {
        return Err(damaged("has the wrong length"));
    }
    open_with(escrow, &labelled(ESCROW_INFO, account), &context.aad(parsed.header), parsed.body)
        .map_err(|()| wrong_secret())
        .and_then(|private| account_key(&private[..]))
}

/// A slot cut into its parts; nothing in it is believed yet.
struct Parsed<'a> {
    derivation: Derivation<'a>,
    header: &'a [u8],
    body: &'a [u8],
}

#[derive(Clone, Copy)]
enum Derivation<'a> {
    Argon2id(Argon2Params, &'a [u8]),
    Hkdf(&'a [u8]),
    Hpke,
}

impl<'a> Parsed<'a> {
    fn new(slot: &'a [u8]) -> Result<Self> {
        let short = || damaged("is cut short");
        let (&[version, kdf], rest) = slot.split_first_chunk::<2>().ok_or_else(short)?;
        if version != VERSION {
            return Err(damaged(&format!("has format version {version}, which this program does not know")));
        }
        let (derivation, body) = match kdf {
            KDF_ARGON2ID => {
                let (memory_kib, rest) = read_u32(rest).ok_or_else(short)?;
                let (passes, rest) = read_u32(rest).ok_or_else(short)?;
                let (lanes, rest) = read_u32(rest).ok_or_else(short)?;
                let (salt, body) = rest.split_at_checked(SALT_BYTES).ok_or_else(short)?;
                (Derivation::Argon2id(Argon2Params { memory_kib, passes, lanes }, salt), body)
            }
            KDF_HKDF => {
                let (salt, body) = rest.split_at_checked(SALT_BYTES).ok_or_else(short)?;
                (Derivation::Hkdf(salt), body)
            }
            KDF_HPKE => (Derivation::Hpke, rest),
            other => return Err(damaged(&format!("has key derivation {other}, which this program does not know"))),
        };
        Ok(Self { derivation, header: &slot[..slot.len() - body.len()], body })
    }
}

fn read_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    bytes.split_first_chunk::<4>().map(|(number, rest)| (u32::from_le_bytes(*number), rest))
}

fn aead(key: &[u8; KEY_BYTES]) -> Result<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, key).map(LessSafeKey::new).map_err(|_| Error::internal("AES-256-GCM refused a key"))
}

fn account_key(private: &[u8]) -> Result<AccountKey> {
    AccountKey::from_private(private.try_into().map_err(|_| damaged("has the wrong length"))?)
}

fn damaged(how: &str) -> Error {
    Error::damaged(format!("a credential slot {how}"))
}

fn wrong_secret() -> Error {
    Error::new(ErrorKind::Unauthenticated, "the credential is wrong, or its slot is damaged")
}
