//! What holds for a site whatever snapshot is live: where it is, who may read it, and its keys; and the pointer.
//!
//! What belongs to the content (title, redirects, headers, error pages) is in the folder's `site.toml` and so in the snapshot.

use crate::limits::{HOST_BYTES_MAX, HOSTS_MAX, SNAPSHOTS_KEPT};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_base::name::check_account_name;
use holdfast_base::{Error, Result, Uid};
use holdfast_seal::keys::random_bytes;
use serde::{Deserialize, Serialize};

/// Who may read a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Access {
    /// Everybody.
    #[default]
    Public,
    /// Who knows its password.
    Password {
        /// The slot that the password opens, in base64.
        slot: String,
    },
    /// Members of a space of the drive.
    Members {
        /// The space.
        space: String,
    },
}

impl Access {
    /// In one word.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Password { .. } => "password",
            Self::Members { .. } => "members",
        }
    }

    /// The password's slot, if there is one.
    pub(crate) fn slot(&self) -> Option<Vec<u8>> {
        match self {
            Self::Password { slot } => STANDARD.decode(slot).ok(),
            _ => None,
        }
    }

    /// Access by a password, from its sealed slot.
    pub(crate) fn of_slot(slot: &[u8]) -> Self {
        Self::Password { slot: STANDARD.encode(slot) }
    }
}

/// A site's settings, as kept in its space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Format.
    pub version: u32,
    /// Random name of the site.
    pub site: String,
    /// Names content ([`crate::layout::ObjectId`]), in hexadecimal.
    pub object_key: String,
    /// Signs visitors' cookies and preview links, in hexadecimal. A new one voids them all.
    pub visit_key: String,
    /// Host names under which it is served, without port.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Path below which it is served, without a slash at its end; empty is the root.
    #[serde(default)]
    pub path: String,
    /// Who may read it.
    #[serde(default)]
    pub access: Access,
    /// Whether folders without an index page are listed.
    #[serde(default)]
    pub listing: bool,
    /// Snapshots kept.
    #[serde(default = "snapshots_kept")]
    pub keep: usize,
    /// Where it was published from last: space and path.
    #[serde(default)]
    pub from: Option<String>,
}

const fn snapshots_kept() -> usize {
    SNAPSHOTS_KEPT
}

/// Format of settings, pointers and indices this release reads and writes.
pub(crate) const VERSION: u32 = 1;

fn hex32() -> Result<String> {
    Ok(blake3::Hash::from_bytes(random_bytes()?).to_hex().to_string())
}

impl Settings {
    /// Those of a new site.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            version: VERSION,
            site: Uid(random_bytes()?).to_string(),
            object_key: hex32()?,
            visit_key: hex32()?,
            hosts: Vec::new(),
            path: String::new(),
            access: Access::Public,
            listing: false,
            keep: SNAPSHOTS_KEPT,
            from: None,
        })
    }

    /// The key that names content.
    pub(crate) fn object_key(&self) -> Result<[u8; 32]> {
        key(&self.object_key)
    }

    /// The key that signs visits.
    pub(crate) fn visit_key(&self) -> Result<[u8; 32]> {
        key(&self.visit_key)
    }

    /// Voids every cookie and preview link.
    pub(crate) fn renew_visit_key(&mut self) -> Result<()> {
        self.visit_key = hex32()?;
        Ok(())
    }

    /// Refuses what cannot be served.
    pub(crate) fn check(&self) -> Result<()> {
        if self.hosts.len() > HOSTS_MAX {
            return Err(Error::invalid(format!("a site has {HOSTS_MAX} hosts at most")));
        }
        self.hosts.iter().try_for_each(|host| check_host(host))?;
        check_path(&self.path)?;
        if !(1..=1_000).contains(&self.keep) {
            return Err(Error::invalid("the number of snapshots kept is from 1 to 1000"));
        }
        if self.access != Access::Public && (self.hosts.is_empty() || !self.path.is_empty()) {
            return Err(Error::invalid(
                "a site that not everybody may read needs a host of its own and no path: scripts of sites on one host can read \
                 each other",
            ));
        }
        match &self.access {
            Access::Members { space } => check_account_name(space),
            _ => Ok(()),
        }
    }

    /// Its address as far as it is known: the first host over https, and the path.
    pub fn url(&self) -> Option<String> {
        self.hosts.first().map(|host| format!("https://{host}{}", self.path))
    }
}

fn key(text: &str) -> Result<[u8; 32]> {
    let damaged = |_| Error::damaged("a key in a site's settings is not 64 hexadecimal digits");
    blake3::Hash::from_hex(text).map(|hash| *hash.as_bytes()).map_err(damaged)
}

/// Checks a host name: letters, digits, dashes and dots, lower case, no port. An address is none: see docs/sites.md.
pub fn check_host(host: &str) -> Result<()> {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    if host.len() <= HOST_BYTES_MAX && !is_address && host.split('.').all(label) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{host:?} is not a host name: write it in lower case and without a port, international names as xn--…"
    )))
}

/// Checks a path prefix: empty, or `/a/b` of plain characters.
pub fn check_path(path: &str) -> Result<()> {
    let segment = |segment: &str| {
        !segment.is_empty()
            && segment != "."
            && segment != ".."
            && !segment.starts_with(".holdfast")
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    let fits = path.is_empty() || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(segment));
    if fits && path.len() <= 200 {
        return Ok(());
    }
    Err(Error::invalid(format!("{path:?} is not a path for a site: write for example /blog")))
}

/// Changes of settings; none leaves a thing as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// New hosts.
    pub hosts: Option<Vec<String>>,
    /// New path.
    pub path: Option<String>,
    /// New access.
    pub access: Option<Access>,
    /// New listing.
    pub listing: Option<bool>,
    /// New number of snapshots kept.
    pub keep: Option<usize>,
    /// Void every cookie and preview link.
    pub sign_out: bool,
}

impl SettingsChange {
    /// Applies it.
    pub(crate) fn apply(self, settings: &mut Settings) -> Result<()> {
        let tightened = self.access.as_ref().is_some_and(|access| *access != settings.access);
        if self.sign_out || tightened {
            settings.renew_visit_key()?;
        }
        if let Some(hosts) = self.hosts {
            settings.hosts = hosts;
        }
        if let Some(path) = self.path {
            path.trim_end_matches('/').clone_into(&mut settings.path);
        }
        if let Some(access) = self.access {
            settings.access = access;
        }
        settings.listing = self.listing.unwrap_or(settings.listing);
        settings.keep = self.keep.unwrap_or(settings.keep);
        settings.check()
    }
}

/// The pointer: what is live now, and what will be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// Format.
    pub version: u32,
    /// The live snapshot; none: nothing is published.
    pub live: Option<String>,
    /// What goes live later. Every node knows it by its own clock, so no job has to run.
    #[serde(default)]
    pub next: Option<Scheduled>,
}

/// A snapshot that goes live at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduled {
    /// The snapshot.
    pub snapshot: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Pointer {
    /// The snapshot that is live at a time.
    pub fn at(&self, now_ms: i64) -> Option<&str> {
        match &self.next {
            Some(next) if next.at_ms <= now_ms => Some(&next.snapshot),
            _ => self.live.as_deref(),
        }
    }

    /// The pointer once what is due has gone live.
    pub(crate) fn settled(mut self, now_ms: i64) -> Self {
        if let Some(due) = self.next.take_if(|next| next.at_ms <= now_ms) {
            self.live = Some(due.snapshot);
        }
        self
    }

    /// The snapshots it names.
    pub(crate) fn named(&self) -> impl Iterator<Item = &str> {
        self.live.as_deref().into_iter().chain(self.next.as_ref().map(|next| next.snapshot.as_str()))
    }
}

/// One thing that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// When.
    pub at_ms: i64,
    /// Which account.
    pub by: String,
    /// What: `publish`, `draft`, `schedule`, `rollback`, `unpublish`, `set`.
    pub action: String,
    /// The snapshot, if one is concerned.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// The folder it was made from.
    #[serde(default)]
    pub from: Option<String>,
    /// When it goes live, if later.
    #[serde(default)]
    pub live_ms: Option<i64>,
    /// What they said.
    #[serde(default)]
    pub note: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_paths_are_what_can_be_served() {
        for good in ["example.org", "localhost", "a-b.c1"] {
            assert!(check_host(good).is_ok(), "{good}");
        }
        for bad in ["", "Example.org", "a:80", "127.0.0.1", "-a", "a..b", "ä.org", "a_b", "::1", &"a".repeat(300)] {
            assert!(check_host(bad).is_err(), "{bad}");
        }
        for good in ["", "/blog", "/a/b.c"] {
            assert!(check_path(good).is_ok(), "{good}");
        }
        for bad in ["/", "blog", "/a//b", "/a/../b", "/a/", "/a b", "/.holdfast"] {
            assert!(check_path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_scheduled_goes_live_at_its_time_and_not_before() {
        let next = Some(Scheduled { snapshot: "b".into(), at_ms: 100 });
        let pointer = Pointer { version: VERSION, live: Some("a".into()), next };
        assert_eq!((pointer.at(99), pointer.at(100)), (Some("a"), Some("b")));
        assert_eq!(pointer.clone().settled(99), pointer);
        let settled = pointer.settled(100);
        assert_eq!((settled.live.as_deref(), settled.next.as_ref()), (Some("b"), None));
    }

    #[test]
    fn another_access_voids_cookies_and_the_same_does_not() {
        let mut settings = Settings::new().expect("makes");
        let before = settings.visit_key.clone();
        let same = SettingsChange { access: Some(Access::Public), listing: Some(true), ..SettingsChange::default() };
        same.apply(&mut settings).expect("applies");
        assert!(settings.visit_key == before && settings.listing);
        let other =
            SettingsChange { access: Some(Access::Members { space: "lab".into() }), ..SettingsChange::default() };
        assert!(other.clone().apply(&mut settings.clone()).is_err(), "needs a host of its own");
        SettingsChange { hosts: Some(vec!["lab.example".into()]), ..other }.apply(&mut settings).expect("applies");
        assert_ne!(settings.visit_key, before);
        let bad = SettingsChange { hosts: Some(vec!["a b".into()]), ..SettingsChange::default() };
        assert!(bad.apply(&mut settings).is_err());
    }
}
