//! TLS of the built program.

use crate::common::{Drive, PASSWORD};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

fn connect(drive: &Drive, address: std::net::SocketAddr, alpn: &[u8]) -> StreamOwned<ClientConnection, TcpStream> {
    let pem = drive.folder.path().join("data/tls/self-signed.pem");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pem).expect("a certificate")).expect("is usable");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    StreamOwned::new(connection, TcpStream::connect(address).expect("connects"))
}

#[test]
fn a_self_signed_certificate_serves_http_1_and_http_2_and_its_fingerprint_is_shown() {
    let drive = Drive::new();
    let mut server = drive.start_with(&["--tls-self-signed"], &[]);
    // It is told after the address is written, which is what a start waits for.
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !server.log().contains("SHA-256") {
        assert!(std::time::Instant::now() < deadline, "{}", server.log());
        std::thread::yield_now();
    }

    let authorization = server.client_of("ana", PASSWORD).authorization().expect("has one").to_owned();
    let mut stream = connect(&drive, server.address(), b"http/1.1");
    let request = format!(
        "GET /dav/ana/ HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));

    let mut stream = connect(&drive, server.address(), b"h2");
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("sent");
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).expect("answers");
    assert_eq!(frame[3], 4, "the server's preface is a SETTINGS frame");
    drop(stream);
    assert!(server.terminate().expect("stops").success());
}

#[test]
fn https_without_a_certificate_and_half_a_pair_are_explained() {
    let drive = Drive::new();
    let (code, message) = drive.fails(&["serve", "--listen", "https://127.0.0.1:0"], "");
    assert!(code == 64 && message.contains("tls.self_signed"), "{message}");
    let (code, message) = drive.fails(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", "x.pem"], "");
    assert!(code == 64 && message.contains("--tls-key"), "{message}");
}
