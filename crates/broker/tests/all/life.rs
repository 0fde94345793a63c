//! What is asked about, told and changed while a broker serves, and how it ends.

use crate::support::{By, all, all_but, folder, literal, python, run, run_with, said};
use holdfast_broker::{Broker, Error, Options, THREADS_MAX, calls};
use holdfast_policy::{Judge, Operation, Request, Verdict};
use holdfast_sandbox::{Status, Stream};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Decides about one operation, and refuses it everywhere.
struct Only(Operation);

impl Judge for Only {
    fn judge(&self, request: &Request<'_>) -> Verdict {
        assert_eq!(request.operation, self.0, "nobody was to be asked");
        Verdict { allowed: false, rule: Some(3) }
    }

    fn decides(&self, operation: Operation) -> bool {
        operation == self.0
    }
}

fn null() -> OwnedFd {
    File::open("/dev/null").expect("a device").into()
}

#[test]
fn only_calls_that_can_be_refused_are_asked_about() {
    let fsync = calls(&Only(Operation::Fsync));
    assert!(
        fsync.contains(&libc::SYS_fsync) && !fsync.contains(&libc::SYS_openat) && !fsync.contains(&libc::SYS_read),
        "{fsync:?}"
    );
    let lookup = calls(&Only(Operation::Lookup));
    assert!(
        lookup.contains(&libc::SYS_openat) && lookup.contains(&libc::SYS_chdir) && !lookup.contains(&libc::SYS_fstat),
        "{lookup:?}"
    );
    let every = calls(&*all());
    assert!(every.len() > 80, "{every:?}");
    for call in [libc::SYS_read, libc::SYS_write, libc::SYS_mmap, libc::SYS_sendmsg, libc::SYS_exit_group] {
        assert!(!every.contains(&call), "{call}");
    }
    let done = run(Arc::new(Only(Operation::Statfs)), python("say('statfs', lambda: os.statvfs('/'))"));
    assert_eq!(done.said, "statfs EACCES\n");
    assert!(done.counters.calls < 5, "{done:?}");
}

#[test]
fn a_denial_is_told_with_who_what_and_where() {
    let folder = folder();
    let path = folder.path().join("f");
    let done =
        run(all_but(Operation::Lookup, &path), python(&format!("say('stat', lambda: os.stat({}))", literal(&path))));
    assert_eq!(done.said, "stat EACCES\n");
    let told: Vec<_> = done.told.iter().filter(|told| told.path == path).collect();
    assert_eq!(told.len(), 1, "{:?}", done.told);
    assert!(
        told[0].program.to_string_lossy().starts_with("/usr/bin/python3")
            && !told[0].allowed
            && told[0].operation == Operation::Lookup,
        "{told:?}"
    );
    assert_eq!(done.counters.denied, done.told.len() as u64);
}

#[test]
fn a_program_is_who_it_has_become() {
    let folder = folder();
    let file = folder.path().join("f");
    std::fs::write(&file, "content").expect("a file");
    let may = file.clone();
    // Only one program may read it.
    let judge = By(move |request: &Request<'_>| {
        request.path != may || request.operation != Operation::Read || request.program.ends_with("cat")
    });
    let script = format!("cat {0}; head -c 3 {0} || echo no", file.display());
    let done = run(Arc::new(judge), crate::support::shell(&script));
    assert!(done.said.starts_with("content") && done.said.ends_with("no\n"), "{done:?}");
}

#[test]
fn arguments_are_those_of_the_call() {
    let folder = folder();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (place, into) = (folder.path().to_owned(), Arc::clone(&seen));
    let judge = By(move |request: &Request<'_>| {
        if request.path.starts_with(&place)
            && request.path != place
            && !matches!(request.operation, Operation::Lookup | Operation::Getattr)
        {
            let Request { operation, arguments: asked, .. } = request;
            let other = asked.other.map(Path::to_owned);
            into.lock().expect("no panic").push((
                *operation,
                asked.mode,
                asked.size,
                asked.uid,
                asked.offset,
                asked.whence,
                other,
            ));
        }
        true
    });
    let program = format!(
        "P = {}\nos.mkdir(P + '/d', 0o711)\nfd = os.open(P + '/f', 0o102, 0o604)\nos.ftruncate(fd, 77)\nos.lseek(fd, 5, 1)\nos.fchmod(fd, 0o640)\n\
        os.fchown(fd, os.getuid(), -1)\nos.rename(P + '/f', P + '/g')\nos.symlink('to', P + '/s')\n",
        literal(folder.path())
    );
    assert_eq!(said(Arc::new(judge), python(&program)), "");
    let seen = seen.lock().expect("no panic");
    let at = |name: &str| folder.path().join(name);
    let uid = rustix::process::geteuid().as_raw();
    for expected in [
        (Operation::Mkdir, Some(0o711), None, None, None, None, None),
        (Operation::Create, Some(0o604), None, None, None, None, None),
        (Operation::Truncate, None, Some(77), None, None, None, None),
        (Operation::Llseek, None, None, None, Some(5), Some(1), None),
        (Operation::Setattr, Some(0o640), None, None, None, None, None),
        (Operation::Setattr, None, None, Some(uid), None, None, None),
        (Operation::Rename, None, None, None, None, None, Some(at("g"))),
        (Operation::Rename, None, None, None, None, None, Some(at("f"))),
        (Operation::Symlink, None, None, None, None, None, Some(PathBuf::from("to"))),
    ] {
        assert!(seen.contains(&expected), "{expected:?} in {seen:?}");
    }
}

#[test]
fn what_cannot_be_held_is_an_error() {
    let new = |options| Broker::new(null(), all(), options).map(|_| ());
    let arguments = Options { arguments: vec![Operation::Setattr, Operation::Read], ..Options::default() };
    assert!(matches!(new(arguments), Err(Error::Arguments(Operation::Read))));
    for threads in [0, THREADS_MAX + 1] {
        assert!(matches!(new(Options { threads, ..Options::default() }), Err(Error::Option(_))));
    }
    let broker = Broker::new(null(), Arc::new(Only(Operation::Read)), Options::default()).expect("a broker");
    assert!(matches!(broker.replace_judge(Arc::new(Only(Operation::Write))), Err(Error::Scope(Operation::Write))));
    assert!(broker.replace_judge(Arc::new(Only(Operation::Read))).is_ok());
    // What is no listener serves nobody.
    assert!(matches!(broker.run(), Err(Error::Listener(_))));
}

/// Starts, and gives the program's output and input.
fn start(
    judge: Arc<dyn Judge>,
    program: &str,
    options: Options,
) -> (holdfast_sandbox::Running, Broker, BufReader<File>, File) {
    let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    let ((output, their_output), (their_input, input)) = (pipe(), pipe());
    let mut sandbox = python(program);
    sandbox.stderr = Stream::Given(their_output.try_clone().expect("a copy"));
    (sandbox.stdin, sandbox.stdout) = (Stream::Given(their_input), Stream::Given(their_output));
    sandbox.notify = calls(&*judge);
    let mut running = sandbox.start().expect("it starts");
    let broker = Broker::new(running.take_listener().expect("a listener"), judge, options).expect("a broker");
    (running, broker, BufReader::new(output.into()), input.into())
}

fn line(from: &mut BufReader<File>) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("output");
    line
}

#[test]
fn another_judge_decides_from_the_next_question_on() {
    let folder = folder();
    let path = folder.path().join("f");
    std::fs::write(&path, "content").expect("a file");
    let program = format!(
        "for _ in range(3):\n    say('open', lambda: os.open({}, 0))\n    sys.stdin.readline()\n",
        literal(&path)
    );
    let (running, broker, mut output, mut input) = start(all(), &program, Options::default());
    std::thread::scope(|scope| {
        let served = scope.spawn(|| broker.run());
        for (judge, expected) in
            [(all_but(Operation::Read, &path), "open ok\n"), (all(), "open EACCES\n"), (all(), "open ok\n")]
        {
            assert_eq!(line(&mut output), expected);
            broker.replace_judge(judge).expect("the same scope");
            input.write_all(b"\n").expect("it reads");
        }
        assert!(running.wait().expect("an end").success());
        served.join().expect("no panic").expect("it served");
    });
}

#[test]
fn so_many_denials_call_for_the_end_once() {
    let called = Arc::new(AtomicUsize::new(0));
    let calling = Arc::clone(&called);
    let on_kill = Box::new(move || {
        calling.fetch_add(1, Ordering::Relaxed);
    });
    let options = Options { kill_after: Some(5), on_kill, ..Options::default() };
    let judge = all_but(Operation::Lookup, Path::new("/nothing"));
    let done = run_with(judge, python("for _ in range(9): say('stat', lambda: os.stat('/nothing'))"), options);
    assert_eq!((done.counters.denied, called.load(Ordering::Relaxed)), (9, 1), "{done:?}");
    // A call that would gain rights is a denial as well, also when it is the last one that is waited for.
    let folder = folder();
    std::fs::write(folder.path().join("f"), "content").expect("a file");
    let options = Options { kill_after: Some(1), on_kill: Box::new(|| panic!("as it should")), ..Options::default() };
    let program = format!("P = {}\nsay('move', lambda: os.rename(P + '/f', P + '/g'))", literal(folder.path()));
    let done = run_with(all_but(Operation::Read, &folder.path().join("f")), python(&program), options);
    assert_eq!(done.said, "move EPERM\n");
}

#[test]
fn opens_that_wait_hold_nobody_up_and_end_with_their_process() {
    let folder = folder();
    let fifo = folder.path().join("fifo");
    let program = format!(
        "P = {}\nos.mkfifo(P)\nthreads = [threading.Thread(target=lambda: os.open(P, os.O_RDONLY)) for _ in range(20)]\nfor thread in threads: thread.start()\n\
         for _ in range(200): os.stat('/usr')\nsay('other', lambda: os.open(P, os.O_WRONLY))\nfor thread in threads: thread.join()\n\
         threads = [threading.Thread(target=lambda: os.open(P + '2', os.O_WRONLY)) for _ in range(20)]\nos.mkfifo(P + '2')\n\
         for thread in threads: thread.start()\nprint('waiting', flush=True)\nsys.stdin.readline()\n",
        literal(&fifo)
    );
    let (running, broker, mut output, _input) = start(all(), &program, Options::default());
    std::thread::scope(|scope| {
        let served = scope.spawn(|| broker.run());
        assert_eq!(line(&mut output), "other ok\n");
        assert_eq!(line(&mut output), "waiting\n");
        running.kill();
        assert_eq!(running.wait().expect("an end").status, Status::Signalled(libc::SIGKILL));
        served.join().expect("no panic").expect("it served");
    });
}

#[test]
fn processes_that_are_killed_amid_calls_leave_nothing_behind() {
    let folder = folder();
    let program = format!(
        "P = {}\nfor round in range(40):\n    pid = os.fork()\n    if pid == 0:\n        while True:\n            os.stat('/usr'); \
        os.close(os.open(P + '/f', 0o102)); os.chdir(P)\n    for _ in range(round): os.stat('/usr')\n    os.kill(pid, 9); os.waitpid(pid, 0)\nprint('done')\n",
        literal(folder.path())
    );
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("ours").count();
    let before = descriptors();
    let done = run(all(), python(&program));
    assert_eq!((done.said.as_str(), done.counters.killed), ("done\n", 0), "{done:?}");
    // Other tests of this process open and close some, too, but none so many.
    assert!(descriptors() < before + 60);
}

#[test]
fn a_judge_that_panics_has_refused() {
    let judge = By(|request: &Request<'_>| {
        assert!(request.path != Path::new("/nothing"), "on purpose");
        true
    });
    let done =
        run(Arc::new(judge), python("say('stat', lambda: os.stat('/nothing'))\nsay('other', lambda: os.stat('/usr'))"));
    assert_eq!(done.said, "stat EPERM\nother ok\n");
}

#[test]
fn calls_that_lead_past_names_and_sockets_for_messages_are_refused() {
    let program = "\
buffer = ctypes.create_string_buffer(b'\\x80\\0\\0\\0', 256)
say('handle', lambda: call(303, -100, b'/usr', buffer, ctypes.create_string_buffer(8), 0))
say('datagrams', lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
say('pair of datagrams', lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
say('stream', lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
folder = os.open('/tmp', 0)
for request in 0x40086602, 0x401c5820, 0x5000940e, 0x5000940f, 0x40806685: say('attributes', lambda: call(16, folder, request, buffer))
say('flags', lambda: call(16, folder, 0x80086601, buffer))
say('terminal', lambda: call(16, folder, 0x5401, buffer))
say('sync', lambda: os.sync())
say('pin', lambda: call(437, -100, b'/usr', struct.pack('QQQ', os.O_PATH, 0, 0), 24))
say('abstract', lambda: socket.socket(socket.AF_UNIX).bind('\\0name'))
";
    let done = run(all(), python(program));
    let attributes = "attributes EPERM\n".repeat(5);
    let expected = format!(
        "handle EPERM\ndatagrams EPERM\npair of datagrams EPERM\nstream ok\n{attributes}flags ok\nterminal ENOTTY\nsync ok\npin ENOSYS\nabstract EPERM\n"
    );
    assert_eq!(done.said.replace("flags ENOTTY", "flags ok"), expected);
}

#[test]
fn limits_of_the_program_hold_for_what_is_done_for_it() {
    let folder = folder();
    let program = format!(
        "P = {}\nfd = os.open(P, 0o102)\nfor size in 1000, 1001: say(size, lambda: os.ftruncate(fd, size)); say(size, lambda: os.truncate(P, size))\n\
         say('descriptors', lambda: [os.open(P, 0) for _ in range(99)])\n",
        literal(&folder.path().join("f"))
    );
    let mut sandbox = python(&program);
    sandbox.limits.file_bytes = Some(1000);
    sandbox.limits.open_files = Some(50);
    assert_eq!(run(all(), sandbox).said, "1000 ok\n1000 ok\n1001 EFBIG\n1001 EFBIG\ndescriptors EMFILE\n");
}

#[test]
fn descriptors_close_when_they_are_asked_to() {
    let program = "import fcntl\nfor flags in 0, os.O_CLOEXEC, os.O_PATH, os.O_PATH | os.O_CLOEXEC: print(fcntl.fcntl(call(257, -100, b'/usr', flags, 0), 1))\n";
    assert_eq!(said(all(), python(program)), "0\n1\n0\n1\n");
}

#[test]
fn many_threads_and_processes_are_served_at_once() {
    let folder = folder();
    let program = format!(
        "import subprocess\nP = {}\n\
         def work(number):\n    for round in range(15):\n        os.stat(P); os.close(os.open(P, os.O_PATH)); os.close(os.open('%s/%d' % (P, number), 0o102))\n        \
         subprocess.run(['/bin/sh', '-c', 'cd /usr && cd /tmp && exec /bin/true'], check=True)\n\
         threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]\n\
         for thread in threads: thread.start()\nfor thread in threads: thread.join()\nprint('done')\n",
        literal(folder.path())
    );
    let done = run(all(), python(&program));
    assert_eq!((done.said.as_str(), done.counters.killed, done.counters.unserved), ("done\n", 0, 0), "{done:?}");
}

#[test]
fn a_program_that_executes_from_a_thread_becomes_another_one() {
    let program = "\
def execute(): os.execv('/bin/echo', ['echo', 'it runs'])
other = threading.Thread(target=lambda: [os.chdir('/usr') for _ in range(10**9)], daemon=True); other.start()
thread = threading.Thread(target=execute); thread.start(); thread.join()
";
    let done = run(all(), python(program));
    assert_eq!((done.said.as_str(), done.counters.killed), ("it runs\n", 0), "{done:?}");
}

#[test]
fn a_program_that_is_frozen_amid_what_is_held_goes_on_when_it_is_thawed() {
    let program = "\
print('begun', flush=True)
for _ in range(150):
    pid = os.posix_spawn('/bin/true', ['true'], {})
    os.chdir('/usr'); os.close(os.open('/usr', os.O_PATH))
    if os.waitpid(pid, 0)[1]: print('failed')
print('done', flush=True)
";
    let (running, broker, mut output, _input) = start(all(), program, Options::default());
    std::thread::scope(|scope| {
        let served = scope.spawn(|| broker.run());
        assert_eq!(line(&mut output), "begun\n");
        for _ in 0..200 {
            // It may have ended.
            let _ = running.freeze();
            std::thread::yield_now();
            let _ = running.thaw();
        }
        assert_eq!(line(&mut output), "done\n");
        assert!(running.wait().expect("an end").success());
        assert_eq!(served.join().expect("no panic").expect("it served").killed, 0);
    });
}

#[test]
fn a_script_is_executed_only_if_its_interpreter_may_be() {
    let folder = folder();
    let script = folder.path().join("script");
    std::fs::write(&script, "#! /bin/sh -e\necho ran\n").expect("a file");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is ours");
    let program = format!("say('script', lambda: os.execv({0}, [{0}]))", literal(&script));
    let shell = Path::new("/bin/sh").canonicalize().expect("a shell");
    let done = run(all_but(Operation::Exec, &shell), python(&program));
    assert_eq!(done.said, "script EACCES\n");
    assert!(done.told.iter().any(|told| told.operation == Operation::Exec && told.path == shell), "{:?}", done.told);
    assert_eq!(said(all(), python(&program)), "ran\n");
}

#[test]
fn a_program_of_memory_is_not_executed_where_execution_can_be_refused() {
    let program = "\
fd = os.memfd_create('m'); os.write(fd, open('/bin/true', 'rb').read())
say('memory', lambda: os.execve(fd, ['true'], {}))
";
    assert_eq!(said(all(), python(program)), "memory EPERM\n");
}

#[test]
fn a_policy_of_patterns_and_single_operations_is_held() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("keep")).expect("a folder");
    let at = folder.path().display();
    let text = format!(
        "default = \"allow\"\n[[rule]]\ndeny = [\"write\"]\npath = \"{at}/*.log\"\n[[rule]]\ndeny = [\"unlink\"]\ndir = \"{at}/keep\"\n"
    );
    let policy = holdfast_policy::Policy::from_toml("p.toml", Path::new("/"), text.as_bytes()).expect("a policy");
    let program = format!(
        "P = {}\nfor name in 'a.txt', 'a.log', 'keep/a': say(name, lambda: os.open(P + '/' + name, 0o101))\n\
         for name in 'a.txt', 'keep/a': say(name, lambda: os.unlink(P + '/' + name))\n\
         say('move', lambda: os.rename(P + '/keep/a', P + '/a'))\nsay('read', lambda: os.open(P + '/a.log', 0o100))\n",
        literal(folder.path())
    );
    let done = run(Arc::new(policy), python(&program));
    assert_eq!(done.said, "a.txt ok\na.log EACCES\nkeep/a ok\na.txt ok\nkeep/a EACCES\nmove EXDEV\nread ok\n");
    assert!(folder.path().join("keep/a").exists(), "{done:?}");
}
