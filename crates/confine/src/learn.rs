//! Learning what a program needs: a broker allows what no rule of a base speaks of, and notes it; at the end that is a policy.
//!
//! What the base allows is not noted, and what one of its rules refuses stays refused. A policy that comes out is read again, and would be refused if it
//! did not allow all that was noted.
//!
//! Limits: a policy is about names. What the program needs besides (variables, a network, devices) is taken from the base; without one it is learned with
//! everything the account has at its network, the usual variables, and the devices that a policy can give.

use holdfast_base::{Error, Result};
use holdfast_policy::{
    Arguments, Decision, Device, Found, Judge, LearnOptions, Learned, Network, Operation, Policy, Request, Scope,
    Settings, UnixSockets,
};
use rustix::net::AddressFamily;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Trees and files that programs are made of, where the machine has them.
const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/alternatives",
    "/etc/localtime",
];
/// Folders in which everybody makes names.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Folders that no program has to itself (file system hierarchy standard 3.0).
const BROAD: [&str; 18] = [
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin",
    "/srv", "/sys", "/tmp", "/usr", "/var",
];
/// Variables without which programs speak another language, or look for things elsewhere.
const VARIABLES: [&str; 10] = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TERM", "TMPDIR", "TZ", "USER"];

/// What a program was seen to do while it was allowed to.
#[derive(Debug, Default)]
pub struct Notes {
    learned: Mutex<Learned>,
    links: Mutex<BTreeSet<PathBuf>>,
    devices: Mutex<BTreeSet<Device>>,
    network: AtomicBool,
    unix_sockets: AtomicBool,
}

/// A policy that was learned.
#[derive(Debug)]
pub struct Written {
    /// In TOML.
    pub text: String,
    /// How many names it was learned from.
    pub names: usize,
    /// Requests that are not in it, because there were too many names.
    pub missed: u64,
    /// Whether only what was seen is in it, because what people would write contradicts the base.
    pub exact: bool,
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notes {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a program is learned with where there is no base: no rules, and everything else that a policy can give.
    pub fn base(folder: &Path) -> Policy {
        let mut settings =
            Settings { directory: Some(folder.to_owned()), network: Network::All, ..Settings::default() };
        settings.devices = Device::ALL.into();
        settings.environment.keep = VARIABLES.map(String::from).into();
        // Of no rules there is no pattern that could be wrong.
        Policy::new(Decision::Deny, true, Vec::new(), settings)
            .unwrap_or_else(|_| unreachable!("there are no patterns"))
    }

    /// Notes what was asked for; false if there is no more room.
    pub(crate) fn note(&self, request: &Request<'_>) -> bool {
        locked(&self.learned).note(request)
    }

    /// Notes that a device was needed.
    pub(crate) fn given(&self, path: &Path) {
        let Ok(name) = path.strip_prefix("/dev") else { return };
        let device = Device::ALL.into_iter().find(|device| name.as_os_str() == device.name());
        locked(&self.devices).extend(device);
    }

    pub(crate) fn link(&self, link: &Path) {
        let mut links = locked(&self.links);
        if links.len() < holdfast_policy::LEARNED_MAX && !links.contains(link) {
            links.insert(link.to_owned());
        }
    }

    /// Notes that a socket was given an address of this family.
    pub(crate) fn address(&self, family: u16) {
        let inet = [AddressFamily::INET, AddressFamily::INET6].map(AddressFamily::as_raw);
        self.network.fetch_or(inet.contains(&family), Ordering::Relaxed);
        self.unix_sockets.fetch_or(family == AddressFamily::UNIX.as_raw(), Ordering::Relaxed);
    }

    /// Notes that a UNIX socket was needed: one that found nobody at its path was not.
    pub(crate) fn unix_socket(&self) {
        self.unix_sockets.store(true, Ordering::Relaxed);
    }

    /// The policy that allows what was noted, and what the base does. Without a base, devices, network and UNIX sockets are those that were used.
    ///
    /// # Errors
    /// If what was learned contradicts the base.
    pub fn write(&self, base: Option<&Policy>, folder: &Path, exact: bool) -> Result<Written> {
        let mut learned = locked(&self.learned).clone();
        for link in locked(&self.links).iter() {
            if let Ok(to) = std::fs::canonicalize(link) {
                learned.note_link(link, &to);
            }
        }
        let head = match base {
            Some(base) => base.to_toml(),
            None => self.head(folder),
        };
        let short = base.is_none_or(|base| base.rules().is_empty());
        let there = |paths: &[&str]| paths.iter().map(PathBuf::from).filter(|path| path.exists()).collect::<Vec<_>>();
        let (system, shared) = (there(&SYSTEM), there(&SHARED));
        let broad: Vec<_> = BROAD.iter().map(PathBuf::from).chain(homes()).collect();
        let options =
            LearnOptions { exact, system: &system, broad: &broad, shared: &shared, look, ..LearnOptions::default() };
        let text = |exact| {
            let said = format!(
                "# Learned from what a program did: {} names. Look it over: it allows what was needed once.\n{head}{}",
                learned.paths(),
                learned.lines(LearnOptions { exact, ..options }, short)
            );
            check(&said, base).map(|()| said)
        };
        let (text, exact) = match text(exact) {
            Err(_) if !exact => (text(true)?, true),
            text => (text?, exact),
        };
        Ok(Written { text, names: learned.paths(), missed: learned.missed(), exact })
    }

    fn head(&self, folder: &Path) -> String {
        let mut base = Self::base(folder);
        base.settings.devices.clone_from(&locked(&self.devices));
        if !self.network.load(Ordering::Relaxed) {
            base.settings.network = Network::None;
        }
        if !self.unix_sockets.load(Ordering::Relaxed) {
            base.settings.unix_sockets = UnixSockets::None;
        }
        base.to_toml()
    }
}

/// That a policy can be read, and takes nothing away that its base allows by a rule for a place.
fn check(text: &str, base: Option<&Policy>) -> Result<()> {
    let policy = Policy::from_toml("the learned policy", Path::new("/"), text.as_bytes())
        .map_err(|mistakes| Error::invalid(mistakes.to_string()))?;
    for rule in base.iter().flat_map(|base| base.rules()).filter(|rule| rule.is_unconditional()) {
        let (Scope::Exact(path) | Scope::Tree(path)) = &rule.scope else { continue };
        let asked = |operation| Request { program: Path::new("/"), operation, path, arguments: Arguments::default() };
        let was = |operation| base.is_some_and(|base| base.judge(&asked(operation)).allowed);
        if let Some(lost) = Operation::ALL.into_iter().find(|it| was(*it) && !policy.judge(&asked(*it)).allowed) {
            let why = format!("{} of {} would be lost, which the base allows", lost.name(), path.display());
            return Err(Error::invalid(why));
        }
    }
    Ok(())
}

fn look(path: &Path) -> Found {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Found::Folder,
        Ok(_) => Found::File,
        Err(_) => Found::Missing,
    }
}

/// Homes, of this account and of others.
fn homes() -> Vec<PathBuf> {
    let own = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let others = std::fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path());
    own.into_iter().chain(others).collect()
}
