//! Each operation, by the calls that come to it: allowed where nothing is refused, and refused where its operation is.

use crate::support::{all, folder, policy, python, run, said};
use holdfast_policy::Operation;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// An operation, and calls each of which does it and nothing else that is refused beside it.
const CASES: &[(&str, &[&str])] = &[
    (
        "read",
        &[
            "os.open(F, os.O_RDONLY)",
            "os.open(F, os.O_RDWR)",
            "open(F).read()",
            "call(437, -100, F.encode(), struct.pack('QQQ', 0, 0, 0), 24)",
        ],
    ),
    (
        "write",
        &[
            "os.open(F, os.O_WRONLY)",
            "os.open(F, os.O_RDWR)",
            "os.open(F, os.O_WRONLY | os.O_APPEND)",
            "open(F, 'r+').write('x')",
        ],
    ),
    (
        "create",
        &[
            "os.open(N, os.O_CREAT | os.O_WRONLY)",
            "os.open(N + '2', os.O_CREAT | os.O_EXCL | os.O_RDONLY)",
            "os.mknod(N + '3')",
        ],
    ),
    ("mkdir", &["os.mkdir(N)", "call(258, -100, (N + '2').encode(), 0o755)"]),
    ("mknod", &["os.mkfifo(N)", "os.mknod(N + '2', 0o140644)", "bind(N + '3')"]),
    ("link", &["os.link(F, N)", "call(265, os.open(F, os.O_PATH), b'', -100, (N + '2').encode(), 0x1000)"]),
    ("symlink", &["os.symlink('f', N)", "call(266, b'f', -100, (N + '2').encode())"]),
    (
        "rename",
        &[
            "os.rename(F, N)",
            "call(316, -100, F2.encode(), -100, (N + '2').encode(), 1)",
            "call(316, -100, G.encode(), -100, (E).encode(), 2)",
        ],
    ),
    ("unlink", &["os.unlink(F)", "call(263, -100, F2.encode(), 0)"]),
    ("rmdir", &["os.rmdir(E)", "call(263, -100, E2.encode(), 0x200)"]),
    (
        "lookup",
        &[
            "os.stat(F)",
            "os.open(F, os.O_PATH)",
            "os.chdir(G)",
            "call(21, F.encode(), os.F_OK)",
            "os.open(F, os.O_RDONLY)",
            "missing(N)",
        ],
    ),
    (
        "getattr",
        &[
            "os.stat(F)",
            "os.lstat(L)",
            "os.fstat(os.open(F, os.O_WRONLY))",
            "os.fstat(os.open(F, os.O_PATH))",
            "call(21, F.encode(), os.R_OK)",
            "call(439, -100, F.encode(), os.W_OK, 0)",
            "os.readlink(L)",
            "os.listxattr(F)",
            "os.getxattr(F, 'user.a')",
        ],
    ),
    (
        "setattr",
        &[
            "os.chmod(F, 0o600)",
            "os.fchmod(os.open(F, os.O_WRONLY), 0o600)",
            "os.utime(F, (1, 2))",
            "os.utime(L, (1, 2), follow_symlinks=False)",
            "os.chown(F, os.getuid(), -1)",
            "os.lchown(F, -1, os.getgid())",
        ],
    ),
    (
        "truncate",
        &["os.truncate(F, 3)", "os.ftruncate(os.open(F, os.O_WRONLY), 3)", "os.open(F, os.O_WRONLY | os.O_TRUNC)"],
    ),
    ("xattr", &["os.setxattr(F, 'user.b', b'1')", "os.removexattr(F, 'user.a')"]),
    ("readdir", &["os.listdir(G)", "os.open(G, os.O_RDONLY | os.O_DIRECTORY)"]),
    ("exec", &["executed(P)", "executed(S)", "executed_by(P)"]),
    ("statfs", &["os.statvfs(F)", "os.fstatvfs(os.open(F, os.O_WRONLY))"]),
    (
        "fsync",
        &[
            "os.fsync(os.open(F, os.O_WRONLY))",
            "os.fdatasync(os.open(F, os.O_WRONLY))",
            "os.fsync(os.open(G, os.O_RDONLY))",
        ],
    ),
];

const NAMES: &str = "
import socket
F, F2, G, E, E2, L, N, P, S = [D + '/' + name for name in ('f', 'f2', 'g', 'e', 'e2', 'l', 'n', 'program', 'script')]
def executed(path, how=lambda path: os.execv(path, [path])):
    pid = os.fork()
    if pid == 0:
        try: how(path)
        except OSError as error: os._exit(error.errno)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code: raise OSError(code, 'exec')
def executed_by(path):
    file = os.open(path, os.O_PATH)
    executed(path, lambda path: os.execve(file, [path], {}))
def bind(path): socket.socket(socket.AF_UNIX).bind(path)
def missing(path):
    try: os.stat(path)
    except FileNotFoundError: pass
";

fn make(at: &Path) {
    use std::os::unix::fs::{PermissionsExt, symlink};
    for name in ["f", "f2"] {
        std::fs::write(at.join(name), "content").expect("a file");
    }
    for name in ["g", "e", "e2"] {
        std::fs::create_dir(at.join(name)).expect("a folder");
    }
    symlink("f", at.join("l")).expect("a link");
    std::fs::copy("/usr/bin/true", at.join("program")).expect("a program");
    std::fs::write(at.join("script"), "#!/bin/sh\nexit 0\n").expect("a script");
    std::fs::set_permissions(at.join("script"), PermissionsExt::from_mode(0o755)).expect("it is ours");
    let set = rustix::fs::setxattr(at.join("f"), c"user.a", b"1", rustix::fs::XattrFlags::empty());
    set.expect("the temporary folder has extended attributes");
}

fn script(calls: &[&str]) -> String {
    let lines = calls.iter().map(|call| format!("say({call:?}, lambda: {call})\n"));
    std::iter::once(NAMES.to_owned()).chain(lines).collect()
}

#[test]
fn each_operation_is_done_where_nothing_is_refused() {
    for (name, calls) in CASES {
        let (_guard, path) = folder();
        make(&path);
        let got = said(all(), python(&path, &script(calls)));
        let wrong: Vec<_> = got.lines().filter(|line| !line.ends_with(" ok")).collect();
        assert!(wrong.is_empty() && got.lines().count() == calls.len(), "{name}: {got}");
    }
}

#[test]
fn each_operation_is_refused_where_its_operation_is_and_told_of() {
    let mut tested = Vec::new();
    for (name, calls) in CASES {
        let (_guard, path) = folder();
        make(&path);
        let operation = Operation::ALL.into_iter().find(|operation| operation.name() == *name).expect("an operation");
        // The folder itself is looked up and entered.
        let rule = format!("[[rule]]\ndeny = [{name:?}]\ndir = {path:?}\n");
        let done = run(policy(&rule), python(&path, &script(calls)));
        assert!(done.outcome.success(), "{name}: {done:?}");
        let wrong: Vec<_> = done.said.lines().filter(|line| !line.ends_with(" EACCES")).collect();
        assert!(wrong.is_empty() && done.said.lines().count() == calls.len(), "{name}: {}", done.said);
        assert!(done.told.iter().any(|told| told.operation == operation && !told.allowed), "{name}: {:?}", done.told);
        tested.push(operation);
    }
    // Mapping and seeking have tests of their own.
    let left: Vec<_> = Operation::ALL.into_iter().filter(|operation| !tested.contains(operation)).collect();
    assert_eq!(left, [Operation::Mmap, Operation::Llseek]);
}

#[test]
fn arguments_of_making_and_changing_names_and_attributes_are_decided() {
    for (operation, arguments, refused, allowed) in [
        (
            "create",
            "mode = 0o640",
            "os.open(N, os.O_CREAT | os.O_WRONLY, 0o640)",
            "os.open(N, os.O_CREAT | os.O_WRONLY, 0o644)",
        ),
        ("create", "mode = 0o640", "os.mknod(N, 0o640)", "os.mknod(N, 0o600)"),
        ("mkdir", "mode = 0o700", "os.mkdir(N, 0o700)", "os.mkdir(N, 0o750)"),
        ("mknod", "mode = 0o600", "os.mkfifo(N, 0o600)", "os.mkfifo(N, 0o640)"),
        ("setattr", "mode = 0o600", "os.chmod(F, 0o600)", "os.chmod(F, 0o640)"),
        ("setattr", "uid = 12345", "os.chown(F, 12345, -1)", "os.chown(F, os.getuid(), -1)"),
        ("truncate", "size = 3", "os.truncate(F, 3)", "os.truncate(F, 4)"),
        ("symlink", "other = '/etc/passwd'", "os.symlink('/etc/passwd', N)", "os.symlink('/etc/group', N)"),
    ] {
        let (_guard, path) = folder();
        make(&path);
        let rule = format!("[[rule]]\ndeny = [{operation:?}]\npath = {path:?}\narguments = {{ {arguments} }}\n");
        let got = said(policy(&rule), python(&path, &script(&[refused, allowed])));
        // What this account may not do is not the gate's to allow: nobody in a sandbox has another account's number.
        let wanted = if arguments.starts_with("uid") { "EINVAL" } else { "EACCES" };
        assert_eq!(got, format!("{refused} {wanted}\n{allowed} ok\n"), "{operation}");
    }
    for (operation, refused) in
        [("link", "os.link(F, N)"), ("rename", "os.rename(F, N)"), ("rename", "os.rename(N, F)")]
    {
        let (_guard, path) = folder();
        make(&path);
        let other = path.join("n");
        let rule = format!(
            "[[rule]]\ndeny = [{operation:?}]\nfile = {:?}\narguments = {{ other = {other:?} }}\n",
            path.join("f")
        );
        let begun = "if not os.path.exists(N): os.mkfifo(N + 'x')\n";
        let more = if refused.contains("(N, F)") { "open(N, 'w').close()\n" } else { begun };
        let script =
            format!("{NAMES}{more}say('one', lambda: {refused}); say('two', lambda: os.rename(F2, N + '2'))\n");
        assert_eq!(said(policy(&rule), python(&path, &script)), "one EACCES\ntwo ok\n", "{refused}");
    }
}

#[test]
fn rules_are_about_the_program_that_asks() {
    let (_guard, path) = folder();
    make(&path);
    let rule = format!("[[rule]]\ndeny = [\"read\"]\npath = {:?}\nprogram = \"cat\"\n", path.join("f"));
    let sandbox = crate::support::shell(&path, &format!("cd {path:?}; cat f; head -c 7 f; echo; exec 3< f; cat <&3"));
    let done = run(policy(&rule), sandbox);
    // What is open was opened by somebody else.
    assert!(done.said.ends_with("content\ncontent"), "{done:?}");
    assert_eq!(done.counters.denied, 1);
    assert_eq!(done.told[0].program, std::fs::canonicalize("/usr/bin/cat").expect("a program"));
    // But where each call is decided, it is about who makes it.
    let rule = format!("{rule}arguments = {{ offset = 0 }}\n");
    let sandbox = crate::support::shell(&path, &format!("cd {path:?}; cat f; head -c 7 f; echo; exec 3< f; cat <&3"));
    let done = run(policy(&rule), sandbox);
    assert_eq!(done.counters.denied, 2, "{done:?}");
}

#[test]
fn a_move_or_a_link_that_would_gain_something_is_as_between_file_systems() {
    let (_guard, path) = folder();
    make(&path);
    std::fs::write(path.join("g/inside"), "x").expect("a file");
    let rules = format!(
        "[[rule]]\ndeny = [\"read\"]\npath = {:?}\n[[rule]]\ndeny = [\"read\"]\npath = {:?}\narguments = {{ offset = 0 }}\n",
        path.join("g"),
        path.join("f2"),
    );
    let calls = [
        "os.rename(G + '/inside', N)",
        "os.link(G + '/inside', N)",
        "os.rename(G, N)",
        "os.rename(F2, N)",
        "os.rename(F, N)",
    ];
    let got = said(policy(&rules), python(&path, &script(&calls)));
    let answers: Vec<_> = got.lines().map(|line| line.rsplit(' ').next().expect("a word")).collect();
    assert_eq!(answers, ["EXDEV", "EXDEV", "EXDEV", "EXDEV", "ok"], "{got}");
}

#[test]
fn attributes_content_and_permissions_are_those_of_the_real_file() {
    let (_guard, path) = folder();
    make(&path);
    let script = format!(
        "{NAMES}
def told(path): s = os.lstat(path); return (s.st_ino, s.st_mode, s.st_nlink, s.st_uid, s.st_gid, s.st_size, s.st_mtime_ns)
for name in sorted(os.listdir(D)): print(name, told(D + '/' + name))
os.umask(0o027); open(N, 'w').write('new'); os.mkdir(N + '2')
print(oct(os.stat(N).st_mode), oct(os.stat(N + '2').st_mode))
"
    );
    let got = said(all(), python(&path, &script));
    for line in got.lines().filter(|line| line.contains('(')) {
        let name = line.split(' ').next().expect("a name");
        let real = std::fs::symlink_metadata(path.join(name)).expect("it is there");
        let mtime_ns = real.mtime() * 1_000_000_000 + real.mtime_nsec();
        let told = format!(
            "{name} ({}, {}, {}, {}, {}, {}, {mtime_ns})",
            real.ino(),
            real.mode(),
            real.nlink(),
            real.uid(),
            real.gid(),
            real.size()
        );
        assert_eq!(line, told);
    }
    assert!(got.ends_with("0o100640 0o40750\n"), "{got}");
    assert_eq!(std::fs::read_to_string(path.join("n")).expect("it is there"), "new");
}
