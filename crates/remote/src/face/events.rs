//! The stream of changes of a space.
//!
//! It tells that something changed, and of what others wait for, in which folders: whoever listens forgets what it believes of those, or all, unless the change was its own. Between changes there is a sign of life every
//! [`BEAT`], so that a client knows within a few seconds that it can no longer believe anything. It ends by itself after [`LASTS`], and
//! the client has asked for another by then: so a credential that was revoked is found out, and a balancer gets its chance. The first event says what the count
//! of the space's changes is, so a client that listens to both knows that it missed none.
//!
//! A mount that others wait for ([`holdfast_drive::engine::Believer`]) is told of changes only of what it was answered about, and asked for its word with that; of the others it is
//! told with the signs of life how many there are.

use super::seat::Seat;
use crate::wire::{self, Event};
use bytes::Bytes;
use futures_util::{Stream, stream};
use holdfast_base::{Error, Result, SpaceId};
use holdfast_drive::engine::{Believer, Owed};
use holdfast_drive::{Change, Touched};
use http_body::Frame;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::{Instant, Interval};

/// Time between signs of life.
const BEAT: Duration = Duration::from_secs(1);
/// How long a stream lasts.
const LASTS: Duration = wire::EVENTS_LAST;

struct Listener {
    seat: Arc<Seat>,
    /// How whoever listens names itself; 0 if it does not.
    mount: u64,
    space: SpaceId,
    changes: broadcast::Receiver<Change>,
    stopping: watch::Receiver<bool>,
    believer: Option<(Believer, Arc<Notify>)>,
    /// By which number it was asked for its word last.
    asked: u64,
    /// The count of changes that it need not be told of, if that is not told yet.
    past: Option<i64>,
    is_over: bool,
    /// The first event, until it was told.
    begins: Option<Event>,
    beat: Interval,
    until: Instant,
}

/// A stream of frames from now on. Its first is there at once: what is asked after it came misses no change.
pub(super) async fn stream(
    seat: Arc<Seat>,
    mount: u64,
    stopping: watch::Receiver<bool>,
) -> Result<impl Stream<Item = Result<Frame<Bytes>>> + Send + 'static> {
    let changes = seat.tree.changes();
    let root = seat.tree.entry(seat.tree.root()).await?;
    let space = root.ok_or_else(|| Error::not_found("the space is gone"))?.node.space;
    // To a client that expects nothing of it, that is nothing new.
    let begins = seat.tree.seq().await?.map_or(Event::Beat, Event::Own);
    let (beat, until) = (tokio::time::interval_at(Instant::now() + BEAT, BEAT), Instant::now() + LASTS);
    let believer = seat.tree.believes().map(|believer| {
        let bell = believer.bell();
        (believer, bell)
    });
    let begins = Some(begins);
    let (asked, past, is_over) = (0, None, false);
    let listener =
        Listener { seat, mount, space, changes, stopping, believer, asked, past, is_over, begins, beat, until };
    Ok(stream::unfold(listener, |mut listener| async {
        let event = listener.next().await?;
        Some((Ok(Frame::data(wire::frame(&event))), listener))
    }))
}

/// Waits until the server is about to stop.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // A face that is gone has stopped.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

impl Listener {
    async fn next(&mut self) -> Option<Event> {
        if let Some(begins) = self.begins.take() {
            return Some(begins);
        }
        loop {
            if self.is_over {
                return None;
            }
            if let Some(asked) = self.owed() {
                return Some(asked);
            }
            let rings = async {
                match &self.believer {
                    Some((_, bell)) => bell.notified().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stopped(&mut self.stopping) => return None,
                () = tokio::time::sleep_until(self.until) => {
                    // What comes after it begins with the count of now.
                    self.is_over = true;
                    return self.past.take().map(Event::Past);
                }
                () = rings => {}
                change = self.changes.recv() => match change {
                    Ok(change) if change.space != self.space => {}
                    Ok(change) if self.believer.as_ref().is_some_and(|(believer, _)| believer.is_there()) => {
                        self.past = Some(change.seq);
                    }
                    Ok(change) => return Some(self.latest(change)),
                    Err(broadcast::error::RecvError::Lagged(_)) => return Some(Event::Gap),
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
                _ = self.beat.tick() => {
                    // Whoever may no longer see the space is told nothing more of it.
                    self.seat.look().await.ok()?;
                    return Some(self.past.take().map_or(Event::Beat, Event::Past));
                }
            }
        }
    }

    /// What others wait for it to have heard of, if it was not asked yet.
    fn owed(&mut self) -> Option<Event> {
        let (believer, _) = self.believer.as_ref()?;
        let Owed { ask, seq, touched } = believer.owed(self.asked)?;
        self.asked = ask;
        let folders = match touched {
            Touched::Folders(folders) => Some(folders.into_iter().collect()),
            Touched::All => None,
        };
        Some(Event::Asked(ask, seq, folders))
    }

    /// Of changes that wait, one stands for all.
    fn latest(&mut self, mut all: Change) -> Event {
        loop {
            match self.changes.try_recv() {
                Ok(change) if change.space == self.space => all = all.and(change),
                Ok(_) => {}
                Err(broadcast::error::TryRecvError::Lagged(_)) => return Event::Gap,
                Err(_) if self.mount != 0 && all.by == self.mount => return Event::Own(all.seq),
                Err(_) => return Event::Changed(all.seq),
            }
        }
    }
}
