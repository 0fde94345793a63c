//! How a program ended, and which of its limits ended it.

use std::fmt;

/// A limit that ended a program.
///
/// Those of processes, open files and the address space of a process end nobody: the calls that need more fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Processor time.
    Cpu,
    /// Memory of all together.
    Memory,
    /// Time by the clock.
    Wall,
    /// The size of a file.
    FileSize,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

/// How a sandbox ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How the program did.
    pub status: Status,
    /// The limit that ended it, if one did.
    pub limit: Option<Limit>,
}

impl Outcome {
    /// Whether the program ended by itself and with success.
    pub fn success(self) -> bool {
        self.status == Status::Exited(0)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Limit::Cpu => "processor time",
            Limit::Memory => "memory",
            Limit::Wall => "time by the clock",
            Limit::FileSize => "the size of a file",
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Exited(code) => write!(formatter, "exit code {code}"),
            Status::Signalled(signal) => write!(formatter, "signal {signal}"),
        }
    }
}

impl Status {
    /// From a status as of wait(2).
    pub(crate) fn of(status: i32) -> Self {
        if libc::WIFEXITED(status) {
            Status::Exited(libc::WEXITSTATUS(status))
        } else {
            Status::Signalled(libc::WTERMSIG(status))
        }
    }
}

impl Limit {
    /// What a status says, with microseconds of processor time used and seconds allowed, and the limit for which all were killed, if they were.
    pub(crate) fn of(status: i32, cpu_us: u64, allowed_s: Option<u64>, killed: Option<Self>) -> Option<Self> {
        match Status::of(status) {
            Status::Signalled(_) if killed.is_some() => killed,
            Status::Signalled(libc::SIGXCPU) => Some(Limit::Cpu),
            Status::Signalled(libc::SIGXFSZ) => Some(Limit::FileSize),
            // The hard limit is as low as the soft one, so the kernel may kill at once.
            Status::Signalled(libc::SIGKILL)
                if allowed_s.is_some_and(|most| cpu_us >= most.saturating_mul(1_000_000)) =>
            {
                Some(Limit::Cpu)
            }
            _ => None,
        }
    }

    pub(crate) fn number(limit: Option<Self>) -> u32 {
        limit.map_or(0, |limit| limit as u32 + 1)
    }

    pub(crate) fn from_number(number: u32) -> Option<Self> {
        [Limit::Cpu, Limit::Memory, Limit::Wall, Limit::FileSize]
            .into_iter()
            .find(|limit| Self::number(Some(*limit)) == number)
    }
}
