//! Which upload of a service is which file's: services list uploads by key alone, and tell nothing of what they are made of.
//!
//! One small file for each large file on its way, in the user's state folder (`$XDG_STATE_HOME/holdfast/uploads`), named by where the file goes to.
//! It is locked while the file is moved. Lost or torn, it costs beginning anew; so it is never synced.

use crate::local::blocking;
use holdfast_base::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const MAGIC: &str = "holdfast upload 1";
const FILE_BYTES_MAX: u64 = 64 << 10;
/// What was begun so long ago is given up.
const OLD: Duration = Duration::from_hours(7 * 24);
/// Files that are looked at for old ones.
const LOOKED_AT: usize = 10_000;

/// What was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Begun {
    /// Address of the bucket.
    pub(super) address: String,
    pub(super) key: String,
    /// What the service calls the upload.
    pub(super) upload: String,
    pub(super) part_bytes: u64,
    /// The sum of what names source and version.
    pub(super) content: String,
}

/// A locked journal; none where there is no place for it.
#[derive(Debug)]
pub(super) struct Journal(Option<(PathBuf, File)>);

/// Where journals are.
pub(super) fn usual_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("holdfast/uploads"))
}

impl Journal {
    /// That of a file, with what was begun of it.
    pub(super) async fn open(folder: Option<PathBuf>, address: &str, key: &str) -> Result<(Self, Option<Begun>)> {
        let name = blake3::hash(format!("{address}\n{key}").as_bytes()).to_hex().to_string();
        let (address, key) = (address.to_owned(), key.to_owned());
        blocking(move || {
            let Some(folder) = folder else { return Ok((Self(None), None)) };
            let (journal, begun) = Self::open_at(&folder, &name)?;
            let begun = begun.filter(|begun| begun.address == address && begun.key == key);
            if let (Some((_, file)), Some(_)) = (&journal.0, &begun) {
                // Somebody goes on with it, so it is not old.
                file.set_modified(SystemTime::now())?;
            }
            Ok((journal, begun))
        })
        .await
    }

    fn open_at(folder: &Path, name: &str) -> Result<(Self, Option<Begun>)> {
        let path = folder.join(name);
        let opened = DirBuilder::new().recursive(true).mode(0o700).create(folder).and_then(|()| {
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)
        });
        let mut file = match opened {
            Ok(file) => file,
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "an upload could not go on after a kill");
                return Ok((Self(None), None));
            }
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive)
            .is_err_and(|errno| errno == rustix::io::Errno::WOULDBLOCK)
        {
            return Err(Error::new(ErrorKind::Unavailable, "another transfer is writing this file"));
        }
        let mut text = String::new();
        // What cannot be read is nothing.
        let read = (&mut file).take(FILE_BYTES_MAX).read_to_string(&mut text).is_ok();
        let begun = if read { Begun::parse(&text) } else { None };
        Ok((Self(Some((path, file))), begun))
    }

    /// Writes down what was begun.
    pub(super) async fn write(&mut self, begun: &Begun) {
        let Some((_, file)) = &self.0 else { return };
        let (text, file) = (begun.text(), file.try_clone());
        let written = blocking(move || {
            let mut file = file?;
            file.set_len(0)?;
            file.rewind()?;
            Ok(file.write_all(text.as_bytes())?)
        });
        if let Err(error) = written.await {
            tracing::debug!(%error, "an upload could not be written down");
        }
    }

    /// Nothing is under way any more.
    pub(super) async fn end(&mut self) {
        let Some((path, _lock)) = self.0.take() else { return };
        // The lock is let go of when it is gone.
        let _ = blocking(move || Ok(fs::remove_file(path)?)).await;
    }
}

/// What was begun at this address so long ago that nobody goes on with it, each with its journal.
pub(super) async fn old(folder: Option<PathBuf>, address: &str) -> Vec<(Journal, Begun)> {
    let address = address.to_owned();
    let found = blocking(move || {
        let Some(folder) = folder else { return Ok(Vec::new()) };
        Ok(old_at(&folder, &address, SystemTime::now() - OLD))
    });
    found.await.unwrap_or_default()
}

fn old_at(folder: &Path, address: &str, before: SystemTime) -> Vec<(Journal, Begun)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let old = entries.flatten().take(LOOKED_AT).filter(|entry| {
        let written = entry.metadata().and_then(|metadata| metadata.modified());
        written.is_ok_and(|written| written < before)
    });
    let names = old.filter_map(|entry| entry.file_name().into_string().ok());
    let opened = names.filter_map(|name| Journal::open_at(folder, &name).ok());
    opened.filter_map(|(journal, begun)| Some((journal, begun.filter(|begun| begun.address == address)?))).collect()
}

impl Begun {
    fn text(&self) -> String {
        let Self { address, key, upload, part_bytes, content } = self;
        [MAGIC, address, key, upload, &part_bytes.to_string(), content, "end\n"].join("\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let lines: Vec<&str> = text.lines().collect();
        let [MAGIC, address, key, upload, part_bytes, content, "end"] = lines[..] else { return None };
        let text = |text: &str| text.to_owned();
        let part_bytes = part_bytes.parse().ok().filter(|bytes| *bytes > 0)?;
        Some(Self { address: text(address), key: text(key), upload: text(upload), part_bytes, content: text(content) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Begun {
        let (address, key) = ("https://h/bucket".to_owned(), "a b/ü".to_owned());
        Begun { address, key, upload: "u".into(), part_bytes: 8 << 20, content: "c".into() }
    }

    #[tokio::test]
    async fn what_was_begun_is_found_again_by_one_at_a_time_until_it_is_done() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut first, nothing) = Journal::open_at(folder.path(), "n").expect("opens");
        assert_eq!(nothing, None);
        first.write(&begun()).await;
        assert_eq!(Journal::open_at(folder.path(), "n").expect_err("locked").kind(), ErrorKind::Unavailable);
        drop(first);
        let (mut second, found) = Journal::open_at(folder.path(), "n").expect("opens");
        assert_eq!(found, Some(begun()));
        second.end().await;
        assert_eq!(Journal::open_at(folder.path(), "n").expect("opens").1, None);
    }

    #[tokio::test]
    async fn what_is_old_is_found_for_its_own_bucket_only() {
        let folder = tempfile::tempdir().expect("a folder");
        Journal::open_at(folder.path(), "n").expect("opens").0.write(&begun()).await;
        let later = SystemTime::now() + Duration::from_mins(1);
        assert!(old_at(folder.path(), "https://h/other", later).is_empty());
        assert!(old_at(folder.path(), "https://h/bucket", SystemTime::now() - OLD).is_empty());
        assert_eq!(old_at(folder.path(), "https://h/bucket", later).len(), 1);
    }

    #[test]
    fn what_is_torn_is_nothing() {
        let text = begun().text();
        for end in 0..text.len() - 1 {
            assert_eq!(text.get(..end).and_then(Begun::parse), None, "{end}");
        }
    }
}
