//! App tokens: `hf_<lookup>_<secret>`, lower-case base32.
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

const LOOKUP_BYTES: usize = 10;
const SECRET_BYTES: usize = 32;

/// An app token in clear.
pub struct Token {
    lookup: String,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

impl Token {
    /// Makes a new random one.
    pub fn generate() -> Result<Self> {
        let lookup = base32::encode(&random_bytes::<LOOKUP_BYTES>()?).as_str().to_owned();
        Ok(Self { lookup, secret: Zeroizing::new(random_bytes()?) })
    }

    /// Reads one; none if the text is not of this form.
    pub fn parse(text: &str) -> Option<Self> {
        let (lookup, secret) = text.trim().strip_prefix(TOKEN_PREFIX)?.split_once('_')?;
        let lookup = base32::encode(&*base32::decode::<LOOKUP_BYTES>(lookup).ok()?).as_str().to_owned();
        Some(Self { lookup, secret: base32::decode(secret).ok()? })
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
        Secret::new(format!("{TOKEN_PREFIX}{}_{}", self.lookup, base32::encode(&*self.secret).as_str()))
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
    fn anything_else_is_no_token() {
        let cut = Token::generate().expect("generate").text().expose()[..60].to_owned();
        for text in ["", "hf_", "hf__", "hf_a_b", "correct horse battery staple", &cut] {
            assert!(Token::parse(text).is_none(), "{text:?}");
        }
    }
}
