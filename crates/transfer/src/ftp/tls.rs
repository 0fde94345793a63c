//! TLS of a session: its data connections go on with the session of its control connection, as servers ask by default, since
//! otherwise somebody else could take them.
//!
//! So each session has a store of its own, and what it learned on one connection it uses on the next. TLS 1.2 is taken first: its session can be gone on
//! with any number of times. Of 1.3 a ticket goes with each connection, and where the server takes a file, no new one arrives: seen with `ProFTPD`, which then
//! refused nine of the connections for twenty files. A server that only speaks 1.3 is spoken to in that, and a connection that it refuses is made again.

use super::reply::broke;
use crate::web::client::{of_tls, roots};
use holdfast_base::{Error, ErrorKind, Result};
use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::version::TLS12;
use rustls::{ALL_VERSIONS, AlertDescription, ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Tickets that are kept: a server gives two with each handshake, and one goes with each.
const TICKETS: usize = 8;

/// The version that is taken first.
const FIRST: &[&SupportedProtocolVersion] = &[&TLS12];

/// Which certificates are believed.
#[derive(Debug, Clone)]
pub(super) struct Trust(Arc<RootCertStore>);

impl Trust {
    pub(super) fn new(ca: Option<&Path>) -> Result<Self> {
        Ok(Self(Arc::new(roots(ca)?)))
    }

    /// TLS of one session with a host, in version 1.2, or in `any`.
    pub(super) fn session(&self, host: &str, any: bool) -> Result<Tls> {
        let unusable = |error: rustls::Error| Error::internal("TLS could not be set up").with_source(error);
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let versions = if any { ALL_VERSIONS } else { FIRST };
        let builder = builder.with_protocol_versions(versions).map_err(unusable)?;
        let mut config = builder.with_root_certificates(Arc::clone(&self.0)).with_no_client_auth();
        config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(TICKETS)));
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| Error::invalid(format!("{host} is no name that a certificate could have")))?;
        Ok(Tls { connector: TlsConnector::from(Arc::new(config)), name })
    }
}

/// TLS of one session.
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    pub(super) async fn over(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await.map_err(|error| match of_tls(&error) {
            Some(rustls::Error::InvalidCertificate(why)) => {
                Error::forbidden(format!("the certificate of {} is not believed: {why:?}", self.name.to_str()))
            }
            Some(rustls::Error::AlertReceived(
                AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure,
            )) => Error::new(ErrorKind::Unsupported, "the server speaks no version of TLS that is known"),
            _ => broke(error),
        })
    }
}
