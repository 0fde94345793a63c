//! Where things are in a site's space.
//!
//! ```text
//! settings.json         hosts, path, access, keys: changed by `site set`
//! live.json             the pointer: which snapshot is live, and which will be
//! snapshots/ID.json     one index a snapshot, never changed
//! objects/HASH          content of any snapshot, named by its keyed hash, never changed
//! history/ID.json       what was done when and by whom
//! incoming/ID           content that is still being copied
//! ```
//!
//! Names in a catalogue are in clear, so they must not tell content: the hash is keyed with a random key of the site.

use holdfast_base::{DrivePath, Error, Result};
use holdfast_drive::Location;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a site's space is called: this and the site's name.
pub const SPACE_PREFIX: &str = "site.";

pub(crate) const SETTINGS: &str = "settings.json";
pub(crate) const LIVE: &str = "live.json";
pub(crate) const SNAPSHOTS: &str = "snapshots";
pub(crate) const OBJECTS: &str = "objects";
pub(crate) const HISTORY: &str = "history";
pub(crate) const INCOMING: &str = "incoming";

/// Longest name of a site: with the prefix it must fit a space's name.
pub const NAME_BYTES_MAX: usize = 48;

/// Checks a site's name: lower-case letters, digits and dashes, so that it is a DNS label as well.
pub fn check_name(name: &str) -> Result<()> {
    let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('-') && !name.ends_with('-');
    if fits && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{name:?} cannot be a site's name: use 1 to {NAME_BYTES_MAX} lower-case letters, digits and dashes (not at its ends)"
    )))
}

/// The space of a site.
pub fn space_of(site: &str) -> String {
    format!("{SPACE_PREFIX}{site}")
}

/// A place in a site's space.
pub(crate) fn at(space: &str, path: &str) -> Result<Location> {
    Ok(Location { space: space.to_owned(), path: DrivePath::parse(path)? })
}

/// A content's name: its keyed BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 32]);

impl ObjectId {
    /// The id of bytes at hand.
    pub fn of(key: &[u8; 32], bytes: &[u8]) -> Self {
        Self(*blake3::keyed_hash(key, bytes).as_bytes())
    }

    /// Its path in the space.
    pub(crate) fn path(&self) -> String {
        format!("{OBJECTS}/{self}")
    }

    /// The entity tag of this content: half of the hash is as unique as anything else here.
    pub fn entity_tag(&self) -> String {
        format!("\"{}\"", &self.to_string()[..32])
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ObjectId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hash = blake3::Hash::from_hex(text.as_bytes()).map_err(serde::de::Error::custom)?;
        Ok(Self(*hash.as_bytes()))
    }
}

/// The name of the snapshot after `newest`: a number, so that order does not hang on anybody's clock, and a random part, so that
/// two publishers at once do not take the same.
pub(crate) fn next_snapshot(newest: Option<&str>) -> Result<String> {
    let number = newest.and_then(|name| name.split('-').next()?.parse::<u64>().ok()).unwrap_or(0).saturating_add(1);
    let random: [u8; 4] = holdfast_seal::keys::random_bytes()?;
    Ok(format!("{number:08}-{:08x}", u32::from_be_bytes(random)))
}

/// A new name for a history entry: its time to the millisecond, sortable, and a random part.
pub(crate) fn new_id(now_ms: i64) -> Result<String> {
    let random: [u8; 4] = holdfast_seal::keys::random_bytes()?;
    let mut date = String::new();
    holdfast_http::dates::push_rfc3339(&mut date, now_ms);
    let digits: String = date.chars().filter(char::is_ascii_alphanumeric).collect();
    let (second, ms) = (digits.to_lowercase(), now_ms.rem_euclid(1_000));
    let second = second.trim_end_matches('z');
    Ok(format!("{second}{ms:03}z-{:08x}", u32::from_be_bytes(random)))
}

/// Checks the name of a snapshot somebody typed.
pub fn check_snapshot(id: &str) -> Result<()> {
    let fits = (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if fits { Ok(()) } else { Err(Error::invalid(format!("{id:?} is not the name of a snapshot"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels() {
        for good in ["blog", "a", "a-1", "2026"] {
            assert!(check_name(good).is_ok(), "{good}");
            assert!(holdfast_base::name::check_account_name(&space_of(good)).is_ok());
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "ä", &"a".repeat(NAME_BYTES_MAX + 1)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_sort_by_time_and_differ_at_the_same_time() {
        let (first, later) = (new_id(1_000).expect("makes"), new_id(2_000).expect("makes"));
        assert!(first < later && first.starts_with("19700101t000001000z-"), "{first}");
        assert_ne!(first, new_id(1_000).expect("makes"));
        assert!(check_snapshot(&first).is_ok() && check_snapshot("../x").is_err());
    }

    #[test]
    fn snapshots_are_counted() {
        let first = next_snapshot(None).expect("makes");
        let second = next_snapshot(Some(&format!("{first}.json"))).expect("makes");
        assert!(first.starts_with("00000001-") && second.starts_with("00000002-"), "{first} {second}");
        assert!(check_snapshot(&second).is_ok());
    }

    #[test]
    fn the_same_content_has_another_name_in_another_site() {
        assert_ne!(ObjectId::of(&[1; 32], b"x"), ObjectId::of(&[2; 32], b"x"));
        let id = ObjectId::of(&[1; 32], b"x");
        let text = serde_json::to_string(&id).expect("writes");
        assert_eq!(serde_json::from_str::<ObjectId>(&text).expect("reads"), id);
    }
}
