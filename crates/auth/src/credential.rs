//! What a request presents: a name and a secret (HTTP Basic, RFC 7617), or a secret alone (Bearer, RFC 6750; a session's cookie).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_base::{Error, Result};
use std::fmt;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// A password, token or code in clear: overwritten when dropped, never printed.
#[derive(Clone, PartialEq, Eq, ZeroizeOnDrop)]
pub struct Secret(String);

impl Secret {
    /// Takes a text over.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A credential as presented.
#[derive(Debug, Clone)]
pub enum Credential {
    /// An account's name with its password or one of its app tokens.
    Basic {
        /// The account's name.
        name: String,
        /// Password or app token.
        secret: Secret,
    },
    /// An app token, which names its account itself.
    Bearer(Secret),
    /// The secret of a browser's session, from its cookie.
    Cookie(Secret),
}

impl Credential {
    /// Reads the value of an `Authorization` header. A scheme that is not spoken here, and anything malformed, is
    /// `InvalidInput`: faces answer it like a missing header.
    pub fn from_authorization(value: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(value).map_err(|_| malformed())?;
        let (scheme, rest) = text.trim().split_once(' ').ok_or_else(malformed)?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Self::Bearer(Secret::new(rest.trim())));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(Error::invalid("only the Basic and Bearer schemes of Authorization are spoken here"));
        }
        let decoded = Zeroizing::new(STANDARD.decode(rest.trim()).map_err(|_| malformed())?);
        let decoded = std::str::from_utf8(&decoded).map_err(|_| malformed())?;
        let (name, secret) = decoded.split_once(':').ok_or_else(malformed)?;
        Ok(Self::Basic { name: name.to_owned(), secret: Secret::new(secret) })
    }

    /// The secret.
    pub const fn secret(&self) -> &Secret {
        match self {
            Self::Basic { secret, .. } | Self::Bearer(secret) | Self::Cookie(secret) => secret,
        }
    }
}

fn malformed() -> Error {
    Error::invalid("the Authorization header is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_and_bearer_are_read() {
        let basic = Credential::from_authorization(b"Basic QWxhZGRpbjpvcGVuOnNlc2FtZQ==").expect("reads");
        let Credential::Basic { name, secret } = basic else { panic!("not Basic") };
        assert_eq!((name.as_str(), secret.expose()), ("Aladdin", "open:sesame"));
        let bearer = Credential::from_authorization(b"bearer  abc").expect("reads");
        assert_eq!(bearer.secret().expose(), "abc");
    }

    #[test]
    fn malformed_headers_are_refused() {
        for value in ["", "Basic", "Basic !!", "Basic YWJj", "Basic /w==", "Digest a=b", "Bearer"] {
            assert!(Credential::from_authorization(value.as_bytes()).is_err(), "{value:?}");
        }
        assert!(Credential::from_authorization(&[0xff, b' ', 0xff]).is_err());
    }

    #[test]
    fn secrets_are_not_printed() {
        let basic = Credential::Basic { name: "ann".into(), secret: Secret::new("hush-hush") };
        let shown = format!("{basic:?} {:?}", Credential::Bearer(Secret::new("hush-hush")));
        assert!(!shown.contains("hush"), "{shown}");
    }
}
