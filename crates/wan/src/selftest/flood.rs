//! Numbered datagrams from the far host to the near one, and what arrives of them.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::host::{Host, WanError};
use crate::link::Nanos;
use crate::relay::now;
use crate::wan::Wan;

/// With the 28 bytes of IP and UDP.
pub(super) const PACKET_BYTES: usize = 1028;
const DATAGRAM_BYTES: usize = PACKET_BYTES - 28;
/// Nothing for so long after the last was sent: all have arrived that will.
const SILENCE: Duration = Duration::from_millis(500);
/// How often the receiver looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// What arrived.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Numbers that came at least once.
    pub(super) different: u64,
    /// Arrivals of a number that had come before.
    pub(super) again: u64,
    /// Datagrams whose content is not what was sent.
    pub(super) damaged: u64,
    /// From sending to arriving, one for each arrival, sorted.
    pub(super) delays: Vec<Nanos>,
    /// From the first arrival to the last.
    pub(super) span: Nanos,
}

impl Seen {
    /// The delay that this share of all arrivals did not exceed.
    pub(super) fn delay(&self, share: f64) -> Nanos {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index below the length")]
        let index = ((self.delays.len().max(1) - 1) as f64 * share) as usize;
        self.delays.get(index).copied().unwrap_or(0)
    }

    fn note(&mut self, known: &mut [bool], datagram: &[u8], at: Nanos) {
        let Some((number, sent)) = read(datagram) else {
            self.damaged += 1;
            return;
        };
        let known = usize::try_from(number).ok().and_then(|number| known.get_mut(number));
        let first = known.is_some_and(|known| !std::mem::replace(known, true));
        *if first { &mut self.different } else { &mut self.again } += 1;
        self.delays.push(at.saturating_sub(sent));
    }
}

/// Number, time and filling, and a sum over all of it.
fn write(number: u64, sent: Nanos) -> [u8; DATAGRAM_BYTES] {
    let mut datagram = [0x5a; DATAGRAM_BYTES];
    datagram[8..16].copy_from_slice(&number.to_le_bytes());
    datagram[16..24].copy_from_slice(&sent.to_le_bytes());
    let sum = xxh3_64(&datagram[8..]);
    datagram[..8].copy_from_slice(&sum.to_le_bytes());
    datagram
}

fn read(datagram: &[u8]) -> Option<(u64, Nanos)> {
    let field = |at: usize| datagram.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let whole = datagram.len() == DATAGRAM_BYTES && field(0)? == xxh3_64(&datagram[8..]);
    whole.then_some((field(8)?, field(16)?))
}

/// Sends so many, one each `interval`, and waits for them.
pub(super) fn flood(wan: &Wan, packets: u32, interval: Duration) -> Result<Seen, WanError> {
    let failed = |why| WanError::Io { what: "the flood of datagrams failed", why };
    let socket = |host: &Host| -> io::Result<UdpSocket> {
        let address = host.address();
        let socket = host.run(|| UdpSocket::bind((address, 0)))??;
        // As much as the kernel gives: the reader may be without the processor for a moment.
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 8 << 20)?;
        Ok(socket)
    };
    let run = || -> io::Result<Seen> {
        let (near, far) = (socket(wan.near())?, socket(wan.far())?);
        let to = (wan.near().address(), near.local_addr()?.port());
        let sender = std::thread::spawn(move || send(&far, to, packets, interval));
        let seen = receive(&near, packets, || sender.is_finished());
        sender.join().map_err(|_| io::Error::other("the sender panicked"))??;
        seen
    };
    run().map_err(failed)
}

fn send(socket: &UdpSocket, to: (Ipv4Addr, u16), packets: u32, interval: Duration) -> io::Result<()> {
    let began = now();
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    for number in 0..u64::from(packets) {
        let wait = (began + number * interval).saturating_sub(now());
        std::thread::sleep(Duration::from_nanos(wait));
        socket.send_to(&write(number, now()), to)?;
    }
    Ok(())
}

fn receive(socket: &UdpSocket, packets: u32, all_sent: impl Fn() -> bool) -> io::Result<Seen> {
    let mut known = vec![false; packets as usize];
    let mut seen = Seen::default();
    let mut buffer = [0; 2048];
    let (mut first, mut last, mut quiet_since) = (None, 0, now());
    socket.set_read_timeout(Some(LOOK))?;
    let silence = Nanos::try_from(SILENCE.as_nanos()).unwrap_or(0);
    while !all_sent() || now() - quiet_since < silence {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                let at = now();
                (first, last, quiet_since) = (first.or(Some(at)), at, at);
                seen.note(&mut known, &buffer[..length], at);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if !all_sent() {
                    quiet_since = now();
                }
            }
            Err(error) => return Err(error),
        }
    }
    seen.span = last - first.unwrap_or(last);
    seen.delays.sort_unstable();
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_says_what_it_is_until_a_bit_of_it_flips() {
        let datagram = write(7, 99);
        assert_eq!(read(&datagram), Some((7, 99)));
        for bit in 0..DATAGRAM_BYTES * 8 {
            let mut other = datagram;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&other), None, "bit {bit}");
        }
        assert_eq!(read(&datagram[..DATAGRAM_BYTES - 1]), None);
    }

    #[test]
    fn arrivals_are_told_apart() {
        let (mut seen, mut known) = (Seen::default(), vec![false; 3]);
        for number in [0, 2, 2] {
            seen.note(&mut known, &write(number, 10), 30);
        }
        seen.note(&mut known, &[0; 9], 30);
        assert_eq!((seen.different, seen.again, seen.damaged), (2, 1, 1));
        assert_eq!((seen.delay(0.0), seen.delay(1.0)), (20, 20));
    }
}
