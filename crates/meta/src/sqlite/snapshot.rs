//! A consistent copy of a live catalogue, by SQLite's backup interface.
//!
//! The copy is of one moment; writers go on meanwhile, and the log grows by what they write. It is written aside, synced,
//! renamed and the folder synced: at the name asked for there is a whole copy or nothing. The copy needs no log beside it.

use super::SqliteCatalogue;
use super::fault::explain;
use super::open::{Opener, Purpose};
use holdfast_base::{Error, ErrorKind, Result};
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::fs::File;
use std::path::{Path, PathBuf};

impl SqliteCatalogue {
    /// Copies the catalogue as it is now to `path`, durably. Something there already is `AlreadyExists`.
    pub async fn snapshot_to(&self, path: &Path) -> Result<()> {
        let (opener, path) = (self.opener.clone(), path.to_owned());
        tokio::task::spawn_blocking(move || snapshot(&opener, &path))
            .await
            .map_err(|error| Error::internal("copying the catalogue met a defect").with_source(error))?
    }
}

fn snapshot(opener: &Opener, path: &Path) -> Result<()> {
    if path.exists() {
        return Err(Error::new(ErrorKind::AlreadyExists, format!("{} exists already", path.display())));
    }
    let aside = aside(path);
    if aside.exists() {
        std::fs::remove_file(&aside)?;
    }
    let source = opener.open(Purpose::Read).map_err(explain)?;
    let result = copy(&source, &aside).and_then(|()| keep(&aside, path));
    if result.is_err() {
        // What could not be finished is of no use; the first error is the one to report.
        let _ = std::fs::remove_file(&aside);
    }
    result.map_err(|error| error.context("copying the catalogue"))
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}

fn copy(source: &Connection, aside: &Path) -> Result<()> {
    let mut copy = Connection::open(aside).map_err(explain)?;
    // Nobody else sees the file, and it is synced once at the end.
    copy.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;").map_err(explain)?;
    let step = Backup::new(source, &mut copy).and_then(|backup| backup.step(-1)).map_err(explain)?;
    if step != StepResult::Done {
        return Err(Error::unavailable("the catalogue was busy; try again"));
    }
    // The copy's header still says that there is a log; without one it is whole in one file.
    copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).map_err(explain)?;
    copy.close().map_err(|(_, error)| explain(error))
}

fn keep(aside: &Path, path: &Path) -> Result<()> {
    File::open(aside)?.sync_all()?;
    std::fs::rename(aside, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()?;
    Ok(())
}
