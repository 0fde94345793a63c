//! Floods of handshakes at the QUIC port: real ones, of which nothing that the server answers arrives but the demand to prove an address.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::networked::Net;
use holdfast_plane::quic::{Settings, connect, endpoint};

/// Ends that begin handshakes at once; each begins some more, one after the other.
const ENDS: usize = 40;
/// What the server says has to be true by then.
const LIMIT: Duration = Duration::from_secs(30);

/// Somebody at an address of this machine who begins handshakes and never ends one.
struct Flood {
    over: Arc<AtomicBool>,
    _ends: tokio::runtime::Runtime,
}

impl Flood {
    fn start(from: Ipv4Addr, server: SocketAddr) -> Outcome<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let through = one_way(from, server, &over)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls =
            rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13])?;
        let tls = tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
        let ends = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let own = ends.block_on(async { endpoint((Ipv4Addr::LOCALHOST, 0).into(), None) })?;
        for _ in 0..ENDS {
            let (own, tls) = (own.clone(), tls.clone());
            ends.spawn(async move { connect(&own, through, "localhost", &tls, Settings::default()).await.map(drop) });
        }
        Ok(Self { over, _ends: ends })
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Passes on all that goes to the server, and of what comes back only Retry packets (RFC 9000 section 17.2.5).
fn one_way(from: Ipv4Addr, server: SocketAddr, over: &Arc<AtomicBool>) -> Outcome<SocketAddr> {
    let (front, back) = (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((from, 0))?);
    back.connect(server)?;
    let at = front.local_addr()?;
    let client = Arc::new(Mutex::new(None));
    for socket in [&front, &back] {
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    }
    let (out, home) = ((front.try_clone()?, back.try_clone()?), (front, back));
    let (over_out, over_home, seen) = (Arc::clone(over), Arc::clone(over), Arc::clone(&client));
    std::thread::spawn(move || {
        let mut packet = vec![0; 2_048];
        while !over_out.load(Ordering::Relaxed) {
            let Ok((bytes, from)) = out.0.recv_from(&mut packet) else { continue };
            *seen.lock().expect("nobody panicked") = Some(from);
            let _ = out.1.send(&packet[..bytes]);
        }
    });
    std::thread::spawn(move || {
        let mut packet = vec![0; 2_048];
        while !over_home.load(Ordering::Relaxed) {
            let Ok(bytes) = home.1.recv(&mut packet) else { continue };
            let to = *client.lock().expect("nobody panicked");
            if let Some(to) = to.filter(|_| bytes > 0 && packet[0] & 0xf0 == 0xf0) {
                let _ = home.0.send_to(&packet[..bytes], to);
            }
        }
    });
    Ok(at)
}

/// Waits until so many handshakes are open at the server and others were turned away.
fn flooded(net: &Net, open: u64) -> Outcome {
    let began = Instant::now();
    while net.metric("holdfast_quic_connections ")? < open || net.metric("holdfast_connections_refused_total ")? == 0 {
        if began.elapsed() > LIMIT {
            return Err(format!(
                "{} connections, {} refused",
                net.metric("holdfast_quic_connections ")?,
                net.metric("holdfast_connections_refused_total ")?
            )
            .into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

#[test]
fn one_address_that_floods_takes_no_place_of_others() -> Outcome {
    let mut net = Net::new()?;
    let flood = Flood::start(Ipv4Addr::new(127, 0, 0, 2), net.address())?;
    flooded(&net, 20)?;
    let mount = net.mount_by_quic(net.address(), "mnt", &["--deadline", "20"])?;
    std::fs::write(mount.at().join("meanwhile"), "x")?;
    let open = net.metric("holdfast_quic_connections ")?;
    assert!(open < 30, "{open} connections");
    mount.stop()?;
    drop(flood);
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

#[test]
fn a_flood_from_everywhere_fills_the_places_of_quic_and_none_of_tcp() -> Outcome {
    let mut net = Net::with(|options| options.environment("HOLDFAST_LIMITS__QUIC_CONNECTIONS_MAX", "32"))?;
    let floods: Vec<Flood> =
        (2..5).map(|at| Flood::start(Ipv4Addr::new(127, 0, 0, at), net.address())).collect::<Result<_, _>>()?;
    flooded(&net, 32)?;
    let open = net.metric("holdfast_quic_connections ")?;
    assert!(open <= 32, "{open} connections");
    let refused = net.mount_by_quic(net.address(), "no", &["--deadline", "5"]).err();
    let said = refused.map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("did not answer within 5 s"), "{said}");
    let mount = net.mount("mnt", &[])?;
    std::fs::write(mount.at().join("meanwhile"), "x")?;
    mount.stop()?;
    drop(floods);
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}
