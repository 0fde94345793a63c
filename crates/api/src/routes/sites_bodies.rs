//! What goes in and out of the routes of sites.

use crate::Api;
use crate::problem::Failure;
use holdfast_auth::Secret;
use holdfast_base::Error;
use holdfast_site::admin::SnapshotView;
use holdfast_site::settings::HistoryEntry;
use holdfast_site::{Access, Overview, Published, SettingsChange};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A site.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SiteBody {
    /// Its name.
    name: String,
    /// The caller's role in it.
    #[schema(value_type = String)]
    role: holdfast_drive::Role,
    /// Host names under which it is served.
    hosts: Vec<String>,
    /// Path below which it is served; empty is the root.
    path: String,
    /// `public`, `password` or `members`.
    access: String,
    /// The space whose members may read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<String>,
    /// Whether folders without a page of their own are listed.
    listing: bool,
    /// Snapshots kept.
    keep: usize,
    /// Its address, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// The live snapshot; absent: nothing is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<String>,
    /// What goes live later.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// And when.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_ms: Option<i64>,
    /// Where it was published from last.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// Bytes its space uses.
    used_bytes: u64,
}

impl From<Overview> for SiteBody {
    fn from(site: Overview) -> Self {
        let Overview {
            name,
            role,
            hosts,
            path,
            access,
            members,
            listing,
            keep,
            url,
            live,
            next,
            next_ms,
            from,
            used_bytes,
        } = site;
        Self { name, role, hosts, path, access, members, listing, keep, url, live, next, next_ms, from, used_bytes }
    }
}

/// What came of publishing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PublishedBody {
    /// The site.
    site: String,
    /// The snapshot; absent if it was only composed.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<String>,
    /// Whether it is live now.
    live: bool,
    /// When it goes live, if later.
    #[serde(skip_serializing_if = "Option::is_none")]
    live_ms: Option<i64>,
    /// The site's address, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Files of the snapshot.
    files: usize,
    /// Of them, composed.
    composed: usize,
    /// Bytes of all files.
    bytes: u64,
    /// Files whose content was not there before.
    stored_files: usize,
    /// Bytes of these.
    stored_bytes: u64,
    /// Paths of all files, if it was only composed.
    routes: Vec<String>,
    /// What to know.
    notes: Vec<String>,
}

impl From<Published> for PublishedBody {
    fn from(done: Published) -> Self {
        let Published {
            site,
            snapshot,
            live,
            live_ms,
            url,
            files,
            composed,
            bytes,
            stored_files,
            stored_bytes,
            routes,
            notes,
        } = done;
        Self { site, snapshot, live, live_ms, url, files, composed, bytes, stored_files, stored_bytes, routes, notes }
    }
}

/// A snapshot.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SnapshotBody {
    /// Its name.
    name: String,
    /// Whether it is live.
    live: bool,
    /// When it was made.
    made_ms: i64,
    /// By whom.
    by: String,
    /// From which folder.
    from: String,
    /// What they said.
    note: String,
    /// Its files.
    files: usize,
}

impl From<SnapshotView> for SnapshotBody {
    fn from(view: SnapshotView) -> Self {
        let SnapshotView { name, live, made_ms, by, from, note, files } = view;
        Self { name, live, made_ms, by, from, note, files }
    }
}

/// One thing that was done to a site.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HistoryBody {
    /// When.
    at_ms: i64,
    /// By whom.
    by: String,
    /// `publish`, `draft`, `schedule`, `rollback`, `unpublish` or `set`.
    action: String,
    /// The snapshot concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<String>,
    /// The folder it was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// When it goes live, if later.
    #[serde(skip_serializing_if = "Option::is_none")]
    live_ms: Option<i64>,
    /// What they said.
    note: String,
}

impl From<HistoryEntry> for HistoryBody {
    fn from(entry: HistoryEntry) -> Self {
        let HistoryEntry { at_ms, by, action, snapshot, from, live_ms, note } = entry;
        Self { at_ms, by, action, snapshot, from, live_ms, note }
    }
}

/// Settings to be changed; what is absent stays.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SettingsBody {
    /// Host names.
    hosts: Option<Vec<String>>,
    /// Path; empty or `/` is the root.
    path: Option<String>,
    /// `public`, `password` (with `password`) or `members` (with `members`).
    access: Option<String>,
    /// The password visitors type.
    password: Option<String>,
    /// The space whose members may read it.
    members: Option<String>,
    /// Whether folders without a page of their own are listed.
    listing: Option<bool>,
    /// Snapshots kept.
    keep: Option<usize>,
    /// Void every visitor's cookie and every preview link.
    sign_out: bool,
}

impl SettingsBody {
    /// What it asks for, with a password sealed.
    pub(crate) async fn change(self, api: &Api) -> Result<SettingsChange, Failure> {
        let access = match (self.access.as_deref(), self.password, self.members) {
            (None, None, None) => None,
            (Some("public"), None, None) => Some(Access::Public),
            (Some("password") | None, Some(password), None) => {
                Some(api.sites.password_access(&Secret::new(password)).await?)
            }
            (Some("members") | None, None, Some(space)) => Some(Access::Members { space }),
            _ => {
                let how = "access is public, or password with a password, or members with the name of a space";
                return Err(Failure(Error::invalid(how)));
            }
        };
        let Self { hosts, path, listing, keep, sign_out, .. } = self;
        Ok(SettingsChange { hosts, path, access, listing, keep, sign_out })
    }
}

/// A folder to be published.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishBody {
    /// The folder's space.
    pub(crate) space: String,
    /// The folder's path in it.
    #[serde(default)]
    pub(crate) path: String,
    /// For the history.
    #[serde(default)]
    pub(crate) note: String,
    /// Go live at this time rather than now.
    #[serde(default)]
    pub(crate) at_ms: Option<i64>,
    /// Store it to be previewed, and do not go live.
    #[serde(default)]
    pub(crate) draft: bool,
    /// Only compose, and say what would be published.
    #[serde(default)]
    pub(crate) check: bool,
    /// Settings changed along with it.
    #[serde(default)]
    pub(crate) settings: SettingsBody,
}

/// A snapshot to go live.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RollBackBody {
    /// Which; absent is the one before the live one.
    pub(crate) snapshot: Option<String>,
    /// At this time rather than now.
    pub(crate) at_ms: Option<i64>,
    /// For the history.
    pub(crate) note: String,
}

/// A site to be taken off.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UnpublishBody {
    /// For the history.
    pub(crate) note: String,
}

/// A snapshot to be looked at.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PreviewBody {
    /// Which; absent is the newest.
    pub(crate) snapshot: Option<String>,
}

/// A preview link.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PreviewLinkBody {
    /// The address, or its path if the site has no host. Whoever has it sees the snapshot.
    pub(crate) url: String,
    /// When it stops working.
    pub(crate) ends_ms: i64,
}
