//! Listening to the stream of changes.
//!
//! A stream ends after a while, in good order. The next one is asked for before that, and for a moment there are both: the count of changes that the
//! next one begins with was told by the one before, too, or something was missed. So what is known outlives a stream.

use super::Shared;
use crate::wire::{self, ANSWER_BYTES_MAX, EVENTS_LAST, Event};
use bytes::BytesMut;
use futures_util::StreamExt;
use holdfast_base::{Error, NodeId, Result};
use holdfast_drive::Change;
use http_body_util::BodyStream;
use hyper::body::Incoming;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// Longest silence after which names and attributes are still believed: three signs of life may be late.
const SILENCE: Duration = Duration::from_secs(3);
/// Pause before the next try after the stream could not be had.
const PAUSE: Duration = Duration::from_millis(250);
/// When the next stream is asked for: so long before this one ends.
const OVERLAP: Duration = Duration::from_secs(2);

/// A stream of changes.
struct Stream {
    frames: BodyStream<Incoming>,
    buffer: BytesMut,
    /// By which number this mount named itself for it.
    voice: u64,
    began: Instant,
    heard: Instant,
    /// The count that it began with; none if it did not say.
    begun: Option<i64>,
    /// The count of the last change that it told of, or began with; none if it missed some.
    told: Option<i64>,
}

impl Stream {
    /// Asks for one, and waits for its first event.
    async fn open(shared: &Shared) -> Result<Self> {
        let (body, voice) = shared.link.listen().await?;
        let (frames, buffer, began) = (BodyStream::new(body), BytesMut::new(), Instant::now());
        let mut stream = Self { frames, buffer, voice, began, heard: began, begun: None, told: None };
        match stream.next(shared).await? {
            Some(Event::Own(seq)) => (stream.begun, stream.told) = (Some(seq), Some(seq)),
            // One of a server that does not say it. What is known is forgotten when this takes another's place.
            Some(_) => {}
            None => return Err(Error::unavailable("the stream of changes ended as it began")),
        }
        Ok(stream)
    }

    /// Its next event; none at its end, which comes in good order. Whoever gives up waiting may wait again.
    async fn next(&mut self, shared: &Shared) -> Result<Option<Event>> {
        loop {
            if let Some(found) = wire::split(&mut self.buffer, ANSWER_BYTES_MAX)? {
                return wire::message(&found).map(Some);
            }
            let frame = timeout_at(self.heard + SILENCE, self.frames.next()).await;
            let frame = frame.map_err(|_| Error::unavailable("the server is silent"))?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| Error::unavailable("the connection ended").with_source(error))?;
            self.heard = Instant::now();
            shared.link.hear();
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    /// Whether whoever listened to this and then to `next` missed no change.
    fn reaches(&self, next: &Self) -> bool {
        self.told.zip(next.begun).is_some_and(|(told, begun)| told >= begun)
    }

    fn take(&mut self, shared: &Shared, event: Event) {
        match event {
            Event::Beat => {}
            // What came of it is known by its answer.
            Event::Own(seq) if self.voice == shared.voice.now() => self.told = self.told.max(Some(seq)),
            // Nothing of what is known.
            Event::Past(seq) => self.told = self.told.max(Some(seq)),
            Event::Asked(ask, seq, folders) => {
                self.told = self.told.max(Some(seq));
                shared.forget(folders.as_deref(), Some(seq));
                shared.word.hears(ask);
                shared.word.is_due();
            }
            Event::Changed(seq) | Event::Own(seq) => {
                self.told = self.told.max(Some(seq));
                shared.forget(None, Some(seq));
            }
            Event::Gap => {
                self.told = None;
                shared.forget(None, None);
            }
        }
    }
}

/// Listens for ever.
pub(super) async fn listen(shared: Arc<Shared>) {
    loop {
        let heard = match Stream::open(&shared).await {
            Ok(stream) => follow(&shared, stream).await,
            Err(error) => Err(error),
        };
        // What happens until the next stream is there is not known.
        shared.names.trust(false);
        // Nobody need wait for what is not believed.
        shared.word.is_due();
        shared.tell(None);
        if let Err(error) = heard {
            if let Some(layouts) = shared.layouts.get() {
                layouts.doubt();
            }
            tracing::debug!(%error, "the stream of changes ended");
            shared.away_since.lock().get_or_insert_with(std::time::Instant::now);
            sleep(PAUSE).await;
        }
    }
}

/// Follows a stream, and those after it, until one is not there in time.
async fn follow(shared: &Shared, mut stream: Stream) -> Result<()> {
    shared.names.trust(true);
    // What was known is forgotten, whatever there was before.
    shared.word.begins();
    shared.word.is_due();
    *shared.away_since.lock() = None;
    shared.tell(None);
    loop {
        let ends = stream.began + EVENTS_LAST;
        let mut renewal = pin!(async {
            sleep_until(ends - OVERLAP).await;
            Stream::open(shared).await
        });
        let mut next = None;
        let mut is_asked = false;
        loop {
            tokio::select! {
                event = stream.next(shared) => match event? {
                    Some(event) => stream.take(shared, event),
                    None => break,
                },
                opened = &mut renewal, if !is_asked => {
                    is_asked = true;
                    // If it cannot be had, this one's end is the end.
                    next = opened.ok();
                }
                event = of(&mut next, shared) => match (event, &mut next) {
                    (Ok(Some(event)), Some(next)) => next.take(shared, event),
                    _ => next = None,
                },
            }
        }
        let Some(next) = next else { return Ok(()) };
        if !stream.reaches(&next) {
            shared.forget(None, None);
        }
        stream = next;
    }
}

/// The next event of a stream, if there is one.
async fn of(stream: &mut Option<Stream>, shared: &Shared) -> Result<Option<Event>> {
    match stream {
        Some(stream) => stream.next(shared).await,
        None => std::future::pending().await,
    }
}

impl Shared {
    /// What is known of these folders, or of all, is believed no more, whatever changed up to a count; whoever listens is told.
    fn forget(&self, folders: Option<&[NodeId]>, seq: Option<i64>) {
        self.names.hear(folders);
        self.tell(seq);
    }

    /// Nobody knows what was missed.
    pub(super) fn begin_anew(&self) {
        self.tell(None);
    }

    /// Tells whoever listens that something changed; without a count, that something may have.
    fn tell(&self, seq: Option<i64>) {
        // Nobody need listen.
        let seq = seq.unwrap_or(0);
        let _ = self.changes.send(Change { space: self.hello.space, since: seq, seq, by: 0 });
    }
}
