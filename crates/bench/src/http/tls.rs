//! TLS for targets that are not on loopback: whom to trust.

use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::HttpError;

/// Which server certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those of the machine's own certificate store.
    System,
    /// Those signed by the certificates in this PEM file.
    File(PathBuf),
    /// Any: for self-signed servers under test. Encryption is measured, identity is not checked.
    Anything,
}

impl Trust {
    /// Makes the TLS configuration that all connections of one run share.
    pub(crate) fn client_config(&self) -> Result<Arc<ClientConfig>, HttpError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(tls_error)?;
        let mut config = match self {
            Self::Anything => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAnything::new(&provider)))
                .with_no_client_auth(),
            Self::System => builder.with_root_certificates(system_roots()?).with_no_client_auth(),
            Self::File(path) => builder.with_root_certificates(file_roots(path)?).with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn tls_error(error: impl std::fmt::Display) -> HttpError {
    HttpError::Tls(error.to_string())
}

fn system_roots() -> Result<RootCertStore, HttpError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _unreadable) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map_or_else(|| "it is empty".to_owned(), ToString::to_string);
        return Err(HttpError::Tls(format!(
            "no certificate in the machine's store ({why}); give --ca-file or --insecure"
        )));
    }
    Ok(roots)
}

fn file_roots(path: &PathBuf) -> Result<RootCertStore, HttpError> {
    let file = std::fs::File::open(path).map_err(|source| HttpError::Tls(format!("{}: {source}", path.display())))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_reader_iter(BufReader::new(file)) {
        roots.add(certificate.map_err(tls_error)?).map_err(tls_error)?;
    }
    if roots.is_empty() {
        return Err(HttpError::Tls(format!("no certificate in {}", path.display())));
    }
    Ok(roots)
}

/// Accepts every certificate, but still checks the handshake's signatures, so that the work measured is the same.
#[derive(Debug)]
struct AcceptAnything {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AcceptAnything {
    fn new(provider: &CryptoProvider) -> Self {
        Self { algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for AcceptAnything {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
