//! Who gets a worker, who waits, and who is told to come back.
//!
//! | metric | |
//! |---|---|
//! | `holdfast_thumbnails_total{outcome}` | `kept` (out of memory), `drawn`, `none`, `broke`, `busy`, `failed` |
//! | `holdfast_thumbnail_seconds` | from a worker's turn to its answer |
//! | `holdfast_thumbnail_waiting` | requests that wait or are worked on |
//! | `holdfast_thumbnail_cache_bytes` | pictures in memory |
//! | `holdfast_thumbnail_workers_started_total` | workers |

use crate::cache::Cache;
use crate::process::{Outcome, Worker};
use crate::turns::{Asker, Turns};
use crate::wire::Head;
use crate::{IDLE_TIME_MAX, WAIT_TIME_MAX};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use holdfast_base::{Error, Result, Uid};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout;

/// How often a picture is tried whose worker somebody ended.
const TRIES: u32 = 3;

/// How thumbnails are made.
#[derive(Debug, Clone)]
pub struct ThumbnailOptions {
    /// The program to start as a worker.
    pub program: PathBuf,
    /// Workers at a time; none makes no thumbnails.
    pub workers: usize,
    /// Memory for pictures that were made.
    pub cache_bytes: usize,
}

/// Names a picture: equal keys are equal pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The space.
    pub space: Uid,
    /// The random name of the content in it.
    pub content: [u8; 16],
    /// Longest edge, one of [`crate::EDGES`].
    pub edge: u32,
}

/// What a request for a picture comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A JPEG.
    Picture(Bytes),
    /// The file is no picture that can be drawn.
    None,
    /// Too many ask; try again in a moment.
    Busy,
}

/// Makes thumbnails. Clones share everything.
#[derive(Clone)]
pub struct Thumbnails(Arc<Inner>);

struct Inner {
    options: ThumbnailOptions,
    cache: Mutex<Cache>,
    idle: Mutex<Vec<Worker>>,
    /// One for each worker.
    turns: Turns,
}

impl Thumbnails {
    /// With no worker yet: they begin when there is work.
    pub fn new(options: ThumbnailOptions) -> Self {
        Self(Arc::new(Inner {
            cache: Mutex::new(Cache::new(options.cache_bytes)),
            idle: Mutex::default(),
            turns: Turns::new(options.workers),
            options,
        }))
    }

    /// Whether there are any.
    pub fn are_made(&self) -> bool {
        self.0.options.workers > 0
    }

    /// A picture for `asker` of a file of `length` bytes; `open` reads it, once more if its worker was ended from outside.
    pub async fn get<S>(
        &self,
        asker: Asker,
        key: Key,
        length: u64,
        open: impl Fn() -> BoxFuture<'static, Result<S>> + Sync,
    ) -> Result<Answer>
    where
        S: Stream<Item = Result<Bytes>> + Unpin + Send,
    {
        let answered = self.answer(asker, key, length, open).await;
        let outcome = match &answered {
            Ok((_, outcome)) => outcome,
            Err(_) => "failed",
        };
        metrics::counter!("holdfast_thumbnails_total", "outcome" => outcome).increment(1);
        answered.map(|(answer, _)| answer)
    }

    async fn answer<S>(
        &self,
        asker: Asker,
        key: Key,
        length: u64,
        open: impl Fn() -> BoxFuture<'static, Result<S>> + Sync,
    ) -> Result<(Answer, &'static str)>
    where
        S: Stream<Item = Result<Bytes>> + Unpin + Send,
    {
        let inner = &*self.0;
        if let Some(known) = inner.known(&key) {
            return Ok((known, "kept"));
        }
        let busy = Ok((Answer::Busy, "busy"));
        let _counted = Waiting::count();
        let Ok(Some(_turn)) = timeout(WAIT_TIME_MAX, inner.turns.take(asker)).await else { return busy };
        // Somebody before us in the queue may have wanted the same.
        if let Some(known) = inner.known(&key) {
            return Ok((known, "kept"));
        }
        let begun = Instant::now();
        let outcome = inner.draw(key, length, open).await?;
        metrics::histogram!("holdfast_thumbnail_seconds").record(begun.elapsed().as_secs_f64());
        let (picture, outcome) = match outcome {
            Outcome::Answered(Some(picture)) => (Some(picture), "drawn"),
            Outcome::Answered(None) => (None, "none"),
            Outcome::Broke => (None, "broke"),
            Outcome::Ended => return Err(Error::unavailable("the thumbnail's worker was ended again and again")),
        };
        inner.keep(key, picture.clone());
        Ok((picture.map_or(Answer::None, Answer::Picture), outcome))
    }

    /// Forgets pictures and ends workers that nobody needed for a while; the server calls this every minute or so.
    pub fn sweep(&self) {
        let now = Instant::now();
        self.0.idle.lock().retain(|worker| now.duration_since(worker.idle_since) < IDLE_TIME_MAX);
        let mut cache = self.0.cache.lock();
        cache.sweep(IDLE_TIME_MAX, now);
        metrics::gauge!("holdfast_thumbnail_cache_bytes").set(cache.bytes() as f64);
    }
}

impl std::fmt::Debug for Thumbnails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Thumbnails").field(&self.0.options).finish()
    }
}

impl Inner {
    fn known(&self, key: &Key) -> Option<Answer> {
        let known = self.cache.lock().get(key, Instant::now())?;
        Some(known.map_or(Answer::None, Answer::Picture))
    }

    fn keep(&self, key: Key, picture: Option<Bytes>) {
        let mut cache = self.cache.lock();
        cache.put(key, picture, Instant::now());
        metrics::gauge!("holdfast_thumbnail_cache_bytes").set(cache.bytes() as f64);
    }

    async fn draw<S>(
        &self,
        key: Key,
        length: u64,
        open: impl Fn() -> BoxFuture<'static, Result<S>> + Sync,
    ) -> Result<Outcome>
    where
        S: Stream<Item = Result<Bytes>> + Unpin + Send,
    {
        for _ in 0..TRIES {
            // Owned here: whoever goes away in the middle takes the worker down, and the next one finds none that is half through.
            let worker = match self.free(key.space) {
                Some(worker) => Some(worker),
                None => Worker::start(&self.options.program, key.space).await?,
            };
            let Some(mut worker) = worker else { continue };
            match worker.draw(Head { edge: key.edge, length }, open().await?).await? {
                Outcome::Ended => {}
                outcome => {
                    if matches!(outcome, Outcome::Answered(_)) && worker.may_go_on() {
                        worker.idle_since = Instant::now();
                        self.idle.lock().push(worker);
                    }
                    return Ok(outcome);
                }
            }
        }
        Ok(Outcome::Ended)
    }

    /// A worker of that space. One of another is ended if there are as many as there may be.
    fn free(&self, space: Uid) -> Option<Worker> {
        let mut idle = self.idle.lock();
        if let Some(at) = idle.iter().position(|worker| worker.space == space) {
            return Some(idle.swap_remove(at));
        }
        // Those at work have turns, and so do we.
        let at_work = self.turns.taken();
        if idle.len() + at_work > self.options.workers {
            drop(idle.remove(0));
        }
        None
    }
}

/// One more that waits.
struct Waiting;

impl Waiting {
    fn count() -> Self {
        metrics::gauge!("holdfast_thumbnail_waiting").increment(1.0);
        Self
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        metrics::gauge!("holdfast_thumbnail_waiting").decrement(1.0);
    }
}
