//! What is told of a mount, and what it is told to do, beside what the kernel asks.

use crate::core::Core;
use crate::status::{DiskCacheStatus, JournalStatus, PinStatus, Refused, Status};
use fuser::INodeNo;
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use holdfast_drive::{Condition, DiskCache, Durable, Entry, NodeKind, PinState, Pinned, Pinning, Waiting};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Nodes below a folder that are looked at to forget them.
const EVICTED_MAX: usize = 100_000;
/// Members of a folder that are listed at a time.
const PAGE: usize = 512;

/// What of a status never changes.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) at: String,
    pub(crate) target: String,
    pub(crate) space: String,
    pub(crate) read_only: bool,
    pub(crate) since_ms: i64,
}

impl Core {
    /// How the mount does. Waits for nobody.
    pub(crate) fn status(&self, about: About) -> Status {
        let files = self.files.all();
        let unsaved: Vec<u64> = files.iter().filter_map(|file| file.shown().unsaved_bytes).collect();
        let Condition { away, cache_bytes, deferred, disk } = self.tree.condition();
        let (operations_under_way, under_way) = self.meter.under_way();
        let About { at, target, space, read_only, since_ms } = about;
        Status {
            at,
            target,
            space,
            read_only,
            process: std::process::id(),
            since_ms,
            away_ms: away.map(milliseconds),
            open_files: files.len() as u64,
            unsaved_files: unsaved.len() as u64,
            unsaved_bytes: unsaved.iter().sum(),
            cache_bytes,
            disk_cache: disk.map(disk_cache),
            journal: deferred.map(journal),
            operations_under_way,
            under_way,
            operations: self.meter.operations(),
        }
    }

    /// Has everything that was written so far on disk; answers how many files had something to be saved. What cannot be saved stays, and is told.
    pub(crate) async fn flush_all(&self) -> Result<u64> {
        let (mut saved, mut failed, mut first) = (0, 0, None);
        for file in self.files.all() {
            if file.shown().unsaved_bytes.is_none() {
                continue;
            }
            match file.save(self, Durable::Now).await {
                Ok(()) => saved += 1,
                Err(error) => {
                    failed += 1;
                    let name = file.shown().entry.node.name;
                    first.get_or_insert_with(|| error.context(name));
                }
            }
        }
        // Whatever else is doing so: when this answers, it is done.
        self.tree.settle().await?;
        match first {
            Some(error) => Err(error.context(format!("{failed} files could not be saved, first"))),
            None => Ok(saved),
        }
    }

    /// Lets go of content that is kept here, of a file, of all files below a folder, or of all, and of what is pinned only if that is said; answers the inodes
    /// that the kernel is to forget the content of.
    pub(crate) async fn evict(&self, path: Option<&str>, pinned_too: bool) -> Result<HashSet<INodeNo>> {
        let Some(path) = path else {
            self.tree.forget(None, pinned_too).await;
            let open = self.files.all();
            return Ok(self.known.with_pages().into_iter().chain(open.iter().map(|file| self.ino(file.id))).collect());
        };
        let mut found = vec![self.find(path).await?];
        let mut forgotten = HashSet::new();
        let mut looked = 0;
        while let Some(entry) = found.pop() {
            looked += 1;
            if looked > EVICTED_MAX {
                return Err(Error::invalid(format!("{path} has more than {EVICTED_MAX} nodes below it: evict all")));
            }
            if entry.node.kind == NodeKind::Folder {
                let mut after = None;
                loop {
                    let page = self.tree.list(entry.node.id, after.as_ref(), PAGE).await?;
                    after = page.last().map(|entry| NodeName::new(&entry.node.name)).transpose()?;
                    let is_last = page.len() < PAGE;
                    found.extend(page);
                    if is_last || found.len() > EVICTED_MAX {
                        break;
                    }
                }
            } else {
                if entry.node.content.is_some() {
                    self.tree.forget(entry.node.content, pinned_too).await;
                }
                let ino = self.ino(entry.number());
                self.known.is_mixed(ino);
                forgotten.insert(ino);
            }
        }
        Ok(forgotten)
    }

    /// Keeps what is at a path here from now on.
    pub(crate) async fn pin(&self, path: &str) -> Result<()> {
        let pinning = self.pinning()?;
        // What was answered first is nowhere yet where it could be fetched from.
        let entry = self.find(path).await?;
        self.tree.hand_over().await?;
        pinning.pin(entry.node.id, shown(path)).await
    }

    /// Keeps it no more. What is not there any more is found by the path it had.
    pub(crate) async fn unpin(&self, path: &str) -> Result<()> {
        let pinning = self.pinning()?;
        let node = self.find(path).await.ok().map(|entry| entry.node.id);
        if pinning.unpin(&shown(path), node).await? {
            return Ok(());
        }
        Err(Error::not_found(format!("{path} is not pinned; `holdfast mount status` lists what is")))
    }

    fn pinning(&self) -> Result<Arc<dyn Pinning>> {
        let why = "this mount keeps nothing on this machine: one from a server does, with --cache DIR";
        self.tree.pinning().ok_or_else(|| Error::new(ErrorKind::Unsupported, why))
    }

    /// The node at a path from the mount's root.
    async fn find(&self, path: &str) -> Result<Entry> {
        let missing = || Error::not_found(format!("there is no {path} in the mount"));
        let mut entry = self.tree.entry(self.tree.root()).await?.ok_or_else(missing)?;
        for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
            entry = self.tree.lookup(entry.node.id, &NodeName::new(name)?).await?.ok_or_else(missing)?;
        }
        Ok(entry)
    }
}

/// A path from the mount's root, as it is told.
fn shown(path: &str) -> String {
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    format!("/{}", names.join("/"))
}

fn disk_cache(disk: DiskCache) -> DiskCacheStatus {
    let pin = |pinned: Pinned| {
        let Pinned { path, state, files, files_here, bytes, bytes_here, why } = pinned;
        let state = match state {
            PinState::Waits => "waits",
            PinState::Fetches => "fetches",
            PinState::Here => "here",
            PinState::NoRoom => "no-room",
            PinState::Fails => "fails",
            PinState::Gone => "gone",
        };
        PinStatus { path, state: state.into(), files, files_here, bytes, bytes_here, why }
    };
    DiskCacheStatus {
        folder: disk.folder,
        bytes: disk.bytes,
        bytes_max: disk.bytes_max,
        pinned_bytes: disk.pinned_bytes,
        things: disk.things,
        hits: disk.hits,
        misses: disk.misses,
        hit_bytes: disk.hit_bytes,
        evicted: disk.evicted,
        damaged: disk.damaged,
        skipped: disk.skipped,
        trouble: disk.trouble,
        pins: disk.pins.into_iter().map(pin).collect(),
    }
}

fn journal(waiting: Waiting) -> JournalStatus {
    let Waiting { changes, bytes, unsynced_bytes, oldest_ns, refused, reasons, failure } = waiting;
    let age = |ns: i64| u64::try_from(crate::attributes::now_ns().saturating_sub(ns) / 1_000_000).unwrap_or(0);
    let reasons = reasons.into_iter().map(|(name, reason)| Refused { name, reason }).collect();
    JournalStatus { changes, bytes, unsynced_bytes, oldest_ms: oldest_ns.map(age), refused, reasons, failure }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
