//! The supervisor's side of a program that a broker holds.

use crate::audit::Log;
use crate::learn::Notes;
use crate::way::argued;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_broker::{Address, Broker, Counters, Options};
use holdfast_policy::{Judge, Network, Operation, Operations, Policy, Request, Verdict};
use rustix::net::AddressFamily;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What is watched of a program.
#[derive(Default)]
pub struct Watch {
    /// Where refusals are written.
    pub log: Option<Box<dyn Write + Send>>,
    /// Whether what is allowed is written as well.
    pub everything: bool,
    /// The number of refusals that ends it.
    pub kill_after: Option<u64>,
}

impl Watch {
    /// Whether anything is watched.
    pub fn is_on(&self) -> bool {
        self.log.is_some() || self.kill_after.is_some()
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Watch")
            .field("everything", &self.everything)
            .field("kill_after", &self.kill_after)
            .finish_non_exhaustive()
    }
}

/// A policy, and what programs have besides: devices they were given, and `/proc`, in which there is nothing but themselves. Only where no rule says otherwise.
pub(crate) struct Decider {
    policy: Arc<Policy>,
    /// A folder that is given as well, to be read and executed.
    code: Option<PathBuf>,
    /// Whether everything is to be asked, also what is never refused.
    everything: bool,
    /// Where what no rule speaks of is noted instead of refused.
    notes: Option<Arc<Notes>>,
}

impl Decider {
    pub(crate) fn new(policy: Arc<Policy>, everything: bool) -> Self {
        Self { policy, code: None, everything, notes: None }
    }

    pub(crate) fn learning(policy: Arc<Policy>, notes: Arc<Notes>) -> Self {
        Self { policy, code: None, everything: true, notes: Some(notes) }
    }

    pub(crate) fn with_code(self, code: Option<PathBuf>) -> Self {
        Self { code, ..self }
    }

    fn is_given(&self, request: &Request<'_>) -> bool {
        if self.code.as_ref().is_some_and(|code| request.path.starts_with(code)) {
            return Operations::READ_EXEC.has(request.operation);
        }
        let Ok(rest) = request.path.strip_prefix("/dev") else {
            return request.path.starts_with("/proc") && Operations::READ.has(request.operation);
        };
        let named = |device: &holdfast_policy::Device| rest.as_os_str() == device.name();
        // Its folder can be looked at, and is as empty as the policy made it.
        let is_folder = rest.as_os_str().is_empty() && Operations::LIST.has(request.operation);
        is_folder || (request.operation != Operation::Exec && self.policy.settings.devices.iter().any(named))
    }
}

impl Judge for Decider {
    fn judge(&self, request: &Request<'_>) -> Verdict {
        let verdict = self.policy.judge(request);
        if !verdict.allowed && verdict.rule.is_none() && self.is_given(request) {
            if let Some(notes) = &self.notes {
                notes.given(request.path);
            }
            return Verdict { allowed: true, ..verdict };
        }
        match &self.notes {
            // What a rule refuses stays refused.
            Some(notes) if !verdict.allowed && verdict.rule.is_none() => {
                Verdict { allowed: notes.note(request), ..verdict }
            }
            _ => verdict,
        }
    }

    fn decides(&self, operation: Operation) -> bool {
        self.everything || self.policy.decides(operation)
    }

    fn could_allow(&self, request: &Request<'_>) -> bool {
        self.judge(request).allowed || self.policy.could_allow(request)
    }

    fn of_each_call(&self, path: &Path) -> Vec<usize> {
        self.policy.of_each_call(path)
    }
}

/// The broker of a program, in a thread of its own.
#[derive(Debug)]
pub(crate) struct Brokered {
    broker: Arc<Broker>,
    log: Arc<Log>,
    code: Option<PathBuf>,
    serving: Mutex<Option<JoinHandle<()>>>,
}

impl Brokered {
    /// Begins to answer. `owned` says that the program has pipes for standard streams; else it has this process's. `end` is to kill the program.
    pub(crate) fn start(
        listener: OwnedFd,
        decider: Decider,
        watch: Watch,
        owned: bool,
        end: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self> {
        let policy = &decider.policy;
        let log = Arc::new(Log::new(watch.log, policy, "broker"));
        let telling = log.clone();
        let options = Options {
            // A pipe has no name, and is nobody's to ask about.
            inherited: if owned { Vec::new() } else { streams() },
            arguments: argued(policy),
            audit: Some(Box::new(move |record| telling.write(record))),
            audit_allowed: watch.everything,
            kill_after: watch.kill_after,
            on_kill: Box::new(end),
            address: addresses(&policy.settings.network, decider.notes.clone()),
            links: decider
                .notes
                .clone()
                .map(|notes| Box::new(move |link: &Path| notes.link(link)) as holdfast_broker::Links),
            paths: decider.notes.clone().map(|notes| Box::new(move || notes.unix_socket()) as Box<_>),
            // What a move gains is seen when it is used, and noted then.
            may_gain: decider.notes.is_some(),
            ..Options::default()
        };
        let code = decider.code.clone();
        let broker = Arc::new(Broker::new(listener, Arc::new(decider), options).map_err(failed)?);
        let serving = broker.clone();
        let serve = move || {
            if let Err(error) = serving.run() {
                // Calls that nobody answers fail.
                eprintln!("holdfast: {error}");
            }
        };
        let serving = std::thread::Builder::new().name("broker".into()).spawn(serve)?;
        Ok(Self { broker, log, code, serving: Mutex::new(Some(serving)) })
    }

    pub(crate) fn set(&self, policy: Arc<Policy>) -> Result<()> {
        if !argued(&policy).is_empty() {
            return Err(Error::new(ErrorKind::Unsupported, "a policy that names arguments takes a new start"));
        }
        let decider = Arc::new(Decider::new(policy, false).with_code(self.code.clone()));
        self.broker.replace_judge(decider.clone()).map_err(failed)?;
        self.log.follow(&decider.policy);
        Ok(())
    }

    /// Waits until all calls of a program that has ended are told of.
    pub(crate) fn finish(&self) {
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(serving) = serving {
            // It ends with the last process of the program.
            let _ = serving.join();
        }
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// What happened, once the program has ended.
    pub(crate) fn counters(&self) -> Counters {
        self.broker.counters()
    }
}

impl Drop for Brokered {
    fn drop(&mut self) {
        // Killed by then.
        self.finish();
    }
}

/// The program's standard streams, which are this process's.
fn streams() -> Vec<OwnedFd> {
    let (input, output, error) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let all = [input.as_fd(), output.as_fd(), error.as_fd()];
    // One that is closed is none.
    all.into_iter().filter_map(|one| one.try_clone_to_owned().ok()).collect()
}

/// Which addresses that are no paths the broker takes for the program.
fn addresses(network: &Network, notes: Option<Arc<Notes>>) -> holdfast_broker::Addresses {
    match (network, notes) {
        (Network::All, Some(notes)) => Box::new(move |address| {
            notes.address(address.family);
            true
        }),
        // Of a network of its own, or of the machine's: the sandbox has decided which there is.
        (Network::None | Network::All, _) => Box::new(|_| true),
        (Network::Ports { connect, bind }, _) => {
            let (connect, bind) = (connect.clone(), bind.clone());
            Box::new(move |address| is_listed(address, &connect, &bind))
        }
    }
}

/// Whether TCP may have an address, as Landlock says of the program's own calls, which this one is not. What other sockets there are has the filter decided: none but
/// local ones, whose abstract names are the machine's and nobody's.
fn is_listed(address: &Address<'_>, connect: &BTreeSet<u16>, bind: &BTreeSet<u16>) -> bool {
    let is = |family: AddressFamily| family.as_raw() == address.family;
    if is(AddressFamily::INET) || is(AddressFamily::INET6) {
        // Both have the port behind the family (`struct sockaddr_in`, `sockaddr_in6`).
        let port = address.bytes.get(2..4).map(|port| u16::from_be_bytes([port[0], port[1]]));
        return port.is_some_and(|port| if address.binds { bind.contains(&port) } else { connect.contains(&port) });
    }
    // A connection is given up by that (connect(2)). Bound, it would be an address of IPv4.
    is(AddressFamily::UNSPEC) && !address.binds
}

#[expect(clippy::needless_pass_by_value, reason = "it is for map_err")]
fn failed(error: holdfast_broker::Error) -> Error {
    let kind = match &error {
        holdfast_broker::Error::Scope(_) | holdfast_broker::Error::Arguments(_) => ErrorKind::Unsupported,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_addresses_only_listed_ports_of_tcp_are_taken() {
        let (connect, bind) = (BTreeSet::from([443]), BTreeSet::from([8080]));
        let listed = |binds, family: AddressFamily, rest: &[u8]| {
            let bytes = [&family.as_raw().to_ne_bytes()[..], rest].concat();
            is_listed(&Address { binds, family: family.as_raw(), bytes: &bytes }, &connect, &bind)
        };
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            assert!(listed(false, family, &[1, 0xbb, 0]) && listed(true, family, &[0x1f, 0x90]));
            assert!(!listed(true, family, &[1, 0xbb]) && !listed(false, family, &[0x1f, 0x90]));
            // Too short to have a port, or port 0, which is any.
            assert!(!listed(false, family, &[1]) && !listed(true, family, &[0, 0]));
        }
        // To give a connection up is no address.
        assert!(listed(false, AddressFamily::UNSPEC, &[]) && !listed(true, AddressFamily::UNSPEC, &[0x1f, 0x90]));
        assert!(!listed(false, AddressFamily::UNIX, b"\0name") && !listed(false, AddressFamily::NETLINK, &[1, 0xbb]));
    }
}
