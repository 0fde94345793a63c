//! App tokens: `hf_<lookup>_<secret>`, lower-case base32. A browser's session has a secret of the same make, `hfs_…`.
//!
//! The lookup (80 random bits) finds the slot and is kept in clear; the secret (256 random bits) opens it. Both come from
//! the generator, so a token needs no slow hash, cannot be guessed, and is not limited in its attempts. The prefix tells a
//! person, and a scanner for leaked secrets, what it is.

use crate::Secret;
use crate::base32;
use holdfast_base::Result;
use holdfast_seal::keys::random_bytes;
use std::fmt;
use zeroize::Zeroizing;

/// How every token begins.
pub const TOKEN_PREFIX: &str = "hf_";
/// How the secret of every session begins.
const SESSION_PREFIX: &str = "hfs_";
/// How the secret of every visit of a link begins.
const VISIT_PREFIX: &str = "hfv_";

const LOOKUP_BYTES: usize = 10;
const SECRET_BYTES: usize = 32;

/// An app token, or the secret of a session, in clear.
pub struct Token {
    prefix: &'static str,
    lookup: String,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

impl Token {
    /// Makes a new random app token.
    pub fn generate() -> Result<Self> {
        Self::generate_with(TOKEN_PREFIX)
    }

    /// Makes a new random secret of a session.
    pub fn generate_session() -> Result<Self> {
        Self::generate_with(SESSION_PREFIX)
    }

    /// Makes a new random secret of a visit.
    pub(crate) fn generate_visit() -> Result<Self> {
        Self::generate_with(VISIT_PREFIX)
    }

    /// Reads the secret of a visit; none if the text is not of this form.
    pub(crate) fn parse_visit(text: &str) -> Option<Self> {
        Self::parse_with(VISIT_PREFIX, text)
    }

    /// Reads an app token; none if the text is not of this form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_with(TOKEN_PREFIX, text)
    }

    /// Reads the secret of a session; none if the text is not of this form.
    pub fn parse_session(text: &str) -> Option<Self> {
        Self::parse_with(SESSION_PREFIX, text)
    }

    fn generate_with(prefix: &'static str) -> Result<Self> {
        let lookup = base32::encode(&random_bytes::<LOOKUP_BYTES>()?).as_str().to_owned();
        Ok(Self { prefix, lookup, secret: Zeroizing::new(random_bytes()?) })
    }

    fn parse_with(prefix: &'static str, text: &str) -> Option<Self> {
        let (lookup, secret) = text.trim().strip_prefix(prefix)?.split_once('_')?;
        let lookup = base32::encode(&*base32::decode::<LOOKUP_BYTES>(lookup).ok()?).as_str().to_owned();
        Some(Self { prefix, lookup, secret: base32::decode(secret).ok()? })
    }

    /// The public part, by which its slot is found.
    pub fn lookup(&self) -> &str {
        &self.lookup
    }

    /// The secret part, which opens the slot.
    pub fn secret(&self) -> &[u8] {
        &*self.secret
    }

    /// The text to be shown once.
    pub fn text(&self) -> Secret {
        Secret::new(format!("{}{}_{}", self.prefix, self.lookup, base32::encode(&*self.secret).as_str()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("lookup", &self.lookup).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_says_what_it_is() {
        let token = Token::generate().expect("generate");
        let text = token.text();
        assert!(text.expose().starts_with("hf_") && text.expose().len() == 3 + 16 + 1 + 52, "{}", text.expose());
        let again = Token::parse(text.expose()).expect("parses");
        assert_eq!((again.lookup(), again.secret()), (token.lookup(), token.secret()));
    }

    #[test]
    fn a_session_s_secret_is_no_app_token_and_the_other_way_round() {
        let session = Token::generate_session().expect("generate").text();
        assert!(Token::parse(session.expose()).is_none() && Token::parse_session(session.expose()).is_some());
        assert!(Token::parse_session(Token::generate().expect("generate").text().expose()).is_none());
    }

    #[test]
    fn anything_else_is_no_token() {
        let cut = Token::generate().expect("generate").text().expose()[..60].to_owned();
        for text in ["", "hf_", "hf__", "hf_a_b", "correct horse battery staple", &cut] {
            assert!(Token::parse(text).is_none(), "{text:?}");
        }
    }
}
