//! Who may come in: credentials of a request, and over which kind of connection they may be sent.
//!
//! A password that crosses a network in clear is a password somebody else has, so it is refused before it is looked at,
//! with an explanation instead of a challenge (a challenge would make the client send it again). Exempt are clients on this
//! machine, clients of a trusted proxy that spoke https to them, and everybody if the operator says so.

use crate::peer::Client;
use holdfast_auth::Credential;
use holdfast_base::{Error, Result};
use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Longest `Authorization` value that is decoded: a name of 64 bytes and any password somebody types or a manager makes.
const AUTHORIZATION_BYTES_MAX: usize = 4 << 10;

/// Reads the credential, if there is one. More than one, or one that cannot be read, is an error.
pub(crate) fn credential(headers: &HeaderMap) -> Result<Option<Credential>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bad = |message: &str| Error::invalid(format!("the Authorization header {message}"));
    if values.next().is_some() {
        return Err(bad("is there twice"));
    }
    if value.len() > AUTHORIZATION_BYTES_MAX {
        return Err(bad("is too long"));
    }
    Credential::from_authorization(value.as_bytes()).map(Some)
}

/// Whether a credential may be sent over this client's connection.
pub(crate) fn check_transport(client: &Client, allow_plain_http: bool) -> Result<()> {
    if client.encrypted || client.local || allow_plain_http {
        return Ok(());
    }
    if client.unknown_proxy && client.address.is_loopback() {
        return Err(Error::forbidden(
            "This request came through a proxy this server does not know. Its administrator can name the proxy in trusted_proxies.",
        ));
    }
    Err(Error::forbidden(
        "Passwords are not accepted over an unencrypted connection: use the https address. (The administrator of this server can \
         set it up with tls.cert and tls.key or tls.self_signed, name an https proxy in trusted_proxies, or set \
         allow_plain_http.) The password just sent may have been seen on the way: change it.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::ErrorKind;
    use http::HeaderValue;

    fn headers(value: &str) -> HeaderMap {
        let value = HeaderValue::from_str(value).expect("header");
        std::iter::once((AUTHORIZATION, value)).collect()
    }

    fn client(address: &str, encrypted: bool, local: bool) -> Client {
        Client { address: address.parse().expect("ip"), encrypted, local, unknown_proxy: false }
    }

    #[test]
    fn an_authorization_header_that_is_there_twice_or_far_too_long_is_refused() {
        let mut twice = headers("Bearer a");
        twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        assert!(credential(&twice).is_err());
        assert!(credential(&headers(&format!("Bearer {}", "A".repeat(8_192)))).is_err());
        assert!(credential(&HeaderMap::new()).expect("reads").is_none());
    }

    #[test]
    fn a_password_in_clear_is_taken_from_this_machine_only_unless_the_operator_says_otherwise() {
        assert!(check_transport(&client("127.0.0.1", false, true), false).is_ok());
        assert!(check_transport(&client("203.0.113.9", true, false), false).is_ok());
        assert!(check_transport(&client("203.0.113.9", false, false), true).is_ok());
        let refused = check_transport(&client("203.0.113.9", false, false), false).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::Forbidden);
        assert!(refused.message().contains("https"), "{refused}");
    }
}
