//! One request: which program asks, and asking the judge about it.

use crate::gate::Gate;
use holdfast_broker::Record;
use holdfast_policy::{Arguments, Judge, Operation, Request};
use rustix::fs::readlink;
use rustix::io::Errno;
use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the kernel writes behind the name of an executable that is removed.
const DELETED: &[u8] = b" (deleted)";
/// `PF_FORKNOEXEC` of `linux/sched.h`, as `/proc/PID/stat` shows it.
const FORKED_ONLY: u64 = 0x40;
/// Numbers of the sandbox's own processes in its namespace: its first process, and the one that is to be the program.
const OWN: [i32; 2] = [1, 2];

/// A program of no name, which rules that name programs are not about.
const ANY: &str = "/";

/// Who asks.
enum Who {
    /// The sandbox itself, on the way to the first program.
    Setup,
    Program(PathBuf),
}

/// A request of the kernel.
pub(crate) struct Asked<'a> {
    pub(crate) gate: &'a Gate,
    /// The thread that waits, in our own namespace of processes; 0 if there is none.
    thread: i32,
    who: OnceCell<Who>,
    /// Who decides about all of this request.
    judge: Arc<dyn Judge>,
}

fn plain() -> Arguments<'static> {
    Arguments::default()
}

impl<'a> Asked<'a> {
    pub(crate) fn new(gate: &'a Gate, thread: u32) -> Self {
        gate.counting.calls.fetch_add(1, Ordering::Relaxed);
        Self { gate, thread: i32::try_from(thread).unwrap_or(0), who: OnceCell::new(), judge: gate.judge() }
    }

    fn who(&self) -> Result<&Who, Errno> {
        if let Some(who) = self.who.get() {
            return Ok(who);
        }
        let found = self.find().inspect_err(|_| {
            self.gate.counting.unserved.fetch_add(1, Ordering::Relaxed);
        })?;
        Ok(self.who.get_or_init(|| found))
    }

    /// The thread waits for its answer, also if it is killed, so that the number is its own all the while.
    fn find(&self) -> Result<Who, Errno> {
        if self.thread == 0 {
            return Err(Errno::ACCESS);
        }
        match readlink(self.file("exe"), Vec::with_capacity(256)) {
            Ok(written) => Ok(Who::Program(self.gate.program(written.as_bytes(), || self.file("root")))),
            // The sandbox's own processes can be looked into by nobody.
            Err(_) if self.is_the_start() == Some(true) => Ok(Who::Setup),
            Err(_) => Err(Errno::ACCESS),
        }
    }

    fn file(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.thread)
    }

    /// Whether it is the sandbox that prepares the first program. It has executed nothing yet, so nobody but the sandbox's own code is in it.
    fn is_the_start(&self) -> Option<bool> {
        let status = std::fs::read_to_string(self.file("status")).ok()?;
        let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().next_back()?;
        let stat = std::fs::read_to_string(self.file("stat")).ok()?;
        // The name before may contain anything; what follows is numbers. Flags are the 9th field, the 7th behind the name.
        let (_, rest) = stat.rsplit_once(')')?;
        let flags: u64 = rest.split_whitespace().nth(6)?.parse().ok()?;
        Some(OWN.contains(&inner.parse().ok()?) && flags & FORKED_ONLY != 0)
    }

    pub(crate) fn ask(&self, operation: Operation, path: &Path) -> Result<(), Errno> {
        self.ask_with(operation, path, plain())
    }

    /// Asks the judge, tells of it and counts it.
    pub(crate) fn ask_with(&self, operation: Operation, path: &Path, arguments: Arguments<'_>) -> Result<(), Errno> {
        if !self.gate.options.audit_allowed && self.would_allow_all(operation, path, arguments) {
            self.gate.counting.allowed.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let Who::Program(program) = self.who()? else { return own(operation) };
        let verdict = self.judge.judge(&Request { program, operation, path, arguments });
        let (pid, rule, allowed) = (self.thread, verdict.rule, verdict.allowed);
        let errno = (!allowed).then_some(libc::EACCES);
        self.tell(&Record { pid, program, operation, path, rule, allowed, errno });
        if allowed { Ok(()) } else { Err(Errno::ACCESS) }
    }

    /// Whether the judge would allow it to whichever program asks: then it need not be found out which one does.
    fn would_allow_all(&self, operation: Operation, path: &Path, arguments: Arguments<'_>) -> bool {
        !self.judge.names_programs()
            && self.judge.judge(&Request { program: Path::new(ANY), operation, path, arguments }).allowed
    }

    /// Asks whether a file may be opened, for an operation of which each call may be asked about later.
    pub(crate) fn ask_to_open(&self, operation: Operation, path: &Path) -> Result<(), Errno> {
        // What is decided later is told of then.
        let is_later = self.is_decided_by_each_call(path) && self.could_allow(operation, path)?;
        if is_later { Ok(()) } else { self.ask(operation, path) }
    }

    fn could_allow(&self, operation: Operation, path: &Path) -> Result<bool, Errno> {
        let could = |program: &Path| {
            let request = Request { program, operation, path, arguments: plain() };
            self.judge.could_allow(&request)
        };
        if !self.judge.names_programs() {
            return Ok(could(Path::new(ANY)));
        }
        // The sandbox opens nothing itself.
        if let Who::Program(program) = self.who()? { Ok(could(program)) } else { Ok(false) }
    }

    /// Whether rules of each call speak of a file.
    pub(crate) fn is_decided_by_each_call(&self, path: &Path) -> bool {
        !self.judge.of_each_call(path).is_empty()
    }

    /// Whether the judge would allow it to the program; nothing is told of this.
    pub(crate) fn would_allow(&self, operation: Operation, path: &Path) -> Result<bool, Errno> {
        if self.would_allow_all(operation, path, plain()) {
            return Ok(true);
        }
        let Who::Program(program) = self.who()? else { return Ok(own(operation).is_ok()) };
        Ok(self.judge.judge(&Request { program, operation, path, arguments: plain() }).allowed)
    }

    /// Whether the judge would allow it to a program of no name, as it does to all where no rule names any.
    pub(crate) fn would_allow_any(&self, operation: Operation, path: &Path) -> bool {
        let request = Request { program: Path::new(ANY), operation, path, arguments: plain() };
        self.judge.judge(&request).allowed
    }

    /// That a file by another name would allow nothing that it does not by this one.
    pub(crate) fn no_gain(&self, operation: Operation, from: &Path, to: &Path) -> Result<(), Errno> {
        if from == to {
            return Ok(());
        }
        let gains = || -> Result<bool, Errno> {
            for asked in Operation::ALL {
                if self.would_allow(asked, to)? && !self.would_allow(asked, from)? {
                    return Ok(true);
                }
            }
            Ok(self.judge.of_each_call(from) != self.judge.of_each_call(to))
        };
        if !gains()? {
            return Ok(());
        }
        if let Who::Program(program) = self.who()? {
            let errno = Some(libc::EXDEV);
            self.tell(&Record { pid: self.thread, program, operation, path: from, rule: None, allowed: false, errno });
        }
        Err(Errno::XDEV)
    }

    fn tell(&self, record: &Record<'_>) {
        let Gate { options, counting, .. } = self.gate;
        if let Some(audit) = &options.audit
            && (options.audit_allowed || !record.allowed)
        {
            audit(record);
        }
        if record.allowed {
            counting.allowed.fetch_add(1, Ordering::Relaxed);
        } else if options.kill_after == Some(counting.denied.fetch_add(1, Ordering::Relaxed) + 1) {
            (options.on_kill)();
        }
    }
}

/// What the sandbox itself does: it enters the working directory, and executes the program.
fn own(operation: Operation) -> Result<(), Errno> {
    match operation {
        Operation::Lookup | Operation::Getattr | Operation::Exec | Operation::Mmap => Ok(()),
        _ => Err(Errno::ACCESS),
    }
}

impl Gate {
    /// The name of an executable as the program itself would give it.
    fn program(&self, written: &[u8], root: impl FnOnce() -> String) -> PathBuf {
        let written = written.strip_suffix(DELETED).unwrap_or(written);
        let top = self.top.get().cloned().or_else(|| {
            let found = readlink(root(), Vec::new()).ok()?;
            let found = found.as_bytes();
            let top = found.strip_suffix(b"/").unwrap_or(found).to_vec();
            Some(self.top.get_or_init(|| top).clone())
        });
        let inside = top.and_then(|top| written.strip_prefix(top.as_slice()).map(<[u8]>::to_vec));
        let path = inside.filter(|path| path.first() == Some(&b'/')).unwrap_or_else(|| written.to_vec());
        PathBuf::from(OsStr::from_bytes(&path))
    }
}
