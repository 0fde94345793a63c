//! A certificate for whoever has none: encrypted, but the client must be told its fingerprint to know whom it speaks to.
//!
//! Made once and kept, so that a client which has accepted it does not have to again.

use crate::data_dir::replace_file;
use holdfast_base::{Error, Result};
use rcgen::{CertificateParams, DnType, KeyPair};
use std::fs;
use std::path::{Path, PathBuf};

const CERT: &str = "self-signed.pem";
const KEY: &str = "self-signed.key";

/// The names every self-signed certificate is good for.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The pair in `folder`, made if either file is missing.
pub(super) fn ensure(folder: &Path, names: &[String]) -> Result<(PathBuf, PathBuf)> {
    let (cert, key) = (folder.join(CERT), folder.join(KEY));
    if !cert.exists() || !key.exists() {
        let (cert_pem, key_pem) = make(names)?;
        let at = |error: std::io::Error| Error::from(error).context(folder.display());
        fs::create_dir_all(folder).map_err(at)?;
        // The certificate is last: with it there, the key is there.
        replace_file(folder, "self-signed.key.new", KEY, key_pem.as_bytes()).map_err(at)?;
        replace_file(folder, "self-signed.pem.new", CERT, cert_pem.as_bytes()).map_err(at)?;
    }
    Ok((cert, key))
}

fn make(names: &[String]) -> Result<(String, String)> {
    let bad = |error: rcgen::Error| Error::invalid(format!("no self-signed certificate for {names:?}: {error}"));
    let all: Vec<String> = LOOPBACK.iter().map(ToString::to_string).chain(names.iter().cloned()).collect();
    let mut params = CertificateParams::new(all).map_err(bad)?;
    params.distinguished_name.push(DnType::CommonName, "Holdfast (self-signed)");
    // rcgen's default validity, 1975 to 4096, stays: nobody renews what nobody but its fingerprint vouches for.
    let key = KeyPair::generate().map_err(bad)?;
    let cert = params.self_signed(&key).map_err(bad)?;
    Ok((cert.pem(), key.serialize_pem()))
}
