//! Bounds hold.

use crate::support::{python, run, said, shell};
use holdfast_sandbox::{Error, Limit, Sandbox, Status, Whole, bounding};

#[test]
fn processor_time_is_bounded() {
    let mut sandbox = shell("while :; do :; done");
    sandbox.limits.process_cpu_s = Some(1);
    let outcome = run(sandbox).0;
    assert_eq!(outcome.limit, Some(Limit::Cpu), "{outcome:?}");
}

#[test]
fn memory_is_bounded() {
    let mut sandbox = python("\ntry: bytearray(1 << 30); print('got it')\nexcept MemoryError: print('refused')");
    sandbox.limits.process_memory_bytes = Some(256 << 20);
    assert_eq!(said(sandbox), "refused\n");
}

/// Runs it to its end, with control groups or, if this account can make none here, counted; the other way is refused. Says whether groups held it.
fn together(described: impl Fn() -> Sandbox) -> (holdfast_sandbox::Outcome, bool) {
    let sandbox = described();
    let (bounded, unbounded) = bounding(&sandbox.limits);
    if unbounded.is_empty() {
        assert!(!bounded.is_empty());
        return (run(sandbox).0, true);
    }
    assert!(std::env::var_os("HOLDFAST_TEST_GROUPS").is_none(), "there are to be control groups: {unbounded:?}");
    match sandbox.start() {
        Err(Error::Unbounded(refused)) => assert_eq!(refused, unbounded),
        other => panic!("it is refused: {other:?}"),
    }
    let mut counted = described();
    counted.count = true;
    let running = counted.start().expect("it starts");
    assert_eq!(running.weaker().len(), unbounded.len());
    (running.wait().expect("it runs"), false)
}

#[test]
fn memory_of_many_together_is_bounded() {
    let many = "
for _ in range(10):
    if os.fork() == 0:
        held = b'x' * (20 << 20)
        time.sleep(60)
for _ in range(10): os.wait()
";
    let (outcome, _) = together(|| {
        let mut sandbox = python(many);
        sandbox.limits.memory_bytes = Some(100 << 20);
        sandbox
    });
    assert_eq!(outcome.limit, Some(Limit::Memory), "{outcome:?}");
}

#[test]
fn processor_time_of_many_together_is_bounded() {
    let (outcome, _) = together(|| {
        let mut sandbox = python("os.fork(); os.fork()\nwhile True: pass");
        sandbox.limits.cpu_s = Some(1);
        sandbox
    });
    assert_eq!((outcome.limit, outcome.status), (Some(Limit::Cpu), Status::Signalled(libc::SIGKILL)), "{outcome:?}");
}

#[test]
fn processes_that_hide_from_each_other_are_counted_all_the_same() {
    // Whoever has lost its parent, has a session of its own, or lets nobody look.
    let hidden = "
libc.prctl(4, 0)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        held = b'x' * (150 << 20)
    else: os._exit(0)
time.sleep(60)
";
    let (outcome, _) = together(|| {
        let mut sandbox = python(hidden);
        sandbox.limits.memory_bytes = Some(100 << 20);
        sandbox
    });
    assert_eq!(outcome.limit, Some(Limit::Memory), "{outcome:?}");
}

#[test]
fn a_limit_in_which_no_sandbox_can_be_made_starts_nothing() {
    let mut sandbox = shell("echo ran");
    sandbox.limits.memory_bytes = Some(4096);
    if bounding(&sandbox.limits).1.iter().all(|open| open.limit != Whole::Memory) {
        let error = sandbox.start().map(drop).expect_err("it does not start");
        assert!(error.to_string().contains("memory") || error.to_string().contains("killed"), "{error}");
    }
}

#[test]
fn files_are_bounded_in_size_and_number() {
    let mut sandbox = shell("head -c 5000 /dev/zero > /tmp/x");
    sandbox.limits.file_bytes = Some(4096);
    sandbox.command[2] = "exec head -c 5000 /dev/zero > /tmp/x".into();
    let outcome = run(sandbox).0;
    assert_eq!((outcome.status, outcome.limit), (Status::Signalled(libc::SIGXFSZ), Some(Limit::FileSize)));
    let mut sandbox = python("print(attempt(lambda: [os.open('/etc/passwd', os.O_RDONLY) for _ in range(100)]))");
    sandbox.limits.open_files = Some(64);
    assert_eq!(said(sandbox), "EMFILE\n");
}

#[test]
fn the_private_folder_is_bounded() {
    let said = said(shell("head -c 2000000 /dev/zero > /tmp/x; echo; ls /tmp"));
    assert!(said.contains("No space left"), "{said}");
}

#[test]
fn a_bomb_of_processes_is_bounded() {
    let mut sandbox = python(
        "
made = 0
try:
    while True:
        if os.fork() == 0:
            while True: time.sleep(60)
        made += 1
except OSError as error: print(made, errno.errorcode[error.errno])
",
    );
    sandbox.limits.processes = Some(20);
    assert_eq!(said(sandbox), "19 EAGAIN\n");
}

#[test]
fn a_thousand_children_end_with_the_sandbox() {
    let said = said(python(
        "
made = 0
for _ in range(1000):
    if os.fork() == 0:
        while True: time.sleep(60)
    made += 1
print(made)
",
    ));
    assert_eq!(said, "1000\n");
}
