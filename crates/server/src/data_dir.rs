//! The data directory: how it is made, how its version is known, and how two servers are kept apart.
//!
//! ```text
//! DIR/format        JSON: the format's number, the drive's random name, when it was made and by which release
//! DIR/lock          held exclusively by the server; contains its process id
//! DIR/catalogue.db  the catalogue
//! DIR/packs/        sealed packs
//! DIR/mounts/       what `holdfast mount` answered and the catalogue does not have yet: a folder a space, with a journal and whose it is
//! DIR/scratch/      made when slow uploads need it; its file has no name and is encrypted under a key that only the server has
//! DIR/tls/          the self-signed certificate, if one was asked for
//! DIR/sites.key     the key of the sites account
//! DIR/address       while a server runs: its addresses
//! ```
//!
//! `format` is written last (aside, synced, renamed, the folder synced), so a directory without it was never a drive: making it
//! again after a crash is safe. A directory that has other files in it and no `format` is somebody else's and is refused.

use aws_lc_rs::rand;
use holdfast_base::{Clock, Error, ErrorKind, Result, SystemClock, Uid};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Number of the layout this release reads and writes.
pub const FORMAT: u32 = 1;

const FORMAT_FILE: &str = "format";
const FORMAT_ASIDE: &str = "format.new";
const LOCK_FILE: &str = "lock";
const CATALOGUE_FILE: &str = "catalogue.db";
const PACKS: &str = "packs";

/// Longest `format` file that is read.
const FORMAT_BYTES_MAX: u64 = 64 << 10;

/// Contents of the `format` file. Fields a newer release adds are ignored here as long as the number is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// See [`FORMAT`].
    pub format: u32,
    /// Random name of the drive.
    #[serde(default)]
    pub drive: String,
    /// When it was made, in milliseconds since 1970.
    #[serde(default)]
    pub created_ms: i64,
    /// The release that made it.
    #[serde(default)]
    pub created_by: String,
}

/// A data directory of a version this program can use.
#[derive(Debug, Clone)]
pub struct DataDir {
    root: PathBuf,
    format: Format,
}

/// Held by the one server of a data directory; given back by the kernel when the process ends, however it ends.
#[derive(Debug)]
pub struct DataLock(#[expect(dead_code, reason = "the open file is the lock")] File);

/// A data directory that is being made; dropped before its end, there is none.
#[derive(Debug)]
pub struct Unfinished {
    directory: DataDir,
    _lock: DataLock,
}

impl Unfinished {
    /// The directory to be.
    pub const fn directory(&self) -> &DataDir {
        &self.directory
    }

    /// Makes it one: the `format` file is written and synced.
    pub fn finish(self) -> Result<DataDir> {
        let Self { directory, _lock } = self;
        let root = &directory.root;
        let at = |error: std::io::Error| Error::from(error).context(root.display());
        let text = serde_json::to_vec_pretty(&directory.format).map_err(|error| Error::internal(error.to_string()))?;
        replace_file(root, FORMAT_ASIDE, FORMAT_FILE, &text).map_err(at)?;
        if let Some(parent) = root.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_folder(parent).map_err(at)?;
        }
        Ok(directory)
    }
}

impl DataDir {
    /// Opens a data directory; one that was never made is `NotFound` and says how to make it.
    pub fn open(root: &Path) -> Result<Self> {
        Self::try_open(root)?.ok_or_else(|| {
            Error::not_found(format!(
                "{} is not a Holdfast data directory; `holdfast serve --data {}` makes one",
                root.display(),
                root.display()
            ))
        })
    }

    /// Opens a data directory, or makes it if there is nothing there.
    pub fn open_or_init(root: &Path) -> Result<Self> {
        match Self::try_open(root)? {
            Some(opened) => Ok(opened),
            None => Self::init(root),
        }
    }

    fn try_open(root: &Path) -> Result<Option<Self>> {
        let path = root.join(FORMAT_FILE);
        let at = |error: std::io::Error| Error::from(error).context(path.display());
        let mut text = String::new();
        match File::open(&path) {
            Ok(file) => file.take(FORMAT_BYTES_MAX).read_to_string(&mut text).map_err(at)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(error)),
        };
        let format = parse_format(&text).map_err(|error| error.context(path.display()))?;
        Ok(Some(Self { root: root.to_owned(), format }))
    }

    fn init(root: &Path) -> Result<Self> {
        match Self::begin(root) {
            Ok(unfinished) => unfinished.finish(),
            // Another process was faster.
            Err(error) => Self::try_open(root)?.ok_or(error),
        }
    }

    /// Begins a data directory where there is none: until it is finished, it is not one.
    pub fn begin(root: &Path) -> Result<Unfinished> {
        let at = |error: std::io::Error| Error::from(error).context(root.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(at)?;
        if root.join(FORMAT_FILE).exists() {
            return Err(Error::conflict(format!("{} has a drive in it already", root.display())));
        }
        refuse_foreign_files(root)?;
        // The lock keeps two first starts from making two drives in one place.
        let lock = lock(root)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(root.join(PACKS)).map_err(at)?;
        let format = Format {
            format: FORMAT,
            drive: random_uid()?.to_string(),
            created_ms: SystemClock.now_ms(),
            created_by: format!("holdfast {}", env!("CARGO_PKG_VERSION")),
        };
        Ok(Unfinished { directory: Self { root: root.to_owned(), format }, _lock: lock })
    }

    /// The process that holds the directory, as far as its lock file says.
    pub fn holder(&self) -> Option<i32> {
        fs::read_to_string(self.root.join(LOCK_FILE)).ok()?.trim().parse().ok()
    }

    /// Takes the directory for this process alone. Held by another process it is `Conflict`, and the message names it.
    pub fn lock(&self) -> Result<DataLock> {
        lock(&self.root)
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What `format` says.
    pub const fn format(&self) -> &Format {
        &self.format
    }

    /// The random name the directory was given when it was made: it tells one node from another.
    pub fn uid(&self) -> Uid {
        // A directory of before the name, or of a hand that edited it: its node is one more without a name.
        self.format.drive.parse().unwrap_or(Uid([0; Uid::BYTES]))
    }

    /// The catalogue's database.
    pub fn catalogue(&self) -> PathBuf {
        self.root.join(CATALOGUE_FILE)
    }

    /// The folder of packs.
    pub fn packs(&self) -> PathBuf {
        self.root.join(PACKS)
    }

    /// Where a running server says how to reach it, for commands on this machine.
    pub fn address_file(&self) -> PathBuf {
        self.root.join("address")
    }

    /// The folder of the file that slow uploads wait in.
    pub fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// Where mounts keep what they answered and the catalogue does not have yet.
    pub fn mounts(&self) -> PathBuf {
        self.root.join("mounts")
    }

    /// Whether mounts left journals that are more than their header of 24 bytes.
    pub fn changes_wait(&self) -> Result<bool> {
        let listed = |folder: &Path| match fs::read_dir(folder) {
            Ok(entries) => entries.collect::<std::io::Result<Vec<_>>>(),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        };
        for mount in listed(&self.mounts())? {
            for entry in listed(&mount.path())? {
                let path = PathBuf::from(entry.file_name());
                // What is damaged is kept beside them.
                let is_journal = path.extension().is_none() && path.to_string_lossy().starts_with("journal-");
                if is_journal && entry.metadata()?.len() > 24 {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A file that is there while mounts on other machines may have locks.
    pub fn lock_mark(&self) -> PathBuf {
        self.root.join("mount-locks")
    }

    /// The folder of the self-signed certificate.
    pub fn tls(&self) -> PathBuf {
        self.root.join("tls")
    }
}

fn parse_format(text: &str) -> Result<Format> {
    /// Read first: a newer format may have other fields, but it has a number.
    #[derive(Deserialize)]
    struct Number {
        format: u32,
    }
    let damaged = |error: serde_json::Error| Error::damaged(format!("the format file is unreadable: {error}"));
    let number: Number = serde_json::from_str(text).map_err(damaged)?;
    if number.format > FORMAT {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "this data directory has format {}, made by a newer release; this is holdfast {}, which reads up to format \
                 {FORMAT}. Upgrade holdfast, or restore a backup made with the older release. Nothing was changed",
                number.format,
                env!("CARGO_PKG_VERSION"),
            ),
        ));
    }
    serde_json::from_str(text).map_err(damaged)
}

/// A directory with files we never make is not ours to fill.
fn refuse_foreign_files(root: &Path) -> Result<()> {
    let ours = [LOCK_FILE, FORMAT_ASIDE, PACKS, "holdfast.toml", "tls", "lost+found"];
    let at = |error: std::io::Error| Error::from(error).context(root.display());
    for entry in fs::read_dir(root).map_err(at)? {
        let name = entry.map_err(at)?.file_name();
        if !ours.iter().any(|known| name == *known) {
            return Err(Error::conflict(format!(
                "{} has other files in it ({}) and is not a Holdfast data directory: name an empty or a new folder",
                root.display(),
                name.display()
            )));
        }
    }
    Ok(())
}

fn lock(root: &Path) -> Result<DataLock> {
    let path = root.join(LOCK_FILE);
    let at = |error: std::io::Error| Error::from(error).context(path.display());
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(at)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.take(32).read_to_string(&mut holder);
            let holder = holder.trim();
            let who = if holder.is_empty() { "another process".to_owned() } else { format!("process {holder}") };
            return Err(Error::conflict(format!(
                "{who} is using {}: one server per data directory. Stop it first, or name another folder",
                root.display()
            )));
        }
        Err(TryLockError::Error(error)) => return Err(at(error)),
    }
    file.set_len(0).map_err(at)?;
    writeln!(file, "{}", std::process::id()).map_err(at)?;
    Ok(DataLock(file))
}

fn random_uid() -> Result<Uid> {
    let mut bytes = [0u8; Uid::BYTES];
    rand::fill(&mut bytes).map_err(|_| Error::unavailable("the system gave no random numbers"))?;
    Ok(Uid(bytes))
}

/// Writes a file so that a reader, or a crash at any point, sees the old one or the new one whole.
pub(crate) fn replace_file(folder: &Path, aside: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let aside = folder.join(aside);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&aside, folder.join(name))?;
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_once_and_opened_again_with_the_same_name() {
        let temp = tempfile::tempdir().expect("a folder");
        let root = temp.path().join("new/drive");
        let made = DataDir::open_or_init(&root).expect("made");
        let again = DataDir::open_or_init(&root).expect("opened");
        assert_eq!(made.format(), again.format());
        assert!(made.packs().is_dir());
    }

    #[test]
    fn an_init_that_crashed_before_its_end_is_done_again() {
        let temp = tempfile::tempdir().expect("a folder");
        fs::create_dir(temp.path().join(PACKS)).expect("made");
        fs::write(temp.path().join(FORMAT_ASIDE), "{\"for").expect("written");
        assert!(DataDir::open(temp.path()).is_err());
        DataDir::open_or_init(temp.path()).expect("made");
        DataDir::open(temp.path()).expect("opened");
    }

    #[test]
    fn somebody_else_s_folder_is_refused_and_left_alone() {
        let temp = tempfile::tempdir().expect("a folder");
        fs::write(temp.path().join("thesis.tex"), "x").expect("written");
        let error = DataDir::open_or_init(temp.path()).expect_err("refused");
        assert!(error.message().contains("thesis.tex"), "{error}");
        assert_eq!(fs::read_dir(temp.path()).expect("read").count(), 1);
    }

    #[test]
    fn a_newer_format_is_refused_with_both_numbers_even_if_it_has_other_fields() {
        let temp = tempfile::tempdir().expect("a folder");
        fs::write(temp.path().join(FORMAT_FILE), "{\"format\": 7, \"drive\": {\"shape\": 1}}").expect("written");
        let error = DataDir::open_or_init(temp.path()).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("format 7") && error.message().contains("format 1"), "{error}");
    }

    #[test]
    fn a_second_lock_names_the_holder() {
        let temp = tempfile::tempdir().expect("a folder");
        let directory = DataDir::open_or_init(temp.path()).expect("made");
        let held = directory.lock().expect("free");
        let error = directory.lock().expect_err("held");
        assert!(error.message().contains(&format!("process {}", std::process::id())), "{error}");
        drop(held);
        directory.lock().expect("free again");
    }
}
