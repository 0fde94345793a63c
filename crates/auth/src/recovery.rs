//! Recovery codes: 160 random bits in seven groups of five, shown once, to be kept on paper.
//!
//! The code opens the account's recovery slot and so replaces a forgotten password. It is checked (see [`crate::base32`]),
//! so a typing mistake is reported as one. 160 bits need no slow hash; attempts over the network are limited all the same, as those of
//! passwords are, so that nobody learns at leisure which accounts there are.

use crate::attempts::AddressGroup;
use crate::base32;
use crate::{Authenticator, Reset, Secret};
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_seal::keys::random_bytes;
use std::fmt;
use std::net::IpAddr;
use zeroize::Zeroizing;

const CODE_BYTES: usize = 20;

/// A recovery code in clear.
pub struct RecoveryCode(Zeroizing<[u8; CODE_BYTES]>);

impl RecoveryCode {
    /// Makes a new random one.
    pub fn generate() -> Result<Self> {
        random_bytes().map(|bytes| Self(Zeroizing::new(bytes)))
    }

    /// Reads one, forgiving case, dashes, spaces and letters that look like digits.
    pub fn parse(text: &str) -> Result<Self> {
        base32::decode_checked(text)
            .map(Self)
            .map_err(|mistake| Error::invalid(format!("this is not a recovery code: {mistake}")))
    }

    /// What the slot's key is derived from.
    pub fn secret(&self) -> &[u8] {
        &*self.0
    }

    /// The text to be shown once.
    pub fn text(&self) -> Secret {
        Secret::new(base32::encode_checked(&*self.0).as_str())
    }
}

impl Authenticator {
    /// Replaces a forgotten password for somebody who shows the recovery code, which is replaced as well. An unknown account and a wrong code
    /// are both `Unauthenticated`; every session with the old password ends.
    pub async fn recover(&self, name: &str, code: &Secret, new: Secret, peer: Option<IpAddr>) -> Result<Reset> {
        let from = AddressGroup::of(peer);
        self.may_try(name, from).await?;
        let reset = self.accounts().reset_with_recovery_code(name, code, Some(new)).await;
        match &reset {
            Ok(_) => self.tried_well(name, from).await?,
            Err(error) if error.kind() == ErrorKind::Unauthenticated => self.tried_in_vain(name, from).await?,
            Err(_) => {}
        }
        reset
    }
}

impl fmt::Debug for RecoveryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryCode(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_seven_groups_of_five_and_reads_back_in_capitals_without_dashes() {
        let code = RecoveryCode::generate().expect("generate");
        let text = code.text();
        assert_eq!(text.expose().split('-').map(str::len).collect::<Vec<_>>(), [5; 7]);
        let typed = text.expose().replace('-', " ").replace('0', "O").replace('1', "I").to_uppercase();
        assert_eq!(RecoveryCode::parse(&typed).expect("parses").secret(), code.secret());
    }

    #[test]
    fn a_missing_letter_is_explained() {
        let text = RecoveryCode::generate().expect("generate").text();
        let error = RecoveryCode::parse(&text.expose()[1..]).expect_err("short");
        assert!(error.message().contains("35 letters and digits, here are 34"), "{error}");
    }
}
