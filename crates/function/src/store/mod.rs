//! Functions on disk.
//!
//! ```text
//! DIR/.lock                 held by whoever deploys or removes
//! DIR/.aside/ID             a version that is being copied, or what is being removed
//! DIR/NAME/versions/ID/     the folder as it was deployed; never changed
//! DIR/NAME/current -> ID    the version that is called; switched by a rename
//! DIR/NAME/calls/           records (`record`)
//! DIR/NAME/places/          held by calls from the command line (`alone`)
//! ```
//!
//! What is called is copied, synced and in its place before `current` is renamed over the old one, and the rename is synced before it is told. Killed at any point, the old
//! version or the new one is there; what else is left belongs to nobody (everything in `.aside`, versions that are not current, folders without a current version) and is removed by the
//! next who deploys or removes.
//!
//! Who calls a version holds a shared lock on its folder, which ends with the process: a version in use is not removed, but left to the next.

mod change;
mod tree;

pub use change::{Deployed, Step};

use crate::code::{self, Held};
use crate::id::Id;
use crate::manifest::{MANIFEST, Manifest, TEXT_BYTES_MAX};
use crate::name::Name;
use crate::record::Records;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_policy::Policy;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Most functions of a store.
pub(crate) const FUNCTIONS_MAX: usize = 1_000;
/// How often a version is looked for anew that is being replaced at that moment.
const TRIES_MAX: usize = 100;

const CURRENT: &str = "current";
const VERSIONS: &str = "versions";
const CALLS: &str = "calls";
const PLACES: &str = "places";

/// A folder of functions.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// A version that can be called, held so that nobody removes it meanwhile.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: Name,
    /// The version.
    pub version: Id,
    /// What it says of itself.
    pub manifest: Manifest,
    pub(crate) policy: Arc<Policy>,
    pub(crate) code: PathBuf,
    pub(crate) records: Records,
    places: PathBuf,
    _held: File,
}

impl Function {
    /// Where calls from the command line have their places.
    pub(crate) fn places(&self) -> &Path {
        &self.places
    }

    /// The records of its calls.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// What holds its program, on this machine as it is now.
    ///
    /// # Errors
    /// Why its policy cannot be held.
    pub fn check(&self) -> Result<Held> {
        code::held(&self.policy)
    }
}

/// A function of a listing.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub name: Name,
    /// The version that is called.
    pub version: Id,
    /// What it says of itself; an error if it cannot be read any more.
    pub manifest: Result<Manifest>,
}

impl Store {
    /// A store in this folder, which need not be there yet.
    ///
    /// # Errors
    /// `Forbidden` if another account could change what is in it: its code would run as this one.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let folder = std::path::absolute(&folder).map_err(|error| Error::from(error).context(folder.display()))?;
        match fs::metadata(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::from(error).context(folder.display())),
            Ok(found) if !found.is_dir() => {
                return Err(Error::invalid(format!("{} is no folder", folder.display())));
            }
            Ok(found) if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 => {
                let why = "other accounts can change what is in it, and its programs run as this one";
                return Err(Error::forbidden(format!("{}: {why}", folder.display())));
            }
            Ok(_) => {}
        }
        Ok(Self { folder })
    }

    /// Where functions of this account are if nobody says: `/var/lib/holdfast-functions` of root, else `holdfast-functions` in `XDG_DATA_HOME`.
    ///
    /// # Errors
    /// If the environment does not say where an account's data is.
    pub fn default_folder() -> Result<PathBuf> {
        if rustix::process::geteuid().is_root() {
            return Ok("/var/lib/holdfast-functions".into());
        }
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
        let missing = || {
            Error::invalid("neither XDG_DATA_HOME nor HOME says where functions are: name a folder with --functions")
        };
        Ok(base.ok_or_else(missing)?.join("holdfast-functions"))
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All functions, by name.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let mut all = Vec::new();
        for name in self.names()? {
            let Some(version) = self.current(&name)? else { continue };
            let folder = self.version_folder(&name, version);
            let manifest = read_manifest(&folder, &folder);
            all.push(Listed { name, version, manifest });
        }
        Ok(all)
    }

    /// Names that folders have; not all of them need be functions.
    fn names(&self) -> Result<Vec<Name>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| Error::from(error).context(self.folder.display()))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| Error::from(error).context(self.folder.display()))?;
            names.extend(entry.file_name().to_str().and_then(|name| Name::from_str(name).ok()));
        }
        names.sort();
        Ok(names)
    }

    /// The version that is called now.
    pub fn current(&self, name: &Name) -> Result<Option<Id>> {
        let link = self.function_folder(name).join(CURRENT);
        match fs::read_link(&link) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(Error::from(error).context(link.display())),
            Ok(to) => {
                let version = to.to_str().and_then(|text| text.parse().ok());
                let damaged = || Error::damaged(format!("{} leads to no version", link.display()));
                version.map(Some).ok_or_else(damaged)
            }
        }
    }

    /// The current version, held for calls.
    ///
    /// # Errors
    /// `NotFound` if there is no such function.
    pub fn function(&self, name: &Name) -> Result<Function> {
        for _ in 0..TRIES_MAX {
            let Some(version) = self.current(name)? else {
                return Err(Error::not_found(format!("there is no function {name}")));
            };
            let code = self.version_folder(name, version);
            if let Some(held) = hold(&code)? {
                let manifest = read_manifest(&code, &code)?;
                let mut policy = code::policy(&code, &code, &manifest)?;
                code::name(&mut policy, name);
                let (records, places) = (self.records(name), self.function_folder(name).join(PLACES));
                return Ok(Function {
                    name: name.clone(),
                    version,
                    manifest,
                    policy: policy.into(),
                    code,
                    records,
                    places,
                    _held: held,
                });
            }
        }
        Err(Error::new(ErrorKind::Conflict, format!("{name} is being replaced again and again")))
    }

    /// The records of a function's calls.
    pub fn records(&self, name: &Name) -> Records {
        Records::new(self.function_folder(name).join(CALLS))
    }

    fn function_folder(&self, name: &Name) -> PathBuf {
        self.folder.join(name.as_str())
    }

    fn version_folder(&self, name: &Name, version: Id) -> PathBuf {
        self.function_folder(name).join(VERSIONS).join(version.to_string())
    }
}

/// Holds a version's folder; none if it is being removed.
fn hold(code: &Path) -> Result<Option<File>> {
    let held = match File::open(code) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| Error::from(error).context(code.display()))?,
    };
    if flock(&held, FlockOperation::NonBlockingLockShared).is_err() {
        return Ok(None);
    }
    // It may have been taken away between being opened and locked.
    let number = |found: fs::Metadata| (found.dev(), found.ino());
    let same = fs::metadata(code).map(number).ok() == held.metadata().map(number).ok();
    Ok(same.then_some(held))
}

/// The manifest in a folder. `shown` is what mistakes call the folder.
pub(crate) fn read_manifest(folder: &Path, shown: &Path) -> Result<Manifest> {
    let name = shown.join(MANIFEST).display().to_string();
    let at = |error: io::Error| Error::from(error).context(&name);
    let mut text = Vec::new();
    File::open(folder.join(MANIFEST)).map_err(at)?.take(TEXT_BYTES_MAX + 1).read_to_end(&mut text).map_err(at)?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        return Err(Error::new(ErrorKind::TooLarge, format!("{name} has more than {TEXT_BYTES_MAX} bytes")));
    }
    Manifest::read(&name, &text).map_err(|mistakes| Error::invalid(mistakes.to_string()))
}
