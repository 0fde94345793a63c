//! The view of a running program changes.

use crate::support::{folder, line, literal, python, start, write};
use holdfast_sandbox::{Access, Error, Mount, Root, Running, Sandbox, Source};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A program that does what it is told, line by line, and says how it went.
const OBEDIENT: &str = "
held = []
def hold(path, flags): held.append(os.open(path, flags))
for order in sys.stdin:
    try: answer = eval(order); print('ok', answer if answer is not None else '', flush=True)
    except OSError as error: print(errno.errorcode[error.errno], flush=True)
";

struct Told {
    running: Running,
    input: File,
    output: File,
}

impl Told {
    fn start(tree: &Path, change: impl FnOnce(&mut Sandbox)) -> Self {
        let mut sandbox = python(&format!("T = {}\n{OBEDIENT}", literal(tree)));
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
        sandbox.stdin = holdfast_sandbox::Stream::Given(read);
        change(&mut sandbox);
        let (running, output) = start(sandbox);
        Self { running, input: File::from(write), output }
    }

    fn tell(&mut self, order: &str) -> String {
        writeln!(self.input, "{order}").expect("told");
        line(&mut self.output).trim().to_owned()
    }

    fn change(&self, path: impl AsRef<Path>, access: Access) -> Result<(), Error> {
        self.running.change_view(&[Mount::new(path.as_ref(), access)])
    }
}

const READ: &str = "open(T + '/sub/file').read()";
const WRITE: &str = "open(T + '/sub/file', 'w').close()";

fn tree() -> tempfile::TempDir {
    let folder = folder();
    write(folder.path(), "sub/file", "");
    write(folder.path(), "other", "other");
    folder
}

#[test]
fn a_path_is_hidden_and_shown_again() {
    let tree = tree();
    for root in [Root::Empty, Root::Host] {
        let mut told = Told::start(tree.path(), |sandbox| {
            sandbox.root = root;
            sandbox.tmp_bytes = sandbox.tmp_bytes.filter(|_| root == Root::Empty);
            sandbox.view.push(Mount::new(tree.path(), Access::All));
        });
        let sub = tree.path().join("sub");
        for _ in 0..3 {
            assert_eq!(told.tell(READ), "ok");
            told.change(&sub, Access::Hidden).expect("hidden");
            assert_eq!(told.tell(READ), "EACCES");
            assert_eq!(told.tell("os.listdir(T + '/sub')"), "EACCES");
            assert_eq!(told.tell("os.rename(T + '/sub', T + '/moved')"), "EBUSY");
            // An open folder above it shows no more.
            assert_eq!(told.tell("os.chdir(T) or open('sub/file')"), "EACCES");
            told.change(&sub, Access::All).expect("shown");
        }
        told.change(tree.path().join("other"), Access::Hidden).expect("hidden");
        assert_eq!(told.tell("open(T + '/other').read()"), "EACCES");
    }
}

#[test]
fn an_entry_becomes_read_only_in_place_and_writable_again() {
    let tree = tree();
    let mut told = Told::start(tree.path(), |sandbox| {
        sandbox.view.push(Mount::new(tree.path(), Access::All));
        sandbox.view.push(Mount::new(tree.path().join("sub"), Access::Writable));
    });
    assert_eq!(told.tell("os.chdir(T)"), "ok");
    told.change(tree.path(), Access::ReadOnly).expect("read-only");
    // For whoever was there already as well; what is inside keeps its own rights.
    assert_eq!(told.tell("open('made', 'w')"), "EROFS");
    assert_eq!(told.tell("os.chmod(T + '/other', 0o600)"), "EROFS");
    assert_eq!(told.tell(WRITE), "ok");
    told.change(tree.path(), Access::All).expect("writable");
    assert_eq!(told.tell("open('made', 'w').close()"), "ok");
}

#[test]
fn a_file_that_is_open_for_writing_keeps_an_entry_writable() {
    let tree = tree();
    let mut told = Told::start(tree.path(), |sandbox| sandbox.view.push(Mount::new(tree.path(), Access::All)));
    assert_eq!(told.tell("hold(T + '/other', os.O_WRONLY)"), "ok");
    let error = told.change(tree.path(), Access::ReadOnly).expect_err("busy");
    assert!(matches!(&error, Error::Busy(path) if path == tree.path()), "{error}");
    assert_eq!(told.tell(WRITE), "ok");
    assert_eq!(told.tell("os.close(held.pop())"), "ok");
    told.change(tree.path(), Access::ReadOnly).expect("read-only");
    assert_eq!(told.tell(WRITE), "EROFS");
}

#[test]
fn a_path_inside_of_an_entry_becomes_one() {
    let tree = tree();
    let mut told = Told::start(tree.path(), |sandbox| sandbox.view.push(Mount::new(tree.path(), Access::All)));
    let sub = tree.path().join("sub");
    told.change(&sub, Access::ReadOnly).expect("read-only");
    assert_eq!(told.tell(WRITE), "EROFS");
    assert_eq!(told.tell("open(T + '/made', 'w').close()"), "ok");
    told.change(&sub, Access::All).expect("writable");
    assert_eq!(told.tell(WRITE), "ok");
}

#[test]
fn several_changes_are_made_with_one_request() {
    let tree = tree();
    let mut told = Told::start(tree.path(), |sandbox| sandbox.view.push(Mount::new(tree.path(), Access::All)));
    let names: Vec<_> = (0..20).map(|number| write(tree.path(), &format!("n{number}"), "x")).collect();
    let hidden: Vec<_> = names.iter().map(|path| Mount::new(path, Access::Hidden)).collect();
    told.running.change_view(&hidden).expect("hidden");
    for number in 0..20 {
        assert_eq!(told.tell(&format!("open(T + '/n{number}')")), "EACCES");
    }
    let shown: Vec<_> = names.iter().map(|path| Mount::new(path, Access::All)).collect();
    told.running.change_view(&shown).expect("shown");
    assert_eq!(told.tell("open(T + '/n7').read()"), "ok x");
}

#[test]
fn what_was_hidden_from_the_start_is_shown_if_that_was_said() {
    let tree = tree();
    let sub = tree.path().join("sub");
    let view = [Mount::new(tree.path(), Access::All), Mount::new(&sub, Access::Hidden)];
    let strict = Told::start(tree.path(), |sandbox| sandbox.view.extend(view.clone()));
    assert!(matches!(strict.change(&sub, Access::All), Err(Error::Change { .. })));
    let mut told = Told::start(tree.path(), |sandbox| {
        sandbox.view.extend(view);
        sandbox.widen = true;
    });
    assert_eq!(told.tell(READ), "EACCES");
    told.change(&sub, Access::All).expect("shown");
    assert_eq!(told.tell(READ), "ok");
}

#[test]
fn changes_that_cannot_be_made_are_refused_and_change_nothing() {
    let tree = tree();
    let mut told = Told::start(tree.path(), |sandbox| {
        sandbox.view.push(Mount::new(tree.path(), Access::Writable));
        sandbox.view.push(Mount::new(tree.path().join("sub"), Access::ReadOnly));
    });
    let sub = tree.path().join("sub");
    for (path, access) in [
        (Path::new("/root"), Access::ReadOnly),
        (Path::new("/nowhere"), Access::Hidden),
        (tree.path(), Access::All),
        (tree.path(), Access::Hidden),
        (&sub, Access::Writable),
    ] {
        let error = told.change(path, access).expect_err("refused");
        assert!(matches!(error, Error::Change { .. } | Error::Missing { .. }), "{error}");
    }
    let elsewhere = Mount::new(&sub, Access::Hidden).from(Source::Folder("/etc".into()));
    assert!(told.running.change_view(&[elsewhere]).is_err());
    assert_eq!(told.tell(READ), "ok");
    assert_eq!(told.tell("open(T + '/other', 'w').close()"), "ok");
    told.running.kill();
    told.running.wait().expect("it ended");
    assert!(told.change(&sub, Access::Hidden).is_err());
}

#[test]
fn what_is_renamed_over_a_hidden_file_from_outside_is_seen_until_it_is_hidden_again() {
    let tree = tree();
    let mut told = Told::start(tree.path(), |sandbox| {
        sandbox.view.push(Mount::new(tree.path(), Access::All));
        sandbox.view.push(Mount::new(tree.path().join("other"), Access::Hidden));
        sandbox.view.push(Mount::new(tree.path().join("sub"), Access::Hidden));
    });
    let replace = |name: &str| {
        let new = write(tree.path(), "new", "new");
        std::fs::rename(new, tree.path().join(name)).expect("nobody outside is held up");
    };
    assert_eq!(told.tell("open(T + '/other').read()"), "EACCES");
    // The limit of mounts: the mask goes with the file it is on. A folder stays hidden, whatever is done in it.
    replace("other");
    replace("sub/file");
    assert_eq!(told.tell("open(T + '/other').read()"), "ok new");
    assert_eq!(told.tell(READ), "EACCES");
    told.change(tree.path().join("other"), Access::Hidden).expect("hidden again");
    assert_eq!(told.tell("open(T + '/other').read()"), "EACCES");
    // And so does what may only be read.
    let only_read = write(tree.path(), "read", "old");
    told.change(&only_read, Access::ReadOnly).expect("read-only");
    assert_eq!(told.tell("open(T + '/read', 'w')"), "EROFS");
    replace("read");
    told.change(&only_read, Access::ReadOnly).expect("read-only again");
    assert_eq!(told.tell("open(T + '/read', 'w')"), "EROFS");
    assert_eq!(told.tell("open(T + '/read').read()"), "ok new");
}

#[test]
fn what_was_hidden_and_shown_again_becomes_read_only() {
    let tree = tree();
    let mut told = Told::start(tree.path(), |sandbox| sandbox.view.push(Mount::new(tree.path(), Access::All)));
    let sub = tree.path().join("sub");
    for access in [Access::Hidden, Access::All, Access::ReadOnly] {
        told.change(&sub, access).expect("it can be changed");
    }
    assert_eq!(told.tell(WRITE), "EROFS");
    assert_eq!(told.tell(READ), "ok");
}
