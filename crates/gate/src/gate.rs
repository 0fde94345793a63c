//! What the folders of one sandbox share: who decides, who is told, and how it ends.

use crate::face::Face;
use crate::node::Nodes;
use fuser::{Config, Session, SessionACL};
use holdfast_broker::{Audit, Counters};
use holdfast_policy::Judge;
use parking_lot::{Mutex, RwLock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Threads that serve one folder. Each serves one call at a time; more than processors only help where the real file system is slow.
pub const THREADS: usize = 4;

/// How long the kernel believes which folder a name leads to, where every folder may be looked up by every program.
pub(crate) const BELIEVED: Duration = Duration::from_millis(100);
/// After so long it does not: it counts in ticks, a hundredth of a second at most, and up to two more of them.
pub(crate) const BELIEVED_NO_MORE: Duration = Duration::from_millis(125);

/// Is called when a folder is not served any more, with the reason if it was not the end of the sandbox.
pub type Ended = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// Whom a gate tells what.
pub struct Options {
    /// Is told of each denial, and of each decision if `audit_allowed` is set.
    pub audit: Option<Audit>,
    /// Whether the audit is told of what is allowed, too.
    pub audit_allowed: bool,
    /// The number of denials at which `on_kill` is called.
    pub kill_after: Option<u64>,
    /// Is called once, when there were so many denials; it is to end the sandbox.
    pub on_kill: Box<dyn Fn() + Send + Sync>,
    /// Is called when a folder is not served any more: it is to end the sandbox, if that runs.
    pub on_end: Ended,
}

impl Default for Options {
    fn default() -> Self {
        Self { audit: None, audit_allowed: false, kill_after: None, on_kill: Box::new(|| ()), on_end: Box::new(|_| ()) }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Options").field("kill_after", &self.kill_after).finish_non_exhaustive()
    }
}

/// Decides about calls in folders of one sandbox.
pub struct Gate {
    judge: RwLock<Arc<dyn Judge>>,
    pub(crate) options: Options,
    pub(crate) counting: Counting,
    served: Mutex<Vec<Arc<Served>>>,
    /// The root of the sandbox as the kernel writes it for us, without a slash at its end.
    pub(crate) top: OnceLock<Vec<u8>>,
}

/// A folder that is served.
pub(crate) struct Served {
    folder: PathBuf,
    believed: AtomicBool,
}

impl Served {
    /// How long the kernel may believe which folder a name leads to, of one that is at a path and was looked for since `begun`. What others have moved out of here is another's
    /// to decide about.
    pub(crate) fn belief(&self, path: &Path, begun: Instant) -> Duration {
        let believed = self.believed.load(Ordering::SeqCst) && path.starts_with(&self.folder);
        // Whoever decided may have been kept waiting since.
        if believed { BELIEVED.saturating_sub(begun.elapsed()) } else { Duration::ZERO }
    }
}

/// How often what happened.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) calls: AtomicU64,
    pub(crate) allowed: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) unserved: AtomicU64,
}

impl fmt::Debug for Gate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Gate").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate that serves no folder yet.
    pub fn new(judge: Arc<dyn Judge>, options: Options) -> Arc<Self> {
        Arc::new(Self {
            judge: RwLock::new(judge),
            options,
            counting: Counting::default(),
            served: Mutex::default(),
            top: OnceLock::new(),
        })
    }

    /// Answers what the kernel asks by a device (`fuse`(4)) about a folder, in threads of its own, until its file system is gone. Nobody is asked about the folder's own
    /// symbolic links: its path must be a true one.
    ///
    /// # Errors
    /// If the folder cannot be pinned, or the kernel does not say how it asks.
    pub fn serve(self: &Arc<Self>, folder: &Path, device: OwnedFd) -> io::Result<()> {
        raise_files();
        let served = Arc::new(Served { folder: folder.to_owned(), believed: AtomicBool::new(false) });
        let face = Face::new(self.clone(), Nodes::new(folder)?, served.clone());
        let mut config = Config::default();
        config.n_threads = Some(THREADS);
        // Whom the kernel lets ask has been said when the file system was made.
        config.acl = SessionACL::All;
        let session = Session::from_fd(face, device, SessionACL::All, config)?;
        {
            let mut all = self.served.lock();
            self.weigh(&served);
            all.push(served);
        }
        let (gate, folder): (_, PathBuf) = (self.clone(), folder.to_owned());
        std::thread::Builder::new().name("gate".into()).spawn(move || gate.run(session, &folder))?;
        Ok(())
    }

    fn run(&self, session: Session<Face>, folder: &Path) {
        let why = session.run().err().map(|error| format!("{} is not served any more: {error}", folder.display()));
        (self.options.on_end)(why.as_deref());
    }

    /// Has another judge decide from the next question on, and returns when the kernel asks again where folders are. What is open stays open as it was opened.
    pub fn replace_judge(&self, judge: Arc<dyn Judge>) {
        let all = self.served.lock();
        let believed: Vec<_> = all.iter().map(|served| served.believed.swap(false, Ordering::SeqCst)).collect();
        *self.judge.write() = judge;
        if believed.contains(&true) {
            std::thread::sleep(BELIEVED_NO_MORE);
        }
        all.iter().for_each(|served| self.weigh(served));
    }

    /// Who decides now.
    pub(crate) fn judge(&self) -> Arc<dyn Judge> {
        self.judge.read().clone()
    }

    /// Finds out whether the kernel may believe which folder a name leads to: where nobody is refused to look it up, nor told of it.
    fn weigh(&self, served: &Served) {
        let believed = !self.options.audit_allowed && self.judge().finds_all(&served.folder);
        served.believed.store(believed, Ordering::SeqCst);
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counting { calls, allowed, denied, unserved } = &self.counting;
        Counters {
            calls: read(calls),
            allowed: read(allowed),
            denied: read(denied),
            unserved: read(unserved),
            killed: 0,
        }
    }
}

/// Takes as many descriptors as this account may have: each name that the kernel remembers is one.
fn raise_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Fewer are only sooner too few.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
