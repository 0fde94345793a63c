//! Publishing: from a folder to a live snapshot.
//!
//! ```text
//! scan ─ compose ─ store what is new ─ index ─ settings ─ pointer ─ history ─ sweep
//! ```
//! What holds, whatever happens:
//!
//! - *Atomic.* Nothing refers to a new snapshot until the pointer, one small file, is replaced in one transaction. A publish that
//!   fails or is killed before leaves the old snapshot live and at most some content nothing refers to.
//! - *One at a time, without a lock that could be left behind.* The pointer is replaced only if it still is what the publish
//!   started from. Of two publishers at once one wins; the other is told (`Conflict`) and changed nothing.
//! - *Nothing live is swept away.* Only a publish that has just won sweeps, what it keeps is what the pointer and the kept indices
//!   name, and what is young is left alone ([`UNREFERENCED_MS`]): another publish may be about to refer to it. A publish uses
//!   stored content again only if the snapshot it started from names it; anything else it writes anew, which makes it young.
//!
//! Limit: each file is read in one version, but files changed while a publish runs may be of before or after; the publisher is told.

mod gather;
mod storing;
mod sweep;

use crate::compose::{Composed, Place, compose};
use crate::index::Index;
use crate::layout::{HISTORY, LIVE, SETTINGS, SNAPSHOTS, check_name, new_id, next_snapshot};
use crate::limits::{INDEX_BYTES_MAX, NOTE_BYTES_MAX, UNREFERENCED_MS};
use crate::settings::{Access, HistoryEntry, Pointer, Scheduled, Settings, SettingsChange, VERSION};
use crate::store::Store;
use gather::{Folder, gather};
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_drive::{Expect, Location, Node};
use serde::Serialize;

/// What is to be published, and how.
#[derive(Debug, Clone)]
pub struct Publication {
    /// The folder.
    pub from: Location,
    /// The site's name.
    pub site: String,
    /// For the history.
    pub note: String,
    /// Goes live at this time rather than now.
    pub at_ms: Option<i64>,
    /// Is stored and does not go live, to be previewed.
    pub draft: bool,
    /// Only composes: nothing is stored.
    pub check: bool,
    /// Settings changed along with it.
    pub settings: SettingsChange,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Published {
    /// The site.
    pub site: String,
    /// The snapshot; none if nothing was stored.
    pub snapshot: Option<String>,
    /// Whether it is live now.
    pub live: bool,
    /// When it goes live, if later.
    pub live_ms: Option<i64>,
    /// The site's address, as far as it is known.
    pub url: Option<String>,
    /// Files of the snapshot.
    pub files: usize,
    /// Of them, composed here.
    pub composed: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Files whose content was not there before.
    pub stored_files: usize,
    /// Bytes of these.
    pub stored_bytes: u64,
    /// Paths of all files, for a check.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// What the publisher should know.
    pub notes: Vec<String>,
}

/// A site as a publish found it.
pub(crate) struct Found {
    pub(crate) settings: Settings,
    pub(crate) settings_node: Node,
    pub(crate) pointer: Pointer,
    pub(crate) pointer_node: Node,
}

impl Found {
    pub(crate) async fn read(store: &Store) -> Result<Self> {
        let (pointer, pointer_node) = store.small(LIVE).await?;
        let (settings, settings_node) = store.small(SETTINGS).await?;
        Ok(Self { settings, settings_node, pointer, pointer_node })
    }
}

/// The index of a snapshot; none if there is none.
pub(crate) async fn index(store: &Store, snapshot: &str) -> Result<Option<Index>> {
    let found = store.record::<Index>(&format!("{SNAPSHOTS}/{snapshot}.json"), INDEX_BYTES_MAX).await?;
    let Some((index, _)) = found else { return Ok(None) };
    if index.version > VERSION {
        return Err(Error::new(ErrorKind::Unsupported, format!("snapshot {snapshot} was made by a newer release")));
    }
    Ok(Some(index))
}

impl Publication {
    pub(crate) fn check_request(&self, now_ms: i64) -> Result<()> {
        check_name(&self.site)?;
        if self.note.len() > NOTE_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("a note has {NOTE_BYTES_MAX} bytes at most")));
        }
        if self.at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            return Err(Error::invalid("the time to go live is in the past"));
        }
        if self.at_ms.is_some() && self.draft {
            return Err(Error::invalid("a draft does not go live: give a time or ask for a draft, not both"));
        }
        Ok(())
    }
}

/// Composes without storing anything. `settings` are those of the site as they would be.
pub(crate) async fn try_out(source: &Store, publication: &Publication, settings: &Settings) -> Result<Published> {
    let folder = gather(source, &publication.from).await?;
    let composed = compose(folder.sources(), &place(settings))?;
    let plain = folder.plain.keys().chain(composed.as_is.keys()).map(|path| format!("/{path}"));
    let outputs = composed.outputs.iter().filter(|output| !output.listing);
    let mut routes: Vec<String> = plain.chain(outputs.clone().map(|output| output.route.clone())).collect();
    routes.sort();
    let bytes = folder.plain.values().map(|node| node.size).sum::<u64>()
        + composed.as_is.values().map(|bytes| bytes.len() as u64).sum::<u64>()
        + outputs.clone().map(|output| output.bytes.len() as u64).sum::<u64>();
    Ok(Published {
        site: publication.site.clone(),
        url: settings.url(),
        files: routes.len(),
        composed: outputs.count(),
        bytes,
        routes,
        notes: composed.notes,
        ..Published::default()
    })
}

fn place(settings: &Settings) -> Place {
    Place { path: settings.path.clone(), url: settings.url(), public: settings.access == Access::Public }
}

/// Publishes into a site that exists.
pub(crate) async fn publish(
    source: &Store,
    store: &Store,
    publication: Publication,
    found: Found,
    now_ms: impl Fn() -> i64,
) -> Result<Published> {
    let began_ms = now_ms();
    let mut settings = found.settings.clone();
    publication.settings.clone().apply(&mut settings)?;
    settings.from = Some(publication.from.to_string());
    let folder = gather(source, &publication.from).await?;
    let composed = compose(folder.sources(), &place(&settings))?;
    let newest = store.members(SNAPSHOTS).await?.pop().map(|node| node.name);
    let base = base(store, &found.pointer, newest.as_deref(), began_ms).await?;
    let id = next_snapshot(newest.as_deref())?;
    let mut published = Published { site: publication.site.clone(), ..Published::default() };
    let index = build(source, store, &folder, &composed, base, (&settings, &id, began_ms), &mut published).await?;
    let index = Index {
        by: store.who.name.clone(),
        from: publication.from.to_string(),
        note: publication.note.clone(),
        ..index
    };
    let path = format!("{SNAPSHOTS}/{id}.json");
    store.write_record(&path, &index, Expect::Absent).await?;
    let switched = switch(store, &publication, &settings, &found, &id, (began_ms, now_ms())).await;
    let pointer = match switched {
        Ok(pointer) => pointer,
        Err(error) => {
            // Nothing refers to it; if this fails too, the next publish's sweep finds it.
            let _ = store.remove(&path, Expect::Any).await;
            return Err(error);
        }
    };
    published.notes.extend(composed.notes);
    if folder.has_changed(source).await? {
        published
            .notes
            .push("the folder's space changed while it was published: files may be of before or after".into());
    }
    note_in_history(store, &publication, &id, now_ms()).await?;
    if let Err(error) = sweep::sweep(store, settings.keep, &pointer, now_ms()).await {
        tracing::warn!(%error, site = publication.site, "what is no longer needed was not removed; the next publish will");
    }
    published.url = settings.url();
    published.live = pointer.0.live.as_deref() == Some(&id);
    published.live_ms = publication.at_ms;
    published.snapshot = Some(id);
    Ok(published)
}

/// The snapshot whose content is used again: the live one, or the newest.
async fn base(store: &Store, pointer: &Pointer, newest: Option<&str>, now_ms: i64) -> Result<Option<Index>> {
    if let Some(live) = pointer.at(now_ms) {
        return index(store, live).await;
    }
    match newest.and_then(|name| name.strip_suffix(".json")) {
        Some(newest) => index(store, newest).await,
        None => Ok(None),
    }
}

async fn build(
    source: &Store,
    store: &Store,
    folder: &Folder,
    composed: &Composed,
    base: Option<Index>,
    (settings, id, now_ms): (&Settings, &str, i64),
    published: &mut Published,
) -> Result<Index> {
    let storing = storing::Storing::new(source, store, base, settings.object_key()?, now_ms);
    let stored = storing.all(folder, composed).await?;
    published.files = stored.routes.values().filter(|route| !route.listing).count();
    published.composed = composed.outputs.iter().filter(|output| !output.listing).count();
    published.bytes = stored.routes.values().filter(|route| !route.listing).map(|route| route.bytes).sum();
    published.stored_files = stored.new_files;
    published.stored_bytes = stored.new_bytes;
    Ok(Index {
        version: VERSION,
        id: id.to_owned(),
        made_ms: now_ms,
        by: String::new(),
        from: String::new(),
        note: String::new(),
        title: composed.config.title.clone(),
        routes: stored.routes,
        redirects: composed.config.redirect.clone(),
        headers: composed.config.header.clone(),
        not_found: composed.not_found.clone(),
        search: stored.search,
        sources: stored.sources,
    })
}

/// Replaces the settings, if they change, and the pointer. Answers the pointer and its node's count.
async fn switch(
    store: &Store,
    publication: &Publication,
    settings: &Settings,
    found: &Found,
    id: &str,
    (began_ms, now_ms): (i64, i64),
) -> Result<(Pointer, i64)> {
    if now_ms - began_ms > UNREFERENCED_MS {
        return Err(Error::conflict(
            "publishing took so long that what it stored may be gone again; publish once more",
        ));
    }
    if *settings != found.settings {
        let written = store.write_record(SETTINGS, settings, Expect::Seq(found.settings_node.seq)).await;
        written.map_err(|error| lost(error, "the site's settings were changed"))?;
    }
    let mut pointer = found.pointer.clone().settled(now_ms);
    match publication.at_ms {
        Some(at_ms) => pointer.next = Some(Scheduled { snapshot: id.to_owned(), at_ms }),
        // What was scheduled before is older than this and must not replace it later.
        None if !publication.draft => (pointer.live, pointer.next) = (Some(id.to_owned()), None),
        None => {}
    }
    let node = set_pointer(store, &pointer, found.pointer_node.seq).await?;
    Ok((pointer, node.seq))
}

/// Replaces the pointer if it still is what was read.
pub(crate) async fn set_pointer(store: &Store, pointer: &Pointer, seq: i64) -> Result<Node> {
    let written = store.write_record(LIVE, pointer, Expect::Seq(seq)).await;
    written.map_err(|error| lost(error, "somebody else published this site"))
}

fn lost(error: Error, what: &str) -> Error {
    if error.kind() == ErrorKind::PreconditionFailed {
        return Error::conflict(format!(
            "{what} meanwhile, so nothing was changed here; look at `holdfast site history` and try again"
        ));
    }
    error
}

async fn note_in_history(store: &Store, publication: &Publication, id: &str, now_ms: i64) -> Result<()> {
    let action = match (publication.draft, publication.at_ms) {
        (true, _) => "draft",
        (_, Some(_)) => "schedule",
        _ => "publish",
    };
    let entry = HistoryEntry {
        at_ms: now_ms,
        by: store.who.name.clone(),
        action: action.into(),
        snapshot: Some(id.to_owned()),
        from: Some(publication.from.to_string()),
        live_ms: publication.at_ms,
        note: publication.note.clone(),
    };
    note(store, &entry).await
}

/// Adds an entry to the history.
pub(crate) async fn note(store: &Store, entry: &HistoryEntry) -> Result<()> {
    let path = format!("{HISTORY}/{}.json", new_id(entry.at_ms)?);
    store.write_record(&path, entry, Expect::Absent).await.map(|_| ())
}
