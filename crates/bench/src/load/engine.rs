//! One run: the threads of the load generator begin together and their counts are added up.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::request::Ready;
use super::tally::Tally;
use super::worker::{Run, Worker};

/// From the making of the threads to the first request, so that none begins late.
const LEAD: Duration = Duration::from_millis(10);
/// Descriptors for everything that is no connection.
const OTHER_DESCRIPTORS: u64 = 64;

/// How long a run lasts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extent {
    /// As the plan says.
    Plan,
    /// The plan's load for so long, whatever its loops.
    For(Duration),
}

/// Makes the load of a plan; ends early when `stop` is raised.
pub(super) fn fire(
    ready: &Ready<'_>,
    extent: Extent,
    (threads, seed): (u32, u64),
    stop: &AtomicBool,
) -> anyhow::Result<Tally> {
    let plan = ready.plan;
    let begun = Instant::now() + LEAD;
    let (loops, duration) = match extent {
        Extent::Plan => (plan.loops, plan.duration),
        Extent::For(duration) => (None, Some(duration)),
    };
    let until = duration.map(|duration| begun + duration);
    let run = Run { ready, seed, threads: threads.min(plan.users), begun, loops, until, stop };
    let workers = (0..run.threads).map(|index| Worker::new(&run, index));
    let workers = workers.collect::<std::io::Result<Vec<_>>>().context("cannot make the load generator")?;
    let mut tally = Tally::new(plan, begun);
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers.into_iter().map(|worker| scope.spawn(|| worker.work())).collect();
        for thread in threads {
            let result = thread.join().map_err(|_| anyhow::anyhow!("a thread of the load generator panicked"))?;
            tally.add(&result.context("waiting for sockets failed")?);
        }
        Ok(tally)
    })
}

/// Makes sure that every user can have its connections.
pub(super) fn allow_descriptors(connections: u64) -> anyhow::Result<()> {
    let needed = connections + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    ensure!(
        limit.maximum.is_none_or(|maximum| maximum >= needed),
        "{connections} connections need {needed} descriptors, and this process may have {}; raise the limit (ulimit -Hn)",
        limit.maximum.unwrap_or(0)
    );
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .context("cannot raise the limit of descriptors")
}
