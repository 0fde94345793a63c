//! Sockets, certificates, handshakes.

use super::drive::{Plane, Settings};
use super::unpaced::Unpaced;
use super::{LARGE, PAYLOADS, SMALL, fragment_bytes};
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use quinn::{
    AckFrequencyConfig, ClientConfig, Endpoint, EndpointConfig, Incoming, ServerConfig, TransportConfig, VarInt,
};
use socket2::SockRef;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// What a round trip is held to be before one was measured. The first repeats of a handshake follow three of these.
const FIRST_RTT: Duration = Duration::from_millis(100);
/// A connection is over when nothing was heard for so long. Long enough for a handshake at 64 % loss; whoever uses the plane connects again.
const IDLE: Duration = Duration::from_mins(2);
/// Something is sent this often, so that middle boxes keep their state.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Handshakes that race each other. QUIC doubles the pauses between repeats, so that at 64 % loss two of three single ones take longer than half a minute.
const RACING: u32 = 6;
/// From one to the next.
const RACE_EVERY: Duration = Duration::from_millis(1_500);
/// Datagrams that wait in the library, each way.
const DATAGRAMS_BYTES: usize = 8 << 20;
/// UDP buffers asked of the system; it gives what it allows.
const SOCKET_BYTES: usize = 4 << 20;
/// Handshakes under way at once, from all the world.
const INCOMING_MAX: usize = 256;

/// Why there is no plane.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The socket cannot be had.
    #[error("the UDP socket: {0}")]
    Socket(#[from] std::io::Error),
    /// TLS settings that QUIC cannot use.
    #[error("TLS for QUIC: {0}")]
    Tls(String),
    /// Nobody answered, or not as expected.
    #[error("no connection by QUIC: {0}")]
    Connect(String),
}

/// A socket at `at`; with `tls` it takes connections.
///
/// # Errors
/// If the address cannot be had, or `tls` cannot do TLS 1.3.
pub fn endpoint(at: SocketAddr, tls: Option<rustls::ServerConfig>) -> Result<Endpoint, EndpointError> {
    let socket = UdpSocket::bind(at)?;
    let buffers = SockRef::from(&socket);
    buffers.set_recv_buffer_size(SOCKET_BYTES)?;
    buffers.set_send_buffer_size(SOCKET_BYTES)?;
    let server = match tls {
        None => None,
        Some(mut tls) => {
            tls.alpn_protocols = vec![LARGE.to_vec(), SMALL.to_vec()];
            let tls = QuicServerConfig::try_from(tls).map_err(|error| EndpointError::Tls(error.to_string()))?;
            let mut server = ServerConfig::with_crypto(Arc::new(tls));
            server.transport_config(Arc::new(transport())).max_incoming(INCOMING_MAX);
            Some(server)
        }
    };
    let runtime = quinn::default_runtime().ok_or_else(|| std::io::Error::other("no runtime"))?;
    Ok(Endpoint::new(EndpointConfig::default(), server, socket, runtime)?)
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    let mut acknowledge = AckFrequencyConfig::default();
    // The plane's reports say what arrived; QUIC need only know that somebody is there.
    acknowledge.ack_eliciting_threshold(VarInt::from_u32(50)).reordering_threshold(VarInt::from_u32(0));
    let payload = u16::try_from(PAYLOADS[0]).unwrap_or(u16::MAX);
    transport
        .initial_rtt(FIRST_RTT)
        .max_idle_timeout(Some(VarInt::from_u32(u32::try_from(IDLE.as_millis()).unwrap_or(u32::MAX)).into()))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .initial_mtu(payload)
        .min_mtu(payload)
        .mtu_discovery_config(None)
        .ack_frequency_config(Some(acknowledge))
        .packet_threshold(1 << 16)
        .time_threshold(2.0)
        .datagram_receive_buffer_size(Some(DATAGRAMS_BYTES))
        .datagram_send_buffer_size(DATAGRAMS_BYTES)
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .congestion_controller_factory(Arc::new(Unpaced));
    transport
}

/// Connects to `to`, whose certificate must be for `name` and trusted by `tls`. Several handshakes race, for the path may lose most of what is sent.
///
/// # Errors
/// [`EndpointError::Connect`] when all of them failed; the reason is that of the last.
pub async fn connect(
    from: &Endpoint,
    to: SocketAddr,
    name: &str,
    tls: &rustls::ClientConfig,
    settings: Settings,
) -> Result<Plane, EndpointError> {
    let mut race = JoinSet::new();
    for at in 0..RACING {
        let (from, name) = (from.clone(), name.to_owned());
        let config = client(tls, if at % 3 == 2 { SMALL } else { LARGE })?;
        race.spawn(async move {
            tokio::time::sleep(RACE_EVERY * at).await;
            let connecting = from.connect_with(config, to, &name).map_err(|error| error.to_string())?;
            connecting.await.map_err(|error| error.to_string())
        });
    }
    let mut last = String::from("no answer");
    while let Some(done) = race.join_next().await {
        match done {
            Ok(Ok(connection)) => return plane(connection, settings),
            Ok(Err(error)) => last = error,
            Err(error) => last = error.to_string(),
        }
    }
    Err(EndpointError::Connect(last))
}

fn client(tls: &rustls::ClientConfig, protocol: &[u8]) -> Result<ClientConfig, EndpointError> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![protocol.to_vec()];
    let tls = QuicClientConfig::try_from(tls).map_err(|error| EndpointError::Tls(error.to_string()))?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport()));
    Ok(config)
}

/// Ends the handshake of somebody who came.
///
/// # Errors
/// If it breaks off.
pub async fn accept(incoming: Incoming, settings: Settings) -> Result<Plane, EndpointError> {
    let connection = incoming.await.map_err(|error| EndpointError::Connect(error.to_string()))?;
    plane(connection, settings)
}

fn plane(connection: quinn::Connection, settings: Settings) -> Result<Plane, EndpointError> {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    let protocol = data.and_then(|data| data.protocol);
    let fragment_bytes = protocol.as_deref().and_then(fragment_bytes);
    let fragment_bytes = fragment_bytes.ok_or_else(|| EndpointError::Connect("another protocol".into()))?;
    Ok(Plane::start(connection, fragment_bytes, settings))
}
