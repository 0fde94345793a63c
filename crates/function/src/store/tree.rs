//! Copying a folder into the store: what may be in it, how much, and every byte on disk before it counts.
//!
//! The folder is walked by descriptors and no link is followed, so whatever somebody does to it meanwhile, what is copied was in it. Files and folders keep their names and
//! whether they can be executed; links stay links, and must lead to something inside. The rest (devices, sockets, FIFOs) is refused.

use super::Step;
use holdfast_base::{Error, ErrorKind, Result, size};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Most files, folders and links of a function: more than the largest trees of installed packages that are small enough.
const ENTRIES_MAX: usize = 20_000;
/// Most bytes: a runtime with its libraries.
const BYTES_MAX: u64 = 512 << 20;
/// Deepest folder: each is an open descriptor while it is walked.
const DEPTH_MAX: usize = 64;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

/// Copies `from` to `to`, which is made.
pub(super) fn copy(from: &Path, to: &Path, step: &dyn Fn(Step)) -> Result<Size> {
    let at = |error: io::Error| Error::from(error).context(from.display());
    let source = rustix::fs::open(from, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let mut walk = Walk { entries: 0, links: Vec::new(), size: Size::default(), step };
    let source = source.map_err(|error| at(error.into()))?;
    let walked = walk.folder(&source, Path::new(""), to, 0).and_then(|()| walk.links_stay_inside(to));
    walked.map_err(|error| error.context(from.display()))?;
    Ok(walk.size)
}

struct Walk<'a> {
    entries: usize,
    /// Links, by their paths in the folder.
    links: Vec<PathBuf>,
    size: Size,
    step: &'a dyn Fn(Step),
}

impl Walk<'_> {
    fn folder(&mut self, source: &OwnedFd, path: &Path, to: &Path, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(too_large(format!("{}: folders are deeper than {DEPTH_MAX}", path.display())));
        }
        DirBuilder::new().mode(0o755).create(to)?;
        for entry in Dir::read_from(source).map_err(io::Error::from)? {
            let entry = entry.map_err(io::Error::from)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(too_large(format!("there are more than {ENTRIES_MAX} files and folders in it")));
            }
            let part = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
            let (inner, target) = (path.join(part), to.join(part));
            self.entry(source, part, &inner, &target, depth).map_err(|error| error.context(inner.display()))?;
        }
        File::open(to)?.sync_all()?;
        Ok(())
    }

    fn entry(&mut self, source: &OwnedFd, name: &Path, path: &Path, to: &Path, depth: usize) -> Result<()> {
        let status = statat(source, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)?;
        let open = |flags: OFlags| openat(source, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => {
                let inner = open(OFlags::RDONLY | OFlags::DIRECTORY).map_err(io::Error::from)?;
                self.folder(&inner, path, to, depth + 1)
            }
            FileType::RegularFile => {
                // Not waiting, if it has become a FIFO.
                let file = open(OFlags::RDONLY | OFlags::NONBLOCK).map_err(io::Error::from)?;
                self.file(File::from(file), to)
            }
            FileType::Symlink => {
                let link = readlinkat(source, name, Vec::new()).map_err(io::Error::from)?;
                let link = PathBuf::from(std::ffi::OsStr::from_bytes(link.to_bytes()));
                if !stays_inside(path, &link) {
                    return Err(Error::invalid(format!("the link leads out of the folder, to {}", link.display())));
                }
                std::os::unix::fs::symlink(link, to)?;
                self.links.push(path.to_owned());
                Ok(())
            }
            _ => Err(Error::invalid("it is neither a file nor a folder nor a link")),
        }
    }

    /// Links to links can lead out although none does by its words. One to what is not there leads nowhere.
    fn links_stay_inside(&self, to: &Path) -> Result<()> {
        let root = fs::canonicalize(to)?;
        for link in &self.links {
            if fs::canonicalize(to.join(link)).is_ok_and(|end| !end.starts_with(&root)) {
                return Err(Error::invalid(format!("{}: the link leads out of the folder", link.display())));
            }
        }
        Ok(())
    }

    fn file(&mut self, mut from: File, to: &Path) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let found = from.metadata()?;
        if !found.is_file() {
            return Err(Error::invalid("it is no file any more"));
        }
        let mode = if found.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
        let mut target = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
        let left = BYTES_MAX - self.size.bytes;
        let copied = io::copy(&mut (&mut from).take(left + 1), &mut target)?;
        if copied > left {
            return Err(too_large(format!("its files have more than {} together", size::format_bytes(BYTES_MAX))));
        }
        // Whatever this process's mask is.
        target.set_permissions(fs::Permissions::from_mode(mode))?;
        target.sync_all()?;
        self.size.files += 1;
        self.size.bytes += copied;
        (self.step)(Step::File);
        Ok(())
    }
}

fn too_large(why: String) -> Error {
    Error::new(ErrorKind::TooLarge, why)
}

/// Whether a link at a path of the folder leads to somewhere in it, by its words.
fn stays_inside(path: &Path, link: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    for part in link.components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return false,
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth == 0 => return false,
            Component::ParentDir => depth -= 1,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_inside_by_its_words() {
        for (path, link, inside) in [
            ("a", "b", true),
            ("d/a", "../b", true),
            ("d/a", "../../b", false),
            ("a", "../x", false),
            ("a", "/etc/passwd", false),
            ("a", "b/../../x", false),
            ("d/e/a", "../.././f", true),
        ] {
            assert_eq!(stays_inside(Path::new(path), Path::new(link)), inside, "{path} -> {link}");
        }
    }
}
