//! Ways out that are tried, each of which must lead nowhere.

use crate::support::{folder, is_root, literal, python, run, said, shell, write};
use holdfast_sandbox::{Access, Denied, Mount, Root, Sandbox};
use std::path::Path;

/// A tree with something to hide, seen with all rights but for that.
fn around(secret: &Path, program: &str) -> Sandbox {
    let above = secret.parent().expect("a folder");
    let program = format!("S, A = {}, {}\n{program}", literal(secret), literal(above));
    python(&program).mount(above, Access::All).mount(secret, Access::Hidden)
}

fn answers(sandbox: Sandbox) -> Vec<(String, String)> {
    let pair = |line: &str| line.split_once(' ').map(|(name, answer)| (name.to_owned(), answer.to_owned()));
    said(sandbox).lines().filter_map(pair).collect()
}

#[test]
fn a_hidden_file_cannot_be_reached_by_any_name() {
    let folder = folder();
    let secret = write(folder.path(), "secret", "secret");
    let found = answers(around(
        &secret,
        "
def reads(path): return lambda: print(open(path).read())
os.symlink(S, os.path.join(A, 'soft'))
base = os.path.basename(A)
say('plain EACCES', reads(S))
say('dots EACCES', reads(os.path.join(A, '..', base, 'secret')))
say('soft EACCES', reads(os.path.join(A, 'soft')))
say('root EACCES', reads('/proc/self/root' + S))
os.chdir(A)
say('cwd EACCES', reads('/proc/self/cwd/secret'))
fd = os.open(A, os.O_RDONLY)
say('fd EACCES', reads('/proc/self/fd/%d/secret' % fd))
p = os.open(S, os.O_PATH)
say('reopen EACCES', reads('/proc/self/fd/%d' % p))
say('link EXDEV', lambda: os.link(S, os.path.join(A, 'hard')))
say('rename EBUSY', lambda: os.rename(S, os.path.join(A, 'moved')))
say('over EBUSY', lambda: os.rename(os.path.join(A, 'soft'), S))
say('unlink EBUSY', lambda: os.unlink(S))
say('chmod EROFS', lambda: os.chmod(S, 0o644))
say('truncate EROFS', lambda: os.truncate(S, 0))
say('mount EPERM', lambda: call(165, None, S.encode(), None, 0, None))
say('umount EPERM', lambda: call(166, S.encode(), 2))
",
    ));
    assert_eq!(found.len(), 15);
    for (name, answer) in found {
        let expected = answer.split(' ').next().expect("a word");
        // The answer is after what is expected.
        let got = answer.rsplit(' ').next().expect("a word");
        let fine = got == expected || (got == "EACCES" && expected == "EROFS");
        assert!(fine, "{name}: {answer}");
    }
    assert_eq!(std::fs::read_to_string(&secret).expect("it is there"), "secret");
}

#[test]
fn moving_the_folder_of_a_hidden_file_does_not_show_it() {
    let folder = folder();
    let secret = write(folder.path(), "one/secret", "secret");
    let above = folder.path();
    let program = format!(
        "A = {}\nos.rename(A + '/one', A + '/two')\nsay('read', lambda: open(A + '/two/secret').read())",
        literal(above)
    );
    let sandbox = python(&program).mount(above, Access::All).mount(&secret, Access::Hidden);
    assert_eq!(said(sandbox), "read EACCES\n");
}

#[test]
fn links_that_change_all_the_time_never_lead_outside() {
    let folder = folder();
    let inside = folder.path().join("inside");
    write(&inside, "real/file", "fine");
    let outside = write(folder.path(), "outside/file", "secret");
    let program = format!(
        "
I, O = {}, {}
way = os.path.join(I, 'way')
pid = os.fork()
if pid == 0:
    while True:
        for target in ('real', O):
            os.symlink(target, way + '~'); os.rename(way + '~', way)
found = set()
for _ in range(20000):
    try: found.add(open(way + '/file').read())
    except OSError as error: found.add(errno.errorcode[error.errno])
os.kill(pid, 9)
print(sorted(found))
",
        literal(&inside),
        literal(outside.parent().expect("a folder"))
    );
    let said = said(python(&program).mount(&inside, Access::All));
    assert!(!said.contains("secret") && said.contains("fine"), "{said}");
}

#[test]
fn a_view_does_not_lead_through_a_link_that_appears_at_the_start() {
    // What is opened is what was resolved: here it is exchanged as fast as possible, and either is an error or the right one.
    let folder = folder();
    let (place, other) = (folder.path().join("place"), folder.path().join("other"));
    write(&other, "file", "secret");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let done = || stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done() {
                let _ = std::fs::create_dir(&place);
                let _ = std::fs::write(place.join("file"), "fine");
                let _ = std::fs::remove_dir_all(&place);
                let _ = std::os::unix::fs::symlink("/etc", &place);
                let _ = std::fs::remove_file(&place);
            }
        });
        for _ in 0..40 {
            let mut sandbox = shell(&format!("ls {}", place.display()));
            sandbox.view.retain(|entry| entry.path != Path::new("/etc"));
            sandbox.view.push(Mount::new(&place, Access::ReadOnly));
            let resolved = std::fs::canonicalize(&place).is_ok_and(|to| to == place);
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
            sandbox.stdout = holdfast_sandbox::Stream::Given(write);
            sandbox.stderr = holdfast_sandbox::Stream::Null;
            let _ = resolved;
            if let Ok(running) = sandbox.start() {
                let said = std::io::read_to_string(std::fs::File::from(read)).expect("output");
                running.wait().expect("it ran");
                // Either the folder, or all of where the link led when it was resolved; never something under the wrong name.
                assert!(!said.contains("secret"), "{said}");
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Calls by number, as on this machine, that no program in a sandbox may make.
const FORBIDDEN: &str = "
null = None
for name, number, arguments in [
    ('mount', 165, (b'none', b'/tmp', b'tmpfs', 0, null)), ('umount2', 166, (b'/tmp', 2)), ('pivot_root', 155, (b'/', b'/')), ('chroot', 161, (b'/',)),
    ('move_mount', 429, (-100, b'/tmp', -100, b'/tmp', 0)), ('open_tree', 428, (-100, b'/', 1)), ('open_tree_attr', 467, (-100, b'/', 1, null, 0)),
    ('fsopen', 430, (b'tmpfs', 0)), ('fsconfig', 431, (0, 0, null, null, 0)), ('fsmount', 432, (0, 0, 0)), ('fspick', 433, (-100, b'/', 0)),
    ('mount_setattr', 442, (-100, b'/', 0, null, 0)), ('setns', 308, (0, 0)), ('unshare user', 272, (0x10000000,)), ('unshare mounts', 272, (0x20000,)),
    ('unshare time', 272, (0x80,)), ('clone user', 56, (0x10000011, 0, 0, 0, 0)), ('ptrace', 101, (0, 0, 0, 0)), ('ptrace init', 101, (16, 1, 0, 0)),
    ('process_vm_readv', 310, (1, null, 0, null, 0, 0)), ('process_vm_writev', 311, (1, null, 0, null, 0, 0)), ('pidfd_getfd', 438, (0, 0, 0)),
    ('kcmp', 312, (1, 1, 0, 0, 0)), ('kexec_load', 246, (0, 0, null, 0)), ('bpf', 321, (0, null, 0)), ('perf_event_open', 298, (null, 0, -1, -1, 0)),
    ('keyctl', 250, (0, 0)), ('add_key', 248, (b'user', b'x', b'y', 1, -3)), ('request_key', 249, (b'user', b'x', null, -3)), ('userfaultfd', 323, (1,)),
    ('io_uring_setup', 425, (1, null)), ('io_uring_enter', 426, (0, 0, 0, 0, null, 0)), ('io_uring_register', 427, (0, 0, null, 0)),
    ('open_by_handle_at', 304, (-100, null, 0)), ('init_module', 175, (null, 0, b'')), ('finit_module', 313, (0, b'', 0)), ('delete_module', 176, (b'x', 0)),
    ('reboot', 169, (0, 0, 0, null)), ('acct', 163, (null,)), ('swapon', 167, (b'/tmp', 0)), ('fanotify_init', 300, (0, 0)), ('quotactl', 179, (0, null, 0, null)),
]: say(name.replace(' ', '-'), lambda: call(number, *arguments))
say('clone3 ENOSYS', lambda: call(435, null, 0))
import fcntl
say('TIOCSTI', lambda: fcntl.ioctl(0, 0x5412, b'x'))
say('TIOCLINUX', lambda: fcntl.ioctl(0, 0x541c, b'x'))
";

#[test]
fn calls_that_could_change_the_view_or_the_machine_are_refused() {
    let mut answers = answers(python(FORBIDDEN));
    assert_eq!(answers.len(), 45, "{answers:?}");
    answers.retain(|(_, answer)| answer != "EPERM" && answer != "ENOSYS ENOSYS");
    assert!(answers.is_empty(), "{answers:?}");
}

#[test]
fn whole_operations_can_be_refused() {
    let calls = "
fd = os.open('/tmp/x', os.O_RDWR | os.O_CREAT)
say('fsync', lambda: os.fsync(fd))
say('fdatasync', lambda: os.fdatasync(fd))
say('sync', lambda: call(162))
say('syncfs', lambda: call(306, fd))
say('sync_file_range', lambda: call(277, fd, 0, 0, 0))
say('statfs', lambda: os.statvfs('/tmp'))
say('fstatfs', lambda: os.fstatvfs(fd))
";
    let mut sandbox = python(calls);
    sandbox.denied = vec![Denied::Fsync, Denied::Statfs];
    let refused = answers(sandbox);
    assert!(refused.len() == 7 && refused.iter().all(|(_, answer)| answer == "EPERM"), "{refused:?}");
    let allowed = answers(python(calls));
    assert!(allowed.iter().all(|(name, answer)| answer == "ok" || name == "sync"), "{allowed:?}");
}

#[test]
fn seeking_can_be_refused() {
    let program = "import os\ntry: os.lseek(0, 1, 0); print('moved')\nexcept OSError as error: print(error.errno)";
    for (denied, expected) in [(vec![], "29\n"), (vec![Denied::Llseek], "1\n")] {
        // Nothing but a call on what cannot be moved in: a pipe says so itself (ESPIPE), unless the call is refused first (EPERM).
        let mut sandbox = plainly(&["/usr/bin/python3", "-S", "-E", "-c", program]);
        sandbox.stdin = holdfast_sandbox::Stream::Given(rustix::pipe::pipe().expect("a pipe").0);
        sandbox.denied = denied;
        assert_eq!(said(sandbox), expected);
    }
}

#[test]
fn a_set_user_id_program_gains_nothing_and_there_is_no_capability_left() {
    let status = said(shell("grep -E '^(Cap|NoNewPrivs|Seccomp:|Uid)' /proc/self/status"));
    let value = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect("it is listed");
        line.split_whitespace().nth(1).expect("a value").to_owned()
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(value(set), "0000000000000000", "{set}");
    }
    assert_eq!(value("NoNewPrivs"), "1");
    assert_eq!(value("Seccomp"), "2");
    assert_eq!(value("Uid"), rustix::process::geteuid().as_raw().to_string());
    let folder = folder();
    let program = folder.path().join("id");
    std::fs::copy("/usr/bin/id", &program).expect("a copy");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).expect("ours");
    let id = said(plainly(&[program.to_str().expect("text"), "-u"]).mount(folder.path(), Access::All));
    assert_eq!(id.trim(), rustix::process::geteuid().as_raw().to_string());
}

fn plainly(command: &[&str]) -> Sandbox {
    let mut sandbox = shell("");
    sandbox.command = command.iter().map(Into::into).collect();
    sandbox
}

#[test]
fn processes_outside_get_no_signal() {
    let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("it runs");
    // Its own group and session, everybody, numbers as they are outside, the caller's group.
    let program = format!(
        "
for target in ({}, {}, -{}, {}): say('kill', lambda: os.kill(target, 9))
signal.signal(15, signal.SIG_IGN)
say('all', lambda: os.kill(-1, 15)); say('group', lambda: os.kill(0, 15))
",
        other.id(),
        std::process::id(),
        std::process::id(),
        rustix::process::getppid().map_or(1, |pid| pid.as_raw_nonzero().get()),
    );
    let said = said(python(&program));
    assert_eq!(said.matches("ESRCH").count(), 5, "{said}");
    assert!(other.try_wait().expect("it can be asked").is_none());
    other.kill().expect("ours");
    other.wait().expect("it ends");
}

#[test]
fn init_is_out_of_reach() {
    let found = answers(python(
        "
for name in ('mem', 'environ', 'maps', 'root/etc', 'cwd/etc', 'auxv', 'ns/mnt'):
    path = '/proc/1/' + name
    say(name, lambda: os.listdir(path) if name in ('root/etc', 'cwd/etc') else open(path, 'rb').read(10))
try: numbers = os.listdir('/proc/1/fd')
except OSError: numbers = []
for number in numbers:
    if attempt(lambda: os.readlink('/proc/1/fd/' + number)) == 'ok': print('fd ok')
say('write', lambda: open('/proc/1/mem', 'r+b'))
",
    ));
    assert!(
        found.len() == 8
            && found.iter().all(|(_, answer)| answer == "EACCES" || answer == "EPERM" || answer == "EROFS"),
        "{found:?}"
    );
    // Deadly signals from inside are not for it.
    assert_eq!(
        said(python("attempt(lambda: os.kill(1, 9)); attempt(lambda: os.kill(1, 11)); print(os.getppid())")),
        "1\n"
    );
}

#[test]
fn the_kernels_own_files_cannot_be_written() {
    let program = "
for path in ('/proc/sys/kernel/core_pattern',
             '/proc/sys/kernel/hostname', '/proc/sysrq-trigger', '/proc/self/oom_score_adj', '/sys/kernel/uevent_helper', '/sys/power/state',
             '/sys/kernel/mm/transparent_hugepage/enabled',
             '/sys/fs/cgroup/pids/cgroup.procs', '/dev/vda', '/dev/kmsg', '/dev/mem'):
    say(path, lambda: os.close(os.open(path, os.O_WRONLY)))
";
    for root in [Root::Empty, Root::Host] {
        let mut sandbox = python(program);
        sandbox.root = root;
        let found = answers(sandbox);
        assert!(found.len() == 11 && found.iter().all(|(_, answer)| answer != "ok"), "{root:?} {found:?}");
    }
}

#[test]
fn devices_are_those_that_were_asked_for() {
    let said = said(shell(
        "ls /dev; head -c 2 /dev/zero | wc -c; echo gone > /dev/null; head -c 1 /dev/urandom | wc -c; echo x > /dev/full; mknod /tmp/d c 1 3; true",
    ));
    assert!(said.starts_with("fd\nfull\nnull\nrandom\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n2\n1\n"), "{said}");
    assert!(said.contains("I/O error") && said.contains("Operation not permitted"), "{said}");
}

#[test]
fn a_descriptor_that_was_given_is_not_a_way_to_its_folder() {
    let folder = folder();
    let file = write(folder.path(), "log", "");
    write(folder.path(), "secret", "secret");
    let mut sandbox = python(
        "
say('up', lambda: open('/proc/self/fd/0/../secret').read())
say('writing', lambda: open('/proc/self/fd/0', 'w'))
say('at', lambda: os.open('../secret', os.O_RDONLY, dir_fd=0))
",
    );
    sandbox.stdin = holdfast_sandbox::Stream::Given(std::fs::File::open(&file).expect("a file").into());
    let said = said(sandbox);
    assert!(!said.contains("ok"), "{said}");
}

#[test]
fn another_abi_of_system_calls_is_no_way_around() {
    let folder = folder();
    let x32 = said(python("say('x32', lambda: call(0x40000000 | 165, b'none', b'/tmp', b'tmpfs', 0, None))"));
    assert_eq!(x32, "x32 ENOSYS\n");
    // `int 0x80`: mov eax, 20 (getpid); int 0x80; ret.
    let machine = "
import mmap
code = bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3])
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(code)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
";
    let (outcome, said) = run(python(machine).mount(folder.path(), Access::All));
    assert_eq!(outcome.status, holdfast_sandbox::Status::Signalled(libc::SIGSYS), "{said}");
}

#[test]
fn an_account_is_the_same_inside_and_outside() {
    let folder = folder();
    said(
        shell(&format!("echo x > {0}/made; test -O {0}/made", folder.path().display()))
            .mount(folder.path(), Access::Writable),
    );
    let owner =
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(folder.path().join("made")).expect("it is there"));
    assert_eq!(owner, rustix::process::geteuid().as_raw());
    if is_root() {
        // Files of others are closed to root in there, which has no capability.
        let other = write(folder.path(), "other", "x");
        std::os::unix::fs::chown(&other, Some(1234), Some(1234)).expect("root may");
        std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("root may");
        let (outcome, said) = run(shell(&format!("cat {}", other.display())).mount(folder.path(), Access::All));
        assert!(!outcome.success() && said.contains("Permission denied"), "{said}");
    }
}
