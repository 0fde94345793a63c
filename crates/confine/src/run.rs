//! Starting a program under a policy.

use crate::copy::Copy;
use crate::plan::{Plan, Unheld, access_of};
use crate::settings;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_policy::{Access, Policy};
use holdfast_sandbox::{Mount, Outcome, Root, Running, Sandbox, Source, Step, WITHOUT_NAMESPACES};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Mutex;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// The working directory, if the policy says nothing.
    pub folder: PathBuf,
    /// Folders whose changes are kept apart. The policy must let them be written.
    pub copies: Vec<Copy>,
    /// Whether the program keeps the caller's terminal, and so Ctrl-C.
    pub terminal: bool,
    /// Whether another policy may allow more than the first while it runs. Then mounts alone hold the view, without Landlock behind them.
    pub widen: bool,
    /// Whether, on a machine without user namespaces, what Landlock and seccomp alone hold is enough. [`Confined::weaker`] lists what is missing then.
    pub allow_degraded: bool,
}

/// A program that runs under a policy. Dropping it kills everything in it.
#[derive(Debug)]
pub struct Confined {
    running: Running,
    root: Root,
    copies: Vec<Copy>,
    weaker: &'static [&'static str],
    /// Entries of the view as they are now.
    view: Mutex<Vec<Mount>>,
}

impl Confined {
    /// Starts it. Answers when it is being executed.
    ///
    /// # Errors
    /// `Unsupported` if the policy cannot be held here, with each rule that cannot; else what kept the sandbox from starting.
    pub fn start(policy: &Policy, command: &Command) -> Result<Self> {
        let plan = Plan::of(policy).map_err(|unheld| refused(policy, &unheld))?;
        let (started, weaker) = match sandbox(policy, &plan, command)?.start() {
            Err(error) if are_no_namespaces(&error) && command.allow_degraded => {
                let mut alone = sandbox(policy, &plan, command)?;
                (alone.no_namespaces, alone.proc) = (true, false);
                (alone.start(), WITHOUT_NAMESPACES.as_slice())
            }
            Err(error) if are_no_namespaces(&error) => {
                return Err(failed(error).context("nothing was started (--allow-degraded lets Landlock and seccomp alone hold the policy, where they can, and lists what is weaker then)"));
            }
            started => (started, [].as_slice()),
        };
        let running = started.map_err(failed)?;
        Ok(Self { running, root: plan.root, copies: command.copies.clone(), weaker, view: Mutex::new(plan.view) })
    }

    /// What is not held as the policy says, because this machine has no user namespaces; empty where it has.
    pub fn weaker(&self) -> &'static [&'static str] {
        self.weaker
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

    /// Puts another policy in the place of this one, without stopping it. What is open stays open as it was opened. Environment, network, devices and limits stay
    /// those of the start.
    ///
    /// # Errors
    /// `Unsupported` if the new policy cannot be held, or not by a running sandbox; then the old one holds, except where an entry that is named could not be
    /// changed after others were.
    pub fn set_policy(&self, policy: &Policy) -> Result<()> {
        let plan = Plan::of(policy).map_err(|unheld| refused(policy, &unheld))?;
        if plan.root != self.root {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "its default allows what the other one refused, or the other way round: that takes a new start",
            ));
        }
        let wanted = with_copies(plan.view, &self.copies)?;
        let mut view = self.view.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let changes = changes(&view, &wanted);
        self.running.change_view(&changes).map_err(failed)?;
        *view = wanted;
        Ok(())
    }
}

/// What a view needs to become another. An entry that is gone gets the access of what is around it now.
fn changes(before: &[Mount], after: &[Mount]) -> Vec<Mount> {
    let mut changes: Vec<_> = after.iter().filter(|entry| !before.contains(entry)).cloned().collect();
    for gone in before.iter().filter(|old| !after.iter().any(|new| new.path == old.path)) {
        let around = after.iter().filter(|new| gone.path.starts_with(&new.path));
        let access =
            around.max_by_key(|new| new.path.components().count()).map_or(access_of(Access::Hidden), |new| new.access);
        changes.push(Mount { access, ..gone.clone() });
    }
    changes
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

fn sandbox(policy: &Policy, plan: &Plan, command: &Command) -> Result<Sandbox> {
    let settings = &policy.settings;
    let mut sandbox = Sandbox::new(&command.words);
    sandbox.root = plan.root;
    sandbox.view = with_copies(plan.view.clone(), &command.copies)?;
    sandbox.environment = settings::environment(settings, std::env::vars_os());
    sandbox.folder = settings.directory.clone().unwrap_or_else(|| command.folder.clone());
    sandbox.devices = settings::devices(settings);
    // Of its own processes: programs look for themselves there, and nothing of the machine is in it.
    sandbox.proc = true;
    sandbox.network = settings::network(settings);
    sandbox.limits = settings::limits(settings);
    sandbox.terminal = command.terminal;
    sandbox.widen = command.widen;
    Ok(sandbox)
}

/// Puts copies in the place of entries, or inside of those that can be written.
fn with_copies(mut view: Vec<Mount>, copies: &[Copy]) -> Result<Vec<Mount>> {
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
fn refused(policy: &Policy, unheld: &[Unheld]) -> Error {
    let lines = unheld.iter().map(|Unheld { rule, reason }| {
        match rule.and_then(|number| Some((number, policy.rules().get(number)?))) {
            Some((number, rule)) => format!("rule {} ({rule}): {reason}", number + 1),
            None => reason.clone(),
        }
    });
    let lines: Vec<_> = lines.collect();
    Error::new(
        ErrorKind::Unsupported,
        format!("this policy cannot be enforced here exactly, so nothing was started:\n  {}", lines.join("\n  ")),
    )
}

#[expect(clippy::needless_pass_by_value, reason = "it is for map_err")]
fn failed(error: holdfast_sandbox::Error) -> Error {
    use holdfast_sandbox::Error as Failure;
    let kind = match &error {
        Failure::Invalid(_) => ErrorKind::InvalidInput,
        Failure::Missing { .. } | Failure::Ended => ErrorKind::NotFound,
        Failure::Unsupported { .. } | Failure::NeedsNamespaces(_) => ErrorKind::Unsupported,
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
