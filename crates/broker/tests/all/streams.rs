//! What a program is handed over it may use, whatever the rules say about the place it comes from.

use crate::support::{By, folder, host, run_with, shell};
use holdfast_broker::Options;
use holdfast_policy::{Judge, Request};
use holdfast_sandbox::{Access, Mount, Stream};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

fn nothing_below(folder: &Path) -> Arc<dyn Judge> {
    let folder = folder.to_owned();
    Arc::new(By(move |request: &Request<'_>| !request.path.starts_with(&folder)))
}

fn handed(files: &[&File]) -> Options {
    let inherited = files.iter().map(|file| file.try_clone().expect("a copy").into()).collect();
    Options { inherited, ..Options::default() }
}

#[test]
fn streams_that_are_files_outside_of_the_view_are_read_and_written() {
    let folder = folder();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::write(&from, "handed over").expect("a file");
    let (input, output) = (File::open(&from).expect("a file"), File::create(&to).expect("a file"));
    let options = handed(&[&input, &output]);
    let mut sandbox = host(["/bin/cat"]);
    sandbox.view.push(Mount::new(folder.path(), Access::Hidden));
    (sandbox.stdin, sandbox.stdout) = (Stream::Given(input.into()), Stream::Given(output.into()));
    let done = run_with(nothing_below(folder.path()), sandbox, options);
    assert!(done.outcome.success(), "{done:?}");
    assert_eq!(std::fs::read_to_string(&to).expect("a file"), "handed over");
}

#[test]
fn opening_a_stream_again_gives_no_more_than_it_had() {
    let folder = folder();
    let path = folder.path().join("from");
    std::fs::write(&path, "handed over").expect("a file");
    let input = File::open(&path).expect("a file");
    let options = handed(&[&input]);
    let script = format!(
        "cat /proc/self/fd/0; echo no >/proc/self/fd/0; chmod 777 /proc/self/fd/0; cat {}; cat /dev/stdin",
        path.display()
    );
    let mut sandbox = shell(&script);
    sandbox.stdin = Stream::Given(input.into());
    let done = run_with(nothing_below(folder.path()), sandbox, options);
    assert!(done.said.starts_with("handed over"), "{}", done.said);
    assert_eq!(done.said.matches("handed over").count(), 2, "{}", done.said);
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), "handed over");
    assert!(done.said.contains("Permission denied"), "{}", done.said);
}

#[test]
fn a_stream_that_nobody_spoke_of_is_not_looked_at() {
    let folder = folder();
    let path = folder.path().join("from");
    std::fs::write(&path, "handed over").expect("a file");
    let mut sandbox = crate::support::python(
        "say('fstat', lambda: os.fstat(0))\nsay('read', lambda: os.read(0, 9))\nsay('again', lambda: os.open('/proc/self/fd/0', 0))\n",
    );
    sandbox.stdin = Stream::Given(File::open(&path).expect("a file").into());
    let done = run_with(nothing_below(Path::new("/nowhere")), sandbox, Options::default());
    assert_eq!(done.said, "fstat EPERM\nread ok\nagain EPERM\n");
}
