//! Starting, ending, and what is left behind.

use crate::support::{line, python, run, said, shell, start};
use holdfast_sandbox::{Limit, Outcome, Sandbox, Status, Stream};
use holdfast_testkit::alone::{alone, mounts};
use std::fs;
use std::io::{Read, Write};

#[test]
fn the_kernel_has_what_these_tests_need() {
    let kernel = holdfast_sandbox::probe();
    assert!(kernel.namespaces.is_ok() && kernel.overlay && kernel.notify && kernel.landlock_abi >= 4, "{kernel:?}");
}

#[test]
fn the_status_is_the_programs() {
    assert_eq!(run(shell("exit 7")).0, Outcome { status: Status::Exited(7), limit: None });
    assert_eq!(run(shell("kill -USR1 $$")).0.status, Status::Signalled(libc::SIGUSR1));
    assert_eq!(run(shell("kill -9 $$")).0.status, Status::Signalled(libc::SIGKILL));
}

#[test]
fn the_program_has_the_environment_and_the_folder_that_were_given_and_no_other() {
    let mut sandbox = shell("env; pwd");
    sandbox.environment.push(("ONE".into(), "two words".into()));
    sandbox.folder = "/tmp".into();
    let said = said(sandbox);
    let mut lines: Vec<_> = said.lines().filter(|line| !line.starts_with("PWD=") && !line.starts_with("_=")).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["/tmp", "ONE=two words", "PATH=/usr/bin:/bin"]);
}

#[test]
fn a_program_is_looked_for_in_the_path_it_is_given() {
    let mut sandbox = shell("");
    sandbox.command = vec!["echo".into(), "found".into()];
    assert_eq!(said(sandbox), "found\n");
}

#[test]
fn streams_are_those_that_were_given() {
    let (input, mut to) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map(|(r, w)| (r, fs::File::from(w))).expect("a pipe");
    let mut sandbox = shell("read word; echo $word; echo error >&2");
    sandbox.stdin = Stream::Given(input);
    let (running, mut output) = start(sandbox);
    to.write_all(b"hello\n").expect("written");
    let mut said = String::new();
    output.read_to_string(&mut said).expect("output");
    assert_eq!(said, "hello\nerror\n");
    assert!(running.wait().expect("it ran").success());
}

#[test]
fn whoever_reads_sees_the_end_when_the_program_closes_its_output() {
    let (running, mut output) = start(shell("exec >&- 2>&-; read -r forever < /dev/zero"));
    let mut said = String::new();
    output.read_to_string(&mut said).expect("output");
    assert_eq!(said, "");
    assert!(running.try_wait().expect("it can be asked").is_none());
}

#[test]
fn no_descriptor_but_the_streams_gets_in() {
    let _held = fs::File::open("/etc/passwd").expect("a file");
    // One more is the folder that is listed.
    let said = said(python("print(sorted(int(name) for name in os.listdir('/proc/self/fd')))"));
    assert_eq!(said, "[0, 1, 2, 3]\n");
}

#[test]
fn the_program_sees_its_own_processes_alone() {
    let said = said(shell("echo $$; ls /proc | grep -c '^[0-9]*$'; cat /proc/1/environ /proc/1/maps; true"));
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "2");
    assert!(lines[1].parse::<u32>().expect("a number") <= 5, "{said}");
    assert!(lines[2..].iter().all(|line| line.contains("Permission denied")), "{said}");
}

#[test]
fn what_the_program_left_behind_ends_with_it() {
    let (running, mut output) = start(shell("(trap '' TERM HUP; while :; do :; done) & echo started"));
    assert_eq!(line(&mut output), "started");
    assert!(running.wait().expect("it ran").success());
    // The pipe ends because nobody is left to hold it.
    output.read_to_end(&mut Vec::new()).expect("output");
}

#[test]
fn a_program_that_ignores_every_signal_is_killed() {
    let ignore = "
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(20):
    if os.fork() == 0: break
print('ready', flush=True)
while True: time.sleep(60)
";
    let (running, mut output) = start(python(ignore));
    for _ in 0..21 {
        assert_eq!(line(&mut output), "ready");
    }
    running.kill();
    assert_eq!(running.wait().expect("it ran").status, Status::Signalled(libc::SIGKILL));
    assert_eq!(output.read(&mut [0]).expect("output"), 0);
}

#[test]
fn a_signal_reaches_the_program() {
    let (running, mut output) = start(shell("trap 'echo got; exit 3' USR1; echo ready; while :; do sleep 0.01; done"));
    assert_eq!(line(&mut output), "ready");
    running.signal(libc::SIGUSR1).expect("sent");
    assert_eq!(line(&mut output), "got");
    assert_eq!(running.wait().expect("it ran").status, Status::Exited(3));
    assert!(running.signal(libc::SIGUSR1).is_err());
    assert!(running.signal(0).is_err());
}

/// The letter of a process's state, and its children.
fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn what_is_frozen_does_nothing_until_it_is_thawed() {
    let (running, mut output) = start(shell("for i in 1 2 3; do (while :; do :; done) & done; echo ready; wait"));
    assert_eq!(line(&mut output), "ready");
    running.freeze().expect("frozen");
    let program = children(running.pid());
    let all: Vec<_> = program.iter().chain(&children(program[0])).copied().collect();
    assert_eq!(all.len(), 4);
    // Signalled in one step, each stops at its next instruction.
    while all.iter().any(|pid| state(*pid) != Some('T')) {
        std::thread::yield_now();
    }
    running.thaw().expect("thawed");
    assert!(all.iter().all(|pid| state(*pid) != Some('T')));
    running.freeze().expect("frozen");
    running.kill();
    running.wait().expect("it ended");
    assert!(running.freeze().is_err());
}

#[test]
fn nothing_lives_on_when_the_supervisor_is_killed() {
    if let Ok(number) = std::env::var("HOLDFAST_SANDBOX_SUPERVISE") {
        let mut sandbox = shell("(trap '' TERM; while :; do :; done) & echo ready; wait");
        sandbox.environment.push(("NUMBER".into(), number.into()));
        let running = sandbox.start().expect("it starts");
        running.wait().expect("it ends");
        return;
    }
    let mut supervisor = std::process::Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "start::nothing_lives_on_when_the_supervisor_is_killed", "--nocapture"])
        .env("HOLDFAST_SANDBOX_SUPERVISE", "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut output = fs::File::from(std::os::fd::OwnedFd::from(supervisor.stdout.take().expect("piped")));
    while line(&mut output) != "ready" {}
    supervisor.kill().expect("killed");
    supervisor.wait().expect("ended");
    // Everything in the sandbox holds the pipe, so it ends when nobody is left.
    output.read_to_end(&mut Vec::new()).expect("output");
}

#[test]
fn the_end_of_the_thread_that_started_it_is_not_the_sandboxs() {
    let (running, mut output) =
        std::thread::spawn(|| start(shell("read word < /dev/null; echo here"))).join().expect("a thread");
    assert_eq!(line(&mut output), "here");
    assert!(running.wait().expect("it ran").success());
}

#[test]
fn time_by_the_clock_ends_everything() {
    let mut sandbox = shell("trap '' TERM INT; while :; do sleep 5; done");
    sandbox.limits.wall_s = Some(1);
    assert_eq!(run(sandbox).0, Outcome { status: Status::Signalled(libc::SIGKILL), limit: Some(Limit::Wall) });
}

#[test]
fn many_starts_at_once_do_not_disturb_each_other() {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..10 {
                    let word = format!("{thread}-{round}");
                    assert_eq!(said(shell(&format!("echo {word}"))), format!("{word}\n"));
                }
            });
        }
    });
}

#[test]
fn a_thousand_starts_leave_nothing() {
    if !alone("start::a_thousand_starts_leave_nothing").expect("nothing is left") {
        return;
    }
    let count = || {
        let descriptors = fs::read_dir("/proc/self/fd").expect("a list").count();
        let tasks = fs::read_dir("/proc/self/task").expect("a list").flatten();
        let children: usize = tasks
            .map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default().split_whitespace().count())
            .sum();
        (descriptors, mounts(), children)
    };
    let one = |round: usize| {
        let mut sandbox = Sandbox::new(["/bin/true"]);
        sandbox.view = shell("").view;
        // Some that fail late.
        if round % 10 == 9 {
            sandbox.command = vec!["/bin/nothing".into()];
            assert!(sandbox.start().is_err());
            return;
        }
        assert!(sandbox.start().expect("it starts").wait().expect("it runs").success());
    };
    one(0);
    let before = count();
    (0..1000).for_each(one);
    assert_eq!(count(), before);
}
