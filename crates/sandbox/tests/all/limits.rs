//! Bounds hold.

use crate::support::{python, run, said, shell};
use holdfast_sandbox::{Limit, Status};

#[test]
fn processor_time_is_bounded() {
    let mut sandbox = shell("while :; do :; done");
    sandbox.limits.cpu_s = Some(1);
    let outcome = run(sandbox).0;
    assert_eq!(outcome.limit, Some(Limit::Cpu), "{outcome:?}");
}

#[test]
fn memory_is_bounded() {
    let mut sandbox = python("\ntry: bytearray(1 << 30); print('got it')\nexcept MemoryError: print('refused')");
    sandbox.limits.memory_bytes = Some(256 << 20);
    assert_eq!(said(sandbox), "refused\n");
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
