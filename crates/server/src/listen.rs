//! Listening sockets: what an operator may write, binding, and the loop that accepts.

use crate::address_file::reachable;
use crate::conn::{Connector, Handler, Line, Peer, Stage};
use crate::limits::{ACCEPT_BACKLOG, ACCEPT_PAUSE, TLS_HANDSHAKE_MAX};
use holdfast_base::{Error, Result};
use socket2::SockRef;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

/// An address to listen on, as written: `ADDR:PORT`, `http://ADDR:PORT` or `https://ADDR:PORT`. Without a scheme it is
/// https when the server has a certificate. A host name stands for its first address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenOn {
    host: String,
    tls: Option<bool>,
}

impl FromStr for ListenOn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (tls, rest) = match text.split_once("://") {
            None => (None, text),
            Some(("http", rest)) => (Some(false), rest),
            Some(("https", rest)) => (Some(true), rest),
            Some((scheme, _)) => {
                return Err(Error::invalid(format!("{text:?}: cannot listen for {scheme:?}, only for http and https")));
            }
        };
        let host = rest.trim_end_matches('/').to_owned();
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() || host.starts_with(':') {
            return Err(Error::invalid(format!(
                "{text:?} is not an address to listen on: write for example 127.0.0.1:8642, [::]:8642 or https://0.0.0.0:8443"
            )));
        }
        Ok(Self { host, tls })
    }
}

impl ListenOn {
    fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let found = self.host.to_socket_addrs();
        let found = found.map_err(|error| Error::invalid(format!("cannot listen on {:?}: {error}", self.host)))?;
        Ok(found.collect())
    }

    /// Binds it.
    pub(crate) fn bind(&self, has_certificate: bool) -> Result<Listener> {
        let tls = self.tls.unwrap_or(has_certificate);
        if tls && !has_certificate {
            return Err(Error::invalid(format!(
                "https on {} needs a certificate: give tls.cert and tls.key, or ask for tls.self_signed",
                self.host
            )));
        }
        let address = *self
            .addresses()?
            .first()
            .ok_or_else(|| Error::invalid(format!("{:?} has no address to listen on", self.host)))?;
        let tcp = bind(address).map_err(|error| Error::from(error).context(format!("cannot listen on {address}")))?;
        let address = tcp.local_addr()?;
        Ok(Listener { tcp, bound: Bound { address, tls } })
    }
}

/// Bytes of an answer that the kernel has and has not sent: 10 Gbit/s for a millisecond.
const UNSENT_BYTES: u32 = 1 << 20;

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart must not wait for connections of the process before to time out.
    socket.set_reuseaddr(true)?;
    // Small answers leave at once, in one segment: hyper hands head and body over in one write. Accepted sockets inherit it.
    socket.set_nodelay(true)?;
    // What is answered must not wait behind megabytes of content in the kernel, where the network is slow.
    SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    socket.bind(address)?;
    socket.listen(u32::try_from(ACCEPT_BACKLOG).unwrap_or(1_024))
}

/// Where a listener ended up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The bound address.
    pub address: SocketAddr,
    /// Whether it speaks TLS.
    pub tls: bool,
}

impl Bound {
    /// URL for a client on this machine.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, reachable(self.address))
    }
}

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) tcp: TcpListener,
    pub(crate) bound: Bound,
}

/// What all listeners of one kind share.
pub(crate) struct Reception<H> {
    connector: Arc<Connector<H>>,
    room: Arc<Semaphore>,
    tls: Option<TlsAcceptor>,
    open: metrics::Gauge,
}

impl<H: Handler> Reception<H> {
    pub(crate) fn new(connector: Arc<Connector<H>>, room: Arc<Semaphore>, tls: Option<TlsAcceptor>) -> Self {
        Self { connector, room, tls, open: metrics::gauge!("holdfast_connections") }
    }

    /// Accepts until the server stops. The listening socket closes with the return.
    pub(crate) async fn accept(self: Arc<Self>, listener: Listener, mut stage: Receiver<Stage>) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.tcp.accept() => accepted,
                _ = stage.wait_for(|stage| *stage != Stage::Running) => return,
            };
            match accepted {
                Ok((stream, address)) => {
                    let peer = Peer { address, tls: listener.bound.tls };
                    self.admit(stream, peer, stage.clone());
                }
                Err(error) if is_peers_fault(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections at the moment");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn admit(self: &Arc<Self>, stream: TcpStream, peer: Peer, stage: Receiver<Stage>) {
        match self.room.clone().try_acquire_owned() {
            Ok(permit) => {
                tokio::spawn(self.clone().greet(stream, peer, stage, permit));
            }
            Err(_full) => {
                metrics::counter!("holdfast_connections_refused_total").increment(1);
                if !peer.tls {
                    tokio::spawn(turn_away(stream));
                }
            }
        }
    }

    async fn greet(
        self: Arc<Self>,
        stream: TcpStream,
        peer: Peer,
        stage: Receiver<Stage>,
        _permit: OwnedSemaphorePermit,
    ) {
        self.open.increment(1);
        match &self.tls {
            Some(tls) if peer.tls => match tokio::time::timeout(TLS_HANDSHAKE_MAX, tls.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let line = if http2 { Line::Http2 } else { Line::Plain };
                    self.connector.clone().serve(stream, peer, line, stage).await;
                }
                Ok(Err(error)) => tracing::debug!(peer = %peer.address, %error, "TLS handshake failed"),
                Err(_elapsed) => tracing::debug!(peer = %peer.address, "TLS handshake took too long"),
            },
            _ => self.connector.clone().serve(stream, peer, Line::Plain, stage).await,
        }
        self.open.decrement(1);
    }
}

/// Errors of `accept` that speak of the connection that was about to be accepted, not of us.
fn is_peers_fault(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as Io;
    matches!(error.kind(), Io::ConnectionAborted | Io::ConnectionReset | Io::ConnectionRefused | Io::Interrupted)
}

/// Says that there is no room. The client's request is not read; what it has sent is dropped with the socket.
async fn turn_away(mut stream: TcpStream) {
    const FULL: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\ncontent-type: text/plain\r\n\
        content-length: 51\r\n\r\nToo many connections are open. Try again in a bit.\r\n";
    let _ = stream.try_write(FULL);
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_listen_on_are_read_with_and_without_a_scheme() {
        for (text, host, tls) in [
            ("127.0.0.1:0", "127.0.0.1:0", None),
            ("http://[::1]:80/", "[::1]:80", Some(false)),
            ("https://localhost:8443", "localhost:8443", Some(true)),
        ] {
            assert_eq!(text.parse::<ListenOn>().expect(text), ListenOn { host: host.into(), tls });
        }
        for bad in ["", "8642", ":8642", "127.0.0.1", "ftp://127.0.0.1:21", "127.0.0.1:70000"] {
            assert!(bad.parse::<ListenOn>().is_err(), "{bad}");
        }
    }
}
