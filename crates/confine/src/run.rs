//! Starting a program under a policy.

use crate::audit::Log;
use crate::brokered::{Brokered, Decider, Watch};
use crate::control::Seen;
use crate::copy::Copy;
use crate::gated::Gated;
use crate::gates::Gates;
use crate::learn::Notes;
use crate::plan::{Plan, Unheld};
use crate::settings;
use crate::way::Way;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_broker::Counters;
use holdfast_policy::Policy;
use holdfast_sandbox::{
    Access as MountAccess, Denied, Mount, Outcome, Root, Running, Sandbox, Source, Step, Stream, WITHOUT_NAMESPACES,
};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// What is to be run.
#[derive(Debug, Default)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Its standard streams, pipes; without them it has the caller's.
    pub streams: Option<[OwnedFd; 3]>,
    /// A folder that it finds at another place than the machine has it, to be read and executed, whatever the policy says: the place, and the folder. A policy that shows
    /// the machine's root as a whole has no place for it.
    pub code: Option<(PathBuf, PathBuf)>,
    /// The working directory, if the policy says nothing.
    pub folder: PathBuf,
    /// Folders whose changes are kept apart. The policy must let them be written.
    pub copies: Vec<Copy>,
    /// Whether the program keeps the caller's terminal, and so Ctrl-C.
    pub terminal: bool,
    /// Whether another policy may allow more than the first while it runs. Then mounts alone say what is allowed in the view.
    pub widen: bool,
    /// Whether it is to start although this machine does not hold all of the policy: without user namespaces what Landlock and seccomp hold alone is enough then, and without
    /// control groups that memory and processor time of all processes together are counted. [`Confined::weaker`] lists what is missing.
    pub allow_degraded: bool,
}

/// A program that runs under a policy. Dropping it kills everything in it.
#[derive(Debug)]
pub struct Confined {
    pub(crate) running: Arc<Running>,
    pub(crate) mechanism: Mechanism,
    weaker: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum Mechanism {
    View {
        root: Root,
        copies: Vec<Copy>,
        /// Entries as they are now.
        view: Mutex<Vec<Mount>>,
    },
    /// A view with gates in it.
    Gates {
        gated: Gated,
        folders: Vec<PathBuf>,
        root: Root,
        copies: Vec<Copy>,
        /// Entries as they are now.
        view: Mutex<Vec<Mount>>,
    },
    /// None where no call had to be asked about.
    Broker(Option<Brokered>),
}

impl Drop for Confined {
    fn drop(&mut self) {
        // A broker is waited for, and serves until all of it is gone.
        self.running.kill();
    }
}

impl Confined {
    /// Starts it. Answers when it is being executed.
    ///
    /// # Errors
    /// `Unsupported` if the policy cannot be held here, with each rule that cannot; else what kept the sandbox from starting.
    pub fn start(policy: impl Into<Arc<Policy>>, command: &Command, watch: Watch) -> Result<Self> {
        let policy = policy.into();
        match Way::of(&policy, watch.is_on()).map_err(|unheld| refused(&policy, &unheld))? {
            Way::View(plan) => Self::in_a_view(&policy, plan, command),
            Way::Gates { gates, .. } => Self::behind_gates(policy, &gates, command, watch),
            Way::Broker { .. } => Self::by_a_broker(policy, command, watch),
        }
    }

    fn in_a_view(policy: &Policy, plan: Plan, command: &Command) -> Result<Self> {
        let described = || -> Result<Sandbox> {
            let view = with_copies(plan.view.clone(), &command.copies)?;
            Ok(Sandbox { root: plan.root, view: with_code(plan.root, view, command)?, ..sandbox(policy, command)? })
        };
        let (started, missing) = match described()?.start() {
            Err(error) if are_no_namespaces(&error) && command.allow_degraded => {
                let alone = Sandbox { no_namespaces: true, proc: false, ..described()? };
                (alone.start(), WITHOUT_NAMESPACES.as_slice())
            }
            Err(error) if are_no_namespaces(&error) => {
                return Err(failed(error).context("nothing was started (--allow-degraded lets Landlock and seccomp alone hold the policy, where they can, and lists what is weaker then)"));
            }
            started => (started, [].as_slice()),
        };
        let running = started.map_err(not_started)?;
        let without = missing.iter().map(|one| format!("without user namespaces {one}"));
        let weaker = without.chain(running.weaker().iter().cloned()).collect();
        let mechanism =
            Mechanism::View { root: plan.root, copies: command.copies.clone(), view: Mutex::new(plan.view) };
        Ok(Self { running: Arc::new(running), mechanism, weaker })
    }

    fn behind_gates(policy: Arc<Policy>, gates: &Gates, command: &Command, watch: Watch) -> Result<Self> {
        if let Some(copy) = command.copies.iter().find(|copy| {
            gates.folders.iter().any(|folder| copy.path.starts_with(folder) || folder.starts_with(&copy.path))
        }) {
            let why = "changes of a folder cannot be kept apart where rules name arguments of each call";
            return Err(Error::new(ErrorKind::Unsupported, format!("{}: {why}", copy.path.display())));
        }
        let mut described = sandbox(&policy, command)?;
        described.root = gates.around.root;
        described.view = with_code(described.root, with_copies(gates.view(), &command.copies)?, command)?;
        described.denied.push(Denied::Unserved);
        let served = Gated::new(policy, watch);
        let started = described.start_serving(&mut |folder, device| served.serve(folder, device));
        let running = started.map_err(|error| {
            let without = are_no_namespaces(&error);
            let error = not_started(error);
            if without {
                error.context("nothing was started: rules that name arguments of each call take namespaces")
            } else {
                error
            }
        })?;
        served.guard(&running)?;
        let (folders, root, copies) = (gates.folders.clone(), gates.around.root, command.copies.clone());
        let mechanism = Mechanism::Gates { gated: served, folders, root, copies, view: Mutex::new(gates.view()) };
        let weaker = running.weaker().to_vec();
        Ok(Self { running: Arc::new(running), mechanism, weaker })
    }

    /// Starts it to learn what it needs: what the policy refuses because no rule speaks of it is allowed, and noted.
    ///
    /// # Errors
    /// As of [`Self::start`].
    pub fn learn(base: Policy, command: &Command, notes: Arc<Notes>) -> Result<Self> {
        let settings = sandbox(&base, command)?;
        Self::with_a_broker(settings, Decider::learning(base.into(), notes), command, Watch::default())
    }

    fn by_a_broker(policy: Arc<Policy>, command: &Command, watch: Watch) -> Result<Self> {
        let settings = sandbox(&policy, command)?;
        let code = command.code.as_ref().map(|(at, _)| at.clone());
        let decider = Decider::new(policy, watch.everything).with_code(code);
        Self::with_a_broker(settings, decider, command, watch)
    }

    fn with_a_broker(settings: Sandbox, decider: Decider, command: &Command, watch: Watch) -> Result<Self> {
        let copy = |copy: &Copy| {
            Mount::new(&copy.path, MountAccess::All).from(Source::CopyOnWrite { changes: copy.changes.clone() })
        };
        // The machine's root, which the broker decides about; where something is to be found that it does not have, one that has all that is in it.
        let root = if command.code.is_some() { Root::Empty } else { Root::Host };
        let mut view: Vec<_> = command.copies.iter().map(copy).collect();
        if let Some((at, _)) = &command.code {
            view.extend(folders_of_the_root(at)?);
        }
        let view = with_code(root, view, command)?;
        let notify = holdfast_broker::calls(&decider);
        let mut running = Sandbox { root, view, notify, ..settings }.start().map_err(not_started)?;
        let weaker = running.weaker().to_vec();
        let listener = running.take_listener();
        let running = Arc::new(running);
        let end = {
            let running = running.clone();
            move || running.kill()
        };
        let owned = command.streams.is_some();
        let brokered = listener.map(|listener| Brokered::start(listener, decider, watch, owned, end)).transpose()?;
        Ok(Self { running, mechanism: Mechanism::Broker(brokered), weaker })
    }

    /// The only folders of which refusals are seen, if they are to be seen and not everywhere: of the rest the kernel tells the program alone.
    pub fn seen_only_in(&self) -> &[PathBuf] {
        match &self.mechanism {
            Mechanism::Gates { gated, folders, .. } if gated.is_watched() => folders,
            _ => &[],
        }
    }

    /// What a broker or gates did, if any hold it.
    pub fn counters(&self) -> Option<Counters> {
        match &self.mechanism {
            Mechanism::Gates { gated, .. } => Some(gated.counters()),
            Mechanism::Broker(Some(brokered)) => Some(brokered.counters()),
            _ => None,
        }
    }

    /// Waits until everything that a program did that has ended is told of, and says how many lines are missing in the log of refusals, because it could not be
    /// written.
    pub fn finish(&self) -> u64 {
        // Behind a gate a program waits for its answer, and a line is written before.
        if let Mechanism::Broker(Some(brokered)) = &self.mechanism {
            brokered.finish();
        }
        self.log().map_or(0, Log::unwritten)
    }

    /// What was decided, by whoever is asked.
    pub(crate) fn log(&self) -> Option<&Log> {
        match &self.mechanism {
            Mechanism::Gates { gated, .. } => Some(gated.log()),
            Mechanism::Broker(brokered) => brokered.as_ref().map(Brokered::log),
            Mechanism::View { .. } => None,
        }
    }

    /// Of which calls decisions are seen.
    pub fn seen(&self) -> Seen {
        match &self.mechanism {
            Mechanism::View { .. } => Seen::Nowhere,
            Mechanism::Gates { folders, .. } => Seen::In(folders.clone()),
            Mechanism::Broker(_) => Seen::Everywhere,
        }
    }

    /// What is not held as the policy says, because of what this machine does not have; empty where it has all of it.
    pub fn weaker(&self) -> &[String] {
        &self.weaker
    }

    /// How it ended, if everything in it has.
    ///
    /// # Errors
    /// If its end cannot be learned.
    pub fn try_wait(&self) -> Result<Option<Outcome>> {
        self.running.try_wait().map_err(failed)
    }

    /// Waits until everything in it has ended.
    ///
    /// # Errors
    /// If its end cannot be learned.
    pub fn wait(&self) -> Result<Outcome> {
        self.running.wait().map_err(failed)
    }

    /// Becomes readable when everything in it has ended.
    pub fn process(&self) -> BorrowedFd<'_> {
        self.running.process()
    }

    /// Its first process.
    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// Kills everything in it, whatever it ignores.
    pub fn kill(&self) {
        self.running.kill();
    }

    /// Sends the program a signal.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&self, signal: i32) -> Result<()> {
        self.running.signal(signal).map_err(failed)
    }

    /// Stops all of it at once.
    ///
    /// # Errors
    /// If it has ended.
    pub fn freeze(&self) -> Result<()> {
        self.running.freeze().map_err(failed)
    }

    /// Lets all of it go on.
    ///
    /// # Errors
    /// If it has ended.
    pub fn thaw(&self) -> Result<()> {
        self.running.thaw().map_err(failed)
    }
}

/// Whether this machine, or the way it is set up, has no user namespaces for this account.
fn are_no_namespaces(error: &holdfast_sandbox::Error) -> bool {
    use holdfast_sandbox::Error::Step as Failed;
    let Failed { step: Step::Namespaces | Step::Account | Step::Private | Step::Root, why, .. } = error else {
        return false;
    };
    [Errno::PERM, Errno::ACCESS, Errno::NOSPC, Errno::NOSYS, Errno::INVAL]
        .iter()
        .any(|errno| why.raw_os_error() == Some(errno.raw_os_error()))
}

fn sandbox(policy: &Policy, command: &Command) -> Result<Sandbox> {
    let mut sandbox = Sandbox {
        terminal: command.terminal,
        widen: command.widen,
        count: command.allow_degraded,
        ..settings::sandbox(&policy.settings, &command.words, &command.folder)
    };
    if let Some([input, output, error]) = &command.streams {
        let given = |stream: &OwnedFd| stream.try_clone().map(Stream::Given);
        (sandbox.stdin, sandbox.stdout, sandbox.stderr) = (given(input)?, given(output)?, given(error)?);
    }
    Ok(sandbox)
}

/// Puts the program's own folder into a view.
fn with_code(root: Root, mut view: Vec<Mount>, command: &Command) -> Result<Vec<Mount>> {
    let Some((at, from)) = &command.code else { return Ok(view) };
    if root == Root::Host || view.iter().any(|entry| entry.path == Path::new("/")) {
        let why = "a policy that shows the machine's root as a whole has no place for the program's own folder";
        return Err(Error::new(ErrorKind::Unsupported, format!("{why}, {}", at.display())));
    }
    // What is there on the machine is another folder.
    view.retain(|entry| !entry.path.starts_with(at));
    view.push(Mount::new(at, MountAccess::ReadExec).from(Source::Folder(from.clone())));
    Ok(view)
}

/// All folders of the machine's root, but one and those that a sandbox has of its own.
fn folders_of_the_root(but: &Path) -> Result<Vec<Mount>> {
    let own = |path: &Path| path == but || path == Path::new("/proc") || path == Path::new("/dev");
    let mut all = vec![Mount::new("/dev/shm", MountAccess::All).optional()];
    for entry in std::fs::read_dir("/")? {
        let path = entry?.path();
        if path.is_dir() && !own(&path) {
            // Of the kernel's own, nothing is written in any sandbox.
            let access = if path == Path::new("/sys") { MountAccess::ReadOnly } else { MountAccess::All };
            all.push(Mount::new(path, access).optional());
        }
    }
    Ok(all)
}

/// What kept a program from starting.
fn not_started(error: holdfast_sandbox::Error) -> Error {
    let unbounded = matches!(error, holdfast_sandbox::Error::Unbounded(_));
    let error = failed(error);
    if unbounded {
        error.context("nothing was started (`process-memory` and `process-cpu-seconds` bound each process everywhere; --allow-degraded has the supervisor count memory and processor time, which is not exact, and leaves the rest unbounded)")
    } else {
        error
    }
}

/// Puts copies in the place of entries, or inside of those that can be written.
pub(crate) fn with_copies(mut view: Vec<Mount>, copies: &[Copy]) -> Result<Vec<Mount>> {
    for copy in copies {
        let source = Source::CopyOnWrite { changes: copy.changes.clone() };
        if let Some(entry) = view.iter_mut().find(|entry| entry.path == copy.path) {
            entry.source = source;
            continue;
        }
        let around = view.iter().filter(|entry| copy.path.starts_with(&entry.path));
        let Some(access) = around.max_by_key(|entry| entry.path.components().count()).map(|entry| entry.access) else {
            return Err(Error::invalid(format!(
                "{}: the policy does not allow it, so there is nothing to keep apart",
                copy.path.display()
            )));
        };
        view.push(Mount::new(&copy.path, access).from(source));
    }
    Ok(view)
}

/// Every rule that is not held, a line each.
pub(crate) fn refused(policy: &Policy, unheld: &[Unheld]) -> Error {
    let why = "this policy cannot be enforced here exactly, so nothing was started";
    Error::new(ErrorKind::Unsupported, format!("{why}:{}", lines_of(policy, unheld)))
}

/// Each rule of a policy that cannot be held, with the reason, on a line of its own.
pub fn lines_of(policy: &Policy, unheld: &[Unheld]) -> String {
    let lines = unheld.iter().map(|Unheld { rule, reason }| {
        match rule.and_then(|number| Some((number, policy.rules().get(number)?))) {
            Some((number, rule)) => format!("\n  rule {} ({rule}): {reason}", number + 1),
            None => format!("\n  {reason}"),
        }
    });
    lines.collect()
}

/// What keeps a sandbox from starting, or from being changed, as an error of its kind.
#[expect(clippy::needless_pass_by_value, reason = "it is for map_err")]
pub fn failed(error: holdfast_sandbox::Error) -> Error {
    use holdfast_sandbox::Error as Failure;
    let kind = match &error {
        Failure::Invalid(_) | Failure::Memory => ErrorKind::InvalidInput,
        Failure::Missing { .. } | Failure::Ended => ErrorKind::NotFound,
        Failure::Unsupported { .. } | Failure::NeedsNamespaces(_) | Failure::Unbounded(_) => ErrorKind::Unsupported,
        Failure::Busy(_) | Failure::Change { .. } => ErrorKind::Conflict,
        Failure::Step { step: Step::Execute, why, .. } => match why.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorKind::Forbidden,
            _ => ErrorKind::InvalidInput,
        },
        Failure::Step { .. } | Failure::Killed => ErrorKind::Unavailable,
    };
    Error::new(kind, error.to_string())
}
