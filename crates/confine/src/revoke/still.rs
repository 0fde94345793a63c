//! Waiting until stopped processes stand still: a signal stops a thread before its next instruction, and one inside of a call only when that returns.

use std::fs;
use std::time::{Duration, Instant};

/// Most processes that are looked at, as the sandbox has it.
pub(super) const PROCESSES_MAX: usize = 99_999;
/// Longest that is waited. A call that takes longer is one of a disk that does not answer, or of a FIFO that a broker waits for.
const LONGEST: Duration = Duration::from_secs(2);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// Waits, and answers the processes of which a thread still moves.
pub(super) fn wait(processes: impl Fn() -> Vec<i32>) -> Vec<i32> {
    let deadline = Instant::now() + LONGEST;
    loop {
        let moving: Vec<_> = processes().into_iter().filter(|pid| !is_still(*pid)).collect();
        if moving.is_empty() || Instant::now() >= deadline {
            return moving;
        }
        std::thread::sleep(PAUSE);
    }
}

/// The threads of a process.
pub(super) fn threads(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

fn is_still(pid: i32) -> bool {
    threads(pid).into_iter().all(|thread| {
        let task = format!("/proc/{pid}/task/{thread}");
        match fs::read_to_string(format!("{task}/stat")).ok().as_deref().and_then(state) {
            // It has ended, or is stopped.
            None | Some('Z' | 'X' | 'x' | 'T') => true,
            // Whoever made a process by `vfork` waits in that call until it executes or ends, and that one stands still.
            Some('D') => fs::read_to_string(format!("{task}/syscall")).is_ok_and(|text| makes_a_process(&text)),
            Some(_) => false,
        }
    })
}

/// The third field, behind the name, which can have anything in it.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

fn makes_a_process(call: &str) -> bool {
    #[cfg(target_arch = "x86_64")]
    const CALLS: [i64; 3] = [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3];
    #[cfg(not(target_arch = "x86_64"))]
    const CALLS: [i64; 2] = [libc::SYS_clone, libc::SYS_clone3];
    call.split(' ').next().and_then(|number| number.parse().ok()).is_some_and(|number: i64| CALLS.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_is_told_from_what_stands_still() {
        assert_eq!(state("12 (a) b) T 1 2"), Some('T'));
        assert_eq!(state("12"), None);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it runs");
        let pid = i32::try_from(child.id()).expect("a number");
        assert!(!is_still(pid));
        let its = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(its, rustix::process::Signal::STOP).expect("it is ours");
        assert_eq!(wait(|| vec![pid]), Vec::<i32>::new());
        assert_eq!(wait(|| vec![pid, std::process::id().cast_signed()]), [std::process::id().cast_signed()]);
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
        assert!(is_still(pid), "it is gone");
    }
}
