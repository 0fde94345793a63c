//! What the tests share: a view in which shells and Python run, and what programs in it say.

use holdfast_sandbox::{Access, Device, Mount, Outcome, Running, Sandbox, Stream};
use holdfast_testkit::sandboxed;
pub(crate) use holdfast_testkit::sandboxed::{folder, is_root, literal};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The system's programs, devices, processes, and a `/tmp`; nothing else.
pub(crate) fn plain<const N: usize>(command: [&str; N]) -> Sandbox {
    let mut sandbox = Sandbox::new(command);
    for folder in ["/usr", "/bin", "/lib", "/lib64", "/etc"] {
        sandbox.view.push(Mount::new(folder, Access::ReadExec).optional());
    }
    sandbox.devices = Device::ALL.to_vec();
    sandbox.proc = true;
    sandbox.tmp_bytes = Some(1 << 20);
    sandbox.environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
    sandbox.stdin = Stream::Null;
    sandbox
}

/// A shell with a script.
pub(crate) fn shell(script: &str) -> Sandbox {
    plain(["/bin/sh", "-c", script])
}

/// Python with a program, as [`holdfast_testkit::sandboxed::python`] has it.
pub(crate) fn python(program: &str) -> Sandbox {
    let text = sandboxed::python("sys, socket, signal, time", program);
    plain(["/usr/bin/python3", "-S", "-E", "-c", &text])
}

/// Starts with output to a pipe.
pub(crate) fn start(mut sandbox: Sandbox) -> (Running, File) {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    sandbox.stderr = Stream::Given(write.try_clone().expect("a copy"));
    sandbox.stdout = Stream::Given(write);
    let running = sandbox.start().unwrap_or_else(|error| panic!("it does not start: {error}"));
    (running, File::from(read))
}

/// Runs to the end, and returns what was said.
pub(crate) fn run(sandbox: Sandbox) -> (Outcome, String) {
    let (running, mut output) = start(sandbox);
    let mut said = Vec::new();
    output.read_to_end(&mut said).expect("output");
    let outcome = running.wait().unwrap_or_else(|error| panic!("it does not run: {error}"));
    (outcome, String::from_utf8_lossy(&said).into_owned())
}

/// Runs to the end with success, and returns what was said.
pub(crate) fn said(sandbox: Sandbox) -> String {
    let (outcome, said) = run(sandbox);
    assert!(outcome.success(), "{outcome:?}: {said}");
    said
}

/// Reads one line.
pub(crate) fn line(output: &mut File) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while output.read(&mut byte).expect("output") == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).into_owned()
}

/// Writes a file below a folder.
pub(crate) fn write(folder: &Path, name: &str, content: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("below a folder")).expect("folders");
    std::fs::write(&path, content).expect("a file");
    path
}
