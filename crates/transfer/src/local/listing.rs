//! Folders in byte order of name, some members at a time, in bounded memory.
//!
//! A file system lists in an order of its own, so names are read, sorted and served from a *window*: the smallest names after the last one served
//! that fit into [`WINDOW_BYTES`]. What does not fit is found by reading the folder again when the window is used up. So a million names of
//! usual length are one reading of the folder, a million of the longest ones eight, and memory is the same. Windows of folders that are being listed
//! are kept, [`KEPT_BYTES`] of them in all, for a walk goes into a folder's members before it comes back for more; one that was let go of costs
//! another reading.

use super::failure::failed;
use super::item;
use crate::part;
use crate::site::Listed;
use holdfast_base::{DrivePath, Error, NodeName, Result};
use parking_lot::Mutex;
use rustix::fs::Dir;
use std::os::fd::OwnedFd;

/// Names of a window, with what keeps them in order.
const WINDOW_BYTES: usize = 32 << 20;
/// All windows that are kept.
const KEPT_BYTES: usize = 48 << 20;
/// Members that are told at a time.
const PAGE: usize = 512;
/// Refusals that are told at a time, beside a count of the rest.
const REFUSED_MAX: usize = 512;

/// Names in one piece of memory: a million small ones cost what they are, and eight bytes each.
#[derive(Debug, Default)]
struct Names {
    bytes: Vec<u8>,
    places: Vec<(u32, u16)>,
}

impl Names {
    fn get(&self, (start, length): (u32, u16)) -> &[u8] {
        &self.bytes[start as usize..][..usize::from(length)]
    }

    fn push(&mut self, name: &[u8]) {
        // No file system has names of 64 KiB, and a window is far below 4 GiB.
        let (Ok(start), Ok(length)) = (u32::try_from(self.bytes.len()), u16::try_from(name.len())) else { return };
        self.places.push((start, length));
        self.bytes.extend_from_slice(name);
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<(u32, u16)>()
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.places.sort_unstable_by_key(|(start, length)| &bytes[*start as usize..][..usize::from(*length)]);
    }

    /// Keeps the smaller half; the largest name that is left.
    fn halve(&mut self) -> Vec<u8> {
        self.sort();
        let mut kept = Self::default();
        for place in &self.places[..self.places.len().div_ceil(2)] {
            kept.push(self.get(*place));
        }
        let last = kept.places.last().map(|place| kept.get(*place).to_vec()).unwrap_or_default();
        *self = kept;
        last
    }
}

/// Names of a folder that were read and not served yet.
#[derive(Debug)]
struct Window {
    names: Names,
    next: usize,
    /// Whether the folder has names after these.
    more: bool,
    /// The last name served.
    last: Option<NodeName>,
}

impl Window {
    /// Reads the folder.
    fn read(folder: &OwnedFd, after: &[u8], limit: usize) -> rustix::io::Result<Self> {
        let (mut names, mut cut) = (Names::default(), None::<Vec<u8>>);
        let mut more = false;
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let ours = std::str::from_utf8(name).is_ok_and(part::is_part);
            if name <= after || ours || matches!(name, b"." | b"..") {
                continue;
            }
            if cut.as_ref().is_some_and(|cut| name > cut.as_slice()) {
                more = true;
                continue;
            }
            names.push(name);
            if names.size() > limit && names.places.len() > 1 {
                cut = Some(names.halve());
                more = true;
            }
        }
        names.sort();
        Ok(Self { names, next: 0, more, last: None })
    }

    /// The largest name in it, which may be one that cannot be moved.
    fn last_name(&self) -> Vec<u8> {
        self.names.places.last().map(|place| self.names.get(*place).to_vec()).unwrap_or_default()
    }

    fn is_used_up(&self) -> bool {
        self.next == self.names.places.len()
    }
}

/// The windows of a site.
#[derive(Debug)]
pub(super) struct Windows {
    /// Those used last are at the end.
    kept: Mutex<Vec<(DrivePath, Window)>>,
    window_bytes: usize,
}

impl Default for Windows {
    fn default() -> Self {
        Self { kept: Mutex::default(), window_bytes: WINDOW_BYTES }
    }
}

impl Windows {
    /// Some members of a folder after `after`.
    pub(super) fn list(&self, path: &DrivePath, folder: &OwnedFd, after: Option<&NodeName>) -> Result<Listed> {
        let read = |after: &[u8]| {
            Window::read(folder, after, self.window_bytes).map_err(|errno| failed("listing", path, errno))
        };
        let mut window = match self.take(path, after) {
            Some(window) => window,
            None => read(after.map_or(b"", |name| name.as_str().as_bytes()))?,
        };
        let (mut listed, mut unsaid) = (Listed::default(), 0);
        while listed.items.len() < PAGE {
            if window.is_used_up() {
                if !window.more {
                    break;
                }
                window = read(&window.last_name())?;
                continue;
            }
            let name = window.names.get(window.names.places[window.next]);
            window.next += 1;
            match examine(folder, name) {
                Ok(Some(item)) => listed.items.push(item),
                Ok(None) => {}
                Err(error) if listed.refused.len() < REFUSED_MAX => {
                    listed.refused.push((String::from_utf8_lossy(name).into_owned(), error));
                }
                Err(_) => unsaid += 1,
            }
        }
        if unsaid > 0 {
            let why = format!("{unsaid} more names of this folder cannot be moved");
            listed.refused.push(("…".into(), Error::invalid(why)));
        }
        listed.more = !window.is_used_up() || window.more;
        window.last = listed.items.last().map(|item| item.name.clone());
        if listed.more {
            self.keep(path.clone(), window);
        }
        Ok(listed)
    }

    fn take(&self, path: &DrivePath, after: Option<&NodeName>) -> Option<Window> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|(of, _)| of == path)?;
        let (_, window) = kept.remove(at);
        (after.is_some() && window.last.as_ref() == after).then_some(window)
    }

    fn keep(&self, path: DrivePath, window: Window) {
        let mut kept = self.kept.lock();
        kept.retain(|(of, _)| *of != path);
        kept.push((path, window));
        while kept.iter().map(|(_, window)| window.names.size()).sum::<usize>() > KEPT_BYTES {
            kept.remove(0);
        }
    }
}

fn examine(folder: &OwnedFd, name: &[u8]) -> Result<Option<crate::site::Item>> {
    let text = std::str::from_utf8(name).map_err(|_| Error::invalid("its name is not UTF-8, and cannot be moved"))?;
    item::look(folder, &NodeName::new(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::os::unix::ffi::OsStrExt;

    fn listed(windows: &Windows, folder: &OwnedFd) -> Vec<String> {
        let (mut names, mut after) = (Vec::new(), None);
        loop {
            let page = windows.list(&DrivePath::root(), folder, after.as_ref()).expect("lists");
            names.extend(page.items.iter().map(|item| item.name.as_str().to_owned()));
            after = page.items.last().map(|item| item.name.clone());
            if !page.more {
                return names;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn windows_of_any_size_serve_every_name_once_and_in_order(
            names in prop::collection::btree_set("[a-c]{1,6}", 0..900),
            bad in prop::collection::btree_set("[a-c]{1,2}", 0..5),
            window_bytes in prop::sample::select(vec![1usize, 20, 100, 1_000, 100_000]),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            for name in &names {
                std::fs::write(folder.path().join(name), "").expect("writes");
            }
            for name in &bad {
                let name = [name.as_bytes(), b"\xff"].concat();
                std::fs::write(folder.path().join(std::ffi::OsStr::from_bytes(&name)), "").expect("writes");
            }
            let opened: OwnedFd = std::fs::File::open(folder.path()).expect("opens").into();
            let windows = Windows { window_bytes, ..Windows::default() };
            let expected: BTreeSet<String> = names.into_iter().collect();
            prop_assert_eq!(listed(&windows, &opened), expected.into_iter().collect::<Vec<_>>());
            prop_assert!(windows.kept.lock().len() <= 1);
        }
    }
}
