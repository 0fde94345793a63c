//! Calls that somebody outside answers.

#![allow(unsafe_code)]

use crate::support::{line, plain, shell, start};
use holdfast_sandbox::Running;
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// `struct seccomp_notif`: id, pid, flags, number, architecture, instruction, arguments.
type Question = [u64; 10];

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`.
const RECEIVE: libc::Ioctl = 0xc050_2100;
const SEND: libc::Ioctl = 0xc018_2101;

fn next(listener: &OwnedFd) -> Question {
    poll(&mut [PollFd::new(listener, PollFlags::IN)], None).expect("polled");
    let mut question: Question = [0; 10];
    // SAFETY: the structure has 80 bytes, and outlives the call.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, question.as_mut_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    question
}

/// Lets the call go on as it is.
fn go_on(listener: &OwnedFd, question: &Question) {
    let mut answer: [u64; 3] = [question[0], 0, 1 << 32];
    // SAFETY: the structure has 24 bytes, and outlives the call.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), SEND, answer.as_mut_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

fn text_at(question: &Question, address: u64) -> String {
    let pid = question[1] & 0xffff_ffff;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("it can be looked at");
    let mut bytes = [0; 64];
    let read = memory.read_at(&mut bytes, address).expect("it can be read");
    String::from_utf8_lossy(bytes[..read].split(|byte| *byte == 0).next().expect("a text")).into_owned()
}

fn asked_about(running: &mut Running) -> OwnedFd {
    running.take_listener().expect("there is one")
}

#[test]
fn whoever_answers_sees_what_the_program_is_before_it_is_executed() {
    let mut sandbox = shell("exec /bin/echo here");
    sandbox.notify = vec![libc::SYS_execve];
    let (mut running, mut output) = start(sandbox);
    let listener = asked_about(&mut running);
    for expected in ["/bin/sh", "/bin/echo"] {
        let question = next(&listener);
        assert_eq!(text_at(&question, question[4]), expected);
        go_on(&listener, &question);
    }
    assert_eq!(line(&mut output), "here");
    assert!(running.wait().expect("it ran").success());
}

#[test]
fn a_program_that_nobody_lets_be_executed_is_an_error() {
    let mut sandbox = shell("true");
    sandbox.notify = vec![libc::SYS_execve];
    let (mut running, _output) = start(sandbox);
    drop(asked_about(&mut running));
    let error = running.wait().expect_err("it cannot run").to_string();
    assert!(error.contains("does not answer"), "{error}");
}

#[test]
fn a_program_that_waits_for_an_answer_is_killed_like_any_other() {
    let mut sandbox = shell("mkdir /tmp/asked");
    sandbox.notify = vec![libc::SYS_mkdir, libc::SYS_mkdirat];
    let (mut running, _output) = start(sandbox);
    let listener = asked_about(&mut running);
    next(&listener);
    running.kill();
    running.wait().expect("it ended");
    let mut sandbox = shell("mkdir /tmp/asked");
    sandbox.notify = vec![libc::SYS_execve];
    sandbox.limits.wall_s = Some(1);
    let (running, _output) = start(sandbox);
    assert_eq!(running.wait().expect("it ended").limit, Some(holdfast_sandbox::Limit::Wall));
}

#[test]
fn questions_about_calls_reach_the_listener() {
    let mut sandbox = shell("echo before; mkdir /tmp/asked; echo after");
    sandbox.notify = vec![libc::SYS_mkdir, libc::SYS_mkdirat];
    let (mut running, mut output) = start(sandbox);
    assert_eq!(line(&mut output), "before");
    let listener = running.take_listener().expect("there is one");
    let mut events = [rustix::event::PollFd::new(&listener, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut events, None).expect("polled");
    assert!(!events[0].revents().is_empty());
    // Nobody answers: the call fails, and the program goes on.
    drop(listener);
    assert!(line(&mut output).contains("Function not implemented"));
    assert_eq!(line(&mut output), "after");
    assert!(running.wait().expect("it ran").success());
    let mut reserved = shell("true");
    reserved.notify = vec![libc::SYS_sendmsg];
    assert!(reserved.start().is_err());
}

#[test]
fn a_program_that_cannot_be_executed_is_an_error_with_a_listener_as_well() {
    let mut sandbox = plain(["/usr/bin/nothing-of-this-name"]);
    sandbox.notify = vec![libc::SYS_mkdir];
    let running = sandbox.start().expect("it starts");
    let error = running.wait().expect_err("it cannot run").to_string();
    assert!(error.contains("cannot execute"), "{error}");
}
