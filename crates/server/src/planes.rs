//! Connections over the QUIC plane: who comes in, and how many.
//!
//! A handshake costs a server more than the one who begins it, and lasts up to [`PLANE_HANDSHAKE_MAX`]. So connections over QUIC have a limit of their own, which counts
//! handshakes under way and leaves connections over TCP theirs; one address has few handshakes under way at a time; and when many are open, who comes has
//! to prove its address first, which costs the server nothing to remember.

use crate::conn::{Connector, Handler, Line, Peer, Stage};
use crate::limits::{PLANE_HANDSHAKE_MAX, PLANE_HANDSHAKES_PER_PEER, PLANE_UNPROVEN_MAX};
use holdfast_plane::quic::{self, Settings};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::watch::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lets in what comes over QUIC.
pub(crate) struct PlaneDoor<H> {
    connector: Arc<Connector<H>>,
    /// For connections of all kinds.
    room: Arc<Semaphore>,
    /// For those over QUIC.
    own_room: Arc<Semaphore>,
    handshakes: Arc<Handshakes>,
    /// Those of all planes, and those over QUIC.
    open: [metrics::Gauge; 2],
}

impl<H: Handler> PlaneDoor<H> {
    pub(crate) fn new(connector: Arc<Connector<H>>, room: Arc<Semaphore>, connections_max: usize) -> Self {
        let own_room = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
        let open = [metrics::gauge!("holdfast_connections"), metrics::gauge!("holdfast_quic_connections")];
        Self { connector, room, own_room, handshakes: Arc::default(), open }
    }

    /// Accepts until the server stops.
    pub(crate) async fn accept(self: Arc<Self>, endpoint: quinn::Endpoint, mut stage: Receiver<Stage>) {
        loop {
            let accepted = tokio::select! {
                accepted = endpoint.accept() => accepted,
                _ = stage.wait_for(|stage| *stage != Stage::Running) => return,
            };
            let Some(incoming) = accepted else { return };
            if !incoming.remote_address_validated() && endpoint.open_connections() > PLANE_UNPROVEN_MAX {
                // It cannot be sent twice.
                let _ = incoming.retry();
                continue;
            }
            if let Some(admitted) = self.admit(incoming.remote_address().ip()) {
                tokio::spawn(self.clone().greet(incoming, stage.clone(), admitted));
            } else {
                metrics::counter!("holdfast_connections_refused_total").increment(1);
                incoming.refuse();
            }
        }
    }

    /// A place for a connection from `address`, if there is one.
    fn admit(&self, address: IpAddr) -> Option<Admitted> {
        let handshake = self.handshakes.clone().begin(address)?;
        let places = [self.own_room.clone().try_acquire_owned().ok()?, self.room.clone().try_acquire_owned().ok()?];
        Some(Admitted { handshake, places })
    }

    async fn greet(self: Arc<Self>, incoming: quinn::Incoming, stage: Receiver<Stage>, admitted: Admitted) {
        let Admitted { handshake, places: _places } = admitted;
        let address = incoming.remote_address();
        self.open.iter().for_each(|open| open.increment(1));
        // Blocks that waited here would have the memory for downloads, which others need: those of a pull that tries TCP.
        let settings = Settings { ahead: None, ..Settings::default() };
        let accepted = tokio::time::timeout(PLANE_HANDSHAKE_MAX, quic::accept(incoming, settings)).await;
        drop(handshake);
        match accepted {
            Ok(Ok(plane)) => {
                let peer = Peer { address, tls: true };
                self.connector.clone().serve(plane.into_stream(), peer, Line::Plane, stage).await;
            }
            Ok(Err(error)) => tracing::debug!(peer = %address, %error, "QUIC handshake failed"),
            Err(_elapsed) => tracing::debug!(peer = %address, "QUIC handshake took too long"),
        }
        self.open.iter().for_each(|open| open.decrement(1));
    }
}

/// A connection's places.
struct Admitted {
    handshake: Handshake,
    places: [OwnedSemaphorePermit; 2],
}

/// Handshakes under way, by who began them.
#[derive(Debug, Default)]
struct Handshakes(Mutex<HashMap<IpAddr, usize>>);

/// One of them; it ends when this is dropped.
#[derive(Debug)]
struct Handshake {
    all: Arc<Handshakes>,
    peer: IpAddr,
}

impl Handshakes {
    /// Another one, if its peer has not too many.
    fn begin(self: Arc<Self>, address: IpAddr) -> Option<Handshake> {
        let peer = peer(address);
        let mut all = self.0.lock();
        let count = all.entry(peer).or_insert(0);
        if *count >= PLANE_HANDSHAKES_PER_PEER {
            return None;
        }
        *count += 1;
        drop(all);
        Some(Handshake { all: self, peer })
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        if let Some(count) = all.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.peer);
            }
        }
    }
}

/// Whom an address belongs to: of IPv6, whoever has one has a network of 64 bits.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_few_handshakes_under_way_and_others_theirs() {
        let handshakes = Arc::new(Handshakes::default());
        let begin = |address: &str| handshakes.clone().begin(address.parse().expect("an address"));
        let mut held: Vec<_> = (0..PLANE_HANDSHAKES_PER_PEER).map(|_| begin("192.0.2.1").expect("room")).collect();
        assert!(begin("192.0.2.1").is_none() && begin("::ffff:192.0.2.1").is_none());
        assert!(begin("192.0.2.2").is_some());
        held.pop();
        held.push(begin("192.0.2.1").expect("room again"));
        assert!(begin("192.0.2.1").is_none());
        held.extend((0..PLANE_HANDSHAKES_PER_PEER).map(|at| begin(&format!("2001:db8::{at:x}")).expect("room")));
        assert!(begin("2001:db8::ffff:0:0:1").is_none(), "another address of the same network");
        assert!(begin("2001:db8:0:1::1").is_some());
        drop(held);
        assert!(handshakes.0.lock().is_empty(), "who is gone is forgotten");
    }
}
