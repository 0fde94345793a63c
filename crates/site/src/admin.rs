//! What people do with sites: publish, look, roll back, schedule, change settings, take down.
//!
//! Each call acts with the caller's session: what the caller may not do in the site's space is refused by the drive. Only owners
//! make and remove a site; editors publish, roll back and change settings; readers look.

use crate::changes::Changes;
use crate::index::Index;
use crate::layout::{
    HISTORY, INCOMING, LIVE, OBJECTS, SETTINGS, SNAPSHOTS, SPACE_PREFIX, check_name, check_snapshot, space_of,
};
use crate::limits::{FILES_MAX, PREVIEW_S, RECORD_BYTES_MAX};
use crate::publish::{self, Found, Publication, Published};
use crate::serve::visit;
use crate::settings::{Access, HistoryEntry, Pointer, Scheduled, Settings, SettingsChange, VERSION};
use crate::store::Store;
use holdfast_auth::{Accounts, Secret, Session, SitesKey};
use holdfast_base::{Clock, Error, ErrorKind, Result};
use holdfast_drive::{Drive, Expect, Role};
use serde::Serialize;
use std::sync::Arc;

/// Shortest password of a site: it is shared, so it is typed by many; attempts are limited.
const PASSWORD_CHARS_MIN: usize = 8;

/// The service. Cheap to clone.
#[derive(Clone)]
pub struct Sites(Arc<Inner>);

struct Inner {
    drive: Arc<dyn Drive>,
    accounts: Accounts,
    key: SitesKey,
    clock: Arc<dyn Clock>,
    /// Host names of the drive itself.
    drive_hosts: Vec<String>,
    changes: Arc<Changes>,
}

/// A site in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// Its name.
    pub name: String,
    /// The caller's role.
    pub role: Role,
    /// Its hosts.
    pub hosts: Vec<String>,
    /// Its path.
    pub path: String,
    /// `public`, `password` or `members`.
    pub access: String,
    /// The space whose members may read it.
    pub members: Option<String>,
    /// Whether folders are listed.
    pub listing: bool,
    /// Snapshots kept.
    pub keep: usize,
    /// Its address, as far as it is known.
    pub url: Option<String>,
    /// The live snapshot.
    pub live: Option<String>,
    /// What goes live later.
    pub next: Option<String>,
    /// And when.
    pub next_ms: Option<i64>,
    /// Where it was published from last.
    pub from: Option<String>,
    /// Bytes its space uses.
    pub used_bytes: u64,
}

/// A snapshot in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SnapshotView {
    /// Its name.
    pub name: String,
    /// Whether it is live.
    pub live: bool,
    /// When it was made.
    pub made_ms: i64,
    /// By whom.
    pub by: String,
    /// From where.
    pub from: String,
    /// What they said.
    pub note: String,
    /// Its files.
    pub files: usize,
}

impl Sites {
    /// Makes the service. `drive_hosts` are the names of the drive itself, which no site may take.
    pub fn new(
        drive: Arc<dyn Drive>,
        accounts: Accounts,
        key: SitesKey,
        clock: Arc<dyn Clock>,
        drive_hosts: Vec<String>,
    ) -> Self {
        Self(Arc::new(Inner { drive, accounts, key, clock, drive_hosts, changes: Arc::default() }))
    }

    /// Where word of changes made here comes from.
    pub(crate) fn changes(&self) -> Arc<Changes> {
        self.0.changes.clone()
    }

    /// The drive.
    pub fn drive(&self) -> &Arc<dyn Drive> {
        &self.0.drive
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// The session of the sites account; none before the first site.
    pub async fn reader(&self) -> Result<Option<Session>> {
        self.0.accounts.open_sites_account(&self.0.key).await
    }

    /// Whether an account may read a space now.
    pub async fn may_read(&self, account: &str, space: &str) -> Result<bool> {
        self.0.accounts.may_read(account, space).await
    }

    /// Names of the drive itself, which are never a site's.
    pub fn drive_hosts(&self) -> &[String] {
        &self.0.drive_hosts
    }

    /// Publishes a folder; a site that does not exist is made, and the caller owns it.
    pub async fn publish(&self, who: &Arc<Session>, mut publication: Publication) -> Result<Published> {
        publication.check_request(self.now_ms())?;
        let source = Store { drive: self.0.drive.clone(), who: who.clone(), space: publication.from.space.clone() };
        let store = self.store(who, &publication.site);
        let found = match self.found(&store).await {
            Ok(found) => Some(found),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if found.is_none() && publication.settings.hosts.is_none() && publication.settings.path.is_none() {
            // A new site of which nothing is said is found by its name.
            publication.settings.path = Some(format!("/{}", publication.site));
        }
        let mut settings = found.as_ref().map_or_else(Settings::new, |found| Ok(found.settings.clone()))?;
        publication.settings.clone().apply(&mut settings)?;
        self.refuse_taken(&publication.site, &settings).await?;
        if publication.check {
            return publish::try_out(&source, &publication, &settings).await;
        }
        let found = if let Some(found) = found {
            self.let_in_again(who, &store.space).await?;
            found
        } else {
            // Mistakes in the sources must not leave an empty site behind.
            publish::try_out(&source, &publication, &settings).await?;
            self.make(who, &publication.site).await?;
            self.found(&store).await?
        };
        let done = publish::publish(&source, &store, publication, found, || self.now_ms()).await;
        self.0.changes.tell().await;
        done
    }

    /// The caller's sites.
    pub async fn list(&self, who: &Arc<Session>) -> Result<Vec<Overview>> {
        let mut all = Vec::new();
        for space in self.0.drive.spaces(who).await? {
            if let Some(name) = space.name.strip_prefix(SPACE_PREFIX) {
                match self.show(who, name).await {
                    Ok(site) => all.push(site),
                    // A space that only has the name of one, or was not finished.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(all)
    }

    /// One site.
    pub async fn show(&self, who: &Arc<Session>, name: &str) -> Result<Overview> {
        check_name(name)?;
        let store = self.store(who, name);
        let Found { settings, pointer, .. } = self.found(&store).await?;
        let view = self.0.drive.space(who, &store.space).await?;
        let pointer = pointer.settled(self.now_ms());
        let members = match &settings.access {
            Access::Members { space } => Some(space.clone()),
            _ => None,
        };
        Ok(Overview {
            name: name.to_owned(),
            role: view.role,
            url: settings.url(),
            hosts: settings.hosts,
            path: settings.path,
            access: settings.access.name().to_owned(),
            members,
            listing: settings.listing,
            keep: settings.keep,
            live: pointer.live,
            next_ms: pointer.next.as_ref().map(|next| next.at_ms),
            next: pointer.next.map(|next| next.snapshot),
            from: settings.from,
            used_bytes: view.usage.used_bytes,
        })
    }

    /// Snapshots, newest first.
    pub async fn snapshots(&self, who: &Arc<Session>, name: &str) -> Result<Vec<SnapshotView>> {
        check_name(name)?;
        let store = self.store(who, name);
        let live = self.found(&store).await?.pointer.at(self.now_ms()).map(ToOwned::to_owned);
        let mut views = Vec::new();
        for node in store.members(SNAPSHOTS).await?.iter().rev() {
            let name = node.name.strip_suffix(".json").unwrap_or(&node.name);
            let Some(index) = publish::index(&store, name).await? else { continue };
            let Index { id, made_ms, by, from, note, routes, .. } = index;
            let files = routes.values().filter(|route| !route.listing).count();
            views.push(SnapshotView { live: live.as_ref() == Some(&id), name: id, made_ms, by, from, note, files });
        }
        Ok(views)
    }

    /// What was done, newest first, `limit` entries at most.
    pub async fn history(&self, who: &Arc<Session>, name: &str, limit: usize) -> Result<Vec<HistoryEntry>> {
        check_name(name)?;
        let store = self.store(who, name);
        self.found(&store).await?;
        let mut entries = Vec::new();
        for node in store.members(HISTORY).await?.iter().rev().take(limit) {
            let found = store.record(&format!("{HISTORY}/{}", node.name), RECORD_BYTES_MAX).await?;
            entries.extend(found.map(|(entry, _)| entry));
        }
        Ok(entries)
    }

    /// Makes a kept snapshot live, now or at a time; none is the one before the live one.
    pub async fn roll_back(
        &self,
        who: &Arc<Session>,
        name: &str,
        snapshot: Option<&str>,
        at_ms: Option<i64>,
        note: &str,
    ) -> Result<Overview> {
        check_name(name)?;
        let now_ms = self.now_ms();
        if at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            return Err(Error::invalid("the time to go live is in the past"));
        }
        let store = self.store(who, name);
        let found = self.found(&store).await?;
        let mut pointer = found.pointer.clone().settled(now_ms);
        let snapshot = self.snapshot_or_previous(&store, &pointer, snapshot).await?;
        if let Some(at_ms) = at_ms {
            pointer.next = Some(Scheduled { snapshot: snapshot.clone(), at_ms });
        } else {
            (pointer.live, pointer.next) = (Some(snapshot.clone()), None);
        }
        let written = publish::set_pointer(&store, &pointer, found.pointer_node.seq).await?;
        if publish::index(&store, &snapshot).await?.is_none() {
            // Swept away in this very moment.
            publish::set_pointer(&store, &found.pointer, written.seq).await?;
            return Err(Error::conflict(format!("the snapshot {snapshot} was just removed; choose another one")));
        }
        let entry = HistoryEntry { live_ms: at_ms, ..self.entry(who, "rollback", Some(snapshot), note) };
        self.finish(&store, who, name, &entry).await
    }

    /// Takes the site off; its snapshots stay. Also ends what is scheduled.
    pub async fn unpublish(&self, who: &Arc<Session>, name: &str, note: &str) -> Result<Overview> {
        check_name(name)?;
        let store = self.store(who, name);
        let found = self.found(&store).await?;
        let pointer = Pointer { version: VERSION, live: None, next: None };
        publish::set_pointer(&store, &pointer, found.pointer_node.seq).await?;
        self.finish(&store, who, name, &self.entry(who, "unpublish", None, note)).await
    }

    /// Changes settings.
    pub async fn set(&self, who: &Arc<Session>, name: &str, change: SettingsChange) -> Result<Overview> {
        check_name(name)?;
        if change == SettingsChange::default() {
            return Err(Error::invalid("what should change? Name a host, a path, an access, …"));
        }
        let store = self.store(who, name);
        let found = self.found(&store).await?;
        let mut settings = found.settings.clone();
        change.apply(&mut settings)?;
        self.refuse_taken(name, &settings).await?;
        store.write_record(SETTINGS, &settings, Expect::Seq(found.settings_node.seq)).await?;
        self.finish(&store, who, name, &self.entry(who, "set", None, "")).await
    }

    /// The access that a new password gives. For [`SettingsChange::access`], of a site that may not exist yet.
    pub async fn password_access(&self, password: &Secret) -> Result<Access> {
        if password.expose().chars().count() < PASSWORD_CHARS_MIN {
            return Err(Error::invalid(format!("a site's password has {PASSWORD_CHARS_MIN} characters at least")));
        }
        Ok(Access::of_slot(&self.0.accounts.seal_site_password(password).await?))
    }

    /// A path, below the site's own, that shows a snapshot to whoever has it, for a day; none is the newest.
    pub async fn preview(&self, who: &Arc<Session>, name: &str, snapshot: Option<&str>) -> Result<(String, i64)> {
        check_name(name)?;
        let store = self.store(who, name);
        let found = self.found(&store).await?;
        let snapshot = match snapshot {
            Some(snapshot) => snapshot.to_owned(),
            None => self.newest(&store).await?,
        };
        check_snapshot(&snapshot)?;
        if publish::index(&store, &snapshot).await?.is_none() {
            return Err(Error::not_found(format!("there is no snapshot {snapshot}")));
        }
        let ends_s = self.now_ms() / 1_000 + PREVIEW_S;
        let path = visit::preview_path(&found.settings.visit_key()?, &snapshot, ends_s);
        Ok((format!("{}{path}", found.settings.url().unwrap_or(found.settings.path)), ends_s * 1_000))
    }

    /// Removes a site with all its snapshots, for good. For owners.
    pub async fn remove(&self, who: &Arc<Session>, name: &str) -> Result<()> {
        check_name(name)?;
        self.found(&self.store(who, name)).await?;
        self.0.accounts.remove_space(who, &space_of(name)).await?;
        self.0.changes.tell().await;
        Ok(())
    }

    fn now_ms(&self) -> i64 {
        self.0.clock.now_ms()
    }

    fn store(&self, who: &Arc<Session>, name: &str) -> Store {
        Store { drive: self.0.drive.clone(), who: who.clone(), space: space_of(name) }
    }

    /// The site's records; a site that is not there, not finished, or not the caller's to see is `NotFound`.
    async fn found(&self, store: &Store) -> Result<Found> {
        let missing = || {
            let name = store.space.strip_prefix(SPACE_PREFIX).unwrap_or_default();
            Error::not_found(format!("there is no site {name:?}, or you are not a member of it"))
        };
        match store.walk(SETTINGS).await {
            Ok(Some(_)) => Found::read(store).await,
            Ok(None) => Err(missing()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(missing()),
            Err(error) => Err(error),
        }
    }

    /// Makes a site, or finishes making one. The settings come last: with them it is one.
    async fn make(&self, who: &Arc<Session>, name: &str) -> Result<()> {
        let store = self.store(who, name);
        self.0.accounts.make_sites_account(&self.0.key).await?;
        match self.0.accounts.create_space(who, &store.space, None).await {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if self.0.drive.space(who, &store.space).await.is_err() {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("somebody else has a site {name:?}; choose another name"),
            ));
        }
        self.0.accounts.let_sites_read(who, &store.space).await?;
        for folder in [SNAPSHOTS, OBJECTS, HISTORY, INCOMING] {
            store.make_folder(folder).await?;
        }
        let pointer = Pointer { version: VERSION, live: None, next: None };
        let quiet = |done: Result<_>| match done {
            Err(error) if error.kind() == ErrorKind::PreconditionFailed => Ok(()),
            done => done.map(|_: holdfast_drive::Node| ()),
        };
        quiet(store.write_record(LIVE, &pointer, Expect::Absent).await)?;
        quiet(store.write_record(SETTINGS, &Settings::new()?, Expect::Absent).await)
    }

    /// Lets the sites account in if it was made anew since, or another node's key came first.
    async fn let_in_again(&self, who: &Arc<Session>, space: &str) -> Result<()> {
        self.0.accounts.make_sites_account(&self.0.key).await?;
        if self.0.accounts.sites_may_read(who, space).await? {
            return Ok(());
        }
        self.0.accounts.let_sites_read(who, space).await
    }

    async fn snapshot_or_previous(&self, store: &Store, pointer: &Pointer, wanted: Option<&str>) -> Result<String> {
        if let Some(wanted) = wanted {
            check_snapshot(wanted)?;
            if store.walk(&format!("{SNAPSHOTS}/{wanted}.json")).await?.is_none() {
                return Err(Error::not_found(format!(
                    "there is no snapshot {wanted}; `holdfast site history` lists them"
                )));
            }
            return Ok(wanted.to_owned());
        }
        let names = store.members(SNAPSHOTS).await?;
        let mut names = names.iter().filter_map(|node| node.name.strip_suffix(".json"));
        let before = names.rfind(|name| pointer.live.as_deref().is_none_or(|live| *name < live));
        before.map(ToOwned::to_owned).ok_or_else(|| Error::not_found("there is no snapshot before the live one"))
    }

    async fn newest(&self, store: &Store) -> Result<String> {
        let newest = store.members(SNAPSHOTS).await?.pop();
        let name = newest.and_then(|node| node.name.strip_suffix(".json").map(ToOwned::to_owned));
        name.ok_or_else(|| Error::not_found("nothing was published yet"))
    }

    fn entry(&self, who: &Session, action: &str, snapshot: Option<String>, note: &str) -> HistoryEntry {
        HistoryEntry {
            at_ms: self.now_ms(),
            by: who.name.clone(),
            action: action.into(),
            snapshot,
            from: None,
            live_ms: None,
            note: note.to_owned(),
        }
    }

    async fn finish(&self, store: &Store, who: &Arc<Session>, name: &str, entry: &HistoryEntry) -> Result<Overview> {
        publish::note(store, entry).await?;
        self.0.changes.tell().await;
        self.show(who, name).await
    }

    /// Refuses an address that is the drive's or another site's.
    async fn refuse_taken(&self, name: &str, settings: &Settings) -> Result<()> {
        if let Some(host) = settings.hosts.iter().find(|host| self.0.drive_hosts.contains(host)) {
            return Err(Error::conflict(format!(
                "{host} is a name of the drive itself: a site there could act as its users. Choose another host"
            )));
        }
        let Some(reader) = self.reader().await? else { return Ok(()) };
        let reader = Arc::new(reader);
        for space in self.0.drive.spaces(&reader).await?.iter().take(FILES_MAX) {
            let Some(other) = space.name.strip_prefix(SPACE_PREFIX).filter(|other| *other != name) else { continue };
            let Ok((theirs, _)) = self.store(&reader, other).small::<Settings>(SETTINGS).await else { continue };
            let shared = settings.hosts.iter().find(|host| theirs.hosts.contains(host));
            let private = settings.access != Access::Public || theirs.access != Access::Public;
            if let (Some(host), true) = (shared, private) {
                return Err(Error::conflict(format!(
                    "{host} has another site: one that not everybody may read needs a host of its own, since scripts of sites \
                     on one host can read each other"
                )));
            }
            let same_hosts = shared.is_some() || (settings.hosts.is_empty() && theirs.hosts.is_empty());
            if same_hosts && theirs.path == settings.path {
                return Err(Error::conflict("another site has this host and path already"));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Sites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sites").field("drive_hosts", &self.0.drive_hosts).finish_non_exhaustive()
    }
}
