//! The cookie of a browser's session: its name, how it is read, and how it is set.
//!
//! Over TLS its name begins with `__Host-`, so that no other host and no unencrypted answer can set one in its place; over plain HTTP,
//! where the operator allows passwords at all, browsers refuse that name and it goes without. Each connection knows its own name
//! only: a cookie planted over plain HTTP is nothing over TLS.

use holdfast_auth::Secret;
use holdfast_auth::accounts::SESSION_REMEMBERED_MS;
use holdfast_base::{Error, Result, Uid};
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use std::net::IpAddr;

/// Longest value that is looked at; ours are 75 bytes.
const VALUE_BYTES_MAX: usize = 128;

/// Who sends a request, as the server in front knows it; it puts this into the request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct Visitor {
    /// The client's address.
    pub address: IpAddr,
    /// Whether what it sends is encrypted on its way.
    pub encrypted: bool,
}

/// The cookie that holds a sign-in by a provider together: it lives for as long as the sign-in may take.
const FLOW_SECONDS: i64 = 600;

/// Longest value of that cookie.
const FLOW_BYTES_MAX: usize = 3 << 10;

const fn flow_name(encrypted: bool) -> &'static str {
    if encrypted { "__Host-holdfast-flow" } else { "holdfast-flow" }
}

const fn name(encrypted: bool) -> &'static str {
    if encrypted { "__Host-holdfast" } else { "holdfast" }
}

/// The cookie of a visit of a link: one a link, beside the member's own.
fn link_name(encrypted: bool, link: Uid) -> String {
    format!("{}-link-{link}", name(encrypted))
}

/// The session's secret, if the request has exactly one such cookie. Two are of somebody who planted one: neither counts.
pub fn read(headers: &HeaderMap, encrypted: bool) -> Option<Secret> {
    read_named(headers, name(encrypted), VALUE_BYTES_MAX)
}

/// The secret of the visit of a link, likewise.
pub fn read_link(headers: &HeaderMap, encrypted: bool, link: Uid) -> Option<Secret> {
    read_named(headers, &link_name(encrypted, link), VALUE_BYTES_MAX)
}

/// What a sign-in by a provider began with in this browser.
pub(crate) fn read_flow(headers: &HeaderMap, encrypted: bool) -> Option<Secret> {
    read_named(headers, flow_name(encrypted), FLOW_BYTES_MAX)
}

/// The header that keeps it; none takes it away.
pub(crate) fn set_flow(visitor: Visitor, value: Option<&str>) -> Result<HeaderValue> {
    let seconds = if value.is_some() { FLOW_SECONDS } else { 0 };
    header(flow_name(visitor.encrypted), visitor, value.unwrap_or_default(), Some(seconds))
}

fn read_named(headers: &HeaderMap, name: &str, bytes_max: usize) -> Option<Secret> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut found = values
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter_map(|(key, value)| (key == name).then_some(value));
    let value = found.next().filter(|value| !value.is_empty() && value.len() <= bytes_max)?;
    found.next().is_none().then(|| Secret::new(value))
}

/// The header that hands a session to the browser: for the time it stays open, or for the session's whole time.
pub(crate) fn set(visitor: Visitor, secret: &Secret, remember: bool) -> Result<HeaderValue> {
    let lasts = if remember { Some(SESSION_REMEMBERED_MS / 1_000) } else { None };
    header(name(visitor.encrypted), visitor, secret.expose(), lasts)
}

/// The header that hands the visit of a link to the browser, for the time it stays open.
pub(crate) fn set_link(visitor: Visitor, link: Uid, secret: &Secret) -> Result<HeaderValue> {
    header(&link_name(visitor.encrypted, link), visitor, secret.expose(), None)
}

/// The header that takes that away.
pub(crate) fn clear_link(visitor: Visitor, link: Uid) -> Result<HeaderValue> {
    header(&link_name(visitor.encrypted, link), visitor, "", Some(0))
}

/// The header that takes it away.
pub(crate) fn clear(visitor: Visitor) -> Result<HeaderValue> {
    header(name(visitor.encrypted), visitor, "", Some(0))
}

fn header(name: &str, visitor: Visitor, value: &str, seconds: Option<i64>) -> Result<HeaderValue> {
    let age = seconds.map_or_else(String::new, |seconds| format!("; Max-Age={seconds}"));
    let secure = if visitor.encrypted { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/{age}; HttpOnly; SameSite=Strict{secure}");
    let mut header = HeaderValue::try_from(text)
        .map_err(|error| Error::internal("a session's cookie cannot be written").with_source(error))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(COOKIE, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_cookie_is_read_by_the_name_of_its_connection_and_only_if_it_is_the_only_one() {
        let both = of(&["a=1; holdfast=plain", "__Host-holdfast=tls"]);
        assert_eq!(read(&both, false).expect("is there").expose(), "plain");
        assert_eq!(read(&both, true).expect("is there").expose(), "tls");
        assert!(read(&of(&["holdfast=a; holdfast=b"]), false).is_none());
        assert!(read(&of(&["holdfast="]), false).is_none());
        assert!(read(&of(&["holdfastx=a", "x"]), false).is_none());
    }

    #[test]
    fn a_cookie_is_for_this_host_alone_and_not_for_scripts() {
        let visitor = Visitor { address: [127, 0, 0, 1].into(), encrypted: true };
        let kept = set(visitor, &Secret::new("x"), true).expect("writes");
        assert_eq!(kept, "__Host-holdfast=x; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure");
        let plain = Visitor { encrypted: false, ..visitor };
        assert_eq!(
            set(plain, &Secret::new("x"), false).expect("writes"),
            "holdfast=x; Path=/; HttpOnly; SameSite=Strict"
        );
        assert_eq!(clear(plain).expect("writes"), "holdfast=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    }
}
