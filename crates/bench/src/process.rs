//! What a server's processes use, read from `/proc`, and the warming of memory before a run.
//!
//! CPU is user plus system time of a process, all its descendants, and the children it has waited for, so that a
//! worker that ends during a run is still counted by its parent. The kernel's unit here is 10 ms.
//!
//! Peak memory is the sum of the processes' `VmHWM` since [`reset_peak`]. For several processes that is an upper
//! bound: their peaks need not coincide, and a page they share counts for each.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Piece in which memory is warmed: above malloc's largest threshold, so each is mapped and unmapped by itself.
const WARM_PIECE_BYTES: usize = 64 * 1024 * 1024;

/// What one line of `/proc/PID/stat` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// User, system, children's user, children's system.
    ticks: u64,
}

/// Reads the fields after the command name, which may itself contain spaces and parentheses (proc(5)).
fn parse_stat(line: &str) -> Option<Stat> {
    let rest = &line[line.rfind(')')? + 1..];
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Field 3 of proc(5), the state, is index 0 here.
    let parent = fields.get(1)?.parse().ok()?;
    let mut ticks: u64 = 0;
    for field in fields.get(11..15)? {
        ticks = ticks.checked_add(field.parse().ok()?)?;
    }
    Some(Stat { parent, ticks })
}

/// The processes of these trees that live now, roots included.
pub(crate) fn tree(roots: &[u32]) -> Vec<u32> {
    let stats = all_stats();
    let mut found: Vec<u32> = roots.iter().copied().filter(|pid| stats.contains_key(pid)).collect();
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        next += 1;
        for (&pid, stat) in &stats {
            if stat.parent == parent && !found.contains(&pid) {
                found.push(pid);
            }
        }
    }
    found
}

fn all_stats() -> HashMap<u32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, read_stat(pid)?))).collect()
}

fn read_stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// CPU seconds used so far by these trees.
pub(crate) fn cpu_seconds(roots: &[u32]) -> f64 {
    let ticks: u64 = tree(roots).into_iter().filter_map(read_stat).map(|stat| stat.ticks).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Makes peak memory count from now on (proc(5), `clear_refs` 5). Fails for another user's process.
pub(crate) fn reset_peak(roots: &[u32]) -> std::io::Result<()> {
    for pid in tree(roots) {
        fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
    }
    Ok(())
}

/// Sum of the peak resident sets of these trees, in bytes; `None` when no process is left.
pub(crate) fn peak_rss_bytes(roots: &[u32]) -> Option<u64> {
    let peaks: Vec<u64> = tree(roots)
        .into_iter()
        .filter_map(|pid| kib_field(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmHWM"))
        .collect();
    (!peaks.is_empty()).then(|| peaks.iter().sum::<u64>() * 1024)
}

/// Sum of what this tree has resident now, in bytes, besides one process of it, which calls itself `inner` in whatever namespace it is in. A page
/// that several share counts for each.
pub(crate) fn rss_bytes_besides(root: u32, inner: u32) -> u64 {
    let statuses = tree(&[root]).into_iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
    let mut statuses: Vec<String> = statuses.collect();
    // The lowest: what is above may be called so outside of the namespace.
    if let Some(at) = statuses.iter().rposition(|status| innermost_id(status) == Some(inner)) {
        statuses.remove(at);
    }
    statuses.iter().filter_map(|status| kib_field(status, "VmRSS")).sum::<u64>() * 1024
}

/// What a process calls itself.
fn innermost_id(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// A line such as `VmHWM:   1234 kB`.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// A process's command line with spaces between its words.
pub(crate) fn command_line(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<String> = bytes
        .split(|&byte| byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Touches and frees `bytes` of memory, at most half of what is available.
///
/// A virtual machine may have given free pages back to its host, and the first touch of such a page then costs a
/// fault there: a copy of 1 GiB took 0.3 s with warm memory and 1.7 to 3.4 s with cold. Doing this before each timed
/// run puts all sides on warm pages alike.
pub(crate) fn warm_memory(bytes: u64) {
    let bytes = bytes.min(available_bytes() / 2);
    let mut pieces = Vec::new();
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    while left > 0 {
        let size = left.min(WARM_PIECE_BYTES);
        pieces.push(std::hint::black_box(vec![1_u8; size])); // Not zero: zeroed memory is mapped untouched.
        left -= size;
    }
}

/// Memory that can be used without swapping.
pub(crate) fn available_bytes() -> u64 {
    let text = fs::read_to_string(Path::new("/proc/meminfo")).unwrap_or_default();
    kib_field(&text, "MemAvailable").unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_past_a_command_name_with_parentheses() {
        let line = "42 (a b) c) S 7 42 42 0 -1 4194560 100 200 0 0 11 22 33 44 20 0 1 0 9999 1 2";
        assert_eq!(parse_stat(line), Some(Stat { parent: 7, ticks: 11 + 22 + 33 + 44 }));
    }

    #[test]
    fn one_process_of_a_tree_is_not_counted_and_is_found_by_its_own_name_for_itself() {
        use std::io::{BufRead, BufReader};
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $!; wait"]).stdout(std::process::Stdio::piped());
        let mut shell = shell.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("its output")).read_line(&mut line).expect("it says so");
        let below: u32 = line.trim().parse().expect("a number");
        // Before it sleeps, it is a copy of the shell, or has next to nothing.
        let stat = || std::fs::read_to_string(format!("/proc/{below}/stat")).expect("it lives");
        while !stat().contains("(sleep) S") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let all = rss_bytes_besides(shell.id(), u32::MAX);
        let (without_below, without_shell) =
            (rss_bytes_besides(shell.id(), below), rss_bytes_besides(shell.id(), shell.id()));
        for pid in [below, shell.id()] {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is killed");
        }
        shell.wait().expect("it ends");
        assert!(0 < without_below && without_below < all && 0 < without_shell && without_shell < all);
        assert_eq!(innermost_id("Name:\tx\nNSpid:\t4711\t12\t2\n"), Some(2));
    }

    #[test]
    fn a_stat_line_that_is_cut_or_no_numbers_gives_nothing() {
        for line in ["", "42 (x", "42 (x) S 7 1", "42 (x) S p 42 42 0 -1 4194560 100 200 0 0 11 22 33 44"] {
            assert_eq!(parse_stat(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_status_field_is_read_in_kib() {
        let text = "Name:\tx\nVmHWM:\t   5120 kB\nVmHWMx:\t1 kB\n";
        assert_eq!(kib_field(text, "VmHWM"), Some(5120));
        assert_eq!(kib_field(text, "VmRSS"), None);
    }

    #[test]
    fn this_process_is_in_its_own_tree_and_has_a_peak() {
        let own = std::process::id();
        assert!(tree(&[own]).contains(&own));
        assert!(peak_rss_bytes(&[own]).expect("this process lives") > 0);
        assert!(command_line(own).is_some());
    }

    #[test]
    fn a_process_that_does_not_exist_uses_nothing() {
        let nobody = u32::MAX;
        assert!(tree(&[nobody]).is_empty());
        assert!(cpu_seconds(&[nobody]).abs() < f64::EPSILON);
        assert_eq!(peak_rss_bytes(&[nobody]), None);
    }
}
