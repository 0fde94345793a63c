//! What the tests share: judges made of closures, and sandboxes with a broker.

use holdfast_broker::{Broker, Counters, Options, calls};
use holdfast_policy::{Judge, Operation, Request, Verdict};
use holdfast_sandbox::{Device, Outcome, Root, Sandbox, Stream};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A judge that is a function, and decides about everything.
pub(crate) struct By<F>(pub(crate) F);

impl<F: Fn(&Request<'_>) -> bool + Send + Sync> Judge for By<F> {
    fn judge(&self, request: &Request<'_>) -> Verdict {
        Verdict { allowed: (self.0)(request), rule: None }
    }
}

/// Allows everything, and is asked about everything.
pub(crate) fn all() -> Arc<dyn Judge> {
    Arc::new(By(|_: &Request<'_>| true))
}

/// Allows everything but one operation at one path.
pub(crate) fn all_but(operation: Operation, path: &Path) -> Arc<dyn Judge> {
    let path = path.to_owned();
    Arc::new(By(move |request: &Request<'_>| request.operation != operation || request.path != path))
}

/// The machine's files, with processes and devices.
pub(crate) fn host<Words>(command: Words) -> Sandbox
where
    Words: IntoIterator,
    Words::Item: Into<std::ffi::OsString>,
{
    let mut sandbox = Sandbox::new(command);
    sandbox.root = Root::Host;
    sandbox.devices = Device::ALL.to_vec();
    sandbox.proc = true;
    sandbox.environment = vec![("PATH".into(), "/usr/bin:/bin".into()), ("LC_ALL".into(), "C.UTF-8".into())];
    sandbox.stdin = Stream::Null;
    sandbox
}

pub(crate) fn shell(script: &str) -> Sandbox {
    host(["/bin/sh", "-c", script])
}

/// Python with a program. Before it: `attempt(what)`, which says `ok` or the name of the error, and `call`, which makes a system call by number.
pub(crate) fn python(program: &str) -> Sandbox {
    let before = "\
import os, errno, ctypes, sys, socket, threading, stat, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result < 0: raise OSError(ctypes.get_errno(), 'call')
    return result
def attempt(what):
    try: what(); return 'ok'
    except OSError as error: return errno.errorcode.get(error.errno, str(error))
def say(name, what): print(name, attempt(what), flush=True)
";
    host(["/usr/bin/python3", "-S", "-E", "-c", &format!("{before}{program}")])
}

/// A decision that was told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) program: PathBuf,
    pub(crate) operation: Operation,
    pub(crate) path: PathBuf,
    pub(crate) allowed: bool,
}

/// What came of a program.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    pub(crate) said: String,
    pub(crate) counters: Counters,
    pub(crate) told: Vec<Told>,
}

/// Runs a program to its end without one.
pub(crate) fn unasked(mut sandbox: Sandbox) -> (Outcome, String) {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    sandbox.stderr = Stream::Given(write.try_clone().expect("a copy"));
    sandbox.stdout = Stream::Given(write);
    let running = sandbox.start().unwrap_or_else(|error| panic!("it does not start: {error}"));
    let mut said = Vec::new();
    File::from(read).read_to_end(&mut said).expect("output");
    let outcome = running.wait().unwrap_or_else(|error| panic!("it does not run: {error}"));
    (outcome, String::from_utf8_lossy(&said).into_owned())
}

/// Runs a program to its end with a broker.
pub(crate) fn run(judge: Arc<dyn Judge>, sandbox: Sandbox) -> Done {
    run_with(judge, sandbox, Options::default())
}

pub(crate) fn run_with(judge: Arc<dyn Judge>, mut sandbox: Sandbox, mut options: Options) -> Done {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    sandbox.stderr = Stream::Given(write.try_clone().expect("a copy"));
    if matches!(sandbox.stdout, Stream::Inherit) {
        sandbox.stdout = Stream::Given(write);
    } else {
        drop(write);
    }
    sandbox.notify = calls(&*judge);
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    options.audit = Some(Box::new(move |record| {
        telling.lock().expect("no thread panicked").push(Told {
            program: record.program.to_owned(),
            operation: record.operation,
            path: record.path.to_owned(),
            allowed: record.allowed,
        });
    }));
    let mut running = sandbox.start().unwrap_or_else(|error| panic!("it does not start: {error}"));
    let broker = Broker::new(running.take_listener().expect("a listener"), judge, options).expect("a broker");
    let (counters, said, outcome) = std::thread::scope(|scope| {
        let served = scope.spawn(|| broker.run());
        let mut said = Vec::new();
        File::from(read).read_to_end(&mut said).expect("output");
        let outcome = running.wait().unwrap_or_else(|error| panic!("it does not run: {error}"));
        let counters = served.join().expect("no panic").expect("it serves");
        (counters, String::from_utf8_lossy(&said).into_owned(), outcome)
    });
    let told = told.lock().expect("no thread panicked").clone();
    Done { outcome, said, counters, told }
}

/// Runs to the end with success, and returns what was said.
pub(crate) fn said(judge: Arc<dyn Judge>, sandbox: Sandbox) -> String {
    let done = run(judge, sandbox);
    assert!(done.outcome.success(), "{done:?}");
    done.said
}

/// A folder that goes away with the test.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix("holdfast-broker-").tempdir().expect("a folder")
}

/// A path as a literal of Python.
pub(crate) fn literal(path: &Path) -> String {
    format!("{:?}", path.to_str().expect("paths of tests are text"))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
