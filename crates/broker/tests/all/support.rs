//! What the tests share: judges made of closures, and sandboxes with a broker.

use holdfast_broker::{Broker, Counters, Options, calls};
use holdfast_policy::{Judge, Operation, Request};
use holdfast_sandbox::{Device, Outcome, Root, Sandbox, Stream};
pub(crate) use holdfast_testkit::judges::{By, Told, all};
use holdfast_testkit::sandboxed;
pub(crate) use holdfast_testkit::sandboxed::{folder, is_root, literal};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};

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

/// Python with a program, as [`holdfast_testkit::sandboxed::python`] has it.
pub(crate) fn python(program: &str) -> Sandbox {
    let text = sandboxed::python("sys, socket, threading, stat, struct", program);
    host(["/usr/bin/python3", "-S", "-E", "-c", &text])
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
