//! What a policy says besides files, as the sandbox's.

use holdfast_policy::{Settings, UnixSockets};
use holdfast_sandbox::{Bounded, Device, Limits, Network, Sandbox, Unbounded, Whole, bounding};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Where programs are looked for if the policy says nothing of `PATH`: the folders of the file system hierarchy standard.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The sandbox of a policy, but for its files: of these words, beginning in `folder` if the policy says nothing. Its variables are of those that this process has.
pub fn sandbox(settings: &Settings, words: &[impl AsRef<OsStr>], folder: &Path) -> Sandbox {
    Sandbox {
        environment: environment(settings, std::env::vars_os()),
        folder: settings.directory.clone().unwrap_or_else(|| folder.to_owned()),
        devices: devices(settings),
        // Of its own processes: programs look for themselves there, and nothing of the machine is in it.
        proc: true,
        network: network(settings),
        no_unix_sockets: settings.unix_sockets == UnixSockets::None,
        limits: limits(settings),
        ..Sandbox::new(words)
    }
}

fn network(settings: &Settings) -> Network {
    use holdfast_policy::Network as Policy;
    match &settings.network {
        Policy::None => Network::None,
        Policy::All => Network::All,
        Policy::Ports { connect, bind } => {
            Network::Ports { connect: connect.iter().copied().collect(), bind: bind.iter().copied().collect() }
        }
    }
}

fn devices(settings: &Settings) -> Vec<Device> {
    let named = |device: &holdfast_policy::Device| Device::ALL.into_iter().find(|known| known.name() == device.name());
    settings.devices.iter().filter_map(named).collect()
}

fn limits(settings: &Settings) -> Limits {
    let limits = &settings.limits;
    Limits {
        cpu_s: limits.cpu_seconds,
        cpu_thousandths: limits.cpus,
        memory_bytes: limits.memory,
        processes: limits.processes,
        process_cpu_s: limits.process_cpu_seconds,
        process_memory_bytes: limits.process_memory,
        wall_s: limits.seconds,
        open_files: limits.open_files,
        file_bytes: limits.file_size,
    }
}

/// A limit of a policy, what it bounds, and what holds it here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The key of the policy.
    pub limit: &'static str,
    /// How much; of `cpus` thousandths.
    pub most: u64,
    /// What may use so much, and what happens then.
    pub of: &'static str,
    /// What holds it, exactly; or why nothing does.
    pub held: Result<&'static str, String>,
}

/// What the limits of a policy bound on this machine, and what holds them, found out by making the control groups they take.
pub fn bounds(settings: &Settings) -> Vec<Bound> {
    let (bounded, unbounded) = bounding(&limits(settings));
    let named = settings.limits.named().into_iter();
    named.filter_map(|(limit, most)| Some(bound(limit, most?, &bounded, &unbounded))).collect()
}

/// What a limit is called where it is one of all processes together.
fn whole(limit: &str) -> Option<Whole> {
    match limit {
        "memory" => Some(Whole::Memory),
        "cpu-seconds" => Some(Whole::CpuTime),
        "cpus" => Some(Whole::Cpus),
        "processes" => Some(Whole::Processes),
        _ => None,
    }
}

fn bound(limit: &'static str, most: u64, bounded: &[Bounded], unbounded: &[Unbounded]) -> Bound {
    let open = whole(limit).and_then(|whole| unbounded.iter().find(|one| one.limit == whole));
    let group = whole(limit).and_then(|whole| bounded.iter().find(|one| one.limit == whole));
    let held = match (open, group.map(|group| group.version)) {
        (Some(open), _) => Err(open.why.clone()),
        (None, Some(1)) => Ok("a control group (version 1)"),
        (None, Some(_)) => Ok("a control group (version 2)"),
        (None, None) if limit == "seconds" => Ok("the sandbox's first process, by the clock"),
        (None, None) if limit == "processes" => Ok("the kernel, which counts those of the account in its namespace"),
        (None, None) => Ok("the kernel, for each process (setrlimit)"),
    };
    Bound { limit, most, of: of(limit), held }
}

/// What may use so much, and what happens then.
fn of(limit: &str) -> &'static str {
    match limit {
        "memory" => "all together, with what the kernel keeps for them; at more, all is killed",
        "cpu-seconds" => "all together; then all is killed, at most 5 ms of each processor later",
        "cpus" => "processors, all together, in each tenth of a second; then all waits for the next",
        "processes" => "all together, threads among them; starting more fails",
        "seconds" => "all together, by the clock; then all is killed",
        "process-memory" => "address space of each process, whose calls for more fail",
        "process-cpu-seconds" => "of each process, which is ended by SIGXCPU",
        "open-files" => "of each process; opening more fails",
        _ => "of each file that is written; the program is ended by SIGXFSZ",
    }
}

/// The variables that the program has, of those the caller has.
fn environment(settings: &Settings, callers: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let environment = &settings.environment;
    let kept = |name: &OsStr| {
        name.to_str().is_some_and(|name| environment.keep.contains(name) && !environment.set.contains_key(name))
    };
    let mut all: Vec<_> = callers.filter(|(name, _)| kept(name)).collect();
    all.extend(environment.set.iter().map(|(name, value)| (name.into(), value.into())));
    if !all.iter().any(|(name, _)| name == "PATH") {
        all.push(("PATH".into(), PATH.into()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_limit_says_what_it_bounds() {
        let mut settings = Settings::default();
        assert_eq!(bounds(&settings), []);
        settings.limits.memory = Some(1 << 30);
        settings.limits.process_memory = Some(1024);
        settings.limits.seconds = Some(5);
        let told = bounds(&settings);
        let numbers: Vec<_> = told.iter().map(|bound| (bound.limit, bound.most)).collect();
        assert_eq!(numbers, [("memory", 1 << 30), ("seconds", 5), ("process-memory", 1024)]);
        assert!(told[1..].iter().all(|bound| bound.held.is_ok()), "{told:?}");
        // Whichever this machine has, it is said.
        let said = told[0].held.clone().map_or_else(|why| why, str::to_owned);
        assert!(said.contains("control group"), "{said}");
    }

    #[test]
    fn nothing_of_the_environment_is_handed_on_that_is_not_named() {
        let mut settings = Settings::default();
        settings.environment.keep = BTreeSet::from(["LANG".into(), "HOME".into()]);
        settings.environment.set.insert("HOME".into(), "/work".into());
        let callers =
            [("LANG", "C"), ("HOME", "/root"), ("SECRET", "x")].map(|(name, value)| (name.into(), value.into()));
        let expected =
            [("LANG", "C"), ("HOME", "/work"), ("PATH", PATH)].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(environment(&settings, callers.into_iter()), expected);
    }
}
