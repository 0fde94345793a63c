//! What fuzz targets reach and nobody else is to: readers of what providers send.

use crate::Person;
use crate::keys::KeySet;
use crate::token::{Expected, check};

/// Reads what a provider publishes of itself; whether it is taken for that of `issuer`.
pub fn published(issuer: &str, bytes: &[u8]) -> bool {
    crate::provider::read_published(issuer, bytes).is_ok()
}

/// Checks a token by keys in JSON, and reads whom it is of.
pub fn token(keys: &[u8], token: &str, now_s: i64) -> Option<Person> {
    let keys: KeySet = serde_json::from_slice(keys).ok()?;
    let expected = Expected { issuer: "https://id.example", client: "drive", nonce: "n", now_s };
    let claims = check(token, &keys, &expected).ok()?;
    Person::of(&claims, expected.issuer, "preferred_username", "groups").ok()
}

/// Reads a person out of claims in JSON that were signed.
pub fn person(claims: &[u8]) -> Option<Person> {
    let claims = serde_json::from_slice(claims).ok()?;
    Person::of(&claims, "https://id.example", "preferred_username", "groups").ok()
}
