//! The plane over real sockets, through a relay that does to datagrams what bad networks do.

mod stream;

use bytes::Bytes;
use holdfast_plane::quic::{Plane, Settings, accept, connect, endpoint};
use holdfast_testkit::datagrams::{Harm, Relay};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

struct Ends {
    client: Plane,
    server: Plane,
    relay: Relay,
    _endpoints: [quinn::Endpoint; 2],
}

/// A certificate for `localhost`, what serves it and what trusts it.
fn tls() -> (rustls::ServerConfig, rustls::ClientConfig) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = &[&rustls::version::TLS13];
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .expect("a key that fits");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.cert.der().clone()).expect("a root");
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (server, client)
}

async fn ends(harm: Harm, settings: Settings) -> Ends {
    let (server_tls, client_tls) = tls();
    let listening = endpoint(ANYWHERE, Some(server_tls)).expect("a socket");
    let relay = Relay::start(listening.local_addr().expect("bound"), harm).expect("a relay");
    let from = endpoint(ANYWHERE, None).expect("a socket");
    let accepting = listening.clone();
    let accepted = tokio::spawn(async move {
        // Of several handshakes that race, the one that the client took speaks first.
        let (first, mut one) = tokio::sync::mpsc::channel(8);
        loop {
            tokio::select! {
                incoming = accepting.accept() => {
                    let (incoming, first) = (incoming.expect("open"), first.clone());
                    tokio::spawn(async move {
                        let Ok(plane) = accept(incoming, settings).await else { return };
                        if let Some(hello) = plane.receive().await {
                            assert_eq!(hello.bytes, "hello");
                            let _ = first.send(plane).await;
                        }
                    });
                }
                Some(plane) = one.recv() => return plane,
            }
        }
    });
    let client = connect(&from, relay.address(), "localhost", &client_tls, settings).await.expect("connected");
    client.send(Bytes::from_static(b"hello")).await.expect("open");
    let server = accepted.await.expect("accepted");
    Ends { client, server, relay, _endpoints: [listening, from] }
}

/// Where somebody serves, and whom to trust there.
struct At {
    address: SocketAddr,
    tls: rustls::ClientConfig,
}

/// Serves each connection, behind a relay.
async fn serving<S, F>(harm: Harm, serve: S) -> (At, (Relay, quinn::Endpoint))
where
    S: Fn(Plane) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (server_tls, tls) = tls();
    let listening = endpoint(ANYWHERE, Some(server_tls)).expect("a socket");
    let relay = Relay::start(listening.local_addr().expect("bound"), harm).expect("a relay");
    let accepting = listening.clone();
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            let serve = serve.clone();
            tokio::spawn(async move {
                if let Ok(plane) = accept(incoming, Settings::default()).await {
                    serve(plane).await;
                }
            });
        }
    });
    (At { address: relay.address(), tls }, (relay, listening))
}

async fn connected(at: &At) -> (Plane, quinn::Endpoint) {
    let from = endpoint(ANYWHERE, None).expect("a socket");
    (connect(&from, at.address, "localhost", &at.tls, Settings::default()).await.expect("connected"), from)
}

/// Bytes that tell which unit of which side they are.
fn unit(side: u8, number: u32, bytes: usize) -> Bytes {
    let mut unit = vec![0; bytes.max(5)];
    unit[0] = side;
    unit[1..5].copy_from_slice(&number.to_be_bytes());
    unit[5..].iter_mut().zip(0_u32..).for_each(|(byte, at)| *byte = (at.wrapping_mul(31) ^ number).to_le_bytes()[0]);
    Bytes::from(unit)
}

/// Sends `count` units and takes those of the other side, whose bytes are looked at.
async fn exchange(plane: &Plane, (own, other): (u8, u8), count: u32, bytes: usize) {
    let send = async {
        for number in 0..count {
            plane.send(unit(own, number, bytes)).await.expect("open");
        }
        plane.flush().await.expect("open");
    };
    let receive = async {
        let mut left: std::collections::BTreeSet<u32> = (0..count).collect();
        while !left.is_empty() {
            let got = plane.receive().await.expect("open").bytes.clone();
            let number = u32::from_be_bytes(got[1..5].try_into().expect("four bytes"));
            assert!(left.remove(&number), "unit {number} came twice");
            assert!(got == unit(other, number, bytes), "unit {number} came with other bytes");
        }
    };
    tokio::join!(send, receive);
}

async fn both_ways(harm: Harm, count: u32, bytes: usize) -> Ends {
    let ends = ends(harm, Settings { unit_bytes: 1 << 20, window_units: 64, ..Settings::default() }).await;
    tokio::join!(exchange(&ends.client, (1, 2), count, bytes), exchange(&ends.server, (2, 1), count, bytes));
    println!("client: {:?}\nserver: {:?}", ends.client.statistics(), ends.server.statistics());
    ends
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_arrive_whole_and_once_both_ways_at_a_time() {
    both_ways(Harm::default(), 24, 1 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_third_lost_and_some_doubled_late_and_corrupted_changes_nothing_but_the_time() {
    let harm = Harm { lost: 0.3, doubled: 0.1, late: 0.2, corrupted: 0.05, delay: Duration::from_millis(10) };
    both_ways(harm, 6, 300_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_hundreds_of_packets_overtook_arrives() {
    // At this rate some 300 datagrams are sent in the 20 ms by which one in ten is sooner.
    let settings =
        Settings { unit_bytes: 1 << 20, window_units: 64, hint: Some(20e6), cap: Some(20e6), ..Settings::default() };
    let ends = ends(Harm { late: 0.9, delay: Duration::from_millis(1), ..Harm::default() }, settings).await;
    tokio::join!(exchange(&ends.client, (1, 2), 6, 1 << 20), exchange(&ends.server, (2, 1), 6, 1 << 20));
    let seen = ends.client.statistics();
    println!("{seen:?}");
    assert!(seen.arrived * 10 > seen.sent * 9, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thirds_lost_both_ways_does_not_even_keep_ends_from_meeting() {
    both_ways(Harm { lost: 0.64, delay: Duration::from_millis(5), ..Harm::default() }, 20, 3_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_may_change_its_address_and_the_network_go_away_for_a_while() {
    let ends = ends(Harm::default(), Settings { cap: Some(4e6), unit_bytes: 1 << 20, ..Settings::default() }).await;
    let before = ends.server.address();
    let disturb = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        ends.relay.move_clients().expect("sockets");
        tokio::time::sleep(Duration::from_millis(300)).await;
        ends.relay.set_down(true);
        tokio::time::sleep(Duration::from_secs(3)).await;
        ends.relay.set_down(false);
    };
    tokio::join!(exchange(&ends.client, (1, 2), 6, 1 << 20), exchange(&ends.server, (2, 1), 6, 1 << 20), disturb);
    assert_ne!(ends.server.address(), before, "the server follows its client");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_take_what_comes_is_not_sent_more_than_the_window() {
    let ends = ends(Harm::default(), Settings { window_units: 4, ..Settings::default() }).await;
    let mut count = 0;
    let send = async {
        loop {
            ends.client.send(unit(1, count, 1_000)).await.expect("open");
            count += 1;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), send).await.is_err(), "it goes on and on");
    assert!(count <= 4 + 2, "{count} units for a window of 4");
    ends.server.receive().await.expect("there");
    ends.client.send(unit(1, count, 1_000)).await.expect("there is room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_goes_away_is_noticed() {
    let ends = ends(Harm::default(), Settings::default()).await;
    drop(ends.server);
    assert!(ends.client.receive().await.is_none());
    let closed = ends.client.flush().await;
    assert!(closed.is_err() || ends.client.send(Bytes::from_static(b"?")).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_nobody_vouches_for_is_refused() {
    let ((server_tls, _), (_, other)) = (tls(), tls());
    let listening = endpoint(ANYWHERE, Some(server_tls)).expect("a socket");
    let at = listening.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Some(incoming) = listening.accept().await {
            drop(accept(incoming, Settings::default()).await);
        }
    });
    let from = endpoint(ANYWHERE, None).expect("a socket");
    let refused = connect(&from, at, "localhost", &other, Settings::default()).await.expect_err("refused");
    assert!(refused.to_string().contains("certificate"), "{refused}");
}
