//! Sockets, certificates, handshakes.

use super::drive::{Plane, Settings};
use super::late::{Agreed, Reordered};
use super::unpaced::Unpaced;
use super::{PAYLOADS, agreed_on, protocols};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
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
/// When handshakes begin that race each other, in milliseconds. QUIC doubles the pauses between repeats, so that at 64 % loss two of three single ones take longer
/// than half a minute. The second comes soon: where packets overtake each other, the library throws away those that come before the keys that open them.
const RACE_AT_MS: [u64; 6] = [0, 500, 1_500, 3_000, 4_500, 6_000];
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
            let known = [0, 1].map(protocols).concat();
            tls.alpn_protocols = known.into_iter().map(<[u8]>::to_vec).collect();
            let tls = QuicServerConfig::try_from(tls).map_err(|error| EndpointError::Tls(error.to_string()))?;
            let mut server = ServerConfig::with_crypto(Arc::new(Reordered(Arc::new(tls))));
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
/// Whom one connects to may fill the window, whatever the settings: where a round trip holds more than the first of it, it would cost another.
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
    for (number, at_ms) in RACE_AT_MS.into_iter().enumerate() {
        let (from, name) = (from.clone(), name.to_owned());
        let config = client(tls, protocols(usize::from(number % 3 == 2)))?;
        race.spawn(async move {
            tokio::time::sleep(Duration::from_millis(at_ms)).await;
            let connecting = from.connect_with(config, to, &name).map_err(|error| error.to_string())?;
            connecting.await.map_err(|error| error.to_string())
        });
    }
    let mut last = String::from("no answer");
    while let Some(done) = race.join_next().await {
        match done {
            Ok(Ok(connection)) => return plane(connection, settings, true),
            Ok(Err(error)) => last = error,
            Err(error) => last = error.to_string(),
        }
    }
    Err(EndpointError::Connect(last))
}

fn client(tls: &rustls::ClientConfig, protocols: [&[u8]; 2]) -> Result<ClientConfig, EndpointError> {
    let mut tls = tls.clone();
    tls.alpn_protocols = protocols.into_iter().map(<[u8]>::to_vec).collect();
    let tls = QuicClientConfig::try_from(tls).map_err(|error| EndpointError::Tls(error.to_string()))?;
    let mut config = ClientConfig::new(Arc::new(Reordered(Arc::new(tls))));
    config.transport_config(Arc::new(transport()));
    Ok(config)
}

/// Ends the handshake of somebody who came.
///
/// # Errors
/// If it breaks off.
pub async fn accept(incoming: Incoming, settings: Settings) -> Result<Plane, EndpointError> {
    let connection = incoming.await.map_err(|error| EndpointError::Connect(error.to_string()))?;
    plane(connection, settings, false)
}

fn plane(connection: quinn::Connection, settings: Settings, is_trusting: bool) -> Result<Plane, EndpointError> {
    let agreed = connection.handshake_data().and_then(|data| data.downcast::<Agreed>().ok());
    let agreed = agreed.ok_or_else(|| EndpointError::Connect("nothing was agreed on".into()))?;
    let sizes = agreed.protocol.as_deref().and_then(agreed_on);
    let sizes = sizes.ok_or_else(|| EndpointError::Connect("another protocol".into()))?;
    let late = agreed.take_late().ok_or_else(|| EndpointError::Connect("it has a plane".into()))?;
    Ok(Plane::start(connection, late, sizes, settings, is_trusting))
}
