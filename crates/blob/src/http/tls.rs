//! Whom to trust.

use holdfast_base::{Error, Result};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whose certificates are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those of the machine's own certificate store.
    #[default]
    Machine,
    /// Those signed by the certificates in this PEM file, and no others.
    File(PathBuf),
    /// None: every connection is plain.
    Nobody,
}

impl Trust {
    pub(super) fn config(&self) -> Result<ClientConfig> {
        let roots = match self {
            Self::Machine => of_machine()?,
            Self::File(path) => of_file(path)?,
            Self::Nobody => RootCertStore::empty(),
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal("TLS could not be set up").with_source(error))?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

fn of_machine() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _unreadable) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let message =
            "this machine has no certificates of authorities: install them (Debian: ca-certificates), or name ca_file";
        return Err(Error::invalid(message));
    }
    Ok(roots)
}

fn of_file(path: &Path) -> Result<RootCertStore> {
    let unreadable = |error| Error::invalid(format!("ca_file {}: {error}", path.display()));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unreadable("it holds no certificate".to_owned()));
    }
    Ok(roots)
}
