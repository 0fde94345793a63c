//! A connection for content or a listing, which lasts for one of them.

use super::reply::{self, broke};
use super::session::Pipe;
use crate::signs::{self, Signs};
use bytes::{Bytes, BytesMut};
use holdfast_base::Result;
use std::io::ErrorKind::UnexpectedEof;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

/// Bytes that are read or written at once: each is a sign of life.
const STEP: usize = 128 << 10;
/// How long a server may take to close a connection on which all was sent: what it says there is tickets of TLS, which the next one needs.
const CLOSE_TIME: Duration = Duration::from_secs(5);

pub(super) struct Data {
    stream: BufReader<Box<dyn Pipe>>,
    signs: Signs,
}

impl Data {
    pub(super) fn new(stream: Box<dyn Pipe>) -> Self {
        Self { stream: BufReader::with_capacity(STEP, stream), signs: signs::current() }
    }

    /// The next bytes; fewer only if there are no more.
    pub(super) async fn take(&mut self, length: usize) -> Result<Bytes> {
        self.signs = signs::current();
        let mut taken = BytesMut::with_capacity(length);
        while taken.len() < length {
            let mut rest = (&mut self.stream).take((length - taken.len()).min(STEP) as u64);
            match rest.read_buf(&mut taken).await {
                Ok(0) => break,
                Ok(_) => self.signs.alive(),
                // The reply that follows says whether this is the end.
                Err(error) if error.kind() == UnexpectedEof => break,
                Err(error) => return Err(broke(error)),
            }
        }
        Ok(taken.freeze())
    }

    /// Reads and throws away.
    pub(super) async fn skip(&mut self, mut length: u64) -> Result<()> {
        while length > 0 {
            let step = usize::try_from(length).unwrap_or(STEP).min(STEP);
            if self.take(step).await?.len() < step {
                return Ok(());
            }
            length -= step as u64;
        }
        Ok(())
    }

    /// The next line of a listing; none at its end.
    pub(super) async fn line(&mut self) -> Result<Option<Vec<u8>>> {
        reply::line(&mut self.stream).await
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.signs = signs::current();
        for step in bytes.chunks(STEP) {
            self.stream.write_all(step).await.map_err(broke)?;
            self.signs.alive();
        }
        Ok(())
    }

    /// Says that this was all, and waits until the other end has closed as well.
    pub(super) async fn close(mut self) -> Result<()> {
        self.stream.flush().await.map_err(broke)?;
        self.stream.shutdown().await.map_err(broke)?;
        let mut rest = [0; 256];
        while let Ok(Ok(1..)) = timeout(CLOSE_TIME, self.stream.read(&mut rest)).await {}
        Ok(())
    }
}
