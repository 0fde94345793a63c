//! Content of a file of a web server: by parts side by side, or in one answer from its start.

use super::answer::Told;
use super::file::File;
use crate::signs;
use crate::site::Content;
use crate::sum::Sum;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::Mutex;

const GRAIN: u64 = BLOCK_BYTES as u64;
/// Parts that are asked for side by side, each on a connection of its own: a far server that keeps each slow is still fast, and no server minds.
const AHEAD: usize = 8;

/// A file whose server gives parts.
pub(super) struct Ranges {
    pub(super) file: File,
    pub(super) told: Told,
}

#[async_trait]
impl Content for Ranges {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let answer = self.file.client.get(&self.file.url, Some(range), self.told.condition()).await?;
        self.told.check_part(range, answer.status(), answer.headers())?;
        let mut answer = Answer { body: answer.into_body(), rest: Bytes::new() };
        answer.take(range.len()).await
    }

    fn grain(&self) -> u64 {
        GRAIN
    }

    fn ahead(&self) -> usize {
        AHEAD
    }

    async fn is_still(&self) -> Result<bool> {
        Ok(self.file.ask().await?.is_some_and(|now| now.is_same(&self.told)))
    }

    fn sum(&self) -> Option<Sum> {
        self.told.sum.clone()
    }
}

/// A file that is read in one answer from its start: a small one, or one whose server gives only all of it.
pub(super) struct Whole {
    file: File,
    told: Told,
    /// An answer, and how far it was read.
    answer: Mutex<Option<(Answer, u64)>>,
}

impl Whole {
    pub(super) fn new(file: File, told: Told) -> Self {
        Self { file, told, answer: Mutex::default() }
    }

    /// A file that is being answered already.
    pub(super) fn begun(file: File, told: Told, body: Incoming) -> Self {
        let answer = Answer { body, rest: Bytes::new() };
        Self { file, told, answer: Mutex::new(Some((answer, 0))) }
    }

    /// An answer that has been read up to `start`.
    async fn at(&self, start: u64, open: Option<(Answer, u64)>) -> Result<Answer> {
        let (mut answer, mut at) = match open {
            Some((answer, at)) if at <= start => (answer, at),
            _ => {
                let answer = self.file.client.get(&self.file.url, None, None).await?;
                if !self.told.is_same(&Told::of(answer.status(), answer.headers())?) {
                    return Err(Error::new(ErrorKind::PreconditionFailed, "the file changed while it was read"));
                }
                (Answer { body: answer.into_body(), rest: Bytes::new() }, 0)
            }
        };
        while at < start {
            let step = (start - at).min(GRAIN);
            answer.take(step).await?;
            at += step;
        }
        Ok(answer)
    }
}

#[async_trait]
impl Content for Whole {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        let mut open = self.answer.lock().await;
        let mut answer = self.at(range.start, open.take()).await?;
        let bytes = answer.take(range.len()).await?;
        *open = Some((answer, range.end));
        Ok(bytes)
    }

    fn grain(&self) -> u64 {
        GRAIN
    }

    fn ahead(&self) -> usize {
        1
    }

    async fn is_still(&self) -> Result<bool> {
        Ok(self.file.ask().await?.is_some_and(|now| now.is_same(&self.told)))
    }

    fn sum(&self) -> Option<Sum> {
        self.told.sum.clone()
    }
}

/// The body of an answer.
struct Answer {
    body: Incoming,
    /// What came and was not taken.
    rest: Bytes,
}

impl Answer {
    /// The next bytes. What comes is a sign of life, however little it is.
    async fn take(&mut self, length: u64) -> Result<Bytes> {
        let length = usize::try_from(length).map_err(|_| Error::internal("a read is larger than memory"))?;
        let (signs, mut taken) = (signs::current(), BytesMut::with_capacity(length.min(2 * BLOCK_BYTES)));
        loop {
            let part = self.rest.split_to(self.rest.len().min(length - taken.len()));
            taken.extend_from_slice(&part);
            if taken.len() == length {
                return Ok(taken.freeze());
            }
            let broke = |taken| Error::unavailable(format!("the answer broke off after {taken} of {length} bytes"));
            match self.body.frame().await {
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Err(broke(taken.len()).with_source(error)),
                None => return Err(broke(taken.len())),
            }
            signs.alive();
        }
    }
}
