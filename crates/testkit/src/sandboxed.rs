//! What tests of sandboxes share, whoever answers the calls in them: programs in Python that say how calls end, and all tests once more as an ordinary account.

use crate::confined::as_ordinary;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long all tests of a program may take as an ordinary account: several times what they do on busy processors. What they said is lost when the suite itself is ended.
const LONGEST: Duration = Duration::from_mins(12);

/// A program in Python, with these modules imported besides those it takes. Before it: `attempt(what)`, which says `ok` or the name of the error, `say(name, what)`, which
/// prints that, and `call`, which makes a system call by number.
pub fn python(modules: &str, program: &str) -> String {
    format!(
        "\
import os, errno, ctypes, {modules}
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result < 0: raise OSError(ctypes.get_errno(), 'call')
    return result
def attempt(what):
    try: what(); return 'ok'
    except OSError as error: return errno.errorcode.get(error.errno, str(error))
def say(name, what): print(name, attempt(what), flush=True)
{program}"
    )
}

/// A path as a literal of Python.
///
/// # Panics
/// If it is not text.
pub fn literal(path: &Path) -> String {
    format!("{:?}", path.to_str().expect("paths of tests are text"))
}

/// A folder that goes away with the test.
///
/// # Panics
/// If it cannot be made.
pub fn folder() -> TempDir {
    tempfile::Builder::new().prefix("holdfast-sandboxed-").tempdir().expect("a folder")
}

/// Whether this is the account root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs all tests of this program once more as an ordinary account; `serving` where everybody may serve file systems (FUSE), whatever this machine says of that. For
/// an account that is ordinary, it is what all other tests have shown.
///
/// # Panics
/// If one of them fails, or does not end.
pub fn all_tests_as_an_ordinary_account(serving: bool) {
    if !is_root() {
        return;
    }
    // The folder that a build is in may be closed to others.
    let folder = folder();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let (copy, devices) = (folder.path().join("all"), folder.path().join("devices"));
    fs::copy(std::env::current_exe().expect("a test has a path"), &copy).expect("a copy");
    fs::create_dir(&devices).expect("a folder");
    let mut command = as_ordinary(&copy, serving.then_some(devices.as_path()));
    let said = folder.path().join("said");
    let to = File::create(&said).expect("a file");
    command.args(["--test-threads", "2"]).stdout(to.try_clone().expect("a descriptor")).stderr(to);
    let (mut child, began) = (command.spawn().expect("setpriv is there"), Instant::now());
    let ended = loop {
        match child.try_wait().expect("it is ours") {
            None if began.elapsed() < LONGEST => std::thread::sleep(Duration::from_millis(100)),
            ended => break ended,
        }
    };
    if ended.is_none() {
        child.kill().and_then(|()| child.wait()).expect("it is ours");
    }
    let said = fs::read(&said).expect("it is there");
    let said = String::from_utf8_lossy(&said);
    let ended = ended.unwrap_or_else(|| panic!("a test did not end in {LONGEST:?}: {said}"));
    assert!(ended.success() && said.contains("test result: ok"), "{said}");
}
