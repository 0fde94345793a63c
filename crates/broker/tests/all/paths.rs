//! However a file is called, it is asked about by its one true path.

use crate::support::{By, Done, all, folder, is_root, literal, python, run, run_with};
use holdfast_broker::Options;
use holdfast_policy::{Judge, Operation, Request};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Nothing may be read below a folder.
fn no_reading_below(folder: &Path) -> Arc<dyn Judge> {
    let folder = folder.to_owned();
    Arc::new(By(move |request: &Request<'_>| {
        request.operation != Operation::Read || !request.path.starts_with(&folder)
    }))
}

/// Two equal folders, `may` and `no`, with a file, a folder and links.
fn two() -> tempfile::TempDir {
    let folder = folder();
    for side in ["may", "no"] {
        let side = folder.path().join(side);
        std::fs::create_dir_all(side.join("d")).expect("a folder");
        std::fs::write(side.join("f"), "content").expect("a file");
        std::os::unix::fs::symlink("f", side.join("s")).expect("a link");
        std::os::unix::fs::symlink("d/../s", side.join("s2")).expect("a link");
        std::os::unix::fs::symlink(&side, side.join("d/up")).expect("a link");
        std::fs::hard_link(
            side.join("f"),
            folder.path().join(format!("hard-{}", side.file_name().and_then(OsStr::to_str).expect("a name"))),
        )
        .expect("a name");
    }
    folder
}

/// Ways to spell the file, with `P` for its folder.
const SPELLINGS: &[&str] = &[
    "P + '/f'",
    "P + '//./f'",
    "P + '/d/../f'",
    "P + '/d/up/d/up/f'",
    "P + '/s'",
    "P + '/s2'",
    "'/../../..' + P + '/f'",
    "cwd(P, 'f')",
    "cwd(P + '/d', '../f')",
    "cwd(P, '/proc/self/cwd/f')",
    "cwd(P + '/d', '/proc/thread-self/cwd/../f')",
    "'/proc/self/root' + P + '/f'",
    "'/proc/%d/root' % os.getpid() + P + '/f'",
    "'/proc/1/../self/root' + P + '/f'",
    "'/proc/self/fd/%d/f' % os.open(P, 0)",
    "'/proc/self/fd/%d' % os.open(P + '/f', os.O_PATH)",
    "'/proc/thread-self/fd/%d' % os.open(P + '/f', os.O_PATH)",
    "'/proc/%d/fd/%d' % (os.getpid(), os.open(P + '/s', os.O_PATH))",
    "'/proc/self/fd/%d' % os.open(P + '/f', os.O_WRONLY)",
    "'/dev/fd/%d' % os.open(P + '/f', os.O_WRONLY)",
    "'/proc/self/task/%d/fd/%d/../f' % (os.getpid(), os.open(P + '/d', 0))",
];

#[test]
fn a_file_is_refused_by_whatever_way_it_is_reached_and_another_by_none() {
    let folder = two();
    let mut program = "def cwd(folder, path): os.chdir(folder); return path\n".to_owned();
    for side in ["may", "no"] {
        program += &format!("P = {}\n", literal(&folder.path().join(side)));
        for spelling in SPELLINGS {
            program +=
                &format!("say({:?}, lambda: os.read(os.open({spelling}, 0), 9))\n", format!("{side} {spelling}"));
        }
        let dirfd = "say(SIDE + ' dirfd', lambda: os.open('../f', 0, dir_fd=os.open(P + '/d', 0)))\n";
        program += &dirfd.replace("SIDE", &format!("{side:?}"));
        program += &format!("say({side:?} + ' hard', lambda: os.open(P + '/../hard-{side}', 0))\n");
    }
    let done = run(no_reading_below(&folder.path().join("no")), python(&program));
    assert!(done.outcome.success(), "{done:?}");
    assert_eq!(done.said.lines().count(), 2 * (SPELLINGS.len() + 2), "{}", done.said);
    for line in done.said.lines() {
        // Another name of the file is another path.
        let expected = if line.starts_with("no ") && !line.starts_with("no hard") { "EACCES" } else { "ok" };
        assert!(line.ends_with(expected), "{line}");
    }
}

/// What was asked.
fn asked(program: &str) -> (Done, Vec<(Operation, PathBuf)>) {
    let options = Options { audit_allowed: true, ..Options::default() };
    let done = run_with(all(), python(program), options);
    let asked = done.told.iter().map(|told| (told.operation, told.path.clone())).collect();
    (done, asked)
}

#[test]
fn names_that_are_long_or_no_text_are_asked_about_byte_by_byte() {
    let folder = folder();
    let base = folder.path().as_os_str().as_bytes();
    let long = [base, b"/", &[b'x'; 255]].concat();
    let odd = [base, b"/\xff\xfe \n\x01 (deleted)"].concat();
    let program = format!(
        "base = {}.encode()\nsay('long', lambda: os.open(base + b'/' + b'x' * 255, 0o101))\nsay('too long', lambda: os.open(base + b'/' + b'x' * 256, 0o101))\n\
         say('odd', lambda: os.open(base + b'/\\xff\\xfe \\n\\x01 (deleted)', 0o101))\nsay('odd again', lambda: os.open(base + b'/\\xff\\xfe \\n\\x01 (deleted)', 0))\n\
         say('path', lambda: os.stat(base + b'/' * (4095 - len(base))))\nsay('path too long', lambda: os.stat(base + b'/' * (4096 - len(base))))\n\
         say('empty', lambda: os.stat(b''))\nsay('nowhere', lambda: call(4, 1, 2))\nsay('deep', lambda: os.stat(base + b'/a/b'))\n",
        literal(folder.path())
    );
    let (done, asked) = asked(&program);
    let expected = "long ok\ntoo long ENAMETOOLONG\nodd ok\nodd again ok\npath ok\npath too long ENAMETOOLONG\nempty ENOENT\nnowhere EFAULT\ndeep ENOENT\n";
    assert_eq!(done.said, expected, "{:?}", done.counters);
    for (operation, path) in [(Operation::Create, &long), (Operation::Create, &odd), (Operation::Read, &odd)] {
        let path = PathBuf::from(OsStr::from_bytes(path));
        assert!(asked.contains(&(operation, path.clone())), "{operation:?} {path:?}");
    }
}

#[test]
fn links_that_lead_round_end_as_the_kernel_ends_them() {
    let folder = folder();
    std::os::unix::fs::symlink("round", folder.path().join("round")).expect("a link");
    std::os::unix::fs::symlink("/dev/null", folder.path().join("l0")).expect("a link");
    for number in 1..=41 {
        std::os::unix::fs::symlink(format!("l{}", number - 1), folder.path().join(format!("l{number}")))
            .expect("a link");
    }
    let program = format!(
        "P = {}\nfor name in ['round', 'l39', 'l40', 'round/x', 'l0/x']: say(name, lambda: os.open(P + '/' + name, 0))\nsay('itself', lambda: os.lstat(P + '/round'))\n\
         say('nofollow', lambda: os.open(P + '/l0', os.O_NOFOLLOW))\n",
        literal(folder.path())
    );
    let (done, _) = asked(&program);
    assert_eq!(done.said, "round ELOOP\nl39 ok\nl40 ELOOP\nround/x ELOOP\nl0/x ENOTDIR\nitself ok\nnofollow ELOOP\n");
}

#[test]
fn an_open_file_without_a_name_is_asked_about_by_its_last_one() {
    let folder = folder();
    let path = folder.path().join("gone");
    let program = format!(
        "fd = os.open({0}, 0o102)\nos.unlink({0})\nsay('fstat', lambda: os.fstat(fd))\nsay('ftruncate', lambda: os.ftruncate(fd, 5))\n\
        say('again', lambda: os.open('/proc/self/fd/%d' % fd, 0))\n\
         say('pipe', lambda: os.fstat(os.pipe()[0]))\nsay('memory', lambda: os.ftruncate(os.memfd_create('m'), 5))\n",
        literal(&path)
    );
    let (done, asked) = asked(&program);
    assert_eq!(done.said, "fstat ok\nftruncate ok\nagain ok\npipe ok\nmemory ok\n", "{:?}", done.counters);
    assert!(asked.contains(&(Operation::Truncate, path)), "{asked:?}");
}

#[test]
fn processes_see_themselves_in_proc() {
    let program = "\
print(os.readlink('/proc/self'), os.getpid(), os.readlink('/proc/thread-self'), os.readlink('/proc/self/exe'))
print(os.readlink('/proc/self/cwd'), os.readlink('/proc/self/root'))
print(open('/proc/self/comm').read().strip(), open('/proc/self/stat').read().split()[0])
def inside(): print(os.readlink('/proc/thread-self'), threading.get_native_id())
thread = threading.Thread(target=inside); thread.start(); thread.join()
pid = os.fork()
if pid == 0: print(os.readlink('/proc/self'), os.getpid(), flush=True); os._exit(0)
os.waitpid(pid, 0)
";
    let (with, _) = asked(program);
    let without = crate::support::unasked(python(program)).1;
    assert_eq!(with.said, without);
}

#[test]
fn memory_of_processes_is_not_opened() {
    let program = "say('mem', lambda: os.open('/proc/self/mem', os.O_RDWR))\nsay('tty', lambda: os.open('/dev/tty', os.O_RDWR))\n";
    let (done, _) = asked(program);
    assert_eq!(done.said, "mem EPERM\ntty ENXIO\n");
}

#[test]
fn what_the_account_may_not_the_program_may_not() {
    if !is_root() {
        // Only root has anything to give up.
        return;
    }
    let folder = folder();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "of somebody else").expect("a file");
    std::os::unix::fs::chown(&secret, Some(12345), Some(12345)).expect("we are root");
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("we are root");
    let program = format!(
        "P = {}\nsay('read', lambda: os.open(P, 0))\nsay('chmod', lambda: os.chmod(P, 0o666))\nsay('chown', lambda: os.chown(P, 0, 0))\n\
        say('access', lambda: call(21, P.encode(), 4))\n\
         say('device', lambda: os.mknod(P + '2', 0o20600, os.makedev(1, 3)))\nprint(os.stat(P).st_uid)\n",
        literal(&secret)
    );
    let (done, _) = asked(&program);
    assert_eq!(done.said, "read EACCES\nchmod EPERM\nchown EPERM\naccess EACCES\ndevice EPERM\n65534\n");
}

#[test]
fn a_move_that_would_gain_rights_is_refused_unless_that_is_wanted() {
    let folder = two();
    let program = format!(
        "P = {}\nsay('move', lambda: os.rename(P + '/no/f', P + '/may/g'))\nsay('link', lambda: os.link(P + '/no/f', P + '/may/h'))\n\
        say('folder', lambda: os.rename(P + '/no', P + '/yes'))\n\
         say('back', lambda: os.rename(P + '/may/f', P + '/no/g'))\n",
        literal(folder.path())
    );
    let judge = no_reading_below(&folder.path().join("no"));
    let done = run(Arc::clone(&judge), python(&program));
    assert_eq!(done.said, "move EXDEV\nlink EXDEV\nfolder EXDEV\nback ok\n");
    let done = run_with(judge, python(&program), Options { may_gain: true, ..Options::default() });
    assert!(done.said.starts_with("move ok\nlink ENOENT\nfolder ok\n"), "{}", done.said);
}
