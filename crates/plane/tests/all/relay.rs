//! A relay of UDP that loses, doubles, delays and corrupts.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::UdpSocket;

/// Shares of datagrams, each way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Harm {
    pub(crate) lost: f64,
    pub(crate) doubled: f64,
    /// By 20 ms more than others.
    pub(crate) late: f64,
    /// By a bit.
    pub(crate) corrupted: f64,
    pub(crate) delay: Duration,
}

pub(crate) struct Relay {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    front: UdpSocket,
    server: SocketAddr,
    harm: Harm,
    down: AtomicBool,
    seed: AtomicU64,
    /// A socket for each client, as a translator of addresses has it.
    clients: Mutex<HashMap<SocketAddr, Arc<UdpSocket>>>,
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr, harm: Harm) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let address = front.local_addr().expect("bound");
        let inner = Arc::new(Inner {
            front,
            server,
            harm,
            down: AtomicBool::new(false),
            seed: AtomicU64::new(1),
            clients: Mutex::default(),
        });
        tokio::spawn(inner.clone().forward());
        Self { address, inner }
    }

    /// Lets clients appear at other addresses to the server.
    pub(crate) async fn move_clients(&self) {
        let clients: Vec<SocketAddr> = self.inner.clients.lock().expect("whole").keys().copied().collect();
        for client in clients {
            self.inner.clone().open(client).await;
        }
    }

    pub(crate) fn set_down(&self, down: bool) {
        self.inner.down.store(down, Ordering::Relaxed);
    }
}

impl Inner {
    async fn forward(self: Arc<Self>) {
        let mut buffer = vec![0; 2_048];
        while let Ok((bytes, client)) = self.front.recv_from(&mut buffer).await {
            let known = self.clients.lock().expect("whole").get(&client).cloned();
            let back = match known {
                Some(back) => back,
                None => self.clone().open(client).await,
            };
            let server = self.server;
            self.pass(buffer[..bytes].to_vec(), move |datagram| {
                let back = back.clone();
                async move { drop(back.send_to(&datagram, server).await) }
            });
        }
    }

    async fn open(self: Arc<Self>, client: SocketAddr) -> Arc<UdpSocket> {
        let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a socket"));
        self.clients.lock().expect("whole").insert(client, back.clone());
        let from = back.clone();
        tokio::spawn(async move {
            let mut buffer = vec![0; 2_048];
            while let Ok((bytes, _)) = from.recv_from(&mut buffer).await {
                let inner = self.clone();
                self.pass(buffer[..bytes].to_vec(), move |datagram| {
                    let inner = inner.clone();
                    async move { drop(inner.front.send_to(&datagram, client).await) }
                });
            }
        });
        back
    }

    fn pass<F, S>(&self, mut datagram: Vec<u8>, send: F)
    where
        F: Fn(Vec<u8>) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let harm = self.harm;
        if self.down.load(Ordering::Relaxed) || self.chance(harm.lost) {
            return;
        }
        if self.chance(harm.corrupted) {
            let at = datagram.len() / 2;
            datagram[at] ^= 1;
        }
        let copies = if self.chance(harm.doubled) { 2 } else { 1 };
        let late = if self.chance(harm.late) { Duration::from_millis(20) } else { Duration::ZERO };
        tokio::spawn(async move {
            if !(harm.delay + late).is_zero() {
                tokio::time::sleep(harm.delay + late).await;
            }
            for _ in 0..copies {
                send(datagram.clone()).await;
            }
        });
    }

    /// SplitMix64.
    fn chance(&self, p: f64) -> bool {
        let mut z = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64) < p * (1_u64 << 53) as f64
    }
}
