//! Limits of all processes together where no control group holds them: the caller's process adds up what they use, and kills all of it above the limit.
//!
//! It is not exact, and is done only where the caller says that this is good enough ([`crate::Sandbox::count`]):
//! - between two looks there can be more;
//! - memory is what is mapped (proportional set size and what is swapped). Files in memory that nobody maps, pipes and sockets are not among it;
//! - of the processor time of a child whose end its parent does not wait for, only what was seen at a look counts while it lives.

use crate::limit::Limit;
use crate::processes::{PROCESSES_MAX, below};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Time between two looks.
pub(crate) const PERIOD: Duration = Duration::from_millis(20);

/// Units of time in `/proc/PID/stat`, a second (`USER_HZ`).
const TICKS: u64 = 100;

/// Somebody who counts, until the sandbox ends.
#[derive(Debug)]
pub(crate) struct Counter(Arc<AtomicU32>);

/// What is allowed.
struct Most {
    memory_kib: Option<u64>,
    cpu_ticks: Option<u64>,
}

impl Counter {
    /// Begins to count the processes below one.
    pub(crate) fn start(init: i32, process: OwnedFd, memory: Option<u64>, cpu_s: Option<u64>) -> io::Result<Self> {
        let most =
            Most { memory_kib: memory.map(|bytes| bytes / 1024), cpu_ticks: cpu_s.map(|s| s.saturating_mul(TICKS)) };
        let reached = Arc::new(AtomicU32::new(0));
        let noted = Arc::clone(&reached);
        let count = move || {
            while !has_ended(&process) {
                if let Some(limit) = most.reached(&below(init)) {
                    noted.store(Limit::number(Some(limit)), Ordering::SeqCst);
                    // It may have ended.
                    let _ = pidfd_send_signal(&process, Signal::KILL);
                    return;
                }
            }
        };
        std::thread::Builder::new().name("counter".into()).spawn(count)?;
        Ok(Self(reached))
    }

    /// The limit for which all were killed.
    pub(crate) fn reached(&self) -> Option<Limit> {
        Limit::from_number(self.0.load(Ordering::SeqCst))
    }
}

/// Waits for the time between two looks, or the end.
fn has_ended(process: &OwnedFd) -> bool {
    let mut events = [PollFd::new(process, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(PERIOD.subsec_nanos()) };
    poll(&mut events, Some(&time)).is_ok_and(|ready| ready > 0)
}

impl Most {
    /// The first process is a copy of the caller, whose memory is not the program's.
    fn reached(&self, processes: &[i32]) -> Option<Limit> {
        // More use up what there is sooner than they can be counted.
        if processes.len() >= PROCESSES_MAX {
            return self.memory_kib.map(|_| Limit::Memory).or(Some(Limit::Cpu));
        }
        // What is shared is in the first sum as often as it is mapped, so it is at least the second; that one takes longer.
        let memory = |of: fn(i32) -> u64| processes.iter().skip(1).map(|pid| of(*pid)).sum::<u64>();
        if self.memory_kib.is_some_and(|most| memory(resident_kib) > most && memory(proportional_kib) > most) {
            return Some(Limit::Memory);
        }
        let used = || processes.iter().map(|pid| ticks(*pid)).sum::<u64>();
        self.cpu_ticks.is_some_and(|most| used() >= most).then_some(Limit::Cpu)
    }
}

fn text(pid: i32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// The sum of lines like `VmRSS:  12 kB`.
fn kib(text: &str, names: [&str; 2]) -> u64 {
    let of = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        names.contains(&name).then(|| rest.split_whitespace().next()?.parse::<u64>().ok())?
    };
    text.lines().filter_map(of).sum()
}

fn resident_kib(pid: i32) -> u64 {
    kib(&text(pid, "status"), ["VmRSS", "VmSwap"])
}

/// A process that lets nobody look counts with all that it maps.
fn proportional_kib(pid: i32) -> u64 {
    match text(pid, "smaps_rollup") {
        text if text.is_empty() => resident_kib(pid),
        text => kib(&text, ["Pss", "SwapPss"]),
    }
}

/// Processor time, with that of children that were waited for.
fn ticks(pid: i32) -> u64 {
    let text = text(pid, "stat");
    // The name can have anything in it, but is followed by the last parenthesis.
    let Some((_, fields)) = text.rsplit_once(") ") else { return 0 };
    // utime, stime, cutime and cstime are the fields 14 to 17, and the one behind the name is the third.
    fields.split(' ').skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_uses_is_read_from_what_the_kernel_says_of_it() {
        let own = i32::try_from(std::process::id()).expect("a number");
        let large = vec![1_u8; 64 << 20];
        assert!(resident_kib(own) > 64 << 10 && proportional_kib(own) > 64 << 10);
        assert!(proportional_kib(own) <= resident_kib(own) + 1024, "what is shared counts once");
        drop(large);
        let began = ticks(own);
        while ticks(own) < began + 3 {
            std::hint::spin_loop();
        }
        assert!(below(own).contains(&own));
    }
}
