//! Changing the view of a running sandbox.
//!
//! A short-lived process enters the sandbox's namespaces, where it has every capability that the program gave up, and changes mounts there. Each change of a path is one
//! step that the kernel does at once, so the program never sees more than one of the two views:
//!
//! * rights of an entry change in place, also for whoever has its working directory or an open folder there;
//! * hiding puts a mask on top, and showing takes it away again: what is below it still has the rights of before;
//! * a path inside of an entry becomes an entry, by a copy of the mount with fewer rights on top.
//!
//! Limits: what is hidden is shown with the rights it had before, and only then changed; a path with entries inside of it is changed entry by entry.

mod steps;

use crate::error::Error;
use crate::plan::{Resolved, attributes, relative, resolve, restrictions};
use crate::sandbox::{Access, Mount, Root, Source};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use steps::Step;

/// Most masks and copies that changes may put into one view. Hiding and showing a path again takes none.
const ADDED_MAX: usize = 4096;

/// An entry as it is now.
#[derive(Clone, Copy, Debug)]
struct Entry {
    access: Access,
    folder: bool,
    /// The rights below a mask.
    below: Option<Access>,
}

/// The view as it is now.
#[derive(Debug)]
pub(crate) struct View {
    entries: BTreeMap<PathBuf, Entry>,
    start: BTreeMap<PathBuf, Access>,
    root: Root,
    widen: bool,
    added: usize,
    namespaces: Option<[OwnedFd; 2]>,
}

/// Places of mounts by entry.
type Mounts = HashMap<PathBuf, Vec<PathBuf>>;

/// A step, the entry that it is about, and what is true once it is done.
struct Planned {
    path: PathBuf,
    steps: Vec<Step>,
    after: Entry,
}

impl View {
    pub(crate) fn new(entries: &[Resolved], root: Root, widen: bool) -> Self {
        let start = entries.iter().map(|entry| (entry.path.clone(), entry.access)).collect();
        // Entries are in order, so those around one are the last ones passed.
        let (mut around, mut now): (Vec<&Resolved>, Vec<(PathBuf, Entry)>) = (Vec::new(), Vec::new());
        for (place, entry) in entries.iter().enumerate() {
            while around.last().is_some_and(|last| !entry.path.starts_with(&last.path)) {
                around.pop();
            }
            let inside = entries.get(place + 1).is_some_and(|next| next.path.starts_with(&entry.path));
            // A mask lies on what the entry around it shows; a folder that leads to others does not.
            let masked = entry.access == Access::Hidden && !(inside && entry.folder);
            let outer = around.last().map(|outer| outer.access).or((root == Root::Host).then_some(Access::All));
            let below = outer.filter(|_| masked).filter(|outer| *outer != Access::Hidden);
            now.push((entry.path.clone(), Entry { access: entry.access, folder: entry.folder, below }));
            around.push(entry);
        }
        Self { entries: now.into_iter().collect(), start, root, widen, added: 0, namespaces: None }
    }

    pub(crate) fn enter_by(&mut self, user: Option<OwnedFd>, mount: Option<OwnedFd>) {
        self.namespaces = user.zip(mount).map(|(user, mount)| [user, mount]);
    }

    /// The rights of what is around a path; `None` where nothing is shown.
    fn around(&self, path: &Path) -> Option<Access> {
        let entry = path.ancestors().skip(1).find_map(|above| self.entries.get(above));
        entry.map(|entry| entry.access).or((self.root == Root::Host).then_some(Access::All))
    }

    fn at_start(&self, path: &Path) -> Option<Access> {
        let entry = path.ancestors().find_map(|above| self.start.get(above));
        entry.copied().or((self.root == Root::Host).then_some(Access::All))
    }

    fn inside(&self, path: &Path) -> bool {
        let after = (std::ops::Bound::Excluded(path), std::ops::Bound::Unbounded);
        self.entries.range::<Path, _>(after).next().is_some_and(|(next, _)| next.starts_with(path))
    }

    pub(crate) fn change(&mut self, pid: i32, wanted: &[Mount]) -> Result<(), Error> {
        let namespaces = self.namespaces.as_ref().ok_or(Error::Ended)?;
        let mounts = self.by_entry(mounts(pid)?);
        let mut planned = Vec::new();
        for mount in wanted {
            planned.extend(self.plan(mount, &mounts)?);
        }
        if planned.is_empty() {
            return Ok(());
        }
        let adds = |one: &Planned| one.steps.iter().filter(|step| step.adds()).count();
        if self.added + planned.iter().map(adds).sum::<usize>() > ADDED_MAX {
            let why = format!("the view has had {ADDED_MAX} entries added while it ran; start it again");
            return Err(Error::Change { path: planned[0].path.clone(), why });
        }
        let steps: Vec<_> = planned.iter().map(|one| one.steps.as_slice()).collect();
        let (done, failure) = steps::apply(namespaces, &steps)?;
        for one in planned.iter().take(done) {
            self.added += adds(one);
            self.entries.insert(one.path.clone(), one.after);
        }
        let Some(errno) = failure else { return Ok(()) };
        let path = planned.get(done).map(|one| one.path.clone()).unwrap_or_default();
        Err(match errno {
            rustix::io::Errno::BUSY => Error::Busy(path),
            errno => Error::Change { path, why: std::io::Error::from(errno).to_string() },
        })
    }

    fn plan(&self, mount: &Mount, mounts: &Mounts) -> Result<Option<Planned>, Error> {
        let refuse = |why: &str| Error::Change { path: mount.path.clone(), why: why.to_owned() };
        if mount.source != Source::Same {
            return Err(refuse("only rights can change while the program runs, not where the content is from"));
        }
        let (path, folder) = self.find(mount)?;
        let entry = self.entries.get(&path).copied();
        let current = entry.map(|entry| entry.access).or_else(|| self.around(&path));
        let current = current.ok_or_else(|| refuse("it is not in the view, and nothing can be added to one"))?;
        let new = mount.access;
        let is_mounted = mounts.contains_key(&path);
        if new == current && (is_mounted || !self.is_lost(&path, entry)) {
            return Ok(None);
        }
        let most = self.at_start(&path).unwrap_or(Access::Hidden);
        if !self.widen && !within(new, most) {
            return Err(refuse("it would be allowed more than at the start, and Landlock cannot be widened"));
        }
        let at = relative(&path)?;
        let after = |below| Entry { access: new, folder, below };
        let (steps, after) = match (new, current, entry) {
            (Access::Hidden, ..) if self.inside(&path) => {
                return Err(refuse("entries of the view are inside of it; change those"));
            }
            (Access::Hidden, ..) => {
                // What lies below a mask that is lost has the rights of what is around it.
                let below = if current == Access::Hidden { self.around(&path) } else { Some(current) };
                (vec![Step::Cover { at, folder }], after(below))
            }
            (_, Access::Hidden, Some(Entry { below: Some(below), .. })) if below == new => {
                (vec![Step::Uncover { at }], after(None))
            }
            (_, Access::Hidden, Some(Entry { below: Some(_), .. })) => {
                return Err(refuse("it can be shown with the rights it had before, and changed then"));
            }
            (_, Access::Hidden, _) => return Err(refuse("nothing is below what hides it")),
            (_, _, Some(_)) if is_mounted => (Self::restrict(&path, new, mounts)?, after(None)),
            _ if self.inside(&path) => {
                return Err(refuse("entries of the view are inside of it; change those"));
            }
            // It never was a mount of its own, or is none any more.
            _ => (vec![Step::Copy { at, set: restrictions(new) }], after(None)),
        };
        Ok(Some(Planned { path, steps, after }))
    }

    /// Whether an entry that is not mounted has lost its rights by that: somebody outside renamed another file over it, and what is mounted on a file goes with it.
    fn is_lost(&self, path: &Path, entry: Option<Entry>) -> bool {
        let masked = |entry: Entry| entry.access != Access::Hidden || entry.below.is_some();
        entry.is_some_and(|entry| masked(entry) && self.around(path) != Some(entry.access))
    }

    /// The entry that is meant, or what is at the path now.
    fn find(&self, mount: &Mount) -> Result<(PathBuf, bool), Error> {
        if let Some(entry) = self.entries.get(&mount.path) {
            return Ok((mount.path.clone(), entry.folder));
        }
        let resolved = resolve(&[Mount { optional: false, ..mount.clone() }])?;
        let entry = resolved.entries.into_iter().next();
        entry.map(|entry| (entry.path, entry.folder)).ok_or(Error::Ended)
    }

    /// Where something is mounted, by the innermost entry that it is in.
    fn by_entry(&self, mounts: Vec<PathBuf>) -> Mounts {
        let mut by_entry = Mounts::new();
        for mount in mounts {
            if let Some(entry) = mount.ancestors().find(|above| self.entries.contains_key(*above)) {
                by_entry.entry(entry.to_owned()).or_default().push(mount);
            }
        }
        by_entry
    }

    /// Changes every mount that an entry consists of: its own, and those of the machine in it, but not those of entries inside.
    fn restrict(path: &Path, access: Access, mounts: &Mounts) -> Result<Vec<Step>, Error> {
        let set = restrictions(access);
        let clear = (attributes::READ_ONLY | attributes::NO_EXECUTE) & !set;
        let own = mounts.get(path).into_iter().flatten();
        let mut steps =
            own.map(|at| Ok(Step::Set { at: relative(at)?, set, clear })).collect::<Result<Vec<_>, Error>>()?;
        steps.dedup();
        Ok(steps)
    }
}

/// Whether one allows nothing that the other does not.
fn within(access: Access, most: Access) -> bool {
    let reads = access == Access::Hidden || most != Access::Hidden;
    reads && access.writes() <= most.writes() && access.executes() <= most.executes()
}

/// Where something is mounted in the sandbox.
fn mounts(pid: i32) -> Result<Vec<PathBuf>, Error> {
    let text = std::fs::read(format!("/proc/{pid}/mountinfo")).map_err(|_| Error::Ended)?;
    let place = |line: &[u8]| line.split(|byte| *byte == b' ').nth(4).map(unescape);
    let mut found: Vec<_> = text.split(|byte| *byte == b'\n').filter_map(place).collect();
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Undoes what the kernel does to spaces and their like (`\040`).
fn unescape(field: &[u8]) -> PathBuf {
    let (mut plain, mut at) = (Vec::with_capacity(field.len()), 0);
    while let Some(&byte) = field.get(at) {
        let digits = field
            .get(at + 1..at + 4)
            .filter(|digits| byte == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        let value =
            digits.map(|digits| digits.iter().fold(0_u8, |sum, digit| sum.wrapping_mul(8).wrapping_add(digit - b'0')));
        plain.push(value.unwrap_or(byte));
        at += if value.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn names_in_a_list_of_mounts_are_read_as_they_were() {
        assert_eq!(unescape(br"/a\040b\134c\011").as_os_str().as_bytes(), b"/a b\\c\t");
        assert_eq!(unescape(br"/a\04").as_os_str().as_bytes(), br"/a\04");
    }

    #[test]
    fn rights_are_compared_by_what_they_allow() {
        use Access::{All, Hidden, ReadExec, ReadOnly, Writable};
        for (most, allowed) in [
            (All, vec![Hidden, ReadOnly, ReadExec, Writable, All]),
            (Writable, vec![Hidden, ReadOnly, Writable]),
            (ReadExec, vec![Hidden, ReadOnly, ReadExec]),
            (ReadOnly, vec![Hidden, ReadOnly]),
            (Hidden, vec![Hidden]),
        ] {
            for access in [Hidden, ReadOnly, ReadExec, Writable, All] {
                assert_eq!(within(access, most), allowed.contains(&access), "{access:?} in {most:?}");
            }
        }
    }
}
