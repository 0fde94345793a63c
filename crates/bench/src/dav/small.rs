//! Many small files over several kept-alive connections: PUT, GET, DELETE.
//!
//! All runs of PUT come first, then all of GET, then all of DELETE, so that no creation follows a deletion. Run i has
//! a folder of its own with files of its own. Connections are open before the clock starts and the threads leave a
//! barrier together; the time ends with the last answer. Every 16th GET is compared with what was sent.

use std::sync::Barrier;
use std::time::Instant;

use super::Workload;
use super::bay::Bay;
use super::lab::{Lab, Outcome};
use super::session::{Failure, Session};
use crate::data::small_content;
use crate::http::{Answer, HttpError};
use crate::report::{Better, SeriesInfo};
use crate::stats::Latencies;

/// One GET in so many is compared: often enough to find a mixture, seldom enough to cost the client nothing.
const COMPARE_EVERY: u64 = 16;
/// A connection gives up after so many failures: a server that refuses everything need not be asked 5,000 times.
const MAX_FAILURES_PER_CONNECTION: u64 = 10;

/// What is done to each file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Put,
    Get,
    Delete,
}

pub(super) fn run(lab: &mut Lab<'_>) {
    if !lab.options.wants(Workload::Small) {
        return;
    }
    let runs = lab.options.runs;
    // Which folders are complete: only these are read and deleted.
    let mut full = vec![vec![false; runs as usize]; lab.bays.len()];
    for (action, name, verb) in
        [(Action::Put, "put", "PUT"), (Action::Get, "get", "GET"), (Action::Delete, "delete", "DELETE")]
    {
        let info = series(lab, name, verb);
        for run in 0..runs {
            for target in lab.order(run) {
                let load = Load { action, ..Load::new(lab, u64::from(run)) };
                let complete = &mut full[target][run as usize];
                if action == Action::Put {
                    let made = lab.untimed("make a folder", target, |bay| make_folder(bay, &load.folder));
                    *complete = made && lab.measure(&info, target, load.bytes(), |bay| load.run(bay));
                } else if *complete {
                    lab.measure(&info, target, load.bytes(), |bay| load.run(bay));
                }
            }
        }
    }
}

pub(super) fn make_folder(bay: &Bay, name: &str) -> Result<(), Failure> {
    bay.session()?.make_folder(name).map(|_| ())
}

/// Fills a folder with `entries` files of `file_bytes` bytes, untimed; used by workloads that list or read.
pub(super) fn fill(lab: &mut Lab<'_>, target: usize, folder: &str, entries: u64, file_bytes: usize) -> bool {
    let load = Load { files: entries, file_bytes, folder: folder.to_owned(), action: Action::Put, ..Load::new(lab, 0) };
    lab.untimed("fill a folder", target, |bay| {
        make_folder(bay, folder)?;
        load.run(bay).map(|_| ())
    })
}

pub(super) fn file_name(folder: &str, index: u64) -> String {
    format!("{folder}file-{index:06}.bin")
}

fn series(lab: &Lab<'_>, name: &str, verb: &str) -> SeriesInfo {
    let options = lab.options;
    let (files, bytes, connections) = (options.files, options.file_bytes, options.connections);
    SeriesInfo {
        id: format!("small.{name}"),
        title: format!("{verb} {files} files of {bytes} bytes, {connections} connections"),
        unit: "files/s".to_owned(),
        better: Better::Higher,
        bytes: None,
    }
}

/// One action on all files of a folder.
struct Load {
    action: Action,
    folder: String,
    files: u64,
    file_bytes: usize,
    connections: usize,
    seed: u64,
    run: u64,
}

/// What one connection saw.
struct Share {
    latencies: Latencies,
    begun: Instant,
    ended: Instant,
    failed: u64,
    first_failure: Option<Failure>,
    reopened: u64,
}

impl Load {
    fn new(lab: &Lab<'_>, run: u64) -> Self {
        let options = lab.options;
        Self {
            action: Action::Put,
            folder: format!("small-{run}/"),
            files: options.files,
            file_bytes: options.file_bytes,
            connections: options.connections,
            seed: options.seed,
            run,
        }
    }

    fn bytes(&self) -> u64 {
        self.files * self.file_bytes as u64
    }

    fn run(&self, bay: &Bay) -> Result<Outcome, Failure> {
        let mut sessions = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            sessions.push(bay.session()?);
        }
        let barrier = Barrier::new(sessions.len());
        let shares: Vec<Share> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0_u64..)
                .zip(sessions)
                .map(|(number, session)| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        self.run_connection(session, number)
                    })
                })
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        self.sum_up(shares)
    }

    /// The time counted is that from the first connection's begin to the last one's end, by their own clocks: on a
    /// busy machine a thread that only watches may wake when all of them are through.
    fn sum_up(&self, shares: Vec<Share>) -> Result<Outcome, Failure> {
        let mut latencies = Latencies::new();
        let (mut reopened, mut failed, mut first) = (0, 0, None);
        let begun = shares.iter().map(|share| share.begun).min();
        let ended = shares.iter().map(|share| share.ended).max();
        for share in shares {
            latencies.add(&share.latencies);
            reopened += share.reopened;
            failed += share.failed;
            first = first.or(share.first_failure);
        }
        match first {
            Some(failure) if failure.is_interrupt() => Err(failure),
            Some(failure) => Err(Failure::Some { failed, of: self.files, first: failure.to_string() }),
            None => {
                let took = ended.zip(begun).map(|(ended, begun)| ended - begun).unwrap_or_default();
                let value = self.files as f64 / took.as_secs_f64();
                Ok(Outcome { value, latencies: Some(latencies), reopened })
            }
        }
    }

    /// The share of connection `number`: every file whose index leaves that remainder.
    fn run_connection(&self, mut session: Session<'_>, number: u64) -> Share {
        let mut content = vec![0; self.file_bytes];
        let mut got = Vec::with_capacity(self.file_bytes);
        let begun = Instant::now();
        let mut share =
            Share { latencies: Latencies::new(), begun, ended: begun, failed: 0, first_failure: None, reopened: 0 };
        let stride = self.connections;
        for index in (number..self.files).step_by(stride) {
            match self.act(&mut session, index, &mut content, &mut got) {
                Ok(answer) => share.latencies.record(answer.total),
                Err(failure) => {
                    share.failed += 1;
                    let stop = failure.is_interrupt() || share.failed >= MAX_FAILURES_PER_CONNECTION;
                    share.first_failure.get_or_insert(failure);
                    if stop {
                        break;
                    }
                }
            }
        }
        share.ended = Instant::now();
        share.reopened = session.reopened();
        share
    }

    fn act(
        &self,
        session: &mut Session<'_>,
        index: u64,
        content: &mut [u8],
        got: &mut Vec<u8>,
    ) -> Result<Answer, Failure> {
        let name = file_name(&self.folder, index);
        match self.action {
            Action::Put => {
                small_content(self.seed, self.run, index, content);
                session.put(&name, content)
            }
            Action::Delete => session.delete(&name),
            Action::Get => {
                got.clear();
                let mut keep = |bytes: &[u8]| {
                    if got.len() + bytes.len() > content.len() {
                        return Err(HttpError::Content(format!("more than {} bytes", content.len())));
                    }
                    got.extend_from_slice(bytes);
                    Ok(())
                };
                let answer = session.get(&name, self.file_bytes as u64, &mut keep)?;
                // By connection too, or a remainder class that is never looked at would exist.
                if (index / self.connections as u64).is_multiple_of(COMPARE_EVERY) {
                    small_content(self.seed, self.run, index, content);
                    if got.as_slice() != &*content {
                        return Err(Failure::Wrong {
                            what: name,
                            why: "content differs from what was sent".to_owned(),
                        });
                    }
                }
                Ok(answer)
            }
        }
    }
}
