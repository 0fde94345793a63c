//! The address file: how a script that asked for port 0 learns where the server is, and that it is ready.
//!
//! One URL a line, in the order of the listeners. Written aside and renamed, so whoever sees the file sees all of it;
//! removed when the server stops.

use crate::listen::Bound;
use holdfast_base::{Error, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A written address file; dropping it removes the file.
#[derive(Debug)]
pub struct AddressFile(PathBuf);

impl AddressFile {
    /// Writes it.
    pub fn write(path: &Path, bound: &[Bound]) -> Result<Self> {
        let lines: String = bound.iter().map(|bound| bound.url() + "\n").collect();
        let aside = path.with_added_extension("new");
        std::fs::write(&aside, lines)
            // No secret, and often read by another user than the server's.
            .and_then(|()| std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o644)))
            .and_then(|()| std::fs::rename(&aside, path))
            .map_err(|error| Error::from(error).context(format!("the address file {}", path.display())))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for AddressFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An address a client on this machine can use: "any address" becomes loopback.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_there_while_it_is_held_and_names_every_listener() {
        let temp = tempfile::tempdir().expect("a folder");
        let path = temp.path().join("address");
        let bound = [
            Bound { address: "0.0.0.0:8080".parse().expect("parses"), tls: false },
            Bound { address: "[::1]:8443".parse().expect("parses"), tls: true },
        ];
        let file = AddressFile::write(&path, &bound).expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "http://127.0.0.1:8080\nhttps://[::1]:8443\n");
        drop(file);
        assert!(!path.exists());
    }
}
