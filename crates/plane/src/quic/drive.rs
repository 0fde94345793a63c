//! What moves datagrams between a connection, a [`Sender`] and a [`Receiver`].

use super::{LINK_BYTES, QUIC_BYTES};
use crate::frame::Frame;
use crate::{Event, Poll, Receiver, Sender, Shape, Statistics, Unit};
use bytes::{Bytes, BytesMut};
use quinn::{Connection, VarInt};
use std::future::Future;
use std::pin::pin;
use std::task::Context;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc, watch};

/// Datagrams taken in before anything else is looked at.
const TAKEN_AT_ONCE: usize = 64;
/// Datagrams sent before anything else is looked at.
const SENT_AT_ONCE: usize = 64;

/// Both ends say something each second. Without a word for so long the other end is gone, or was started anew, and whoever waits had better connect again.
const SILENT_MAX: Duration = Duration::from_secs(15);

/// How a plane is to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Units on their way at once, each way.
    pub window_units: u32,
    /// Bytes of a unit, at most.
    pub unit_bytes: usize,
    /// Bytes a second to begin with, if known.
    pub hint: Option<f64>,
    /// Bytes a second that are never exceeded.
    pub cap: Option<f64>,
    /// Takes no more to be sent than what goes within this time ([`Sender::prompt`]).
    pub ahead: Option<Duration>,
}

impl Default for Settings {
    /// 1,024 units. Those of a stream are 64 KiB, so it has 64 MiB each way: 100 Mbit/s at 64 % loss and 500 ms. Half a second ahead: what is asked for meanwhile waits
    /// no longer, a push that is to go on by another way neither, and how fast it goes is known.
    fn default() -> Self {
        let ahead = Some(Duration::from_millis(500));
        Self { window_units: 1_024, unit_bytes: 64 << 10, hint: None, cap: None, ahead }
    }
}

/// The connection is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plane is closed: {0}")]
pub struct Closed(pub String);

/// Units there and back between two ends.
#[derive(Debug)]
pub struct Plane {
    connection: Connection,
    fragment_bytes: usize,
    outgoing: mpsc::Sender<Bytes>,
    incoming: Mutex<mpsc::UnboundedReceiver<Unit>>,
    taken: mpsc::UnboundedSender<u32>,
    statistics: watch::Receiver<Statistics>,
}

impl Plane {
    pub(super) fn start(
        connection: Connection,
        late: mpsc::Receiver<Bytes>,
        (fragment_bytes, knows_fillers): (usize, bool),
        settings: Settings,
        is_trusting: bool,
    ) -> Self {
        let Settings { window_units, unit_bytes, .. } = settings;
        let shape = Shape { fragment_bytes, window_units, unit_bytes };
        let (outgoing, to_send) = mpsc::channel(1);
        let (arrived, incoming) = mpsc::unbounded_channel();
        let (taken, were_taken) = mpsc::unbounded_channel();
        let rtt_us = u64::try_from(connection.rtt().as_micros()).unwrap_or(u64::MAX);
        let sender = Sender::new(0, shape, QUIC_BYTES + LINK_BYTES, rtt_us, settings.hint, settings.cap);
        let sender = match settings.ahead {
            Some(ahead) => sender.prompt(ahead),
            None => sender,
        };
        let (tell, statistics) = watch::channel(sender.statistics());
        let receiver = Receiver::new(shape, 0);
        let drive = Drive {
            connection: connection.clone(),
            late,
            began: Instant::now(),
            sender: if knows_fillers { sender.filling(rtt_us) } else { sender },
            receiver: if is_trusting { receiver.trusting() } else { receiver },
            heard: Instant::now(),
            arrived,
            tell,
        };
        tokio::spawn(drive.run(to_send, were_taken));
        Self { connection, fragment_bytes, outgoing, incoming: Mutex::new(incoming), taken, statistics }
    }

    /// Sends a unit of at most [`crate::UNIT_BYTES_MAX`]; waits while as many are on their way as the other end grants.
    ///
    /// # Errors
    /// When the connection is over. What was sent before may have arrived or not.
    pub async fn send(&self, unit: Bytes) -> Result<(), Closed> {
        self.room().await.map(|room| room.send(unit))
    }

    /// Waits until a unit can be sent.
    pub(super) async fn room(&self) -> Result<mpsc::Permit<'_, Bytes>, Closed> {
        self.outgoing.reserve().await.map_err(|_| self.closed())
    }

    /// The next unit that is whole, in whatever order; none when the connection is over. Until it is dropped it counts as on its way.
    pub async fn receive(&self) -> Option<Arrived> {
        let unit = self.incoming.lock().await.recv().await?;
        Some(Arrived { bytes: unit.bytes, number: unit.number, taken: self.taken.clone() })
    }

    /// Bytes of a unit in each datagram.
    pub const fn fragment_bytes(&self) -> usize {
        self.fragment_bytes
    }

    /// What was sent and seen so far.
    pub fn statistics(&self) -> Statistics {
        *self.statistics.borrow()
    }

    /// The same, to be looked at when the plane has become a stream.
    pub fn watch(&self) -> watch::Receiver<Statistics> {
        self.statistics.clone()
    }

    /// Where the other end is now.
    pub fn address(&self) -> std::net::SocketAddr {
        self.connection.remote_address()
    }

    /// Waits until all that was sent is taken by the other end, or the connection is over.
    pub async fn flush(&self) -> Result<(), Closed> {
        let mut statistics = self.statistics.clone();
        while self.outgoing.capacity() == 0 || !statistics.borrow_and_update().idle {
            if statistics.changed().await.is_err() {
                return Err(self.closed());
            }
        }
        Ok(())
    }

    /// Ends it at once.
    pub fn close(&self, why: &str) {
        self.connection.close(VarInt::from_u32(0), why.as_bytes());
    }

    fn closed(&self) -> Closed {
        Closed(self.connection.close_reason().map_or_else(|| "it ended".to_owned(), |reason| reason.to_string()))
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.close("done");
    }
}

/// A unit that came.
#[derive(Debug)]
pub struct Arrived {
    /// Its bytes.
    pub bytes: Bytes,
    pub(super) number: u32,
    taken: mpsc::UnboundedSender<u32>,
}

impl Drop for Arrived {
    fn drop(&mut self) {
        // If nobody hears that, the connection is over.
        let _ = self.taken.send(self.number);
    }
}

/// The task of a connection.
struct Drive {
    connection: Connection,
    /// Datagrams that others overtook.
    late: mpsc::Receiver<Bytes>,
    began: Instant,
    sender: Sender,
    receiver: Receiver,
    heard: Instant,
    arrived: mpsc::UnboundedSender<Unit>,
    tell: watch::Sender<Statistics>,
}

impl Drive {
    async fn run(mut self, mut to_send: mpsc::Receiver<Bytes>, mut taken: mpsc::UnboundedReceiver<u32>) {
        let ended = loop {
            let wait = match self.turn() {
                Ok(wait) => wait,
                Err(why) => break why,
            };
            tokio::select! {
                datagram = self.connection.read_datagram() => match datagram {
                    Ok(datagram) => if let Err(why) = self.take_in(datagram) { break why },
                    Err(error) => break error.to_string(),
                },
                Some(datagram) = self.late.recv() => if let Err(why) = self.take_in(datagram) { break why },
                unit = to_send.recv(), if self.sender.room() > 0 => match unit {
                    Some(unit) => { self.sender.put(self.now_us(), unit); }
                    None => break "nobody uses it any more".to_owned(),
                },
                Some(unit) = taken.recv() => {
                    self.receiver.done(unit);
                    while let Ok(unit) = taken.try_recv() {
                        self.receiver.done(unit);
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
        };
        tracing::debug!(peer = %self.connection.remote_address(), why = ended, "a plane ended");
        self.connection.close(VarInt::from_u32(1), ended.as_bytes());
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Takes in what came, and whatever came with it.
    fn take_in(&mut self, first: Bytes) -> Result<(), String> {
        self.heard = Instant::now();
        self.take_in_one(first)?;
        for _ in 1..TAKEN_AT_ONCE {
            let late = self.late.try_recv().ok().map(Ok);
            let Some(next) = late.or_else(|| at_hand(self.connection.read_datagram())) else { break };
            self.take_in_one(next.map_err(|error| error.to_string())?)?;
        }
        Ok(())
    }

    fn take_in_one(&mut self, datagram: Bytes) -> Result<(), String> {
        let now_us = self.now_us();
        match Frame::decode(datagram).map_err(|error| error.to_string())? {
            Frame::Data(data) => {
                if let Some(unit) = self.receiver.receive(now_us, &data).map_err(|error| error.to_string())? {
                    self.arrived.send(unit).map_err(|_| "nobody uses it any more".to_owned())?;
                }
            }
            Frame::Report(report) => {
                self.sender.report(now_us, &report).map_err(|error| error.to_string())?;
                while let Some(Event::Done(_)) = self.sender.event() {}
                let loss_in = self.receiver.missing();
                self.tell.send_replace(Statistics { loss_in, ..self.sender.statistics() });
            }
        }
        Ok(())
    }

    /// Sends what is due; how long there is nothing to do.
    fn turn(&mut self) -> Result<Duration, String> {
        if self.heard.elapsed() > SILENT_MAX {
            return Err(format!("nothing was heard for {} s", SILENT_MAX.as_secs()));
        }
        let mut now_us = self.now_us();
        if let Some(report) = self.receiver.report(now_us) {
            let mut bytes = BytesMut::new();
            report.encode(&mut bytes);
            self.send(bytes.freeze())?;
        }
        for _ in 0..SENT_AT_ONCE {
            now_us = self.now_us();
            match self.sender.poll(now_us) {
                Poll::Send(data) => {
                    let mut bytes = BytesMut::new();
                    data.encode(&mut bytes);
                    self.send(bytes.freeze())?;
                }
                Poll::Wait(until_us) => {
                    let until_us = until_us.min(self.receiver.report_at_us());
                    return Ok(Duration::from_micros(until_us.saturating_sub(now_us)));
                }
            }
        }
        Ok(Duration::ZERO)
    }

    fn send(&self, datagram: Bytes) -> Result<(), String> {
        self.connection.send_datagram(datagram).map_err(|error| error.to_string())
    }
}

/// What a future has at once.
pub(super) fn at_hand<F: Future>(future: F) -> Option<F::Output> {
    let mut context = Context::from_waker(std::task::Waker::noop());
    match pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}
