//! A link that is slow: what goes through it is later by a delay, and no faster than a rate.
//!
//! For machines whose kernel cannot delay packets itself (netem). It stands between a client and a service and hands bytes on
//! over connections of its own. Each direction is one line that all connections share: bytes wait until those before them
//! have left, and arrive after the delay. A new connection waits for one round trip more, because the handshake of
//! TCP would have crossed the link, too. What it does not do: lose packets, or shrink a sender's window.

use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Bytes read at once: what waits behind them waits no longer than these take.
const CHUNK_BYTES: usize = 16 << 10;
/// Chunks of one direction of a connection that are on the link; then its sender waits. 4 MiB, above what a link of
/// 1,000 Mbit/s holds in 30 ms.
const CHUNKS_ON_THE_WAY: usize = 256;

/// What a link is like.
#[derive(Debug, Clone, Copy)]
pub struct LinkOptions {
    /// How long a byte is on its way, each way.
    pub delay: Duration,
    /// Millions of bits a second, each way.
    pub mbit: f64,
}

/// One direction.
struct Line {
    options: LinkOptions,
    /// When everything that was handed over has left.
    free_at: Mutex<Instant>,
}

/// Bytes, and when they arrive; none at the end.
type Parcel = (Instant, Vec<u8>);

/// Hands on what comes to the listener, until it fails.
pub fn run(listener: &TcpListener, service: SocketAddr, options: LinkOptions) -> io::Result<()> {
    let line = || Arc::new(Line { options, free_at: Mutex::new(Instant::now()) });
    let (up, down) = (line(), line());
    loop {
        let (client, _) = listener.accept()?;
        let (up, down) = (Arc::clone(&up), Arc::clone(&down));
        std::thread::spawn(move || {
            // A broken connection is the business of its two ends, which see it end.
            let _ = join(&client, service, &up, &down);
        });
    }
}

fn join(client: &TcpStream, service: SocketAddr, up: &Arc<Line>, down: &Arc<Line>) -> io::Result<()> {
    let open_at = Instant::now() + up.options.delay + down.options.delay;
    let service = TcpStream::connect(service)?;
    client.set_nodelay(true)?;
    service.set_nodelay(true)?;
    carry(client.try_clone()?, service.try_clone()?, Arc::clone(up), open_at);
    carry(service, client.try_clone()?, Arc::clone(down), open_at);
    Ok(())
}

/// Carries one direction of a connection, in two threads: one takes, one delivers.
fn carry(from: TcpStream, to: TcpStream, line: Arc<Line>, open_at: Instant) {
    let (sender, parcels) = sync_channel(CHUNKS_ON_THE_WAY);
    std::thread::spawn(move || take(from, &sender, &line, open_at));
    std::thread::spawn(move || {
        if deliver(&to, &parcels).is_err() {
            // The other direction has nobody left to talk to.
            let _ = to.shutdown(Shutdown::Both);
        }
    });
}

fn take(mut from: TcpStream, sender: &SyncSender<Parcel>, line: &Line, open_at: Instant) {
    loop {
        let mut bytes = vec![0; CHUNK_BYTES];
        let read = from.read(&mut bytes).unwrap_or(0);
        bytes.truncate(read);
        let arrives = line.arrival(read).max(open_at + line.options.delay);
        if sender.send((arrives, bytes)).is_err() || read == 0 {
            return;
        }
    }
}

fn deliver(mut to: &TcpStream, parcels: &Receiver<Parcel>) -> io::Result<()> {
    for (arrives, bytes) in parcels {
        std::thread::sleep(arrives.saturating_duration_since(Instant::now()));
        if bytes.is_empty() {
            return to.shutdown(Shutdown::Write);
        }
        to.write_all(&bytes)?;
    }
    Ok(())
}

impl Line {
    /// When so many bytes arrive that are handed over now.
    fn arrival(&self, bytes: usize) -> Instant {
        let takes = Duration::from_secs_f64(bytes as f64 * 8.0 / (self.options.mbit * 1e6));
        let mut free_at = self.free_at.lock();
        *free_at = (*free_at).max(Instant::now()) + takes;
        *free_at + self.options.delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// A service that sends back what it gets, behind a link.
    fn echo(options: LinkOptions) -> SocketAddr {
        let service = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        let link = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        let (address, behind) = (link.local_addr().expect("bound"), service.local_addr().expect("bound"));
        std::thread::spawn(move || {
            for client in service.incoming().flatten() {
                std::thread::spawn(move || io::copy(&mut &client, &mut &client));
            }
        });
        std::thread::spawn(move || run(&link, behind, options));
        address
    }

    #[test]
    fn a_round_trip_takes_two_delays_and_the_first_four() {
        let delay = Duration::from_millis(20);
        let mut client = TcpStream::connect(echo(LinkOptions { delay, mbit: 1_000.0 })).expect("connects");
        let mut there_and_back = || {
            let began = Instant::now();
            client.write_all(b"x").expect("writes");
            client.read_exact(&mut [0]).expect("reads");
            began.elapsed()
        };
        // The connection may be a moment older than the clock.
        let slack = Duration::from_millis(5);
        assert!(there_and_back() + slack >= 4 * delay);
        let (second, third) = (there_and_back(), there_and_back());
        assert!(second >= 2 * delay && third >= 2 * delay, "{second:?}, {third:?}");
    }

    #[test]
    fn all_connections_share_the_rate_and_every_byte_arrives() {
        let address = echo(LinkOptions { delay: Duration::ZERO, mbit: 40.0 });
        let began = Instant::now();
        let threads = [1_u8, 2].map(|seed| {
            std::thread::spawn(move || {
                let sent: Vec<u8> =
                    (0..500_000_u32).map(|at| at.to_le_bytes()[0] ^ (at >> 8).to_le_bytes()[0] ^ seed).collect();
                let mut client = TcpStream::connect(address).expect("connects");
                let mut back = client.try_clone().expect("clones");
                let reader = std::thread::spawn(move || {
                    let mut all = Vec::new();
                    back.read_to_end(&mut all).map(|_| all)
                });
                client.write_all(&sent).expect("writes");
                client.shutdown(Shutdown::Write).expect("ends");
                assert!(reader.join().expect("no panic").expect("reads") == sent);
            })
        });
        for thread in threads {
            thread.join().expect("no panic");
        }
        // 1,000,000 bytes at 40 Mbit/s.
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(200), "{took:?}");
    }
}
