//! Where requests go: address, credentials, time limits, and the flag that stops them.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use url::Url;

use super::stream::Stream;
use super::{HttpError, TICK, Trust};

/// How long a request may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Time to establish a connection, TLS included.
    pub(crate) connect: Duration,
    /// Longest time in which no byte moves in either direction.
    pub(crate) stall: Duration,
    /// Time for the whole request.
    pub(crate) total: Duration,
}

/// One server, as the connections to it need to know it.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    host: String,
    port: u16,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// Header lines that every request carries: Host, User-Agent and, with a password, Authorization.
    pub(super) fixed_headers: String,
    pub(super) limits: Limits,
    stop: Arc<AtomicBool>,
}

impl Endpoint {
    /// Reads scheme, host and port from `url`; its user and password are ignored in favour of `credentials`.
    pub(crate) fn new(
        url: &Url,
        credentials: Option<(&str, &str)>,
        trust: &Trust,
        limits: Limits,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, HttpError> {
        let malformed = |what: &str| HttpError::Malformed(format!("{url}: {what}"));
        let host = url.host_str().ok_or_else(|| malformed("no host"))?;
        let port = url.port_or_known_default().ok_or_else(|| malformed("no port"))?;
        let bare_host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match url.scheme() {
            "http" => None,
            "https" => {
                let name =
                    ServerName::try_from(bare_host.clone()).map_err(|error| HttpError::Tls(error.to_string()))?;
                Some((trust.client_config()?, name))
            }
            _ => return Err(malformed("neither http nor https")),
        };
        let mut fixed_headers =
            format!("Host: {host}:{port}\r\nUser-Agent: holdfast-bench/{}\r\n", env!("CARGO_PKG_VERSION"));
        if let Some((user, password)) = credentials {
            let token = STANDARD.encode(format!("{user}:{password}"));
            fixed_headers.push_str("Authorization: Basic ");
            fixed_headers.push_str(&token);
            fixed_headers.push_str("\r\n");
        }
        Ok(Self { host: bare_host, port, tls, fixed_headers, limits, stop })
    }

    /// The same server for the clean-up after an interrupt: not stopped by the flag, and with time limits of its own.
    pub(crate) fn for_clean_up(&self, limits: Limits) -> Self {
        Self { limits, stop: Arc::new(AtomicBool::new(false)), ..self.clone() }
    }

    /// The header lines of every request.
    pub(crate) fn fixed_headers(&self) -> &str {
        &self.fixed_headers
    }

    /// What the name stands for now, at least one address.
    pub(crate) fn addresses(&self) -> std::io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = (self.host.as_str(), self.port).to_socket_addrs()?.collect();
        if found.is_empty() {
            return Err(std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address"));
        }
        Ok(found)
    }

    /// Puts TLS on a connection when the scheme asks for it; the handshake is made by its first reads and writes.
    pub(crate) fn wrap(&self, tcp: TcpStream) -> Result<Stream, HttpError> {
        match &self.tls {
            None => Ok(Stream::Plain(tcp)),
            Some((config, name)) => Stream::tls(tcp, Arc::clone(config), name.clone()),
        }
    }

    pub(super) fn check_interrupt(&self) -> Result<(), HttpError> {
        if self.stop.load(Ordering::Relaxed) { Err(HttpError::Interrupted) } else { Ok(()) }
    }

    /// Opens one connection: TCP without Nagle's delay, then TLS when the scheme asks for it.
    pub(super) fn open(&self) -> Result<Stream, HttpError> {
        self.check_interrupt()?;
        let connect_error = |source| HttpError::Connect { address: format!("{}:{}", self.host, self.port), source };
        let addresses = (self.host.as_str(), self.port).to_socket_addrs().map_err(connect_error)?;
        let tcp = self.open_first(addresses)?;
        let setup = || -> std::io::Result<()> {
            tcp.set_nodelay(true)?;
            let tick = TICK.min(self.limits.stall);
            tcp.set_read_timeout(Some(tick))?;
            tcp.set_write_timeout(Some(tick))
        };
        setup().map_err(connect_error)?;
        match &self.tls {
            None => Ok(Stream::Plain(tcp)),
            Some((config, name)) => {
                let until = Instant::now() + self.limits.connect;
                Stream::handshake(tcp, Arc::clone(config), name.clone(), || {
                    self.check_interrupt()?;
                    if Instant::now() >= until {
                        return Err(HttpError::TooSlow { after: self.limits.connect, phase: "the TLS handshake" });
                    }
                    Ok(())
                })
            }
        }
    }

    fn open_first(&self, addresses: impl Iterator<Item = SocketAddr>) -> Result<TcpStream, HttpError> {
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, self.limits.connect) {
                Ok(tcp) => return Ok(tcp),
                Err(error) => last = error,
            }
        }
        Err(HttpError::Connect { address: format!("{}:{}", self.host, self.port), source: last })
    }
}
