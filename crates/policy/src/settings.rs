//! What a confined program is given besides files: environment, folder to begin in, network, sockets, devices, limits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Everything of a policy that is not about files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The program's environment.
    pub environment: Environment,
    /// The folder it begins in; where it is `None` that of the caller.
    pub directory: Option<PathBuf>,
    /// What network it has.
    pub network: Network,
    /// Which UNIX sockets it has.
    pub unix_sockets: UnixSockets,
    /// How much of the machine it may use.
    pub limits: Limits,
    /// Which devices are in its `/dev`.
    pub devices: BTreeSet<Device>,
}

/// Environment variables: those of the caller that are kept, and those that are set. Nothing else is handed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Names of the caller's variables that are handed on where the caller has them.
    pub keep: BTreeSet<String>,
    /// Variables with their values; they replace kept ones of the same name.
    pub set: BTreeMap<String, String>,
}

/// What network a program has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// None: not even the machine's own addresses.
    #[default]
    None,
    /// That of the caller.
    All,
    /// TCP with some ports.
    Ports {
        /// Ports it may connect to.
        connect: BTreeSet<u16>,
        /// Ports it may listen at.
        bind: BTreeSet<u16>,
    },
}

/// Which UNIX sockets (`unix`(7)) a program has, whatever its network. Pairs of connected ones it has in any case (but not of datagrams).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnixSockets {
    /// Those with a path that it may see, whoever listens.
    #[default]
    All,
    /// None.
    None,
}

impl UnixSockets {
    /// The word for it in a policy.
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::None => "none",
        }
    }
}

/// Limits; `None` is as much as the caller has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Seconds of processor time of all together.
    pub cpu_seconds: Option<u64>,
    /// Thousandths of a processor that all together have at a time.
    pub cpus: Option<u64>,
    /// Bytes of memory of all together.
    pub memory: Option<u64>,
    /// Processes at a time.
    pub processes: Option<u64>,
    /// Seconds of processor time of each process.
    pub process_cpu_seconds: Option<u64>,
    /// Bytes of address space of each process.
    pub process_memory: Option<u64>,
    /// Seconds until all is ended.
    pub seconds: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
    /// Bytes of each file that is written.
    pub file_size: Option<u64>,
}

impl Limits {
    /// Each limit by its key in a policy.
    pub fn named(&self) -> [(&'static str, Option<u64>); 9] {
        [
            ("memory", self.memory),
            ("cpu-seconds", self.cpu_seconds),
            ("cpus", self.cpus),
            ("processes", self.processes),
            ("seconds", self.seconds),
            ("process-memory", self.process_memory),
            ("process-cpu-seconds", self.process_cpu_seconds),
            ("open-files", self.open_files),
            ("file-size", self.file_size),
        ]
    }

    /// How much a limit is, as it is written in a policy.
    pub fn written(name: &str, most: u64) -> String {
        if name != "cpus" {
            return most.to_string();
        }
        let (whole, rest) = (most / 1000, most % 1000);
        if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:03}").trim_end_matches('0').to_owned() }
    }
}

/// A device that a program can have without harm to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// `/dev/null`
    Null,
    /// `/dev/zero`
    Zero,
    /// `/dev/full`
    Full,
    /// `/dev/random`
    Random,
    /// `/dev/urandom`
    Urandom,
    /// `/dev/tty`
    Tty,
}

impl Device {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Null, Self::Zero, Self::Full, Self::Random, Self::Urandom, Self::Tty];

    /// Its name in `/dev` and in a policy.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Zero => "zero",
            Self::Full => "full",
            Self::Random => "random",
            Self::Urandom => "urandom",
            Self::Tty => "tty",
        }
    }
}
