//! The operator's escrow key: opens any account, if the operator switched escrow on before the account's last sign-in.
//!
//! Its public part stands in the configuration, and every account then gets an escrow slot, visible to its owner. Its private
//! part is printed once and kept outside the server; it is typed in only to reset a lost password.

use crate::Secret;
use crate::base32;
use holdfast_base::{Error, Result};
use holdfast_seal::AccountKey;
use std::fmt;

/// How the private part's text begins, so that nobody takes it for a token or pastes it into the configuration unnoticed.
const PRIVATE_PREFIX: &str = "hf-escrow-";

/// How the public part's text begins.
const PUBLIC_PREFIX: &str = "hf-escrow-public-";

/// An escrow key pair.
pub struct EscrowKey(AccountKey);

impl EscrowKey {
    /// Makes a new random one.
    pub fn generate() -> Result<Self> {
        AccountKey::generate().map(|(key, _)| Self(key))
    }

    /// Reads the private part.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.starts_with(PUBLIC_PREFIX) {
            return Err(Error::invalid("this is the public part of the escrow key; the private part is needed here"));
        }
        let text = text.strip_prefix(PRIVATE_PREFIX).ok_or_else(|| {
            Error::invalid(format!("this is not an escrow key: its private part begins with {PRIVATE_PREFIX}"))
        })?;
        let private = base32::decode_checked(text)
            .map_err(|mistake| Error::invalid(format!("this is not an escrow key: {mistake}")))?;
        AccountKey::from_private(&private).map(Self)
    }

    /// The private part as text, to be shown once.
    pub fn text(&self) -> Secret {
        Secret::new(format!("{PRIVATE_PREFIX}{}", base32::encode_checked(self.0.expose()).as_str()))
    }

    /// The public part as text, for the configuration.
    pub fn public_text(&self) -> String {
        format!("{PUBLIC_PREFIX}{}", base32::encode_checked(&self.0.public()).as_str())
    }

    /// Reads the public part, for [`AuthOptions::escrow_public_key`](crate::AuthOptions::escrow_public_key).
    pub fn parse_public(text: &str) -> Result<[u8; 32]> {
        let text = text.trim().strip_prefix(PUBLIC_PREFIX).ok_or_else(|| {
            Error::invalid(format!("this is not an escrow key: its public part begins with {PUBLIC_PREFIX}"))
        })?;
        base32::decode_checked(text)
            .map(|public| *public)
            .map_err(|mistake| Error::invalid(format!("this is not an escrow public key: {mistake}")))
    }

    /// The public part.
    pub const fn public(&self) -> [u8; 32] {
        self.0.public()
    }

    pub(crate) const fn key(&self) -> &AccountKey {
        &self.0
    }
}

/// The label of a slot that is sealed to this escrow key: it tells keys apart after the operator made a new one.
pub(crate) fn label(public: &[u8; 32]) -> String {
    format!("escrow {}", &blake3::hash(public).to_hex()[..16])
}

impl fmt::Debug for EscrowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EscrowKey({}, …)", self.public_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_read_back_and_are_not_mistaken_for_each_other() {
        let key = EscrowKey::generate().expect("generate");
        let again = EscrowKey::parse(key.text().expose()).expect("parses");
        assert_eq!(again.public_text(), key.public_text());
        assert_eq!(EscrowKey::parse_public(&key.public_text()).expect("parses"), key.key().public());
        assert!(EscrowKey::parse(&key.public_text()).expect_err("public").message().contains("private part is needed"));
        assert!(EscrowKey::parse_public(key.text().expose()).is_err());
        assert!(!format!("{key:?}").contains(&key.text().expose()[10..]));
    }
}
