//! A TCP proxy before a server: counts round trips, and cuts a connection at its commit.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// What happens to the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commit {
    /// It passes, and all after it.
    Passes,
    /// It reaches the server; the answer reaches nobody.
    LosesItsAnswer,
    /// It reaches nobody.
    IsLost,
}

/// A proxy that runs until the program ends.
pub(super) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    trips: AtomicU64,
    commit: AtomicU8,
}

impl Proxy {
    pub(super) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A server that is down ends the connection at once.
                if let Ok(server) = TcpStream::connect(server) {
                    pass(client, server, &for_thread);
                }
            }
        });
        Self { address, shared }
    }

    /// A URL with the proxy's address in place of the server's.
    pub(super) fn url(&self, url: &str, server: SocketAddr) -> String {
        url.replace(&server.to_string(), &self.address.to_string())
    }

    /// How often a client sent something after an answer.
    pub(super) fn trips(&self) -> u64 {
        self.shared.trips.load(Ordering::SeqCst)
    }

    pub(super) fn next_commit(&self, commit: Commit) {
        self.shared.commit.store(commit as u8, Ordering::SeqCst);
    }
}

fn pass(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
    client.set_nodelay(true).expect("sets");
    server.set_nodelay(true).expect("sets");
    let answered = Arc::new(AtomicBool::new(true));
    let (from, to, state, turn) = (
        client.try_clone().expect("clones"),
        server.try_clone().expect("clones"),
        Arc::clone(shared),
        Arc::clone(&answered),
    );
    std::thread::spawn(move || requests(from, to, &state, &turn));
    let state = Arc::clone(shared);
    std::thread::spawn(move || answers(server, client, &state, &answered));
}

fn requests(mut client: TcpStream, mut server: TcpStream, shared: &Shared, answered: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(bytes @ 1..) = client.read(&mut buffer) {
        if answered.swap(false, Ordering::SeqCst) {
            shared.trips.fetch_add(1, Ordering::SeqCst);
        }
        let is_commit = buffer[..bytes].windows(7).any(|window| window == b"COMMIT\0");
        if is_commit && shared.commit.load(Ordering::SeqCst) == Commit::IsLost as u8 {
            shared.commit.store(Commit::Passes as u8, Ordering::SeqCst);
            break;
        }
        if server.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    // The other side may have closed them.
    let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
}

fn answers(mut server: TcpStream, mut client: TcpStream, shared: &Shared, answered: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(bytes @ 1..) = server.read(&mut buffer) {
        // The tag of a command that was completed.
        let is_commit = buffer[..bytes].windows(7).any(|window| window == b"COMMIT\0");
        if is_commit && shared.commit.load(Ordering::SeqCst) == Commit::LosesItsAnswer as u8 {
            shared.commit.store(Commit::Passes as u8, Ordering::SeqCst);
            break;
        }
        answered.store(true, Ordering::SeqCst);
        if client.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
}
