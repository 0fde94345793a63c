//! What the kernel knows of a thread that waits in a request, and does not say in it.
//!
//! fuser answers `FUSE_INTERRUPT` by refusing it, so a thread that waits for a lock is looked at: once a signal waits for it, the request ends in `EINTR`, and the kernel
//! delivers the signal or begins the call again. Nor does fuser hand on whether a lock is by `flock`; the call that the thread is in says it.

use std::time::Duration;
use tokio::time::Instant;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// A thread that waits in a request.
pub(super) struct Waiting {
    thread: u32,
    look: Instant,
}

impl Waiting {
    pub(super) fn new(thread: u32) -> Self {
        Self { thread, look: Instant::now() + LOOK }
    }

    /// Waits until a signal waits for the thread. Of one that cannot be seen (it is gone, or of another PID namespace) it never ends.
    pub(super) async fn interrupted(&mut self) {
        loop {
            tokio::time::sleep_until(self.look).await;
            self.look = Instant::now() + LOOK;
            // What is there of /proc is answered from memory.
            match std::fs::read_to_string(format!("/proc/{}/status", self.thread)) {
                Ok(status) if has_signal(&status, self.thread) => return,
                Ok(_) => {}
                Err(_) => std::future::pending().await,
            }
        }
    }
}

/// Whether a signal waits that the thread takes. One for the whole process is the main thread's, unless that blocks it: the kernel wakes no other if it can wake this one,
/// and a request that ends in `EINTR` without a signal would end the call in an error that no program knows.
fn has_signal(status: &str, thread: u32) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let set = |name: &str| field(name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
    let is_main = field("Tgid:").and_then(|text| text.parse().ok()) == Some(thread);
    let waiting = set("SigPnd:") | if is_main { set("ShdPnd:") } else { 0 };
    waiting & !set("SigBlk:") & !set("SigIgn:") != 0
}

/// Whether a thread is in a call of `flock`. If that cannot be seen, it is taken for one of `fcntl`.
pub(super) fn is_in_flock(thread: u32) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{thread}/syscall")).unwrap_or_default();
    call.split(' ').next().and_then(|number| number.parse().ok()) == Some(libc::SYS_flock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_counts_for_a_thread_that_takes_it() {
        let status = |pending: &str, shared: &str, blocked: &str| {
            format!(
                "Name:\tx\nTgid:\t7\nPid:\t7\nSigPnd:\t{pending}\nShdPnd:\t{shared}\nSigBlk:\t{blocked}\nSigIgn:\t0000000000000004\n"
            )
        };
        let (none, term) = ("0000000000000000", "0000000000004000");
        assert!(!has_signal(&status(none, none, none), 7));
        assert!(has_signal(&status(term, none, none), 7) && has_signal(&status(term, none, none), 8));
        assert!(has_signal(&status(none, term, none), 7), "the main thread takes those of the process");
        assert!(!has_signal(&status(none, term, none), 8) && !has_signal(&status(none, term, term), 7));
        assert!(!has_signal(&status("0000000000000004", none, none), 7), "one that is ignored");
        assert!(!has_signal("", 7));
    }
}
