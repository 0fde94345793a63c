//! What each access allows: a table of calls.

use crate::support::{folder, literal, python, said, shell, write};
use holdfast_sandbox::{Access, Mount, Root, Sandbox, Source};
use std::collections::BTreeMap;
use std::path::Path;

/// Every way to reach a file and a folder, each once, on a tree made for it.
const CALLS: &str = "
def opened(flags, *name):
    def act(): os.close(os.open(os.path.join(D, *name), flags, 0o644))
    return act
f, sub = os.path.join(D, 'file'), os.path.join(D, 'sub')
say('read', lambda: open(f).read())
say('stat', lambda: os.stat(f))
say('list', lambda: os.listdir(D))
say('access', lambda: os.close(os.open(f, os.O_PATH)))
say('statfs', lambda: os.statvfs(D))
say('getxattr', lambda: os.listxattr(f))
say('readlink', lambda: os.readlink(os.path.join(D, 'link')))
say('write', opened(os.O_WRONLY, 'file'))
say('both', opened(os.O_RDWR, 'file'))
say('append', opened(os.O_WRONLY | os.O_APPEND, 'file'))
say('truncating', opened(os.O_WRONLY | os.O_TRUNC, 'file'))
say('truncate', lambda: os.truncate(f, 1))
say('create', opened(os.O_CREAT | os.O_EXCL | os.O_WRONLY, 'made'))
say('tmpfile', opened(os.O_TMPFILE | os.O_RDWR))
say('mkdir', lambda: os.mkdir(os.path.join(D, 'dir')))
say('mkfifo', lambda: os.mkfifo(os.path.join(D, 'fifo')))
say('symlink', lambda: os.symlink('x', os.path.join(D, 'soft')))
say('link', lambda: os.link(f, os.path.join(D, 'hard')))
say('rename', lambda: os.rename(f, os.path.join(D, 'moved')))
say('back', lambda: os.rename(os.path.join(D, 'moved'), f))
say('across', lambda: os.rename(os.path.join(sub, 'inner'), os.path.join(D, 'inner')))
say('unlink', lambda: os.unlink(os.path.join(D, 'other')))
say('rmdir', lambda: os.rmdir(os.path.join(D, 'empty')))
say('chmod', lambda: os.chmod(f, 0o600))
say('chown', lambda: os.chown(f, os.getuid(), os.getgid()))
say('utime', lambda: os.utime(f))
say('setxattr', lambda: os.setxattr(f, 'user.x', b'1'))
say('fchmod', lambda: os.fchmod(os.open(D, os.O_RDONLY), 0o755))
def executed():
    pid = os.posix_spawn(os.path.join(D, 'program'), ['program'], {})
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 127: raise OSError(errno.EACCES, 'exec')
say('exec', executed)
import mmap
def mapped():
    with open(os.path.join(D, 'program'), 'rb') as file: mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
say('execmap', mapped)
";

fn tree() -> tempfile::TempDir {
    let folder = folder();
    let at = folder.path();
    for name in ["file", "other", "sub/inner"] {
        write(at, name, "content");
    }
    std::fs::create_dir(at.join("empty")).expect("a folder");
    std::os::unix::fs::symlink("file", at.join("link")).expect("a link");
    std::fs::copy("/bin/true", at.join("program")).expect("a program");
    folder
}

/// What each call answers in a tree that is in the view with this access.
fn table(access: Access, root: Root) -> BTreeMap<String, String> {
    let tree = tree();
    let mut sandbox = python(&format!("D = {}\n{CALLS}", literal(tree.path())));
    sandbox.root = root;
    if root == Root::Host {
        sandbox.tmp_bytes = None;
    }
    let said = said(sandbox.mount(tree.path(), access));
    let pair = |line: &str| line.split_once(' ').map(|(name, answer)| (name.to_owned(), answer.to_owned()));
    said.lines().filter_map(pair).collect()
}

const READING: [&str; 7] = ["read", "stat", "list", "access", "statfs", "getxattr", "readlink"];
const EXECUTING: [&str; 2] = ["exec", "execmap"];

fn check(access: Access, root: Root, reads: bool, executes: bool, writes: bool) {
    let table = table(access, root);
    assert_eq!(table.len(), 30, "{table:#?}");
    for (call, answer) in &table {
        let call = call.as_str();
        let expected = match (READING.contains(&call), EXECUTING.contains(&call)) {
            (true, _) => reads,
            (_, true) => executes,
            _ => writes,
        };
        assert_eq!(answer == "ok", expected, "{access:?} {root:?} {call}: {answer}");
    }
}

#[test]
fn everything_is_allowed_with_all() {
    check(Access::All, Root::Empty, true, true, true);
    check(Access::All, Root::Host, true, true, true);
}

#[test]
fn all_but_executing_is_allowed_where_a_folder_is_writable() {
    check(Access::Writable, Root::Empty, true, false, true);
    check(Access::Writable, Root::Host, true, false, true);
}

#[test]
fn what_is_read_only_can_be_read_and_not_executed() {
    check(Access::ReadOnly, Root::Empty, true, false, false);
    check(Access::ReadOnly, Root::Host, true, false, false);
}

#[test]
fn what_is_to_be_executed_can_be_read() {
    check(Access::ReadExec, Root::Empty, true, true, false);
    check(Access::ReadExec, Root::Host, true, true, false);
}

#[test]
fn attributes_of_what_is_read_only_cannot_change() {
    let table = table(Access::ReadOnly, Root::Empty);
    for call in ["chmod", "chown", "utime", "setxattr", "fchmod"] {
        assert_eq!(table[call], "EROFS", "{call}");
    }
}

#[test]
fn nothing_of_a_hidden_folder_can_be_looked_at() {
    for root in [Root::Empty, Root::Host] {
        let table = table(Access::Hidden, root);
        for (call, answer) in &table {
            // That the folder is there is not hidden, nor which file system it is in.
            let shown = ["statfs"].contains(&call.as_str());
            assert!(shown || answer != "ok", "{root:?} {call}: {answer}");
        }
    }
}

#[test]
fn what_is_not_named_is_not_there() {
    let outside = folder();
    write(outside.path(), "secret", "secret");
    let tree = tree();
    let script = format!("cat {}/secret; ls /; ls -d /root /home /sys /var; true", outside.path().display());
    let said = said(shell(&script).mount(tree.path().join("sub"), Access::ReadOnly));
    assert!(said.contains("No such file"), "{said}");
    let names: Vec<_> = said.lines().filter(|line| !line.contains(':')).collect();
    assert_eq!(names, ["bin", "dev", "etc", "lib", "lib64", "proc", "tmp", "usr"], "{said}");
}

#[test]
fn memory_that_is_shared_by_name_is_as_what_is_around_it_says() {
    let there = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let file = write(there.path(), "data", "data");
    let seen = |mounts: &[(&str, Access)]| {
        let mut sandbox = shell(&format!("cat {} 2>&- || echo none", file.display()));
        (sandbox.root, sandbox.view, sandbox.tmp_bytes, sandbox.devices) = (Root::Host, Vec::new(), None, Vec::new());
        for (path, access) in mounts {
            sandbox = sandbox.mount(path, *access);
        }
        said(sandbox)
    };
    let inside = there.path().to_str().expect("text");
    assert_eq!(seen(&[]), "data");
    assert_eq!(seen(&[("/dev", Access::Hidden)]), "none\n");
    assert_eq!(seen(&[("/dev/shm", Access::Hidden)]), "none\n");
    assert_eq!(seen(&[("/dev", Access::Hidden), (inside, Access::ReadOnly)]), "data");
}

#[test]
fn the_inner_of_two_entries_prevails() {
    for root in [Root::Empty, Root::Host] {
        inner_prevails(root);
    }
}

fn inner_prevails(root: Root) {
    let tree = tree();
    let at = tree.path();
    write(at, "sub/deep/file", "deep");
    let script = format!(
        "cd {}; echo x > new && echo wrote; cat sub/inner; echo x > sub/x; cat sub/deep/file; echo; echo y > sub/deep/file && echo again; ls sub; cat other",
        at.display()
    );
    let view =
        [("", Access::Writable), ("sub", Access::Hidden), ("sub/deep", Access::Writable), ("other", Access::Hidden)];
    let mut sandbox = shell(&script);
    sandbox.root = root;
    sandbox.tmp_bytes = sandbox.tmp_bytes.filter(|_| root == Root::Empty);
    // In any order.
    for (name, access) in view.into_iter().rev() {
        sandbox.view.push(Mount::new(at.join(name), access));
    }
    let (_, said) = crate::support::run(sandbox);
    let answers: Vec<_> = said.lines().map(|line| line.rsplit(": ").next().unwrap_or(line)).collect();
    let expected =
        ["wrote", "No such file or directory", "Read-only file system", "deep", "again", "deep", "Permission denied"];
    // The shell says it cannot create it where it would be; the mount is read-only.
    assert_eq!(answers, expected, "{said}");
    assert_eq!(std::fs::read_to_string(at.join("sub/deep/file")).expect("it is there"), "y\n");
}

#[test]
fn a_link_in_the_path_of_an_entry_is_followed_and_is_there() {
    let tree = tree();
    std::os::unix::fs::symlink("sub", tree.path().join("way")).expect("a link");
    let at = tree.path().join("way/inner");
    let said = said(
        shell(&format!("cat {0}; echo; ls -l {1}", at.display(), tree.path().display())).mount(&at, Access::ReadOnly),
    );
    assert!(said.starts_with("content\n"), "{said}");
    assert!(said.contains("way -> sub"), "{said}");
}

#[test]
fn content_can_come_from_another_path() {
    let tree = tree();
    let mut sandbox = shell("cat /somewhere/else/inner; echo x > /somewhere/else/made");
    let from = Source::Folder(tree.path().join("sub"));
    sandbox.view.push(Mount::new("/somewhere/else", Access::Writable).from(from));
    assert_eq!(said(sandbox), "content");
    assert!(tree.path().join("sub/made").exists());
}

#[test]
fn names_that_are_no_text_and_long_ones_are_entries_like_others() {
    use std::os::unix::ffi::OsStrExt;
    let tree = tree();
    let mut deep = tree.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9 \n:,\\\""));
    while deep.as_os_str().len() < 3000 {
        deep.push("n".repeat(200));
    }
    std::fs::create_dir_all(&deep).expect("folders");
    std::fs::write(deep.join("file"), "deep").expect("a file");
    let mut sandbox = Sandbox::new([std::ffi::OsStr::new("/bin/cat"), deep.join("file").as_os_str()]);
    sandbox.view = shell("").view;
    assert_eq!(said(sandbox.mount(&deep, Access::ReadOnly)), "deep");
}

#[test]
fn views_that_cannot_be_meant_are_refused() {
    let tree = tree();
    let refused = |change: &dyn Fn(&mut Sandbox)| {
        let mut sandbox = shell("true");
        change(&mut sandbox);
        sandbox.start().expect_err("it must not start").to_string()
    };
    let file = tree.path().join("file");
    let twice = refused(&|sandbox| {
        sandbox.view.extend([Mount::new(&file, Access::Hidden), Mount::new(&file, Access::ReadOnly)]);
    });
    assert!(twice.contains("twice"), "{twice}");
    let missing = refused(&|sandbox| sandbox.view.push(Mount::new(tree.path().join("no"), Access::Hidden)));
    assert!(missing.contains("/no: No such file"), "{missing}");
    let root = refused(&|sandbox| sandbox.view.push(Mount::new("/usr/..", Access::All)));
    assert!(root.contains("root itself"), "{root}");
    let relative = refused(&|sandbox| sandbox.view.push(Mount::new("usr", Access::All)));
    assert!(relative.contains("not an absolute path"), "{relative}");
    let inside = refused(&|sandbox| {
        sandbox.view.push(Mount::new(tree.path(), Access::ReadOnly));
        let from = Source::Folder(tree.path().join("sub"));
        sandbox.view.push(Mount::new(tree.path().join("nowhere"), Access::ReadOnly).from(from));
    });
    assert!(inside.contains("nowhere") && inside.contains("must be there"), "{inside}");
    let program = refused(&|sandbox| sandbox.command = vec!["nothing-of-this-name".into()]);
    assert!(program.contains("cannot execute the program") && program.contains("not in the view"), "{program}");
    let words = refused(&|sandbox| sandbox.command.clear());
    assert!(words.contains("no program"), "{words}");
    let folder = refused(&|sandbox| sandbox.folder = "/nowhere".into());
    assert!(folder.contains("working directory"), "{folder}");
    let kernels = refused(&|sandbox| sandbox.view.push(Mount::new("/sys/kernel", Access::Writable)));
    assert!(kernels.contains("the kernel's own"), "{kernels}");
    let both = refused(&|sandbox| sandbox.view.push(Mount::new("/proc", Access::ReadOnly)));
    assert!(both.contains("both as an entry"), "{both}");
    let looping = tree.path().join("loop");
    std::os::unix::fs::symlink("loop", &looping).expect("a link");
    let looping = refused(&|sandbox| sandbox.view.push(Mount::new(&looping, Access::Hidden)));
    assert!(looping.contains("symbolic links"), "{looping}");
}

#[test]
fn an_optional_entry_may_be_missing() {
    let mut sandbox = shell("true");
    sandbox.view.push(Mount::new(Path::new("/nowhere/at/all"), Access::All).optional());
    said(sandbox);
}
