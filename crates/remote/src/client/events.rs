//! Listening to the stream of changes.

use super::Shared;
use crate::wire::{self, ANSWER_BYTES_MAX, Event};
use bytes::BytesMut;
use futures_util::StreamExt;
use holdfast_base::{Error, Result};
use holdfast_drive::Change;
use http_body_util::BodyStream;
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest silence after which names and attributes are still believed: three signs of life may be late.
const SILENCE: Duration = Duration::from_secs(3);
/// Pause before the next try after the stream could not be had.
const PAUSE: Duration = Duration::from_millis(250);

/// Listens for ever.
pub(super) async fn listen(shared: Arc<Shared>) {
    loop {
        let heard = match shared.link.listen().await {
            Ok((body, voice)) => follow(&shared, body, voice).await,
            Err(error) => Err(error),
        };
        // What happens until the next stream is there is not known.
        shared.names.trust(false);
        shared.tell(None);
        if let Err(error) = heard {
            if let Some(layouts) = shared.layouts.get() {
                layouts.doubt();
            }
            tracing::debug!(%error, "the stream of changes ended");
            shared.away_since.lock().get_or_insert_with(Instant::now);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Follows a stream to its end, which comes in good order.
async fn follow(shared: &Shared, body: Incoming, voice: u64) -> Result<()> {
    let mut frames = BodyStream::new(body);
    let mut buffer = BytesMut::new();
    let mut is_first = true;
    loop {
        let frame = tokio::time::timeout(SILENCE, frames.next()).await;
        let frame = frame.map_err(|_| Error::unavailable("the server is silent"))?;
        let Some(frame) = frame else { return Ok(()) };
        let frame = frame.map_err(|error| Error::unavailable("the connection ended").with_source(error))?;
        shared.link.hear();
        let Ok(data) = frame.into_data() else { continue };
        buffer.extend_from_slice(&data);
        while let Some(found) = wire::split(&mut buffer, ANSWER_BYTES_MAX)? {
            let event = wire::message::<Event>(&found)?;
            if std::mem::take(&mut is_first) {
                shared.names.trust(true);
                *shared.away_since.lock() = None;
                shared.tell(None);
            }
            match event {
                Event::Beat => {}
                // What came of it is known by its answer.
                Event::Own(_) if voice == shared.voice.now() => {}
                Event::Changed(seq) | Event::Own(seq) => {
                    shared.names.forget();
                    shared.tell(Some(seq));
                }
                Event::Gap => {
                    shared.names.forget();
                    shared.tell(None);
                }
            }
        }
    }
}

impl Shared {
    /// Tells whoever listens that something changed; without a count, that something may have.
    fn tell(&self, seq: Option<i64>) {
        // Nobody need listen.
        let seq = seq.unwrap_or(0);
        let _ = self.changes.send(Change { space: self.hello.space, since: seq, seq, by: 0 });
    }
}
