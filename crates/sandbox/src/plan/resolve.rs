//! Where the entries of a view are: symbolic links resolved, what they are, and that they do not contradict each other.
//!
//! The machine's files can change between this and the mounting. The child therefore opens what was found here without following any link: what has become one is
//! an error.

use crate::error::Error;
use crate::sandbox::{Access, ENTRIES_MAX, Mount, PATH_BYTES_MAX, Source};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Most symbolic links on the way to an entry, the kernel's own limit.
const LINKS_MAX: usize = 40;

/// An entry whose path is a place: absolute, without links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
    pub(crate) folder: bool,
    pub(crate) source: Source,
}

/// A view, outermost entries first.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) entries: Vec<Resolved>,
    /// Links that lead to entries, by where they are.
    pub(crate) links: BTreeMap<PathBuf, PathBuf>,
}

/// What was found on the way to entries.
#[derive(Default)]
struct Way {
    links: BTreeMap<PathBuf, PathBuf>,
    /// Folders that are reached without a link, so that a thousand entries of one folder are not a thousand walks to it.
    folders: HashSet<PathBuf>,
}

/// Resolves a view.
pub(crate) fn resolve(view: &[Mount]) -> Result<View, Error> {
    if view.len() > ENTRIES_MAX {
        return Err(Error::Invalid(format!("a view of {} entries is larger than {ENTRIES_MAX}", view.len())));
    }
    let mut way = Way::default();
    let mut found: Vec<Resolved> = Vec::with_capacity(view.len());
    for mount in view {
        found.extend(resolve_one(mount, &mut way)?);
    }
    // Paths are compared by their parts, so what is inside of another comes after it. A view that is in order already takes one comparison for each entry.
    found.sort_by(|one, other| one.path.cmp(&other.path));
    if let Some([one, _]) = found.array_windows().find(|[one, other]| one.path == other.path && one != other) {
        let why = format!("{} is in the view twice, with different rights or sources", one.path.display());
        return Err(Error::Invalid(why));
    }
    found.dedup();
    Ok(View { entries: found, links: way.links })
}

fn resolve_one(mount: &Mount, way: &mut Way) -> Result<Option<Resolved>, Error> {
    let missing = |why: io::Error| Error::Missing { path: mount.path.clone(), why };
    let optional = |why: &io::Error| {
        mount.optional && matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    let (path, entry_folder) = match (&mount.source, follow(&mount.path, way)) {
        (_, Ok(found)) => found,
        // Only a place in the view; what is there is elsewhere.
        (Source::Folder(_), Err(why)) if why.kind() == io::ErrorKind::NotFound => (plain(&mount.path)?, true),
        (_, Err(why)) if optional(&why) => return Ok(None),
        (_, Err(why)) => return Err(missing(why)),
    };
    if path.as_os_str().as_bytes() == b"/" {
        return Err(Error::Invalid(
            "the root itself is no entry: name its folders, or choose the machine's root".to_owned(),
        ));
    }
    let (folder, source) = match &mount.source {
        Source::Same => (entry_folder, Source::Same),
        Source::Folder(from) => match follow(from, &mut Way::default()) {
            Ok((from, folder)) => (folder, Source::Folder(from)),
            Err(why) if optional(&why) => return Ok(None),
            Err(why) => return Err(Error::Missing { path: from.clone(), why }),
        },
        Source::CopyOnWrite { changes } => (true, copy_on_write(&path, entry_folder, changes)?),
        Source::Served if !entry_folder => {
            return Err(Error::Invalid(format!("{} is no folder, so nothing can be served there", path.display())));
        }
        Source::Served => (true, Source::Served),
    };
    let from = if let Source::Folder(from) = &source { from } else { &path };
    if mount.access.writes() && is_kernels(from) {
        let why = format!("{} is the kernel's own: it can be read, and not written", from.display());
        return Err(Error::Invalid(why));
    }
    Ok(Some(Resolved { path, access: mount.access, folder, source }))
}

/// File systems of the kernel (`linux/magic.h`): proc, sysfs, both control groups, debugfs, tracefs, configfs, securityfs, bpf, efivarfs. With the account root,
/// writing there changes the machine, whatever capabilities are missing.
const KERNELS: [u64; 10] = [
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x6265_6570,
    0x7363_6673,
    0xcafe_4a11,
    0xde5e_81e4,
];

fn is_kernels(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|status| u64::try_from(status.f_type).is_ok_and(|kind| KERNELS.contains(&kind)))
}

fn copy_on_write(path: &Path, folder: bool, changes: &Path) -> Result<Source, Error> {
    let (changes, _) =
        follow(changes, &mut Way::default()).map_err(|why| Error::Missing { path: changes.to_owned(), why })?;
    if !folder {
        return Err(Error::Invalid(format!("{} is no folder, so it cannot be copy-on-write", path.display())));
    }
    if changes.starts_with(path) || path.starts_with(&changes) {
        let why = format!(
            "the changes of {} cannot be kept at {}: one is inside of the other",
            path.display(),
            changes.display()
        );
        return Err(Error::Invalid(why));
    }
    Ok(Source::CopyOnWrite { changes })
}

/// An absolute path without `.` and `..`, as it is written.
fn plain(path: &Path) -> Result<PathBuf, Error> {
    let fine = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    let plain = || path.components().collect();
    fine.then(plain).ok_or_else(|| Error::Invalid(format!("{} is not a plain absolute path", path.display())))
}

/// Follows a path part by part, remembers the links on the way, and says whether it leads to a folder.
fn follow(path: &Path, way: &mut Way) -> io::Result<(PathBuf, bool)> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why);
    if !path.is_absolute() {
        return Err(invalid("not an absolute path"));
    }
    if path.as_os_str().len() > PATH_BYTES_MAX || path.as_os_str().as_bytes().contains(&0) {
        return Err(invalid("not a path: too long, or with a zero byte"));
    }
    let (mut at, mut followed, mut folder) = (PathBuf::from("/"), 0, true);
    let mut left: Vec<OsString> = parts(path);
    if let (Some(above), Some(name)) = (path.parent(), path.file_name())
        && way.folders.contains(above)
    {
        above.clone_into(&mut at);
        left = vec![name.to_owned()];
    }
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            folder = true;
            continue;
        }
        let next = at.join(&part);
        let kind = fs::symlink_metadata(&next)?.file_type();
        folder = kind.is_dir();
        if !kind.is_symlink() {
            if !left.is_empty() && !folder {
                return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
            }
            at = next;
            continue;
        }
        followed += 1;
        if followed > LINKS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = fs::read_link(&next)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        left.extend(parts(&target));
        // Where it leads to itself, such as `.`; what follows says more.
        folder = true;
        way.links.insert(next, target);
    }
    if let Some(above) = at.parent().filter(|above| !way.folders.contains(*above)) {
        way.folders.insert(above.to_owned());
    }
    Ok((at, folder))
}

/// Names of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    let mut names: Vec<_> = path.components().filter_map(name).collect();
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("a/b")).expect("folders");
        std::fs::write(folder.path().join("a/file"), "x").expect("a file");
        folder
    }

    fn one(path: &Path) -> io::Result<(PathBuf, bool)> {
        follow(path, &mut Way::default())
    }

    #[test]
    fn links_are_followed_to_what_they_mean() {
        let tree = tree();
        let root = std::fs::canonicalize(tree.path()).expect("it is there");
        for (name, target, expected, folder) in [
            ("up", "a/b/..", "a", true),
            ("dot", ".", "", true),
            ("file", "a/file", "a/file", false),
            ("two", "up/b", "a/b", true),
        ] {
            symlink(target, root.join(name)).expect("a link");
            let found = one(&root.join(name)).expect("it leads somewhere");
            // Compared by parts, so nothing is a part of its own.
            assert_eq!(found, (root.join(expected).components().collect(), folder), "{name}");
        }
        assert_eq!(one(&root.join("a/b/../file")).expect("a file"), (root.join("a/file"), false));
        assert!(one(&root.join("a/file/more")).is_err());
        assert!(one(Path::new("/a\0b")).is_err());
        assert!(one(Path::new(&format!("/{}", "x/".repeat(3000)))).is_err());
    }

    #[test]
    fn what_was_found_before_is_not_looked_for_again_and_is_the_same() {
        let tree = tree();
        let view: Vec<_> =
            ["a/file", "a/b", "a", "a/file"].map(|name| Mount::new(tree.path().join(name), Access::ReadOnly)).into();
        let found = resolve(&view).expect("a view");
        let paths: Vec<_> = found.entries.iter().map(|entry| (entry.path.clone(), entry.folder)).collect();
        let root = std::fs::canonicalize(tree.path()).expect("it is there");
        // Outermost first, and each once.
        assert_eq!(paths, [(root.join("a"), true), (root.join("a/b"), true), (root.join("a/file"), false)]);
    }
}
