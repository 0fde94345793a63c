//! Where everything is: from host and path to a mounted site, and from a path in it to what is answered.
//!
//! All of it is worked out when a snapshot or its settings change; a request does two look-ups. Rules of a site's paths, first
//! match wins:
//!
//! 1. a redirect of `site.toml` without a star;
//! 2. a file at exactly this path, but `DIR/index.html` leads to `DIR/`;
//! 3. `DIR/` is `DIR/index.html`; `DIR` leads to `DIR/`;
//! 4. `PAGE` is `PAGE.html`; `PAGE/` leads to `PAGE`;
//! 5. a redirect with a star;
//! 6. the site's page for what is not found.

use super::Door;
use super::entry::{Dress, Entry};
use crate::compose::SearchDocument;
use crate::index::{Index, Redirect};
use crate::layout::ObjectId;
use crate::settings::{Access, Settings};
use holdfast_base::{Result, Uid};
use http::{HeaderValue, StatusCode};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// What a path in a site leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// An entry, by its number.
    File(usize),
    /// Another address.
    Moved(HeaderValue, StatusCode),
}

/// A snapshot ready to be served.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) id: String,
    pub(crate) entries: Vec<Entry>,
    targets: HashMap<Box<str>, Target>,
    stars: Vec<Redirect>,
    pub(crate) not_found: Option<usize>,
    pub(crate) search: Option<ObjectId>,
    prefix: String,
    pub(crate) document: tokio::sync::OnceCell<Arc<SearchDocument>>,
}

impl Ready {
    /// Works out every path of a snapshot.
    pub(crate) fn new(index: Index, settings: &Settings, preview: bool) -> Self {
        let dress = Arc::new(Dress::new(index.headers, &settings.access, preview));
        let shown = index.routes.iter().filter(|(_, route)| settings.listing || !route.listing);
        let entries: Vec<Entry> = shown.map(|(path, route)| Entry::new(path, route, dress.clone())).collect();
        let mut targets: HashMap<Box<str>, Target> =
            entries.iter().enumerate().map(|(at, entry)| (entry.path.clone(), Target::File(at))).collect();
        let prefix = settings.path.clone();
        for (at, entry) in entries.iter().enumerate() {
            add_clean(&mut targets, &prefix, &entry.path, at);
        }
        let (stars, exact): (Vec<_>, Vec<_>) = index.redirects.into_iter().partition(|rule| rule.from.ends_with('*'));
        for rule in exact.iter().rev() {
            if let Some(moved) = moved(&prefix, &rule.to, rule.status) {
                targets.insert(rule.from.as_str().into(), moved);
            }
        }
        let not_found = index.not_found.and_then(|path| entries.iter().position(|entry| *entry.path == *path));
        let document = tokio::sync::OnceCell::new();
        Self { id: index.id, entries, targets, stars, not_found, search: index.search, prefix, document }
    }

    /// What a decoded path leads to.
    pub(crate) fn target(&self, path: &str) -> Option<Cow<'_, Target>> {
        if let Some(target) = self.targets.get(path) {
            return Some(Cow::Borrowed(target));
        }
        let star = |rule: &&Redirect| path.starts_with(rule.from.trim_end_matches('*'));
        let rule = self.stars.iter().find(star)?;
        let rest = &path[rule.from.trim_end_matches('*').len()..];
        let to = match rule.to.strip_suffix('*') {
            Some(start) => format!("{start}{}", crate::compose::path_in_url(rest)),
            None => rule.to.clone(),
        };
        moved(&self.prefix, &to, rule.status).map(Cow::Owned)
    }
}

/// Adds the addresses of a file that are not its path.
fn add_clean(targets: &mut HashMap<Box<str>, Target>, prefix: &str, path: &str, at: usize) {
    let lead = |to: &str| moved(prefix, &crate::compose::path_in_url(to), 308);
    if let Some(folder) = path.strip_suffix("index.html").filter(|folder| folder.ends_with('/')) {
        targets.insert(folder.into(), Target::File(at));
        if let Some(there) = lead(folder) {
            targets.insert(path.into(), there.clone());
            if let Some(bare) = folder.strip_suffix('/').filter(|bare| !bare.is_empty()) {
                targets.entry(bare.into()).or_insert(there);
            }
        }
    } else if let Some(page) = path.strip_suffix(".html").filter(|page| !page.ends_with('/')) {
        let own = !matches!(targets.get(page), Some(Target::File(_)));
        if own {
            // A folder of the same name keeps its address with the slash.
            targets.insert(page.into(), Target::File(at));
        }
        if let (true, Some(there)) = (own, lead(page)) {
            targets.entry(format!("{page}/").into()).or_insert(there);
        }
    }
}

fn moved(prefix: &str, to: &str, status: u16) -> Option<Target> {
    let to = if to.starts_with('/') { Cow::Owned(format!("{prefix}{to}")) } else { Cow::Borrowed(to) };
    Some(Target::Moved(HeaderValue::from_str(&to).ok()?, StatusCode::from_u16(status).ok()?))
}

/// A site where it is found.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) name: String,
    pub(crate) hosts: Vec<String>,
    /// Its path, without a slash at its end.
    pub(crate) prefix: String,
    pub(crate) access: Access,
    pub(crate) site: Uid,
    pub(crate) visit_key: [u8; 32],
    pub(crate) settings: Settings,
    /// None: nothing is live.
    pub(crate) ready: Option<Arc<Ready>>,
    /// Of two sites with one address, the older has it.
    pub(crate) made_ms: i64,
}

impl Mounted {
    pub(crate) fn new(name: &str, settings: &Settings, ready: Option<Arc<Ready>>, made_ms: i64) -> Result<Self> {
        settings.check()?;
        Ok(Self {
            name: name.to_owned(),
            hosts: settings.hosts.clone(),
            prefix: settings.path.clone(),
            access: settings.access.clone(),
            site: settings.site.parse()?,
            visit_key: settings.visit_key()?,
            settings: settings.clone(),
            ready,
            made_ms,
        })
    }
}

/// Every site a node serves.
#[derive(Debug, Default)]
pub struct Table {
    hosts: HashMap<Box<str>, Vec<Arc<Mounted>>>,
    anywhere: Vec<Arc<Mounted>>,
}

impl Table {
    /// Puts sites where they are found. Those that claim a name of the drive get none.
    pub(crate) fn new(mut sites: Vec<Arc<Mounted>>, drive_hosts: &[String]) -> Self {
        sites.sort_by(|a, b| (a.made_ms, &a.name).cmp(&(b.made_ms, &b.name)));
        let mut table = Self::default();
        for site in sites {
            for host in site.hosts.iter().filter(|host| !drive_hosts.contains(host)) {
                let mounts = table.hosts.entry(host.as_str().into()).or_default();
                let private = |site: &Mounted| site.access != Access::Public;
                let clash = mounts.iter().any(|other| other.prefix == site.prefix || private(other) || private(&site));
                if !clash {
                    mounts.push(site.clone());
                }
            }
            if site.hosts.is_empty() && !table.anywhere.iter().any(|other| other.prefix == site.prefix) {
                table.anywhere.push(site);
            }
        }
        // The longest path first: sites may lie in one another.
        for mounts in table.hosts.values_mut().chain(std::iter::once(&mut table.anywhere)) {
            mounts.sort_by_key(|site| std::cmp::Reverse(site.prefix.len()));
        }
        table
    }

    /// Whether a host is a site's.
    pub fn has_host(&self, host: &str) -> bool {
        self.hosts.contains_key(host)
    }

    /// How many sites there are.
    pub fn len(&self) -> usize {
        let names: std::collections::BTreeSet<&str> =
            self.hosts.values().flatten().chain(&self.anywhere).map(|site| site.name.as_str()).collect();
        names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.anywhere.is_empty()
    }

    /// The site of a host (without port, lower case) and path, and the path in it.
    pub(crate) fn find<'a>(&self, door: Door, host: &str, path: &'a str) -> Option<(&Arc<Mounted>, &'a str)> {
        let mounts = match self.hosts.get(host) {
            Some(mounts) => mounts,
            None if door == Door::Sites => &self.anywhere,
            None => return None,
        };
        mounts.iter().find_map(|site| {
            let rest = path.strip_prefix(site.prefix.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then_some((site, rest))
        })
    }
}

/// What a path of a request says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded<'a> {
    /// A path, decoded.
    Path(Cow<'a, str>),
    /// What no file here can be called: an encoded slash, a climb.
    Nothing,
    /// No path at all: a broken escape, a NUL, not UTF-8.
    Malformed,
}

/// Decodes a path. Slashes divide before anything is decoded, so an encoded one never makes a segment.
pub(crate) fn decode(path: &str) -> Decoded<'_> {
    if path.len() > crate::limits::PATH_BYTES_MAX {
        return Decoded::Nothing;
    }
    if !path.contains('%') {
        return Decoded::Path(Cow::Borrowed(path));
    }
    let bytes = path.as_bytes();
    for at in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').map(|(at, _)| at) {
        match bytes.get(at + 1..at + 3) {
            Some([b'0', b'0']) => return Decoded::Malformed,
            Some([b'2', b'f' | b'F'] | [b'5', b'c' | b'C']) => return Decoded::Nothing,
            Some([high, low]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {}
            _ => return Decoded::Malformed,
        }
    }
    match percent_decode_str(path).decode_utf8() {
        Ok(text) if text.chars().any(char::is_control) => Decoded::Nothing,
        Ok(text) => Decoded::Path(text),
        Err(_) => Decoded::Malformed,
    }
}
