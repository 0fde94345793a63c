//! A folder of this machine as a place with files.
//!
//! | module | what it does |
//! |---|---|
//! | `root` | opens what is below the folder and cannot leave it |
//! | `listing` | lists in order of name, in bounded memory |
//! | `item` | what a file system says of something |
//! | `content` | reads files, and holes without reading them |
//! | `incoming`, `part`, `journal`, `leftovers` | takes files in: part files, what is kept of them after a kill or a power cut |
//! | `place` | puts something under a name in one step |
//! | `durable` | which folders have to be synced |
//!
//! Part files of transfers that were interrupted are neither listed nor moved. Owners, access lists, extended attributes and hard links are not moved.

mod content;
mod durable;
mod failure;
mod incoming;
mod item;
mod journal;
mod leftovers;
mod listing;
mod place;
mod root;
#[cfg(test)]
mod tests;

pub(crate) use failure::blocking;

use crate::part::PartName;
use crate::site::{Content, Incoming, Item, Kind, Listed, Site, Wanted};
use async_trait::async_trait;
use failure::failed;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use place::Place;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, fsync, mkdirat, openat, symlinkat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Mode of a file whose source has none, before the mask of the process.
const FILE_MODE: u32 = 0o666;

/// A folder of this machine.
#[derive(Debug)]
pub struct LocalSite {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: root::Root,
    windows: listing::Windows,
    durable: durable::Durable,
    leftovers: leftovers::Leftovers,
    usual_mode: u32,
}

impl LocalSite {
    /// Opens a folder that is there. Links in `path` itself are followed, and none below it.
    pub fn open(path: &Path) -> Result<Self> {
        let inner = Inner {
            root: root::Root::open(path)?,
            windows: listing::Windows::default(),
            durable: durable::Durable::default(),
            leftovers: leftovers::Leftovers::default(),
            usual_mode: FILE_MODE & !mask_of_the_process(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Inner>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        blocking(move || work(&inner)).await
    }
}

/// The mask for new files. Asking the kernel for it would change it for a moment, for other threads as well.
fn mask_of_the_process() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o077)
}

/// Makes a folder's entries durable.
fn sync_folder(folder: &OwnedFd) -> rustix::io::Result<()> {
    match fsync(folder) {
        // Some file systems cannot sync a folder, and have nothing of it that could be lost separately.
        Err(Errno::INVAL) => Ok(()),
        done => done,
    }
}

#[async_trait]
impl Site for LocalSite {
    fn address(&self) -> String {
        self.inner.root.path().display().to_string()
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        let path = path.clone();
        self.on_disk(move |inner| inner.look(&path)).await
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        let (path, after) = (folder.clone(), after.cloned());
        self.on_disk(move |inner| {
            let folder = inner.root.folder(&path)?;
            inner.windows.list(&path, &folder, after.as_ref())
        })
        .await
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        let (path, item) = (path.clone(), item.clone());
        self.on_disk(move |inner| inner.open(&path, &item)).await
    }

    async fn make_folder(&self, path: &DrivePath) -> Result<()> {
        let path = path.clone();
        self.on_disk(move |inner| inner.make_folder(&path)).await
    }

    async fn make_link(&self, path: &DrivePath, to: &str, replaces: Option<&Item>) -> Result<()> {
        let (path, to, replaces) = (path.clone(), to.to_owned(), replaces.cloned());
        self.on_disk(move |inner| inner.make_link(&path, &to, replaces.as_ref())).await
    }

    async fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Incoming>> {
        Ok(Box::new(incoming::LocalIncoming::begin(Arc::clone(&self.inner), wanted.clone()).await?))
    }

    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        let (path, item) = (path.clone(), item.clone());
        self.on_disk(move |inner| inner.remove(&path, &item)).await
    }

    async fn settle(&self) -> Result<()> {
        self.on_disk(|inner| inner.durable.settle(&inner.root)).await
    }
}

impl Inner {
    fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        if path.is_root() {
            return self.look_at_root().map(Some);
        }
        match self.root.parent(path) {
            Ok((folder, name)) => item::look(&folder, name),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn look_at_root(&self) -> Result<Item> {
        let folder = self.root.folder(&DrivePath::root())?;
        let stat = fstat(&folder).map_err(|errno| failed("looking at", self.root.path().display(), errno))?;
        // The root has no name in itself; what it is called elsewhere may be no name that can be moved.
        let name = self.root.path().file_name().and_then(|name| NodeName::new(name.to_str()?).ok());
        let name = name.map_or_else(|| NodeName::new("root"), Ok)?;
        Ok(item::of(name, Kind::Folder, &stat))
    }

    fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        let (folder, name) = self.root.parent(path)?;
        let shown = self.root.shown(path);
        // What was put there meanwhile may be a FIFO, which must not be waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file =
            openat(&folder, name.as_str(), flags, Mode::empty()).map_err(|errno| failed("opening", &shown, errno))?;
        let file = File::from(file);
        let stat = fstat(&file).map_err(|errno| failed("looking at", &shown, errno))?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !regular || item::version(&stat, false) != item.version {
            let what = format!("{shown} changed since it was listed");
            return Err(Error::new(ErrorKind::PreconditionFailed, what));
        }
        Ok(Arc::new(content::LocalContent::new(file, &shown, item.version.clone())))
    }

    fn make_folder(&self, path: &DrivePath) -> Result<()> {
        let place = Place::of(&self.root, path)?;
        match mkdirat(&place.folder, place.name.as_str(), Mode::from_raw_mode(0o777)) {
            Ok(()) => self.durable.changed(&self.root, &path.parent().unwrap_or_default()),
            Err(Errno::EXIST) => match item::look(&place.folder, &place.name)? {
                Some(Item { kind: Kind::Folder, .. }) => Ok(()),
                _ => Err(Error::new(ErrorKind::WrongKind, format!("{} is there and is no folder", place.shown))),
            },
            Err(errno) => Err(place.failed("making the folder", errno)),
        }
    }

    fn make_link(&self, path: &DrivePath, to: &str, replaces: Option<&Item>) -> Result<()> {
        let place = Place::of(&self.root, path)?;
        place.check(replaces)?;
        let made = PartName::new(&place.name, &format!("link\n{to}")).part();
        match symlinkat(to, &place.folder, &made) {
            // An earlier try left it, and what it leads to is in its name.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(place.failed("making the link", errno)),
        }
        place.put(&made, replaces).inspect_err(|_| place.unlink(&made))?;
        self.durable.changed(&self.root, &path.parent().unwrap_or_default())
    }

    fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        let place = Place::of(&self.root, path)?;
        let folder = item.kind == Kind::Folder;
        match item::look(&place.folder, &place.name)? {
            Some(there) if (there.kind == Kind::Folder) == folder && (folder || there.version == item.version) => {}
            _ => {
                let what = format!("{} is not what was listed any more", place.shown);
                return Err(Error::new(ErrorKind::PreconditionFailed, what));
            }
        }
        if folder {
            let opened = self.root.folder(path)?;
            leftovers::clear_folder(&opened).map_err(|errno| place.failed("removing", errno))?;
        }
        let flags = if folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(&place.folder, place.name.as_str(), flags).map_err(|errno| place.failed("removing", errno))?;
        self.durable.changed(&self.root, &path.parent().unwrap_or_default())
    }
}
