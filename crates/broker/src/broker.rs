//! A broker: a listener, a judge, and what is told to whom.

use crate::core::{Core, locked_read};
use crate::error::Error;
use crate::pool;
use crate::record::{Counters, Record};
use crate::sys;
use holdfast_policy::{Judge, Operation};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// Threads that may be asked for; each serves one call at a time, and more than processors only help against slow file systems.
pub const THREADS_MAX: usize = 64;

/// Is told of decisions, by the threads that serve: it must be quick, and start no processes.
pub type Audit = Box<dyn Fn(&Record<'_>) + Send + Sync>;

/// Decides about addresses that are no paths.
pub type Addresses = Box<dyn Fn(&Address<'_>) -> bool + Send + Sync>;

/// An address that is no path, and what a socket is to do with it.
#[derive(Clone, Copy, Debug)]
pub struct Address<'a> {
    /// Whether it is bound to the socket; else the socket is connected to it.
    pub binds: bool,
    /// Its family (`AF_INET` and the like).
    pub family: u16,
    /// All of it (`struct sockaddr`), the family included.
    pub bytes: &'a [u8],
}

/// Is told of a symbolic link; it must be quick.
pub type Links = Box<dyn Fn(&Path) + Send + Sync>;

/// How a broker works, and whom it tells what.
pub struct Options {
    /// Threads that serve at once, from 1 to [`THREADS_MAX`].
    pub threads: usize,
    /// Files that the program was started with and may use as they are: its standard streams. `/dev/null` is one of them in any case.
    pub inherited: Vec<OwnedFd>,
    /// Operations of whose calls rules name arguments. For reading, writing, mapping and listing that cannot be held, and [`Broker::new`] says so.
    pub arguments: Vec<Operation>,
    /// Is told of each denial, and of each decision if `audit_allowed` is set.
    pub audit: Option<Audit>,
    /// Whether the audit is told of what is allowed, too.
    pub audit_allowed: bool,
    /// The number of denials at which `on_kill` is called.
    pub kill_after: Option<u64>,
    /// Is called once, when there were so many denials; it is to end the sandbox.
    pub on_kill: Box<dyn Fn() + Send + Sync>,
    /// Decides about binding and connecting to an address that is no path. The broker makes those
    /// calls, so what holds for the program by other means (Landlock's ports and scopes) must be decided here again. By default none is allowed.
    pub address: Addresses,
    /// Is told of each symbolic link that a path leads through, as the program sees it. Nobody is asked about a link, only about where the path ends.
    pub links: Option<Links>,
    /// Is told of each socket that was bound or connected to a path; it must be quick.
    pub paths: Option<Box<dyn Fn() + Send + Sync>>,
    /// Whether links and moves may give a file a name by which more is allowed.
    pub may_gain: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 4,
            inherited: Vec::new(),
            arguments: Vec::new(),
            audit: None,
            audit_allowed: false,
            kill_after: None,
            on_kill: Box::new(|| ()),
            address: Box::new(|_| false),
            links: None,
            paths: None,
            may_gain: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Options");
        debug.field("threads", &self.threads).field("kill_after", &self.kill_after);
        debug.finish_non_exhaustive()
    }
}

/// Since then a filter can ask for calls that only a deadly signal takes back from whoever serves them, as the sandbox's does.
const KERNEL_MIN: (u32, u32) = (5, 19);

/// Decided once, when a file is opened.
const AT_OPEN: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Mmap, Operation::Readdir];

/// Serves the calls of one sandbox.
///
/// It holds the listener, so calls of a program whose broker does not run wait until it is dropped; then they fail with `ENOSYS`.
pub struct Broker {
    core: Core,
}

impl fmt::Debug for Broker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Broker").field("options", &self.core.options).finish_non_exhaustive()
    }
}

impl Broker {
    /// Makes a broker for a sandbox that was started with the [`crate::calls`] of this judge.
    pub fn new(listener: OwnedFd, judge: Arc<dyn Judge>, options: Options) -> Result<Self, Error> {
        if sys::kernel() < KERNEL_MIN {
            return Err(Error::Kernel);
        }
        if !(1..=THREADS_MAX).contains(&options.threads) {
            return Err(Error::Option("a broker has from 1 to 64 threads"));
        }
        if let Some(operation) = options.arguments.iter().find(|operation| AT_OPEN.contains(operation)) {
            return Err(Error::Arguments(*operation));
        }
        Ok(Self { core: Core::new(listener, judge, options)? })
    }

    /// Serves until the last process of the sandbox is gone. The threads that serve give up their capabilities; the caller's does not.
    pub fn run(&self) -> Result<Counters, Error> {
        pool::run(&self.core)?;
        Ok(self.counters())
    }

    /// Has another judge decide from the next question on. What is open stays open. Fails if it decides about what the first one did not.
    pub fn replace_judge(&self, judge: Arc<dyn Judge>) -> Result<(), Error> {
        self.core.check_scope(&*judge)?;
        *self.core.judge.write().unwrap_or_else(PoisonError::into_inner) = judge;
        Ok(())
    }

    /// The judge that decides now.
    pub fn judge(&self) -> Arc<dyn Judge> {
        Arc::clone(&locked_read(&self.core.judge))
    }

    /// To be called when mounts of the sandbox have been changed: what is open in one that is gone has no path any more, and is refused from then on.
    pub fn view_changed(&self) {
        self.core.forget_mounts();
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.core.counting.read()
    }
}
