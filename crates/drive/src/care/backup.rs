//! Copies of a drive elsewhere, taken while it is in use, and back again.
//!
//! ```text
//! DEST/backup.json    what is here, written last: without it the copy is not whole
//! DEST/catalogue.db   a consistent snapshot of the catalogue
//! DEST/packs/…        packs, laid out as in a data directory
//! ```
//! The snapshot is taken first and the packs it refers to are copied after it: packs only grow until they are closed, so all the
//! snapshot refers to is in them. If reclaim deletes one of them meanwhile, a newer snapshot no longer refers to it, so the backup begins
//! again ([`ATTEMPTS_MAX`]). Packs that are there already with the right length are not copied again, so the second backup into a
//! folder costs what changed. Every block copied is checked against its sum; everything is synced before `backup.json` is.
//!
//! Packs are sealed and stay so: the copy is as secret as the original, except for the names in the catalogue.

use super::PAGE_ROWS;
use super::check::{CheckOptions, CheckReport, check};
use bytes::Bytes;
use holdfast_base::{Clock, Error, ErrorKind, Result, SystemClock};
use holdfast_blob::BlobStore;
use holdfast_blob::fs::FsStore;
use holdfast_meta::sqlite::{Options, SqliteCatalogue};
use holdfast_meta::{Catalogue, Pack};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Attempts before a backup gives up because reclaim keeps deleting packs under it.
const ATTEMPTS_MAX: usize = 5;
/// Bytes copied at a time.
const PIECE_BYTES: u64 = 4 << 20;
const MANIFEST: &str = "backup.json";
const CATALOGUE: &str = "catalogue.db";
const PACKS: &str = "packs";

/// What a backup or restore did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// When it ended.
    pub finished_ms: i64,
    /// Packs in it.
    pub packs: u64,
    /// Packs that had to be copied.
    pub packs_copied: u64,
    /// Bytes that had to be copied.
    pub bytes_copied: u64,
    /// Packs of earlier backups that were removed, since nothing refers to them any more.
    pub packs_removed: u64,
    /// The proof of the copy: every sum, reference and byte that was copied.
    pub check: CheckReport,
}

/// Copies the drive of `catalogue` and `store` into the folder `dest`, which is empty or holds an earlier backup of it.
pub async fn backup(catalogue: &SqliteCatalogue, store: &dyn BlobStore, dest: &Path) -> Result<BackupReport> {
    prepare(dest)?;
    let target = FsStore::open(dest.join(PACKS))?;
    for _ in 0..ATTEMPTS_MAX {
        remove_if_there(&dest.join(MANIFEST))?;
        remove_snapshot(dest)?;
        catalogue.snapshot_to(&dest.join(CATALOGUE)).await?;
        let snapshot = open_catalogue(&dest.join(CATALOGUE)).await?;
        let copied = copy_packs(&*snapshot, store, &target).await;
        let copied = match copied {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                tracing::info!("a pack was reclaimed during the backup; beginning again");
                close(snapshot).await?;
                continue;
            }
            other => other?,
        };
        let packs_removed = remove_others(&copied.names, &target).await?;
        let check = check(&*snapshot, &target, CheckOptions { read_data: true, repair: false }).await?;
        close(snapshot).await?;
        let report = BackupReport {
            finished_ms: SystemClock.now_ms(),
            packs: copied.names.len() as u64,
            packs_copied: copied.packs,
            bytes_copied: copied.bytes,
            packs_removed,
            check,
        };
        write_manifest(dest, &report)?;
        return Ok(report);
    }
    Err(Error::unavailable("packs kept being reclaimed while they were copied; try again when the drive is quieter"))
}

/// Copies a backup in `source` to the empty catalogue path and store of a new data directory, and proves the result.
pub async fn restore(source: &Path, catalogue_path: &Path, store: &dyn BlobStore) -> Result<BackupReport> {
    if !source.join(MANIFEST).is_file() {
        return Err(Error::invalid("there is no whole backup in that folder: it has no backup.json"));
    }
    if catalogue_path.exists() || !store.list(None, 1).await?.is_empty() {
        return Err(Error::conflict("there is a drive already; a backup is restored into an empty data directory"));
    }
    let from = FsStore::open(source.join(PACKS))?;
    let backed_up = open_catalogue(&source.join(CATALOGUE)).await?;
    let copied = copy_packs(&*backed_up, &from, store).await?;
    backed_up.snapshot_to(catalogue_path).await?;
    close(backed_up).await?;
    let restored = open_catalogue(catalogue_path).await?;
    let check = check(&*restored, store, CheckOptions { read_data: true, repair: false }).await?;
    close(restored).await?;
    Ok(BackupReport {
        finished_ms: SystemClock.now_ms(),
        packs: copied.names.len() as u64,
        packs_copied: copied.packs,
        bytes_copied: copied.bytes,
        packs_removed: 0,
        check,
    })
}

#[derive(Default)]
struct Copied {
    names: HashSet<holdfast_base::PackName>,
    packs: u64,
    bytes: u64,
}

/// Copies every pack the catalogue has live blocks in.
async fn copy_packs(catalogue: &dyn Catalogue, from: &dyn BlobStore, to: &dyn BlobStore) -> Result<Copied> {
    let mut copied = Copied::default();
    let mut after = None;
    loop {
        let page = catalogue.packs(after, PAGE_ROWS).await?;
        let Some(last) = page.last() else { return Ok(copied) };
        after = Some(last.id);
        for pack in page.iter().filter(|pack| pack.live_bytes > 0) {
            let bytes = copy_pack(pack, from, to).await?;
            copied.names.insert(pack.name);
            copied.packs += u64::from(bytes > 0);
            copied.bytes += bytes;
        }
    }
}

/// Copies one pack unless it is there; answers the bytes copied.
async fn copy_pack(pack: &Pack, from: &dyn BlobStore, to: &dyn BlobStore) -> Result<u64> {
    let gone = || Error::not_found(format!("pack {} is gone", pack.name));
    let bytes = from.len(pack.name).await?.ok_or_else(gone)?;
    let there = to.len(pack.name).await?;
    if there == Some(bytes) {
        return Ok(0);
    }
    if there.is_some() {
        to.delete(pack.name).await?;
    }
    let mut appender = to.append(pack.name).await?;
    let mut offset = 0;
    while offset < bytes {
        let piece = PIECE_BYTES.min(bytes - offset);
        let length = usize::try_from(piece).map_err(|_| Error::internal("a piece is over the machine's length"))?;
        let read = from.read(pack.name, offset, length, Vec::new()).await?;
        appender.append(vec![Bytes::from(read)]).await?;
        offset += piece;
    }
    appender.sync().await?;
    Ok(bytes)
}

async fn remove_others(keep: &HashSet<holdfast_base::PackName>, store: &dyn BlobStore) -> Result<u64> {
    let (mut removed, mut after) = (0, None);
    loop {
        let page = store.list(after, PAGE_ROWS).await?;
        let Some(last) = page.last() else { return Ok(removed) };
        after = Some(last.name);
        for entry in page.iter().filter(|entry| !keep.contains(&entry.name)) {
            store.delete(entry.name).await?;
            removed += 1;
        }
    }
}

async fn open_catalogue(path: &Path) -> Result<Arc<SqliteCatalogue>> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || SqliteCatalogue::open(&path, &Options::default()).map(Arc::new))
        .await
        .map_err(|error| Error::internal("a task was lost").with_source(error))?
}

async fn close(catalogue: Arc<SqliteCatalogue>) -> Result<()> {
    catalogue.close().await
}

/// Makes `dest`, or checks that what is in it is a backup.
fn prepare(dest: &Path) -> Result<()> {
    std::fs::create_dir_all(dest).map_err(|error| Error::from(error).context("making the backup's folder"))?;
    for entry in std::fs::read_dir(dest).map_err(Error::from)? {
        let name = entry.map_err(Error::from)?.file_name();
        let ours = [MANIFEST, CATALOGUE, PACKS].iter().any(|ours| name.to_string_lossy().starts_with(ours));
        if !ours {
            let name = name.to_string_lossy();
            return Err(Error::conflict(format!(
                "the folder holds {name:?}, which is no part of a backup; use an empty one"
            )));
        }
    }
    Ok(())
}

fn remove_snapshot(dest: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        remove_if_there(&dest.join(format!("{CATALOGUE}{suffix}")))?;
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::from(error)),
        _ => Ok(()),
    }
}

/// Writes what the backup holds: aside, synced, renamed, the folder synced.
fn write_manifest(dest: &Path, report: &BackupReport) -> Result<()> {
    let text = serde_json::to_vec_pretty(report).map_err(|error| Error::internal(error.to_string()))?;
    let aside = dest.join(format!("{MANIFEST}.new"));
    std::fs::write(&aside, text)?;
    File::open(&aside)?.sync_all()?;
    std::fs::rename(&aside, dest.join(MANIFEST))?;
    File::open(dest)?.sync_all()?;
    Ok(())
}
