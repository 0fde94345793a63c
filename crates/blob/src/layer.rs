//! What every store needs around it, written once: a layer is a store that wraps a store.
//!
//! All layers have one shape. A layer says in [`Around::around`] what happens around any call ([`Call`] tells which);
//! [`Layered`] turns that into a whole store, appenders and their syncs included. So a layer is one function, and none
//! of them can forget a call.
//!
//! The order, from the caller to the back end, is fixed by [`standard`]:
//!
//! | layer | why it is there and not elsewhere |
//! |---|---|
//! | [`metrics`] | outermost: measures what callers wait for, retries and queueing included |
//! | [`retry`] | above the limit: a call that backs off holds no place that another could use |
//! | [`limit`] | above the time limit: waiting for a place does not count against the call |
//! | [`timeout`] | each try has its own time |
//! | [`fault`] | tests only; innermost, so that the other layers treat its faults as the back end's |
//!
//! [`cache`] is of another shape, since it answers calls itself, and goes outside of all of them.
//!
//! A call that fails on an appender finishes it for good, in whatever layer it failed.

pub mod cache;
pub mod fault;
mod layered;
pub mod limit;
pub mod metrics;
pub mod retry;
#[cfg(test)]
mod tests;
pub mod timeout;

pub use layered::Layered;

use crate::BlobStore;
use holdfast_base::{PackName, Result};
use std::sync::Arc;

/// What a call does; each is one method of [`BlobStore`] or [`crate::Appender`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`BlobStore::put`].
    Put,
    /// [`BlobStore::append`].
    Begin,
    /// [`crate::Appender::append`].
    Append,
    /// [`crate::Appender::sync`].
    Sync,
    /// [`BlobStore::read`].
    Read,
    /// [`BlobStore::len`].
    Len,
    /// [`BlobStore::delete`] and [`BlobStore::delete_many`].
    Delete,
    /// [`BlobStore::list`].
    List,
    /// [`BlobStore::room`].
    Room,
    /// [`BlobStore::sweep`].
    Sweep,
}

impl Operation {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Put,
        Self::Begin,
        Self::Append,
        Self::Sync,
        Self::Read,
        Self::Len,
        Self::Delete,
        Self::List,
        Self::Room,
        Self::Sweep,
    ];

    /// The name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Begin => "begin",
            Self::Append => "append",
            Self::Sync => "sync",
            Self::Read => "read",
            Self::Len => "len",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Room => "room",
            Self::Sweep => "sweep",
        }
    }

    /// Whether doing it twice is the same as doing it once. A put is not: its second try would find the first one's
    /// pack.
    pub const fn is_idempotent(self) -> bool {
        matches!(self, Self::Read | Self::Len | Self::Delete | Self::List | Self::Room | Self::Sweep)
    }
}

/// One call, as a layer sees it.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// What it does.
    pub operation: Operation,
    /// The pack it is about; none for a call that is about several, or the whole store.
    pub pack: Option<PackName>,
    /// Bytes of packs it moves in either direction.
    pub bytes: u64,
}

/// What a layer does around every call.
pub trait Around: Send + Sync + 'static {
    /// Makes the call by calling `work`; more than once only if the operation
    /// [is idempotent](Operation::is_idempotent).
    fn around<T, F>(&self, call: Call, work: impl FnMut() -> F + Send) -> impl Future<Output = Result<T>> + Send
    where
        T: Send,
        F: Future<Output = Result<T>> + Send;

    /// Sees the bytes of a read that succeeded.
    fn after_read(&self, _call: Call, _bytes: &mut [u8]) {}
}

/// What [`standard`] puts around a store.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// See [`retry`].
    pub retry: retry::Policy,
    /// See [`limit`].
    pub limit: limit::Concurrency,
    /// See [`timeout`].
    pub timeout: timeout::Times,
}

/// Puts the layers around a back end, in the order above. The metrics recorder must be installed before.
pub fn standard(back_end: Arc<dyn BlobStore>, options: Options) -> Arc<dyn BlobStore> {
    let kind = back_end.kind();
    let timed = Layered::new(back_end, timeout::Timeout::new(options.timeout));
    let limited = Layered::new(Arc::new(timed), limit::Limit::new(kind, options.limit));
    let retried = Layered::new(Arc::new(limited), retry::Retry::new(kind, options.retry));
    Arc::new(Layered::new(Arc::new(retried), metrics::Metrics::new(kind)))
}
