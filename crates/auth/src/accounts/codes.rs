//! One-time codes as a second factor (RFC 6238), and what an administrator can do about factors.
//!
//! The secret of the codes is sealed under the account's own key: whoever has the catalogue cannot make codes, and the server can check one
//! only after the password has opened that key. Until the first code proved that the authenticator has the secret, it is in a
//! sealed ticket that the page holds, and nowhere else.

use super::Accounts;
use crate::{Secret, Session, ticket};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_base::{AccountId, Error, ErrorKind, Result};
use holdfast_meta::{Factors, Totp};
use holdfast_seal::keys::random_bytes;
use holdfast_seal::note::NoteKey;
use holdfast_seal::proof::{CODE_DIGITS, STEP_S, step_of_code};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Bytes of a secret: what RFC 4226 recommends for HMAC-SHA-1.
const SECRET_BYTES: usize = 20;

/// Between the secret's making and the code that proves it: 15 minutes.
const ENROL_MS: i64 = 15 * 60_000;

const SECRET_LABEL: &str = "one-time codes";
const ENROL_LABEL: &str = "one-time codes, to be confirmed";

/// RFC 4648, which authenticators read.
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Codes about to be switched on.
#[derive(Debug)]
pub struct NewCodes {
    /// The secret, in base32, for who types it.
    pub secret: Secret,
    /// The same with names, as a QR code has it (`otpauth://…`).
    pub uri: Secret,
    /// To be handed back with the first code.
    pub ticket: String,
}

#[derive(Serialize, Deserialize)]
struct Enrolment {
    secret: String,
}

impl Accounts {
    /// What an account signs in with besides its password.
    pub async fn factors(&self, account: AccountId) -> Result<Factors> {
        self.catalogue.factors(account).await
    }

    /// Makes the secret of new codes.
    pub async fn begin_codes(&self, who: &Session) -> Result<NewCodes> {
        who.require_full()?;
        if self.catalogue.factors(who.account).await?.totp.is_some() {
            return Err(Error::new(ErrorKind::AlreadyExists, "codes are switched on already: switch them off first"));
        }
        let secret = Zeroizing::new(random_bytes::<SECRET_BYTES>()?);
        let enrolment = Enrolment { secret: URL_SAFE_NO_PAD.encode(&secret[..]) };
        let key = NoteKey::of_account(who.key(), ENROL_LABEL)?;
        let ticket = ticket::seal(&key, enrolment, self.clock.now_ms().saturating_add(ENROL_MS))?;
        let text = base32(&secret[..]);
        let name = percent_encoding::utf8_percent_encode(&who.name, percent_encoding::NON_ALPHANUMERIC);
        let uri = format!(
            "otpauth://totp/Holdfast:{name}?secret={text}&issuer=Holdfast&algorithm=SHA1&digits={CODE_DIGITS}&period={STEP_S}"
        );
        Ok(NewCodes { secret: Secret::new(text), uri: Secret::new(uri), ticket })
    }

    /// Switches codes on, proven by the first one.
    pub async fn confirm_codes(&self, who: &Session, ticket: &str, code: &Secret) -> Result<()> {
        who.require_full()?;
        let now_ms = self.clock.now_ms();
        let key = NoteKey::of_account(who.key(), ENROL_LABEL)?;
        let (_, enrolment) = ticket::open::<Enrolment>(&key, ticket, now_ms)
            .map_err(|_| Error::conflict("this took too long: begin again, with a new secret"))?;
        let secret = URL_SAFE_NO_PAD.decode(enrolment.secret).map(Zeroizing::new);
        let secret = secret.map_err(|_| Error::internal("a ticket of ours is not what it was"))?;
        let step = step_of_code(&secret, &digits(code), now_ms).ok_or_else(|| {
            Error::invalid(
                "this code is not right: look at the present one, and whether the clock of your device is right",
            )
        })?;
        let sealed = NoteKey::of_account(who.key(), SECRET_LABEL)?.seal(&secret)?;
        self.catalogue.put_totp(who.account, sealed, step, now_ms).await
    }

    /// Switches codes off. The caller has made sure that it may: see [`crate::Authenticator::check_second`].
    pub async fn remove_codes(&self, who: &Session) -> Result<()> {
        who.require_full()?;
        self.catalogue.remove_totp(who.account).await
    }

    /// Removes every second factor and passkey of an account, for an administrator: its owner signs in with the password alone again. Opens no
    /// key: without the password it helps nobody.
    pub async fn reset_factors(&self, name: &str) -> Result<()> {
        let account = self.get(name).await?;
        self.catalogue.remove_factors(account.id).await
    }

    /// Whether a code is right and was not used; using it up.
    pub(crate) async fn use_code(&self, who: &Session, totp: &Totp, code: &Secret) -> Result<bool> {
        let secret = NoteKey::of_account(who.key(), SECRET_LABEL)?.open(&totp.sealed);
        let secret =
            secret.map_err(|error| Error::damaged("the secret of the codes does not open").with_source(error))?;
        match step_of_code(&secret, &digits(code), self.clock.now_ms()) {
            Some(step) if step > totp.last_step => self.catalogue.use_totp(who.account, step).await,
            _ => Ok(false),
        }
    }
}

/// A code as typed, without the gap that authenticators show in its middle.
fn digits(code: &Secret) -> Zeroizing<String> {
    Zeroizing::new(code.expose().chars().filter(|letter| !letter.is_whitespace()).take(CODE_DIGITS + 1).collect())
}

fn base32(bytes: &[u8]) -> String {
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    let symbol = |start: usize| (start..start + 5).fold(0u8, |value, at| value << 1 | bit(at));
    (0..bytes.len() * 8).step_by(5).map(|start| char::from(BASE32[usize::from(symbol(start))])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_written_as_rfc_4648_says() {
        assert_eq!([base32(b"f"), base32(b"fooba"), base32(b"foobar")], ["MY", "MZXW6YTB", "MZXW6YTBOI"]);
    }
}
