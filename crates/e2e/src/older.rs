//! A server that is older than the program under test: the real one, which some operations reach under a number that no server knows, so that its answer to
//! them is what a server has always answered to what it does not know.
//!
//! What goes over is HTTP/2 without encryption, whose frames are told apart by their heads alone (RFC 9113 section 4.1); the number of an operation is in the first frame of
//! a request's body.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Outcome;
use crate::relay::{Says, relay};

/// What a client says before its first frame.
const PREFACE_BYTES: usize = 24;
/// A frame's head: length, type, flags, stream.
const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
/// No server knows this operation.
const NOBODYS: u8 = 0xff;

/// Hands connections on.
#[derive(Debug)]
pub struct Older {
    address: SocketAddr,
    /// Operations that were made unknown.
    unknown: Arc<AtomicU64>,
}

impl Older {
    /// One for which operations end before this number (24 at least), in front of a server without TLS.
    pub fn start(server: SocketAddr, unknown_from: u8) -> Outcome<Self> {
        let unknown = Arc::<AtomicU64>::default();
        let counted = unknown.clone();
        let address = relay(server, move |who, mut from, mut to| match who {
            Says::Client => ask(from, to, unknown_from, &counted),
            Says::Service => io::copy(&mut from, &mut to).map(drop),
        })?;
        Ok(Self { address, unknown })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many operations it did not know.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }
}

/// What a client says, frame by frame.
fn ask(mut client: &TcpStream, mut server: &TcpStream, unknown_from: u8, unknown: &AtomicU64) -> io::Result<()> {
    let mut preface = [0; PREFACE_BYTES];
    client.read_exact(&mut preface)?;
    server.write_all(&preface)?;
    let mut begun = HashSet::new();
    loop {
        let mut head = [0; HEAD_BYTES];
        client.read_exact(&mut head)?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        client.read_exact(&mut payload)?;
        let stream = [head[5], head[6], head[7], head[8]];
        if head[3] == DATA && !payload.is_empty() && begun.insert(stream) {
            // A frame's length, an array of some items, and a number of two bytes.
            if let Some([array, 0x18, number]) = payload.get_mut(4..7).and_then(|it| <&mut [u8; 3]>::try_from(it).ok())
                && (0x81..=0x97).contains(array)
                && *number >= unknown_from
            {
                *number = NOBODYS;
                unknown.fetch_add(1, Ordering::Relaxed);
            }
        }
        server.write_all(&head)?;
        server.write_all(&payload)?;
    }
}
