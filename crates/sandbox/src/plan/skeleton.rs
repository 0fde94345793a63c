//! The order in which a view is built, and the folders that are made for it.
//!
//! A path in the view is in one of two kinds of ground: in what an entry shows, where everything must be there already; or in folders made here, which are in memory
//! and become read-only once the view is complete.

use super::resolve::{Resolved, View};
use super::{Build, Numbered, attributes, devices, relative, restrictions};
use crate::error::Error;
use crate::sandbox::{Access, Root, Sandbox, Source};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of a folder in memory that only holds places for entries. Names and folders need no page there, so this is far more than it takes.
const PLACES_BYTES: u64 = 1 << 20;

/// A file or folder in memory costs the kernel about a KiB, so a `/tmp` may have one for each of its KiB.
const BYTES_OF_A_NODE: u64 = 1024;

/// What a path of the view lies in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ground {
    /// What an entry shows.
    Shown,
    /// Folders made here.
    Made,
}

/// The steps, as they are found.
#[derive(Default)]
pub(super) struct Skeleton {
    pub(super) build: Vec<Numbered>,
    pub(super) paths: Vec<PathBuf>,
    grounds: HashMap<PathBuf, Ground>,
    made: HashSet<PathBuf>,
    seals: Vec<Numbered>,
}

impl Skeleton {
    pub(super) fn plan(sandbox: &Sandbox, view: &View) -> Result<Self, Error> {
        let ground = if sandbox.root == Root::Host { Ground::Shown } else { Ground::Made };
        let mut this = Self {
            build: Vec::new(),
            paths: vec![PathBuf::from("/")],
            grounds: HashMap::from([(PathBuf::from("/"), ground)]),
            made: HashSet::new(),
            seals: Vec::new(),
        };
        this.special(sandbox, view)?;
        for (place, entry) in view.entries.iter().enumerate() {
            // What is inside of it comes right after it.
            let inside = view.entries.get(place + 1).is_some_and(|other| other.path.starts_with(&entry.path));
            this.entry(entry, inside)?;
        }
        // A link on the way to an entry is needed only where its place is made here.
        for (at, to) in &view.links {
            this.link(at, to)?;
        }
        if ground == Ground::Made {
            this.seals.push((0, Build::Seal { at: relative(Path::new("/"))? }));
        }
        let mut seals = std::mem::take(&mut this.seals);
        this.build.append(&mut seals);
        Ok(this)
    }

    /// What is there besides entries, before any of them.
    fn special(&mut self, sandbox: &Sandbox, view: &View) -> Result<(), Error> {
        let host = sandbox.root == Root::Host;
        for (path, asked) in
            [("/tmp", sandbox.tmp_bytes.is_some()), ("/dev", !sandbox.devices.is_empty()), ("/proc", sandbox.proc)]
        {
            if asked && view.entries.iter().any(|entry| entry.path == Path::new(path)) {
                return Err(Error::Invalid(format!(
                    "{path} is asked for both as an entry of the view and as a folder of its own"
                )));
            }
        }
        if let Some(bytes) = sandbox.tmp_bytes {
            self.memory(Path::new("/tmp"), bytes, c"1777", attributes::NO_DEVICES | attributes::NO_SETUID)?;
        }
        if host || !sandbox.devices.is_empty() {
            self.devices(sandbox)?;
        }
        // Memory that processes share by name is no device. Where it is a link, it is elsewhere; and what an entry says of all of `/dev` holds for it.
        let shared = Path::new("/dev/shm");
        let is_folder = shared.symlink_metadata().is_ok_and(|found| found.is_dir());
        if host && is_folder && !view.entries.iter().any(|entry| shared.starts_with(&entry.path)) {
            self.entry(&special(shared, Access::All), false)?;
        }
        let proc = Path::new("/proc");
        if sandbox.proc {
            self.place(proc, true)?;
            let number = self.number(proc);
            self.build.push((number, Build::Proc { at: relative(proc)? }));
            self.grounds.insert(proc.to_owned(), Ground::Shown);
        } else if host && proc.exists() && !view.entries.iter().any(|entry| entry.path == proc) {
            self.entry(&special(proc, Access::Hidden), false)?;
        }
        let sys = Path::new("/sys");
        if host && sys.exists() && !view.entries.iter().any(|entry| entry.path == sys) {
            self.entry(&special(sys, Access::ReadExec), false)?;
        }
        Ok(())
    }

    fn devices(&mut self, sandbox: &Sandbox) -> Result<(), Error> {
        let folder = Path::new("/dev");
        let closed = attributes::NO_SETUID | attributes::NO_EXECUTE | attributes::NO_DEVICES;
        self.memory(folder, PLACES_BYTES, c"0755", closed)?;
        for device in devices(sandbox) {
            let path = folder.join(device.name());
            self.place(&path, false)?;
            let number = self.number(&path);
            let set = attributes::NO_SETUID | attributes::NO_EXECUTE;
            self.build.push((number, Build::Bind { from: relative(&path)?, at: relative(&path)?, set }));
        }
        if sandbox.proc {
            let standard = [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")];
            for (name, rest) in standard {
                self.link(&folder.join(name), Path::new(&format!("/proc/self/fd{rest}")))?;
            }
        }
        let number = self.number(folder);
        self.seals.push((number, Build::Seal { at: relative(folder)? }));
        Ok(())
    }

    fn entry(&mut self, entry: &Resolved, inside: bool) -> Result<(), Error> {
        let path = &entry.path;
        if entry.access == Access::Hidden && inside && entry.folder {
            self.memory(path, PLACES_BYTES, c"0555", restrictions(Access::Hidden))?;
            let number = self.number(path);
            self.seals.push((number, Build::Seal { at: relative(path)? }));
            return Ok(());
        }
        self.place(path, entry.folder)?;
        let at = relative(path)?;
        let set = restrictions(entry.access);
        let step = match &entry.source {
            _ if entry.access == Access::Hidden => Build::Mask { at, folder: entry.folder },
            Source::Same => Build::Bind { from: at.clone(), at, set },
            Source::Folder(from) => Build::Bind { from: relative(from)?, at, set },
            Source::CopyOnWrite { changes } => {
                Build::Overlay { lower: at.clone(), changes: relative(changes)?, at, set }
            }
            Source::Served => Build::Serve { at, set },
        };
        let number = self.number(path);
        self.build.push((number, step));
        self.grounds.insert(path.clone(), Ground::Shown);
        Ok(())
    }

    /// A folder in memory that more can be put in.
    fn memory(&mut self, path: &Path, bytes: u64, mode: &CStr, set: u64) -> Result<(), Error> {
        self.place(path, true)?;
        let number = self.number(path);
        let digits = |number: u64| CString::new(number.to_string()).unwrap_or_default();
        // The root of it is one, and the entries of a view are bounded elsewhere.
        let nodes = digits((bytes / BYTES_OF_A_NODE).max(16_384));
        let at = relative(path)?;
        // It becomes read-only when it is sealed.
        let set = set & !attributes::READ_ONLY;
        self.build.push((number, Build::Memory { at, bytes: digits(bytes), nodes, mode: mode.to_owned(), set }));
        self.grounds.insert(path.to_owned(), Ground::Made);
        Ok(())
    }

    fn ground<'path>(&self, path: &'path Path) -> (&'path Path, Ground) {
        let known = |at: &'path Path| self.grounds.get(at).map(|ground| (at, *ground));
        path.ancestors().skip(1).find_map(known).unwrap_or((path, Ground::Shown))
    }

    /// Makes the folders on the way and the place itself, where that is up to us.
    fn place(&mut self, path: &Path, folder: bool) -> Result<(), Error> {
        let (above, ground) = self.ground(path);
        if ground == Ground::Shown {
            return Ok(());
        }
        let mut on_the_way: Vec<PathBuf> =
            path.ancestors().skip(1).take_while(|at| *at != above).map(Path::to_owned).collect();
        on_the_way.reverse();
        for at in on_the_way {
            self.make(&at, true)?;
        }
        self.make(path, folder)
    }

    fn make(&mut self, path: &Path, folder: bool) -> Result<(), Error> {
        if self.made.insert(path.to_owned()) {
            let at = relative(path)?;
            let number = self.number(path);
            self.build.push((number, if folder { Build::Folder(at) } else { Build::File(at) }));
        }
        Ok(())
    }

    fn link(&mut self, at: &Path, to: &Path) -> Result<(), Error> {
        if self.grounds.contains_key(at) || self.ground(at).1 == Ground::Shown {
            return Ok(());
        }
        let Some(above) = at.parent() else { return Ok(()) };
        if above != Path::new("/") {
            self.place(above, true)?;
        }
        if self.made.insert(at.to_owned()) {
            let number = self.number(at);
            let to = super::c_string(OsStr::as_bytes(to.as_os_str()), "a link")?;
            self.build.push((number, Build::Link { at: relative(at)?, to }));
        }
        Ok(())
    }

    fn number(&mut self, path: &Path) -> u32 {
        if self.paths.last().is_none_or(|last| last != path) {
            self.paths.push(path.to_owned());
        }
        u32::try_from(self.paths.len() - 1).unwrap_or(0)
    }
}

fn special(path: &Path, access: Access) -> Resolved {
    Resolved { path: path.to_owned(), access, folder: true, source: Source::Same }
}
