//! TLS: the certificate in use, where it comes from, and how it is replaced while connections go on.
//!
//! Handshakes ask [`Certificate`] for the key of the moment, so a renewed certificate is used from the next handshake on.
//! It is read again on SIGHUP and whenever the files have changed ([`Certificate::reload_if_changed`]). A file that does
//! not parse, or a key that does not belong to its certificate, leaves the old one in use and is logged.

mod self_signed;

use aws_lc_rs::digest;
use holdfast_base::{Error, Result};
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Where the certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file of the certificate and its intermediates.
    pub cert: Option<PathBuf>,
    /// PEM file of the private key.
    pub key: Option<PathBuf>,
    /// Make a self-signed certificate, kept in the data directory.
    pub self_signed: bool,
    /// Host names and addresses for the self-signed certificate, besides this machine's loopback names.
    pub names: Vec<String>,
}

impl TlsConfig {
    /// The two files in use, if TLS is wanted: those given, or a self-signed pair in `folder`, made if need be.
    pub fn files(&self, folder: &Path) -> Result<Option<(PathBuf, PathBuf)>> {
        match (&self.cert, &self.key, self.self_signed) {
            (Some(cert), Some(key), false) => Ok(Some((cert.clone(), key.clone()))),
            (None, None, true) => self_signed::ensure(folder, &self.names).map(Some),
            (None, None, false) => Ok(None),
            (Some(_), Some(_), true) => {
                Err(Error::invalid("give either tls.cert and tls.key or tls.self_signed, not both"))
            }
            _ => Err(Error::invalid("tls.cert and tls.key belong together: give both")),
        }
    }
}

/// The certificate in use.
#[derive(Debug)]
pub struct Certificate {
    cert: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    current: RwLock<(Arc<CertifiedKey>, Stamp)>,
}

/// Modification times of the two files.
type Stamp = [Option<SystemTime>; 2];

impl Certificate {
    /// Reads the files.
    pub fn load(cert: PathBuf, key: PathBuf) -> Result<Arc<Self>> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let stamp = stamp(&cert, &key);
        let first = read(&cert, &key, &provider)?;
        Ok(Arc::new(Self { cert, key, provider, current: RwLock::new((Arc::new(first), stamp)) }))
    }

    /// Reads the files again.
    pub fn reload(&self) -> Result<()> {
        let stamp = stamp(&self.cert, &self.key);
        let fresh = read(&self.cert, &self.key, &self.provider);
        let mut current = self.current.write();
        // Noted even if the files are bad, so that the same bad files are complained of once.
        current.1 = stamp;
        current.0 = Arc::new(fresh?);
        Ok(())
    }

    /// Reads the files again if either was changed since; answers whether it did.
    pub fn reload_if_changed(&self) -> Result<bool> {
        if stamp(&self.cert, &self.key) == self.current.read().1 {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }

    /// SHA-256 of the certificate, as browsers show it: `AB:CD:…`.
    pub fn fingerprint(&self) -> String {
        let current = self.current.read();
        let hash = digest::digest(&digest::SHA256, current.0.cert.first().map_or(&[][..], |cert| cert.as_ref()));
        hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
    }

    /// The configuration of listeners that use this certificate: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1.
    pub fn server_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>> {
        let unusable = |error: rustls::Error| Error::internal(format!("TLS cannot be set up: {error}"));
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(unusable)?;
        Ok(Arc::new(config))
    }
}

impl Certificate {
    /// The configuration of the QUIC plane with this certificate: TLS 1.3 alone, as QUIC wants it.
    pub fn quic_config(self: &Arc<Self>) -> Result<ServerConfig> {
        let unusable = |error: rustls::Error| Error::internal(format!("TLS cannot be set up: {error}"));
        let builder = ServerConfig::builder_with_provider(self.provider.clone());
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).map_err(unusable)?;
        Ok(builder.with_no_client_auth().with_cert_resolver(self.clone()))
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().0.clone())
    }
}

fn stamp(cert: &Path, key: &Path) -> Stamp {
    [cert, key].map(|path| std::fs::metadata(path).and_then(|facts| facts.modified()).ok())
}

fn read(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let bad = |path: &Path, what: &dyn std::fmt::Display| Error::invalid(format!("{}: {what}", path.display()));
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| bad(cert, &format!("no certificate in PEM can be read from it: {error}")))?;
    if chain.is_empty() {
        return Err(bad(cert, &"there is no certificate in it"));
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| bad(key, &format!("no private key in PEM can be read from it: {error}")))?;
    let certified = CertifiedKey::from_der(chain, private, provider)
        .map_err(|error| bad(key, &format!("the key is not usable with {}: {error}", cert.display())))?;
    certified.keys_match().map_err(|error| bad(key, &format!("it is not the key of {}: {error}", cert.display())))?;
    Ok(certified)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_self_signed_certificate_is_made_once_and_kept() {
        let temp = tempfile::tempdir().expect("a folder");
        let config = TlsConfig { self_signed: true, names: vec!["drive.example.org".into()], ..TlsConfig::default() };
        let load = || {
            let (cert, key) = config.files(temp.path()).expect("files").expect("wanted");
            Certificate::load(cert, key).expect("loads").fingerprint()
        };
        let first = load();
        assert_eq!(first, load());
        assert_eq!(first.len(), 32 * 3 - 1);
    }

    #[test]
    fn a_key_of_another_certificate_is_refused_and_the_old_pair_stays_in_use() {
        let [one, two] = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
        let config = TlsConfig { self_signed: true, ..TlsConfig::default() };
        let (cert, key) = config.files(one.path()).expect("files").expect("wanted");
        let (_, other_key) = config.files(two.path()).expect("files").expect("wanted");
        assert!(Certificate::load(cert.clone(), other_key.clone()).is_err());

        let certificate = Certificate::load(cert, key.clone()).expect("loads");
        let before = certificate.fingerprint();
        std::fs::copy(&other_key, &key).expect("copied");
        assert!(certificate.reload().is_err());
        assert_eq!(certificate.fingerprint(), before);
    }

    #[test]
    fn half_a_pair_is_refused() {
        let config = TlsConfig { cert: Some("c.pem".into()), ..TlsConfig::default() };
        assert!(config.files(Path::new(".")).is_err());
    }
}
