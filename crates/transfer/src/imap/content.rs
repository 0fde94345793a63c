//! An attachment's content.
//!
//! How large it is, a server tells only of what is written in the mail. So it is *measured* when somebody wants to know exactly: it is fetched as it is written and
//! decoded here. What is small is kept until it is read, so it is fetched once; what is larger is counted, and fetched again when it is read, since no memory
//! would hold it. Sizes that were measured are remembered for as long as the site lives.
//!
//! Servers with BINARY (RFC 3516) decode, and tell sizes of what is decoded. They are not asked: of a file of 3,145,805 bytes in a mail with three others, Dovecot 2.3.19
//! said 3,145,412, and what it said would have been all that arrived.

use super::Inner;
use super::answer::{Answer, Value};
use super::decode::{Decoder, Encoding};
use super::mail::PartAt;
use super::session::Session;
use super::wire::CHUNK;
use crate::site::Content;
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Content of up to so many bytes, as it is written, is kept when it is measured.
const SMALL: u64 = CHUNK;
/// Bytes of small content that are kept, of all attachments together: four times what lanes have under way.
const SMALL_BYTES_MAX: usize = 16 << 20;
/// Sizes that are remembered.
const SIZES_MAX: usize = 100_000;

/// What was measured.
#[derive(Default)]
pub(super) struct Measured(Mutex<Known>);

#[derive(Default)]
struct Known {
    sizes: HashMap<PartAt, u64>,
    small: HashMap<PartAt, Bytes>,
    /// Those that are kept, the oldest first.
    order: VecDeque<PartAt>,
    bytes: usize,
}

impl Measured {
    fn size(&self, at: &PartAt) -> Option<u64> {
        self.0.lock().sizes.get(at).copied()
    }

    fn remember(&self, at: &PartAt, size: u64) {
        let mut known = self.0.lock();
        if known.sizes.len() >= SIZES_MAX {
            known.sizes.clear();
        }
        known.sizes.insert(at.clone(), size);
    }

    fn small(&self, at: &PartAt) -> Option<Bytes> {
        self.0.lock().small.get(at).cloned()
    }

    fn keep(&self, at: &PartAt, content: Bytes) {
        let mut known = self.0.lock();
        known.bytes += content.len();
        if let Some(before) = known.small.insert(at.clone(), content) {
            known.bytes -= before.len();
        } else {
            known.order.push_back(at.clone());
        }
        while known.bytes > SMALL_BYTES_MAX {
            let Some(oldest) = known.order.pop_front() else { break };
            known.bytes -= known.small.remove(&oldest).map_or(0, |content| content.len());
        }
    }
}

impl Inner {
    /// How large an attachment is.
    pub(super) async fn measure(&self, at: &PartAt, written: u64, encoding: Encoding) -> Result<u64> {
        if let Some(size) = self.measured.size(at) {
            return Ok(size);
        }
        let mut lease = self.pool.lease(&at.mailbox).await?;
        let size = self.count(lease.session(), at, written, encoding).await;
        lease.done();
        let size = size?;
        self.measured.remember(at, size);
        Ok(size)
    }

    /// Fetches all of it and counts what it is when it is decoded.
    async fn count(&self, session: &mut Session, at: &PartAt, written: u64, encoding: Encoding) -> Result<u64> {
        let mut reading = Reading::new(encoding);
        let mut size = 0;
        while !reading.ended {
            reading.more(session, at).await?;
            size += reading.content.len() as u64;
            if reading.ended && size == reading.content.len() as u64 && written <= SMALL {
                self.measured.keep(at, std::mem::take(&mut reading.content).into());
            }
            reading.content.clear();
        }
        Ok(size)
    }

    /// Opens an attachment that has such a size.
    pub(super) async fn content(
        self: &Arc<Self>,
        at: PartAt,
        written: u64,
        encoding: Encoding,
        size: u64,
    ) -> Result<ImapContent> {
        if self.measure(&at, written, encoding).await? != size {
            return Err(Error::new(ErrorKind::PreconditionFailed, "it has another size than it had"));
        }
        let small = self.measured.small(&at);
        Ok(ImapContent { inner: Arc::clone(self), at, encoding, small, reading: tokio::sync::Mutex::default() })
    }
}

/// An attachment.
pub(super) struct ImapContent {
    inner: Arc<Inner>,
    at: PartAt,
    encoding: Encoding,
    small: Option<Bytes>,
    reading: tokio::sync::Mutex<Option<Reading>>,
}

/// Content that is being decoded.
struct Reading {
    decoder: Decoder,
    /// Bytes that were fetched, as they are written.
    fetched: u64,
    ended: bool,
    /// Where `content` begins.
    from: u64,
    /// What was decoded and not taken.
    content: Vec<u8>,
}

impl Reading {
    const fn new(encoding: Encoding) -> Self {
        Self { decoder: Decoder::new(encoding), fetched: 0, ended: false, from: 0, content: Vec::new() }
    }

    /// Fetches and decodes the next piece. A piece that is shorter than was asked for is the last one: what the server said of the size is not relied on.
    async fn more(&mut self, session: &mut Session, at: &PartAt) -> Result<()> {
        let piece = piece(session, at, ByteRange { start: self.fetched, end: self.fetched + CHUNK }).await?;
        self.fetched += piece.len() as u64;
        self.decoder.feed(&piece, &mut self.content);
        if (piece.len() as u64) < CHUNK {
            self.decoder.end(&mut self.content);
            self.ended = true;
        }
        Ok(())
    }

    /// Lets go of what is before a place.
    fn skip_to(&mut self, place: u64) {
        let before = usize::try_from(place - self.from).unwrap_or(usize::MAX).min(self.content.len());
        self.content.drain(..before);
        self.from += before as u64;
    }
}

impl ImapContent {
    /// Reads on, or from the start for a place that was passed: decoded content has no places to begin at.
    async fn decoded(&self, range: ByteRange, open: &mut Option<Reading>) -> Result<Bytes> {
        let mut reading =
            open.take().filter(|open| open.from <= range.start).unwrap_or_else(|| Reading::new(self.encoding));
        let mut lease = self.inner.pool.lease(&self.at.mailbox).await?;
        reading.skip_to(range.start);
        while reading.from + (reading.content.len() as u64) < range.end && !reading.ended {
            reading.more(lease.session(), &self.at).await?;
            reading.skip_to(range.start);
        }
        lease.done();
        let length = usize_of(range.len())?.min(reading.content.len());
        let bytes = Bytes::copy_from_slice(&reading.content[..length]);
        reading.skip_to(range.start + length as u64);
        *open = Some(reading);
        Ok(bytes)
    }
}

#[async_trait]
impl Content for ImapContent {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        if let Some(small) = &self.small {
            let (start, end) = (usize_of(range.start)?, usize_of(range.end)?);
            return Ok(small.slice(start.min(small.len())..end.min(small.len())));
        }
        let mut open = self.reading.lock().await;
        self.decoded(range, &mut open).await
    }

    fn grain(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    fn ahead(&self) -> usize {
        1
    }

    /// A message never changes; each read was of the one that was listed, or failed.
    async fn is_still(&self) -> Result<bool> {
        Ok(true)
    }
}

/// A range of a part, as it is written. It is shorter where the part ends.
async fn piece(session: &mut Session, at: &PartAt, range: ByteRange) -> Result<Bytes> {
    let asked = format!("BODY.PEEK[{}]<{}.{}>", at.number, range.start, range.len());
    match fetch(session, at, &asked, &format!("BODY[{}]", at.number)).await? {
        Fetched::Value(Value::Text(bytes)) if bytes.len() as u64 <= range.len() => Ok(bytes.into()),
        Fetched::Value(Value::Atom(word)) if word.len() as u64 <= range.len() => Ok(word.into_bytes().into()),
        // Dovecot says NIL of a message that others removed while its mailbox is open.
        Fetched::Gone | Fetched::Value(Value::Nil) => Err(vanished()),
        Fetched::Value(_) => {
            Err(Error::new(ErrorKind::Unsupported, "the server sends other parts of mails than it is asked for"))
        }
        Fetched::Refused => Err(Error::unavailable("the server did not send the content of a mail")),
    }
}

fn vanished() -> Error {
    Error::new(ErrorKind::PreconditionFailed, "the message is not there any more")
}

/// What became of a question about a message.
enum Fetched {
    Value(Value),
    Gone,
    /// The server said no, though the message may be there.
    Refused,
}

/// Asks for one thing of a message.
async fn fetch(session: &mut Session, at: &PartAt, asked: &str, named: &str) -> Result<Fetched> {
    session.be_in(&at.mailbox, at.validity, false).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => vanished(),
        _ => error,
    })?;
    let mut found = None;
    let told = session.run(format!("UID FETCH {} ({asked})", at.uid), |answer| {
        match answer {
            Answer::Fetch(_, items) if is_of(&items, at.uid) => {
                found = items
                    .into_iter()
                    .find(|(name, _)| name.starts_with(named))
                    .map(|(_, value)| value)
                    .or(found.take());
            }
            Answer::BadFetch(_, why) => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("the server sends what was not asked for: {why}"),
                ));
            }
            _ => {}
        }
        Ok(())
    });
    let told = told.await?;
    if let Some(value) = found {
        return Ok(Fetched::Value(value));
    }
    match told.done("reading a mail", ErrorKind::WrongKind) {
        Ok(_) => Ok(Fetched::Gone),
        Err(error) if error.kind() == ErrorKind::PreconditionFailed => Ok(Fetched::Gone),
        Err(error) if error.is_temporary() => Err(error),
        Err(error) => {
            tracing::debug!(%error, asked, "the server refused");
            Ok(Fetched::Refused)
        }
    }
}

fn is_of(items: &[(String, Value)], uid: u32) -> bool {
    items.iter().any(|(name, value)| name == "UID" && value.number() == Some(u64::from(uid)))
}

fn usize_of(length: u64) -> Result<usize> {
    usize::try_from(length).map_err(|_| Error::internal("a read is larger than memory"))
}
