//! Moves files over the plane alone, to measure it as a tool of `holdfast bench wan`:
//!
//! ```sh
//! cargo build --release -p holdfast-plane --example file
//! file=$PWD/target/release/examples/file
//! holdfast bench wan --tool "plane=$file get {host} {port} {file} {dest} {work}" \
//!     --server "plane=$file serve {host} {port} {source} {work}" --tool curl --tool curl@bbr
//! ```
//!
//! The certificate is made for the run and handed over in the folder WORK.

use anyhow::{Context, bail};
use holdfast_plane::quic::{Plane, Settings, accept, connect, endpoint};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// For the word that it is over to leave.
const GOODBYE: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", host, port, folder, work] => serve(address(host, port)?, Path::new(folder), Path::new(work)).await,
        ["get", host, port, file, to, work] => get(address(host, port)?, file, Path::new(to), Path::new(work)).await,
        _ => bail!("file serve HOST PORT FOLDER WORK, or file get HOST PORT FILE DEST WORK"),
    }
}

fn address(host: &str, port: &str) -> anyhow::Result<SocketAddr> {
    Ok(SocketAddr::new(host.parse()?, port.parse()?))
}

fn versions() -> (Arc<rustls::crypto::CryptoProvider>, &'static [&'static rustls::SupportedProtocolVersion]) {
    static VERSIONS: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
    (Arc::new(rustls::crypto::aws_lc_rs::default_provider()), &VERSIONS)
}

async fn serve(at: SocketAddr, folder: &Path, work: &Path) -> anyhow::Result<()> {
    let own = rcgen::generate_simple_self_signed(["far".to_owned()])?;
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let (provider, versions) = versions();
    let tls = rustls::ServerConfig::builder_with_provider(provider).with_protocol_versions(versions)?;
    let tls = tls.with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key)?;
    let endpoint = endpoint(at, Some(tls))?;
    std::fs::write(work.join("certificate"), own.cert.der())?;
    // Whoever waits for the server looks at TCP.
    let _ready = TcpListener::bind(at)?;
    while let Some(incoming) = endpoint.accept().await {
        let folder = folder.to_owned();
        tokio::spawn(async move {
            let sent = async { send(accept(incoming, Settings::default()).await?, folder).await };
            if let Err(error) = sent.await {
                eprintln!("{error:#}");
            }
        });
    }
    Ok(())
}

async fn send(plane: Plane, folder: PathBuf) -> anyhow::Result<()> {
    let mut stream = plane.into_stream();
    let mut name = String::new();
    let bytes = stream.read_u8().await?;
    (&mut stream).take(u64::from(bytes)).read_to_string(&mut name).await?;
    let mut file = tokio::fs::File::open(folder.join(&name)).await.with_context(|| name.clone())?;
    stream.write_u64(file.metadata().await?.len()).await?;
    tokio::io::copy(&mut file, &mut stream).await?;
    stream.shutdown().await?;
    // It is taken when the other end goes away.
    let _ = stream.read_u8().await;
    Ok(())
}

async fn get(from: SocketAddr, file: &str, to: &Path, work: &Path) -> anyhow::Result<()> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(work.join("certificate"))?))?;
    let (provider, versions) = versions();
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(versions)?;
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    let own = endpoint((Ipv4Addr::UNSPECIFIED, 0).into(), None)?;
    let plane = connect(&own, from, "far", &tls, Settings::default()).await?;
    let mut stream = plane.into_stream();
    // A byte of length and a name; the answer is eight bytes of length, and content.
    stream.write_u8(u8::try_from(file.len()).context("a long name")?).await?;
    stream.write_all(file.as_bytes()).await?;
    let bytes = stream.read_u64().await?;
    let mut target = tokio::fs::File::create(to).await?;
    let got = tokio::io::copy(&mut (&mut stream).take(bytes), &mut target).await?;
    target.sync_all().await?;
    anyhow::ensure!(got == bytes, "{got} of {bytes} bytes came");
    own.close(0_u32.into(), b"done");
    // The last word leaves at once. Whether it arrives is not waited for: that takes three times as long as a repeat would, and the server looks itself.
    let _ = tokio::time::timeout(GOODBYE, own.wait_idle()).await;
    Ok(())
}
