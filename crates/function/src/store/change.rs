//! Deploying and removing, and what is left of those that were killed.

use super::{CURRENT, FUNCTIONS_MAX, Store, VERSIONS, read_manifest, tree};
use crate::code::{self, Held};
use crate::id::Id;
use crate::name::Name;
use holdfast_base::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const LOCK: &str = ".lock";
const ASIDE: &str = ".aside";
/// The name that the next `current` has until it is renamed.
const NEXT: &str = ".next";

/// A version that was deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The function's name.
    pub name: Name,
    /// The version.
    pub version: Id,
    /// Files that were copied.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// What holds its policy.
    pub held: Held,
}

/// Points of deploying and removing at which a test may kill the process.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file was copied.
    File,
    /// All of the folder was.
    Copied,
    /// The function has a folder.
    Made,
    /// The version is in its place.
    Placed,
    /// The next link is made.
    Linked,
    /// The version is current.
    Switched,
    /// A function is set aside, to be removed.
    Aside,
    /// All is done but telling.
    Swept,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::File, Self::Copied, Self::Made, Self::Placed, Self::Linked, Self::Switched, Self::Aside, Self::Swept];
}

impl Store {
    /// Makes a folder a function, or the new version of one. Without a name it has the folder's. Others who deploy or remove are waited for.
    ///
    /// # Errors
    /// What is wrong with the folder, its manifest or its policy.
    pub fn deploy(&self, folder: &Path, name: Option<Name>) -> Result<Deployed> {
        self.deploy_by_steps(folder, name, &|_| {})
    }

    /// The same, telling its steps.
    #[doc(hidden)]
    pub fn deploy_by_steps(&self, folder: &Path, name: Option<Name>, step: &dyn Fn(Step)) -> Result<Deployed> {
        let at = |error: io::Error| Error::from(error).context(folder.display());
        let source = fs::canonicalize(folder).map_err(at)?;
        let name = name.map_or_else(|| name_of(&source), Ok)?;
        if source.starts_with(&self.folder) || self.folder.starts_with(&source) {
            return Err(Error::invalid(format!("{} and the store are inside of each other", folder.display())));
        }
        let _lock = self.change()?;
        self.sweep();
        let version = Id::new();
        let aside = self.folder.join(ASIDE).join(version.to_string());
        let done = self.place(&source, folder, &name, version, &aside, step);
        if done.is_err() {
            // What cannot be removed now is swept by the next.
            let _ = fs::remove_dir_all(&aside);
        }
        self.sweep();
        step(Step::Swept);
        done
    }

    fn place(
        &self,
        source: &Path,
        shown: &Path,
        name: &Name,
        version: Id,
        aside: &Path,
        step: &dyn Fn(Step),
    ) -> Result<Deployed> {
        let size = tree::copy(source, aside, step)?;
        // What is checked is what was copied, whatever became of the folder since.
        let manifest = read_manifest(aside, shown)?;
        let policy = code::policy(aside, shown, &manifest)?;
        let held = code::held(&policy)?;
        step(Step::Copied);
        if self.current(name)?.is_none() && self.names()?.len() >= FUNCTIONS_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("there are {FUNCTIONS_MAX} functions: remove one first"),
            ));
        }
        let function = self.function_folder(name);
        let versions = function.join(VERSIONS);
        for made in [&function, &versions] {
            make_folder(made)?;
        }
        sync(&function)?;
        sync(&self.folder)?;
        step(Step::Made);
        fs::rename(aside, versions.join(version.to_string()))?;
        sync(&versions)?;
        step(Step::Placed);
        let next = function.join(NEXT);
        remove_file(&next)?;
        symlink(version.to_string(), &next)?;
        step(Step::Linked);
        fs::rename(&next, function.join(CURRENT))?;
        sync(&function)?;
        step(Step::Switched);
        Ok(Deployed { name: name.clone(), version, files: size.files, bytes: size.bytes, held })
    }

    /// Removes a function with all that is kept of it. Calls under way go on; a server starts no others.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name.
    pub fn remove(&self, name: &Name) -> Result<()> {
        self.remove_by_steps(name, &|_| {})
    }

    /// The same, telling its steps.
    #[doc(hidden)]
    pub fn remove_by_steps(&self, name: &Name, step: &dyn Fn(Step)) -> Result<()> {
        // One whose link leads nowhere can be removed as well.
        let there = || fs::symlink_metadata(self.function_folder(name).join(CURRENT)).is_ok();
        let missing = || Error::not_found(format!("there is no function {name}"));
        there().then_some(()).ok_or_else(missing)?;
        let _lock = self.change()?;
        there().then_some(()).ok_or_else(missing)?;
        fs::rename(self.function_folder(name), self.folder.join(ASIDE).join(Id::new().to_string()))?;
        sync(&self.folder)?;
        step(Step::Aside);
        self.sweep();
        step(Step::Swept);
        Ok(())
    }

    /// Removes what belongs to nobody.
    pub(crate) fn tidy(&self) {
        if self.folder.is_dir()
            && let Ok(_lock) = self.change()
        {
            self.sweep();
        }
    }

    /// Makes the store's folder if it is missing, and takes its lock.
    fn change(&self) -> Result<File> {
        let at = |error: io::Error| Error::from(error).context(self.folder.display());
        if !self.folder.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(at)?;
            self.folder.parent().map_or(Ok(()), sync)?;
        }
        make_folder(&self.folder.join(ASIDE))?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(self.folder.join(LOCK)).map_err(at)?;
        // Whoever has it has bounded work, and a lock ends with its process.
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| at(error.into()))?;
        Ok(lock)
    }

    /// Removes what belongs to nobody, under the lock. What cannot be removed now is left to the next.
    fn sweep(&self) {
        for name in self.names().unwrap_or_default() {
            let function = self.function_folder(&name);
            let Ok(current) = self.current(&name) else { continue };
            let Some(current) = current else {
                self.set_aside(&function);
                continue;
            };
            let _ = remove_file(&function.join(NEXT));
            for version in entries(&function.join(VERSIONS)) {
                if version.file_name() == Some(current.to_string().as_ref()) {
                    continue;
                }
                if let Some(_held) = free(&version) {
                    self.set_aside(&version);
                }
            }
        }
        for left in entries(&self.folder.join(ASIDE)) {
            let versions = entries(&left.join(VERSIONS));
            let held: Option<Vec<File>> = versions.iter().map(|version| free(version)).collect();
            if held.is_some()
                && let Err(error) = fs::remove_dir_all(&left)
            {
                tracing::warn!(%error, left = %left.display(), "what is left of a function cannot be removed");
            }
        }
    }

    fn set_aside(&self, left: &Path) {
        let _ = fs::rename(left, self.folder.join(ASIDE).join(Id::new().to_string()));
    }
}

/// The name of a folder, as a function's.
fn name_of(folder: &Path) -> Result<Name> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name.parse().map_err(|error: Error| error.context("say --name: the folder's name cannot be the function's"))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map(|all| all.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

/// A version that nobody calls now, held so that nobody begins to: who waits for this lock finds that the version is not at its place any more.
fn free(version: &Path) -> Option<File> {
    let folder = File::open(version).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(folder)
}

/// A folder of this account alone.
fn make_folder(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => Ok(fs::set_permissions(path, Permissions::from_mode(0o700))?),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::from(error).context(path.display())),
    }
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::from(error).context(path.display())),
        _ => Ok(()),
    }
}

fn sync(folder: &Path) -> Result<()> {
    Ok(File::open(folder)?.sync_all()?)
}
