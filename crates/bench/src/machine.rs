//! What the figures were measured on.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::process::kib_field;

/// The machine, as far as it matters to someone who compares figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model name of the first processor.
    pub cpu: String,
    /// Processors this process may use.
    pub cores: usize,
    /// Installed memory in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Name of the distribution.
    pub system: String,
    /// Type and options of the file system that holds the test data.
    pub file_system: String,
}

impl Machine {
    /// Looks at this machine; `data` is a path on the file system of interest.
    pub(crate) fn look(data: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: cpu_model(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: kib_field(&read("/proc/meminfo"), "MemTotal").unwrap_or(0) * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: system_name(&read("/etc/os-release")),
            file_system: file_system_at(data),
        }
    }
}

/// What to know of a machine that gives free memory back to its host; none of others.
pub(crate) fn memory_note() -> Option<String> {
    let order = fs::read_to_string("/sys/module/page_reporting/parameters/page_reporting_order").ok()?;
    let devices = fs::read_dir("/sys/bus/virtio/drivers/virtio_balloon").ok()?.flatten();
    let mut features = devices.filter_map(|device| fs::read_to_string(device.path().join("features")).ok());
    features.any(|features| gives_memory_back(&order, &features)).then(|| {
        "this machine gives free memory back to its host, so memory that is touched anew is slow, and a disk looks slow for it (docs/BENCH.md, How it is kept fair)".to_owned()
    })
}

/// Whether free pages of at most the largest order are told to a host that asked for it.
fn gives_memory_back(order: &str, features: &str) -> bool {
    /// `VIRTIO_BALLOON_F_PAGE_REPORTING` (Virtual I/O Device 1.2, section 5.5.3).
    const REPORTING: usize = 5;
    /// The kernel's `MAX_PAGE_ORDER`, but where somebody changed it.
    const LARGEST: u32 = 10;
    let is_asked = features.as_bytes().get(REPORTING) == Some(&b'1');
    is_asked && order.trim().parse().is_ok_and(|order: u32| order <= LARGEST)
}

/// Type and options of the file system that a path is on.
pub(crate) fn file_system_at(path: &Path) -> String {
    file_system_of(path, &fs::read_to_string("/proc/self/mounts").unwrap_or_default())
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

fn system_name(os_release: &str) -> String {
    let line = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.map_or_else(|| "unknown".to_owned(), |name| name.trim_matches('"').to_owned())
}

/// Type and options of the mount with the longest prefix of `path`. The device is left out: it says nothing about speed.
pub(crate) fn file_system_of(path: &Path, mounts: &str) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut best: Option<(usize, String)> = None;
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, mount_point, kind, options, ..] = fields[..] else { continue };
        let length = mount_point.len();
        if path.starts_with(mount_point) && best.as_ref().is_none_or(|(longest, _)| length >= *longest) {
            best = Some((length, format!("{kind} ({options})")));
        }
    }
    best.map_or_else(|| "unknown".to_owned(), |(_, text)| text)
}

/// First line a program prints about its version, or `None` when it is not installed.
pub(crate) fn tool_version(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    Some(line.trim().trim_matches('*').trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_named_by_its_first_model_line() {
        let text = "processor\t: 0\nmodel name\t: Example CPU @ 2.0GHz\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(cpu_model(text), "Example CPU @ 2.0GHz");
        assert_eq!(cpu_model(""), "unknown");
    }

    #[test]
    fn the_distribution_is_named_without_its_quotes() {
        assert_eq!(system_name("NAME=x\nPRETTY_NAME=\"Example Linux 1\"\n"), "Example Linux 1");
    }

    #[test]
    fn the_file_system_is_that_of_the_longest_mount_point_on_the_path() {
        let mounts = "/dev/a / ext4 rw,relatime 0 0\ntmpfs /nonexistent tmpfs rw,size=1g 0 0\n";
        assert_eq!(file_system_of(Path::new("/nonexistent/deeper"), mounts), "tmpfs (rw,size=1g)");
        assert_eq!(file_system_of(Path::new("/elsewhere"), mounts), "ext4 (rw,relatime)");
        assert_eq!(file_system_of(Path::new("/elsewhere"), ""), "unknown");
    }

    #[test]
    fn memory_goes_back_if_the_host_asks_for_it_and_the_kernel_does_so() {
        for (order, features, is_so) in [
            ("9\n", "0110010100\n", true),
            ("11\n", "0110010100\n", false),
            // Of a kernel whose driver has not begun.
            ("4294967295\n", "0110010100\n", false),
            ("9\n", "0110000100\n", false),
            ("9\n", "", false),
            ("", "0110010100\n", false),
        ] {
            assert_eq!(gives_memory_back(order, features), is_so, "{order:?} {features:?}");
        }
    }

    #[test]
    fn a_program_that_is_not_installed_has_no_version() {
        assert_eq!(tool_version("no-such-program-here", "--version"), None);
    }
}
