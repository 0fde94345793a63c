//! Requests to servers of objects and files over HTTP: how many at once, and signs of life while bytes move.

use crate::signs::{self, Signs};
use bytes::{Bytes, BytesMut};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_blob::http::{Answer, check_scheme};
use http::Uri;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests at once, if nothing else is asked for.
const CONNECTIONS: usize = 64;

/// Places for requests.
#[derive(Debug)]
pub(crate) struct Places(Arc<Semaphore>);

impl Places {
    /// So many.
    pub(crate) fn new(connections: Option<usize>) -> Self {
        Self(Arc::new(Semaphore::new(connections.unwrap_or(CONNECTIONS).max(1))))
    }

    /// A place, as soon as there is one. Waiting for others is no silence.
    pub(crate) async fn take(&self) -> Result<OwnedSemaphorePermit> {
        let place = signs::waiting(Arc::clone(&self.0).acquire_owned()).await;
        place.map_err(|_| Error::internal("the places for requests were closed"))
    }
}

/// An answer whose connection counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Its head, and its body as it comes.
    pub(crate) answer: Answer,
    /// The place it takes.
    pub(crate) _place: OwnedSemaphorePermit,
}

impl Reply {
    /// The body, which must have so many bytes.
    pub(crate) async fn exactly(mut self, length: u64) -> Result<Bytes> {
        let length = usize::try_from(length).map_err(|_| Error::internal("a read is larger than memory"))?;
        let (signs, mut taken) = (signs::current(), BytesMut::with_capacity(length.min(4 * BLOCK_BYTES)));
        while let Some(bytes) = self.answer.next().await? {
            signs.alive();
            if bytes.len() > length - taken.len() {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!("the server sent more than the {length} bytes asked for"),
                ));
            }
            taken.extend_from_slice(&bytes);
        }
        if taken.len() < length {
            return Err(Error::unavailable(format!("the answer broke off after {} of {length} bytes", taken.len())));
        }
        Ok(taken.freeze())
    }

    /// A body of at most so many bytes.
    pub(crate) async fn text(mut self, most: usize) -> Result<Vec<u8>> {
        let (signs, mut text) = (signs::current(), Vec::new());
        while let Some(bytes) = self.answer.next().await? {
            signs.alive();
            if text.len() + bytes.len() > most {
                return Err(Error::new(
                    ErrorKind::TooLarge,
                    format!("the server sent an answer of more than {most} bytes"),
                ));
            }
            text.extend_from_slice(&bytes);
        }
        Ok(text)
    }
}

/// What moved of a body, and whose sign of life that is: the call that is under way now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moving {
    bytes: Arc<AtomicU64>,
    signs: Arc<Mutex<Signs>>,
}

impl Moving {
    /// So many bytes are there already.
    pub(crate) fn from(bytes: u64) -> Self {
        Self { bytes: Arc::new(AtomicU64::new(bytes)), signs: Arc::default() }
    }

    /// From now on, signs of life are of the call that says this.
    pub(crate) fn here(&self) {
        *self.signs.lock() = signs::current();
    }

    /// Bytes that moved.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// So many bytes moved, or turned out to be there.
    pub(crate) fn moved(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.signs.lock().alive();
    }

    /// What a body tells when some of it moves.
    pub(crate) fn watch(&self) -> Arc<dyn Fn(u64) + Send + Sync> {
        let moving = self.clone();
        Arc::new(move |bytes| moving.moved(bytes))
    }
}

/// Refuses plain http to other machines: it shows what opens the site to the network.
pub(crate) fn must_be_private(url: &Uri) -> Result<()> {
    check_scheme(url, false).map_err(|_| {
        let host = url.host().unwrap_or_default();
        Error::invalid(format!(
            "{host} is to be spoken to by https: plain http shows its content and your credentials to the network"
        ))
    })
}
