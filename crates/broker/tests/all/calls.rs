//! Each call in each of its variants, made on two equal folders: in one everything is allowed, in the other the case's operation is refused. What became of the
//! folders is looked at from outside.

use crate::support::{By, folder, literal, python, run};
use holdfast_policy::{Operation, Request};
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

/// Whether a call leaves something behind.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// The folder is another one afterwards.
    Changes,
    /// It only tells something.
    Tells,
}
use Kind::{Changes, Tells};
use Operation as O;

/// Name, operation that is refused, kind, and what is done. In the folder are `F`, a file; `D`, a folder; `S`, a link to the file; `X`, a program; `R`, a
/// script; and `N` is not there. `H` is a descriptor of the folder, and a name in lower case is the one in it.
const CASES: &[(&str, Operation, Kind, &str)] = &[
    ("open", O::Read, Tells, "os.read(call(2, F, 0, 0), 9)"),
    ("open through a link", O::Read, Tells, "os.read(call(2, S, 0, 0), 9)"),
    ("openat", O::Read, Tells, "os.read(call(257, H, f, 0, 0), 9)"),
    ("openat2", O::Read, Tells, "os.read(call(437, H, f, struct.pack('QQQ', 0, 0, 0), 24), 9)"),
    ("openat2 beneath", O::Read, Tells, "os.read(call(437, H, s, struct.pack('QQQ', 0, 0, 8), 24), 9)"),
    ("open to map", O::Mmap, Tells, "call(2, F, 0, 0)"),
    ("open of a folder", O::Readdir, Tells, "os.listdir(D)"),
    ("open of a folder as a file", O::Readdir, Tells, "call(2, D, 0, 0)"),
    ("open to pin", O::Lookup, Tells, "call(2, F, os.O_PATH, 0)"),
    ("open to write", O::Write, Changes, "os.write(call(2, F, 1, 0), b'new')"),
    ("openat to write", O::Write, Changes, "os.write(call(257, H, f, 2, 0), b'new')"),
    ("openat2 to write", O::Write, Changes, "os.write(call(437, H, f, struct.pack('QQQ', 1, 0, 0), 24), b'new')"),
    ("open to truncate", O::Truncate, Changes, "call(2, F, 0o1001, 0)"),
    ("open to make", O::Create, Changes, "call(2, N, 0o101, 0o600)"),
    ("open to make only", O::Create, Changes, "call(2, N, 0o301, 0o600)"),
    ("openat to make", O::Create, Changes, "call(257, H, n, 0o101, 0o600)"),
    ("openat2 to make", O::Create, Changes, "call(437, H, n, struct.pack('QQQ', 0o101, 0o600, 0), 24)"),
    ("creat of a new file", O::Create, Changes, "call(85, N, 0o600)"),
    ("creat of an old file", O::Truncate, Changes, "call(85, F, 0o600)"),
    ("creat writes", O::Write, Changes, "call(85, F, 0o600)"),
    ("open without a name", O::Create, Tells, "call(2, D, 0o20200001, 0o600)"),
    ("stat", O::Getattr, Tells, "call(4, F, buffer)"),
    ("lstat", O::Getattr, Tells, "call(6, S, buffer)"),
    ("fstat", O::Getattr, Tells, "call(5, os.open(F, 0), buffer)"),
    ("newfstatat", O::Getattr, Tells, "call(262, H, f, buffer, 0)"),
    ("newfstatat of a descriptor", O::Getattr, Tells, "call(262, os.open(F, 0), b'', buffer, 0x1000)"),
    ("statx", O::Getattr, Tells, "call(332, H, f, 0, 0x7ff, buffer)"),
    ("stat of what is hidden", O::Lookup, Tells, "call(4, F, buffer)"),
    ("access", O::Getattr, Tells, "call(21, F, 4)"),
    ("faccessat", O::Getattr, Tells, "call(269, H, f, 4)"),
    ("faccessat2", O::Getattr, Tells, "call(439, H, f, 4, 0x200)"),
    ("readlink", O::Getattr, Tells, "call(89, S, buffer, 99)"),
    ("readlinkat", O::Getattr, Tells, "call(267, H, s, buffer, 99)"),
    ("chdir", O::Lookup, Tells, "call(80, D)"),
    ("statfs", O::Statfs, Tells, "call(137, F, buffer)"),
    ("fstatfs", O::Statfs, Tells, "call(138, os.open(F, 0), buffer)"),
    ("inotify_add_watch", O::Readdir, Tells, "call(254, call(294, 0), D, 0x100)"),
    ("mkdir", O::Mkdir, Changes, "call(83, N, 0o700)"),
    ("mkdirat", O::Mkdir, Changes, "call(258, H, n, 0o700)"),
    ("rmdir", O::Rmdir, Changes, "call(84, D)"),
    ("unlinkat of a folder", O::Rmdir, Changes, "call(263, H, d, 0x200)"),
    ("unlink", O::Unlink, Changes, "call(87, F)"),
    ("unlink of a link", O::Unlink, Changes, "call(87, S)"),
    ("unlinkat", O::Unlink, Changes, "call(263, H, f, 0)"),
    ("rename", O::Rename, Changes, "call(82, F, N)"),
    ("renameat", O::Rename, Changes, "call(264, H, f, H, n)"),
    ("renameat2", O::Rename, Changes, "call(316, H, f, H, n, 1)"),
    ("renameat2 to exchange", O::Rename, Changes, "call(316, H, f, H, d, 2)"),
    ("link", O::Link, Changes, "call(86, F, N)"),
    ("linkat", O::Link, Changes, "call(265, H, f, H, n, 0)"),
    ("linkat of a descriptor", O::Link, Changes, "call(265, -100, b'/proc/self/fd/%d' % os.open(F, 0), H, n, 0x400)"),
    ("symlink", O::Symlink, Changes, "call(88, b'f', N)"),
    ("symlinkat", O::Symlink, Changes, "call(266, b'f', H, n)"),
    ("mknod", O::Mknod, Changes, "call(133, N, 0o010600, 0)"),
    ("mknodat", O::Mknod, Changes, "call(259, H, n, 0o010600, 0)"),
    ("mknod of a file", O::Create, Changes, "call(133, N, 0o100600, 0)"),
    ("bind", O::Mknod, Changes, "socket.socket(socket.AF_UNIX).bind(N)"),
    ("connect", O::Write, Tells, "connect(N)"),
    ("chmod", O::Setattr, Changes, "call(90, F, 0o600)"),
    ("fchmod", O::Setattr, Changes, "call(91, os.open(F, 0), 0o600)"),
    ("fchmodat", O::Setattr, Changes, "call(268, H, f, 0o600)"),
    ("fchmodat2", O::Setattr, Changes, "call(452, H, f, 0o600, 0)"),
    ("chown", O::Setattr, Tells, "call(92, F, os.getuid(), os.getgid())"),
    ("fchown", O::Setattr, Tells, "call(93, os.open(F, 0), os.getuid(), os.getgid())"),
    ("lchown", O::Setattr, Tells, "call(94, S, os.getuid(), os.getgid())"),
    ("fchownat", O::Setattr, Tells, "call(260, H, f, os.getuid(), os.getgid(), 0)"),
    ("utime", O::Setattr, Changes, "call(132, F, struct.pack('qq', 1, 2))"),
    ("utimes", O::Setattr, Changes, "call(235, F, struct.pack('qqqq', 1, 2, 3, 4))"),
    ("futimesat", O::Setattr, Changes, "call(261, H, f, struct.pack('qqqq', 1, 2, 3, 4))"),
    ("utimensat", O::Setattr, Changes, "call(280, H, f, struct.pack('qqqq', 1, 2, 3, 4), 0)"),
    (
        "utimensat of a descriptor",
        O::Setattr,
        Changes,
        "call(280, os.open(F, 0), 0, struct.pack('qqqq', 1, 2, 3, 4), 0)",
    ),
    ("truncate", O::Truncate, Changes, "call(76, F, 1)"),
    ("ftruncate", O::Truncate, Changes, "call(77, os.open(F, 1), 1)"),
    ("fallocate", O::Truncate, Changes, "call(285, os.open(F, 1), 0, 0, 9999)"),
    ("setxattr", O::Xattr, Changes, "call(188, F, b'user.a', b'x', 1, 0)"),
    ("lsetxattr", O::Xattr, Changes, "call(189, F, b'user.a', b'x', 1, 0)"),
    ("fsetxattr", O::Xattr, Changes, "call(190, os.open(F, 0), b'user.a', b'x', 1, 0)"),
    ("setxattrat", O::Xattr, Changes, "setxattrat(H, f)"),
    ("getxattr", O::Getattr, Tells, "call(191, F, b'user.was', buffer, 9)"),
    ("lgetxattr", O::Getattr, Tells, "call(192, F, b'user.was', buffer, 9)"),
    ("fgetxattr", O::Getattr, Tells, "call(193, os.open(F, 0), b'user.was', buffer, 9)"),
    ("listxattr", O::Getattr, Tells, "call(194, F, buffer, 99)"),
    ("llistxattr", O::Getattr, Tells, "call(195, F, 0, 0)"),
    ("flistxattr", O::Getattr, Tells, "call(196, os.open(F, 0), buffer, 99)"),
    ("getxattrat", O::Getattr, Tells, "getxattrat(H, f)"),
    ("listxattrat", O::Getattr, Tells, "call(465, H, f, 0, buffer, 99)"),
    ("removexattr", O::Xattr, Changes, "call(197, F, b'user.was')"),
    ("lremovexattr", O::Xattr, Changes, "call(198, F, b'user.was')"),
    ("fremovexattr", O::Xattr, Changes, "call(199, os.open(F, 0), b'user.was')"),
    ("removexattrat", O::Xattr, Changes, "call(466, H, f, 0, b'user.was')"),
    ("fsync", O::Fsync, Tells, "call(74, os.open(F, 1))"),
    ("fdatasync", O::Fsync, Tells, "call(75, os.open(F, 1))"),
    ("syncfs", O::Fsync, Tells, "call(306, os.open(F, 1))"),
    ("sync_file_range", O::Fsync, Tells, "call(277, os.open(F, 1), 0, 0, 2)"),
    ("lseek", O::Llseek, Tells, "call(8, os.open(F, 0), 1, 0)"),
    ("execve", O::Exec, Tells, "execute(lambda: os.execv(X, [X]))"),
    ("execveat", O::Exec, Tells, "execute(lambda: call(322, H, b'x', pointers(b'x'), pointers(), 0))"),
    (
        "execveat of a descriptor",
        O::Exec,
        Tells,
        "execute(lambda: call(322, os.open(X, os.O_PATH), b'', pointers(b'x'), pointers(), 0x1000))",
    ),
    ("execve of a script", O::Exec, Tells, "execute(lambda: os.execv(R, [R]))"),
    ("execve in a new process by vfork", O::Exec, Tells, "os.waitpid(os.posix_spawn(X, [X], {}), 0)"),
];

const HELPERS: &str = "
buffer = ctypes.create_string_buffer(4096)
def pointers(*words):
    return (ctypes.c_char_p * (len(words) + 1))(*words, None)
def execute(what):
    pid = os.fork()
    if pid == 0:
        try: what()
        except OSError as error: os._exit(error.errno)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code: raise OSError(code, 'exec')
def connect(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path); server.listen(1)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            server.accept()
def setxattrat(folder, name):
    value = ctypes.create_string_buffer(b'x')
    call(463, folder, name, 0, b'user.a', struct.pack('QII', ctypes.addressof(value), 1, 0), 16)
def getxattrat(folder, name):
    call(464, folder, name, 0, b'user.was', struct.pack('QII', ctypes.addressof(buffer), 9, 0), 16)
def case(folder, what):
    global F, D, S, X, R, N, H
    F, D, S, X, R, N = [os.fsencode(folder) + b'/' + name for name in (b'f', b'd', b's', b'x', b'r', b'n')]
    H = os.open(folder, os.O_PATH)
    answer = attempt(lambda: eval(what))
    os.chdir('/')
    return answer
f, d, s, n = b'f', b'd', b's', b'n'
";

fn prepare(folder: &Path) {
    std::fs::create_dir_all(folder.join("d")).expect("folders");
    std::fs::write(folder.join("f"), "content").expect("a file");
    std::os::unix::fs::symlink("f", folder.join("s")).expect("a link");
    std::fs::copy("/bin/true", folder.join("x")).expect("a program");
    std::fs::write(folder.join("r"), "#!/bin/sh\n").expect("a script");
    std::fs::set_permissions(folder.join("r"), PermissionsExt::from_mode(0o755)).expect("it is ours");
    rustix::fs::setxattr(folder.join("f"), "user.was", b"here", rustix::fs::XattrFlags::empty()).expect("an attribute");
}

/// Name, numbers, content and attributes.
type Entry = (OsString, [u64; 5], Vec<u8>, Vec<u8>);

/// All that can be different about a folder.
fn state(folder: &Path) -> Vec<Entry> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let one = |entry: std::fs::DirEntry| {
        let found = entry.metadata().expect("it is there");
        let modified = found.mtime_nsec().unsigned_abs() + found.mtime().unsigned_abs() * 1_000_000_000;
        let numbers = [found.mode().into(), found.size(), found.nlink(), modified, found.ino()];
        let content = if found.is_file() { std::fs::read(entry.path()).unwrap_or_default() } else { Vec::new() };
        let mut attributes = vec![0; 999];
        let length = rustix::fs::llistxattr(entry.path(), &mut attributes[..]).unwrap_or(0);
        attributes.truncate(length);
        (entry.file_name(), numbers, content, attributes)
    };
    let mut all: Vec<_> = entries.map(one).collect();
    all.sort();
    all
}

#[test]
fn each_call_does_what_it_does_where_it_may_and_nothing_where_it_may_not() {
    let folder = folder();
    let place = |side: &str, name: &str| folder.path().join(side).join(name);
    let (mut before, mut program) = (Vec::new(), HELPERS.to_owned());
    for (name, _, _, what) in CASES {
        for side in ["may", "may not"] {
            prepare(&place(side, name));
            before.push(state(&place(side, name)));
            program += &format!(
                "print({side:?}, {name:?}, case({}, {what:?}), sep=':', flush=True)\n",
                literal(&place(side, name))
            );
        }
    }
    let refused = folder.path().join("may not");
    let judge = By(move |request: &Request<'_>| {
        let case = request.path.strip_prefix(&refused).ok().and_then(|rest| rest.components().next());
        let case = case.and_then(|name| CASES.iter().find(|case| name.as_os_str() == case.0));
        case.is_none_or(|case| {
            let is_in_it = request.path != refused.join(case.0);
            case.1 != request.operation || !is_in_it
        })
    });
    let done = run(Arc::new(judge), python(&program));
    assert!(done.outcome.success(), "{done:?}");
    let mut wrong = Vec::new();
    let mut before = before.into_iter();
    for (name, operation, kind, _) in CASES {
        for (side, expected) in [("may", "ok"), ("may not", "EACCES")] {
            let prefix = format!("{side}:{name}:");
            let answer = done.said.lines().find_map(|line| line.strip_prefix(&prefix));
            let changed = before.next().expect("as many") != state(&place(side, name));
            let should = side == "may" && *kind == Changes;
            let may_be = side == "may" || *name == "connect";
            if answer != Some(expected) || (changed != should && !(may_be && *kind == Tells)) {
                wrong.push(format!("{prefix} {answer:?}, changed: {changed}"));
            }
            let told =
                done.told.iter().any(|told| told.operation == *operation && told.path.starts_with(place(side, name)));
            if told != (side == "may not") {
                wrong.push(format!("{prefix} told: {told}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}\n{:?}", done.counters);
    assert_eq!(done.counters.killed, 0);
}
