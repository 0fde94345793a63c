//! A relay of UDP that loses, doubles, delays and corrupts, and lets its clients move.

use crate::rng::Prng;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What happens to datagrams, each way, as shares of one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Harm {
    /// Lost.
    pub lost: f64,
    /// Sent twice.
    pub doubled: f64,
    /// Later than others by [`LATE`], so that others overtake them.
    pub late: f64,
    /// With a bit flipped.
    pub corrupted: f64,
    /// Time that every one takes.
    pub delay: Duration,
}

/// How much later late ones are.
pub const LATE: Duration = Duration::from_millis(20);

/// The longest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// How often threads look whether the relay is gone.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A relay. It ends when this is dropped.
#[derive(Debug)]
pub struct Relay {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    front: UdpSocket,
    server: SocketAddr,
    harm: Harm,
    down: AtomicBool,
    random: Mutex<Prng>,
    later: Sender<Late>,
    /// A socket for each client, as a translator of addresses has it.
    clients: Mutex<HashMap<SocketAddr, Arc<UdpSocket>>>,
}

/// What is to be sent: when, by which socket, where to.
type Late = (Instant, Arc<UdpSocket>, SocketAddr, Vec<u8>);

impl Relay {
    /// Relays to `server`.
    ///
    /// # Errors
    /// If there is no socket.
    pub fn start(server: SocketAddr, harm: Harm) -> io::Result<Self> {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        front.set_read_timeout(Some(LOOK_EVERY))?;
        let (later, due) = channel();
        let (random, clients) = (Mutex::new(Prng::new(1)), Mutex::default());
        let inner = Arc::new(Inner { front, server, harm, down: AtomicBool::new(false), random, later, clients });
        std::thread::spawn(move || send_later(&due));
        let relay = Arc::downgrade(&inner);
        std::thread::spawn(move || while relay.upgrade().is_some_and(|inner| inner.forward().is_ok()) {});
        Ok(Self { inner })
    }

    /// Where it listens.
    ///
    /// # Panics
    /// Never: it is bound.
    pub fn address(&self) -> SocketAddr {
        self.inner.front.local_addr().expect("bound")
    }

    /// Lets its clients appear at other addresses to the server.
    ///
    /// # Errors
    /// If there is no socket.
    pub fn move_clients(&self) -> io::Result<()> {
        let clients: Vec<SocketAddr> = self.inner.clients.lock().keys().copied().collect();
        clients.into_iter().try_for_each(|client| self.inner.open(client).map(drop))
    }

    /// Lets nothing through, or everything again.
    pub fn set_down(&self, down: bool) {
        self.inner.down.store(down, Ordering::Relaxed);
    }
}

impl Inner {
    /// Passes on what comes from clients next, if something does.
    fn forward(self: &Arc<Self>) -> io::Result<()> {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        let (bytes, client) = match self.front.recv_from(&mut buffer) {
            Ok(came) => came,
            Err(error) if is_nothing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let known = self.clients.lock().get(&client).cloned();
        let back = match known {
            Some(back) => back,
            None => self.open(client)?,
        };
        self.pass(&back, self.server, &buffer[..bytes]);
        Ok(())
    }

    /// A socket for a client, in place of the one it has.
    fn open(self: &Arc<Self>, client: SocketAddr) -> io::Result<Arc<UdpSocket>> {
        let back = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
        back.set_read_timeout(Some(LOOK_EVERY))?;
        self.clients.lock().insert(client, back.clone());
        let (from, relay, front) = (back.clone(), Arc::downgrade(self), Arc::new(self.front.try_clone()?));
        std::thread::spawn(move || {
            let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
            while let Some(inner) = Weak::upgrade(&relay) {
                match from.recv_from(&mut buffer) {
                    Ok((bytes, _)) => inner.pass(&front, client, &buffer[..bytes]),
                    Err(error) if is_nothing(&error) => {}
                    Err(_) => return,
                }
            }
        });
        Ok(back)
    }

    fn pass(&self, by: &Arc<UdpSocket>, to: SocketAddr, datagram: &[u8]) {
        let harm = self.harm;
        let [lost, corrupted, doubled, late] = {
            let mut random = self.random.lock();
            [harm.lost, harm.corrupted, harm.doubled, harm.late].map(|share| random.chance(share))
        };
        if lost || self.down.load(Ordering::Relaxed) {
            return;
        }
        let mut datagram = datagram.to_vec();
        let middle = datagram.len() / 2;
        if let Some(byte) = datagram.get_mut(middle).filter(|_| corrupted) {
            *byte ^= 1;
        }
        let delay = harm.delay + if late { LATE } else { Duration::ZERO };
        for _ in 0..=usize::from(doubled) {
            if delay.is_zero() {
                // UDP promises nothing.
                let _ = by.send_to(&datagram, to);
            } else {
                let _ = self.later.send((Instant::now() + delay, by.clone(), to, datagram.clone()));
            }
        }
    }
}

fn is_nothing(error: &io::Error) -> bool {
    // A refusal is of a datagram sent before.
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Sends what waits, each in its time.
fn send_later(due: &Receiver<Late>) {
    let (mut order, mut waiting, mut number) = (BinaryHeap::new(), HashMap::new(), 0_u64);
    loop {
        let next: Option<Instant> = order.peek().map(|Reverse((at, _))| *at);
        let wait = next.map_or(Duration::from_hours(1), |at| at.saturating_duration_since(Instant::now()));
        match due.recv_timeout(wait) {
            Ok(late) => {
                order.push(Reverse((late.0, number)));
                waiting.insert(number, late);
                number += 1;
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some((_, by, to, datagram)) =
                    order.pop().and_then(|Reverse((_, number))| waiting.remove(&number))
                {
                    let _ = by.send_to(&datagram, to);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
