//! What browsers, visitors, authenticators, providers and publishers send.

mod people;
mod places;
mod site;
mod uploads;

pub use people::{oidc, passkeys, tickets};
pub use places::{cookies, places, words};
pub use site::site;
pub use uploads::tus;

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 8] = [
    ("cookies", cookies),
    ("oidc", oidc),
    ("passkeys", passkeys),
    ("places", places),
    ("site", site),
    ("tickets", tickets),
    ("tus", tus),
    ("words", words),
];

/// A header's value, where bytes can be one.
fn value(bytes: &[u8]) -> Option<http::HeaderValue> {
    http::HeaderValue::from_bytes(bytes).ok()
}

/// So many parts of an input, which a line of its own parts; those that are missing are empty.
fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    const BETWEEN: &[u8] = b"\n%%\n";
    let (mut parts, mut rest) = ([&[][..]; N], data);
    for part in &mut parts {
        let end = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN);
        *part = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[][..], |end| &rest[end + BETWEEN.len()..]);
    }
    parts
}
