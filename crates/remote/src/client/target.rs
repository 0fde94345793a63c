//! Which server, and whom it is believed to be.

use holdfast_base::{Error, Result};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use tokio::time::timeout;

/// How long an answer to each of some datagrams is waited for: some of them are lost.
const UDP_PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// Address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub(super) encrypted: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| Error::invalid(format!("{text:?} is no address of a server: {why}"));
        let uri: http::Uri = text.parse().map_err(|_| bad("it is like https://drive.example.org"))?;
        let encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad("it begins with https://")),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(bad("who you are is said by --token-file, not by the address"));
        }
        if uri.query().is_some() || !matches!(uri.path(), "" | "/") {
            return Err(bad("it has no path; the space is --space"));
        }
        let has_port = uri.authority().is_some_and(|authority| authority.as_str().len() > authority.host().len());
        if has_port && uri.port_u16().is_none() {
            return Err(bad("its port is no number up to 65535"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| bad("it names no host"))?;
        let host = host.trim_matches(['[', ']']).to_owned();
        let here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        if !encrypted && !here {
            return Err(bad("a token is sent to other machines over https only"));
        }
        Ok(Self { encrypted, host, port: uri.port_u16().unwrap_or(if encrypted { 443 } else { 80 }) })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl Target {
    /// Whether the address begins with `https://`.
    pub const fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Answers when a TCP connection to it was made, which is a round trip.
    pub async fn reach(&self) -> Result<()> {
        let connected = tokio::net::TcpStream::connect((self.host.as_str(), self.port)).await;
        connected.map(drop).map_err(|error| Error::unavailable(format!("{self} cannot be reached: {error}")))
    }

    /// Answers when the server, or somebody on the way, says that UDP does not get through to its port; never, if nobody does (ICMP, RFC 1122 section 3.2.2.1). What is sent is a datagram that
    /// QUIC ignores.
    pub async fn refuses_udp(&self) {
        for pause in UDP_PAUSES {
            if self.ask_by_udp(pause).await.is_err() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn ask_by_udp(&self, pause: Duration) -> io::Result<()> {
        let mut found = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        let to = found.next().ok_or(io::ErrorKind::NotFound)?;
        let anywhere: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = tokio::net::UdpSocket::bind((anywhere, 0)).await?;
        // Of a socket that is connected, the kernel tells such answers.
        socket.connect(to).await?;
        socket.send(&[0]).await?;
        match timeout(pause, socket.recv(&mut [0; 1])).await {
            Ok(answer) => answer.map(drop),
            Err(_elapsed) => Ok(()),
        }
    }

    /// Host and port as a request has them.
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The name that its certificate has to have.
    pub(super) fn server_name(&self) -> Result<ServerName<'static>> {
        ServerName::try_from(self.host.clone())
            .map_err(|_| Error::invalid(format!("{} is no name of a host", self.host)))
    }
}

/// Whose certificates are believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Roots {
    /// This machine's authorities.
    #[default]
    System,
    /// Those of a PEM file alone; a server's own certificate is one.
    File(PathBuf),
}

impl Roots {
    /// TLS with these roots, for HTTP/2.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal("TLS could not be set up").with_source(error))?;
        let mut config = builder.with_root_certificates(self.store()?).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }

    fn store(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        match self {
            Self::System => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Self::File(path) => {
                let unreadable = |error: String| Error::invalid(format!("certificates in {}: {error}", path.display()));
                for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))? {
                    let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                    roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(unreadable("there is none in it".into()));
                }
            }
        }
        Ok(roots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_nobody_has_refuses_udp_and_one_that_is_had_does_not() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("it is bound").port();
        let target: Target = format!("https://127.0.0.1:{port}").parse().expect("an address");
        assert!(timeout(Duration::from_millis(200), target.refuses_udp()).await.is_err());
        drop(socket);
        timeout(Duration::from_secs(10), target.refuses_udp()).await.expect("it is refused");
    }

    #[test]
    fn an_address_is_a_host_over_https_or_this_machine() {
        for (text, shown) in [
            ("https://drive.example", "https://drive.example:443"),
            ("https://drive.example:8443/", "https://drive.example:8443"),
            ("http://127.0.0.1:80", "http://127.0.0.1:80"),
            ("https://[::1]:8443", "https://[::1]:8443"),
        ] {
            assert_eq!(text.parse::<Target>().expect(text).to_string(), shown);
        }
        for bad in [
            "drive.example",
            "http://drive.example",
            "https://me@drive.example",
            "https://x/dav/",
            "https://",
            "ftp://x",
            "https://drive.example:8443team",
            "https://drive.example:65536",
            "https://drive.example:",
        ] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
