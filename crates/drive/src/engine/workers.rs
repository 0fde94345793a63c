//! Threads for hashing, compressing and ciphering: one a core, so that the blocks of one upload are worked on side by side
//! while sockets and disk are served by others.
//!
//! Work on little (see [`INLINE_BYTES_MAX`]) is done where it is asked for: handing it to another thread would cost more.

use holdfast_base::{Error, Result};
use holdfast_seal::{Opener, Sealer};
use std::cell::RefCell;
use tokio::sync::oneshot;

/// Work on at most this many bytes is done on the caller's thread: at 1 to 5 GB/s that is 3 to 15 µs of work for sealing 16 KiB,
/// about what two thread switches cost.
pub(crate) const INLINE_BYTES_MAX: usize = 16 * 1_024;
/// Jobs that may wait a thread; uploads and downloads wait for their budgets before they get here.
const QUEUE_JOBS: usize = 64;

/// What a worker keeps between jobs.
#[derive(Default)]
pub(crate) struct Tools {
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
    /// The other buffer of sealing and opening.
    pub(crate) spare: Vec<u8>,
    /// For a copy of what is looked at.
    pub(crate) copy: Vec<u8>,
}

type Job = Box<dyn FnOnce(&mut Tools) + Send>;

thread_local! {
    static TOOLS: RefCell<Tools> = RefCell::default();
}

/// Does a little work right here, with this thread's tools.
pub(crate) fn with_tools<T>(work: impl FnOnce(&mut Tools) -> T) -> T {
    TOOLS.with_borrow_mut(work)
}

/// The threads. They end when this is dropped and the queue is empty.
pub(crate) struct Workers {
    queue: crossbeam_channel::Sender<Job>,
}

impl Workers {
    /// Starts `threads` threads.
    pub(crate) fn start(threads: usize) -> Result<Self> {
        let (queue, jobs) = crossbeam_channel::bounded::<Job>(QUEUE_JOBS * threads.max(1));
        for number in 0..threads.max(1) {
            let jobs = jobs.clone();
            std::thread::Builder::new()
                .name(format!("seal-{number}"))
                .spawn(move || jobs.iter().for_each(|job| TOOLS.with_borrow_mut(job)))
                .map_err(Error::from)?;
        }
        Ok(Self { queue })
    }

    /// Runs `work`, which handles `bytes` bytes, on a worker or right here.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut Tools) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if bytes <= INLINE_BYTES_MAX {
            return with_tools(work);
        }
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |tools| {
            // Whoever asked may be gone (a client that vanished); then nobody wants the answer.
            let _ = answer.send(work(tools));
        });
        if let Err(full) = self.queue.try_send(job) {
            let queue = self.queue.clone();
            tokio::task::spawn_blocking(move || queue.send(full.into_inner()))
                .await
                .map_err(|error| Error::internal("a task was lost").with_source(error))?
                .map_err(|_| Error::unavailable("the drive is stopping"))?;
        }
        metrics::gauge!("holdfast_queue_depth", "queue" => "seal").set(self.queue.len() as f64);
        answered.await.map_err(|_| Error::internal("a worker ended before its work"))?
    }
}
