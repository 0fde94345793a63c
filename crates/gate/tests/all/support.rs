//! What the tests share: folders with gates, and programs that try things in them.

use holdfast_broker::Counters;
use holdfast_gate::{Gate, Options};
use holdfast_policy::{Judge, Policy};
use holdfast_sandbox::{Access, Denied, Device, Mount, Outcome, Root, Sandbox, Source, Stream};
pub(crate) use holdfast_testkit::judges::{By, Told, all};
use holdfast_testkit::sandboxed::{self, literal};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A policy that allows everything but what its rules refuse.
pub(crate) fn policy(rules: &str) -> Arc<dyn Judge> {
    let text = format!("default = \"allow\"\n{rules}");
    match Policy::from_toml("test.toml", Path::new("/"), text.as_bytes()) {
        Ok(policy) => Arc::new(policy),
        Err(mistakes) => panic!("{mistakes}\n{text}"),
    }
}

/// The machine's files with a gate before a folder.
pub(crate) fn host<Words>(folder: &Path, command: Words) -> Sandbox
where
    Words: IntoIterator,
    Words::Item: Into<std::ffi::OsString>,
{
    let mut sandbox = Sandbox::new(command);
    sandbox.root = Root::Host;
    sandbox.view = vec![Mount::new(folder, Access::All).from(Source::Served)];
    sandbox.devices = Device::ALL.to_vec();
    sandbox.proc = true;
    sandbox.environment = vec![("PATH".into(), "/usr/bin:/bin".into()), ("LC_ALL".into(), "C.UTF-8".into())];
    sandbox.stdin = Stream::Null;
    sandbox.denied = vec![Denied::Unserved];
    sandbox
}

pub(crate) fn shell(folder: &Path, script: &str) -> Sandbox {
    host(folder, ["/bin/sh", "-c", script])
}

/// Python with a program, as [`holdfast_testkit::sandboxed::python`] has it, and with `D`, the folder.
pub(crate) fn python(folder: &Path, program: &str) -> Sandbox {
    let program = format!("D = {}\n{program}", literal(folder));
    let text = sandboxed::python("sys, mmap, struct, signal, time", &program);
    host(folder, ["/usr/bin/python3", "-S", "-E", "-c", &text])
}

/// What came of a program.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    pub(crate) said: String,
    pub(crate) counters: Counters,
    pub(crate) told: Vec<Told>,
}

/// Runs a program to its end behind a gate.
pub(crate) fn run(judge: Arc<dyn Judge>, sandbox: Sandbox) -> Done {
    run_with(judge, sandbox, |_| ())
}

/// The same, with something done once it runs.
pub(crate) fn run_with(judge: Arc<dyn Judge>, mut sandbox: Sandbox, meanwhile: impl FnOnce(&Arc<Gate>)) -> Done {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    sandbox.stderr = Stream::Given(write.try_clone().expect("a copy"));
    sandbox.stdout = Stream::Given(write);
    let told = Arc::new(Mutex::new(Vec::new()));
    let gate = Gate::new(judge, telling(told.clone()));
    let mut serve = |folder: &Path, device: OwnedFd| gate.serve(folder, device);
    let running = sandbox.start_serving(&mut serve).unwrap_or_else(|error| panic!("it does not start: {error}"));
    meanwhile(&gate);
    let mut said = Vec::new();
    File::from(read).read_to_end(&mut said).expect("output");
    let outcome = running.wait().unwrap_or_else(|error| panic!("it does not run: {error}"));
    let told = told.lock().expect("no thread panicked").clone();
    Done { outcome, said: String::from_utf8_lossy(&said).into_owned(), counters: gate.counters(), told }
}

fn telling(told: Arc<Mutex<Vec<Told>>>) -> Options {
    let tell = move |record: &holdfast_broker::Record<'_>| {
        told.lock().expect("no thread panicked").push(Told {
            program: record.program.to_owned(),
            operation: record.operation,
            path: record.path.to_owned(),
            allowed: record.allowed,
        });
    };
    Options { audit: Some(Box::new(tell)), ..Options::default() }
}

/// Runs to the end with success, and returns what was said.
pub(crate) fn said(judge: Arc<dyn Judge>, sandbox: Sandbox) -> String {
    let done = run(judge, sandbox);
    assert!(done.outcome.success(), "{done:?}");
    done.said
}

/// A folder that goes away with the test, by its true path.
pub(crate) fn folder() -> (TempDir, PathBuf) {
    let folder = sandboxed::folder();
    let path = std::fs::canonicalize(folder.path()).expect("it is there");
    (folder, path)
}
