//! Object services behind TLS: nginx, with a certificate of an authority that nobody knows but who is given its file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use holdfast_testkit::services::process::{Kept, hand_over};
use holdfast_testkit::services::{find_program, free_port, need};

use crate::Outcome;

const START_LIMIT: Duration = Duration::from_secs(30);

/// A running proxy.
#[derive(Debug)]
pub struct Encrypted {
    _process: Kept,
    port: u16,
    folder: tempfile::TempDir,
}

impl Encrypted {
    /// Starts one before a service, whose answers name it by this one's address (Swift tells where an account's storage is).
    pub fn start(service: &str) -> Outcome<Self> {
        need(&["nginx", "openssl"])?;
        let program = find_program("nginx").ok_or("there is no nginx")?;
        let (folder, port) = (tempfile::tempdir()?, free_port()?);
        make_authority(folder.path(), "ca")?;
        make_authority(folder.path(), "other")?;
        make_certificate(folder.path())?;
        fs::write(folder.path().join("conf"), configuration(folder.path(), port, service))?;
        hand_over(folder.path())?;
        let at = |name: &str| folder.path().join(name).display().to_string();
        let arguments = [
            "-c".to_owned(),
            at("conf"),
            "-p".to_owned(),
            folder.path().display().to_string(),
            "-e".to_owned(),
            at("log"),
        ];
        let mut process = Kept::start("nginx", &program, &arguments, folder.path(), folder.path().join("out"))?;
        process.wait_until(START_LIMIT, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(Self { _process: process, port, folder })
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The certificate of the authority that signed its own.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// That of another.
    pub fn other_authority(&self) -> PathBuf {
        self.folder.path().join("other.pem")
    }

    /// Requests that were answered.
    pub fn requests(&self) -> usize {
        fs::read_to_string(self.folder.path().join("access")).unwrap_or_default().lines().count()
    }
}

fn configuration(folder: &Path, port: u16, service: &str) -> String {
    let folder = folder.display();
    format!(
        "daemon off;\npid {folder}/pid;\nworker_processes 1;\nevents {{}}\nhttp {{\n\
         access_log {folder}/access;\nclient_max_body_size 0;\nclient_body_temp_path {folder}/body;\n\
         proxy_temp_path {folder}/proxy;\nfastcgi_temp_path {folder}/f;\nuwsgi_temp_path {folder}/u;\nscgi_temp_path {folder}/s;\n\
         map $upstream_http_x_storage_url $storage {{ default ''; ~^http://[^/]+(?<rest>/.*)$ https://127.0.0.1:{port}$rest; }}\n\
         server {{\nlisten 127.0.0.1:{port} ssl;\nssl_certificate {folder}/cert.pem;\nssl_certificate_key {folder}/cert.key;\n\
         location / {{\nproxy_pass {service};\nproxy_set_header Host $http_host;\nproxy_http_version 1.1;\n\
         proxy_request_buffering off;\nproxy_buffering off;\nproxy_hide_header X-Storage-Url;\nadd_header X-Storage-Url $storage always;\n}}\n}}\n}}\n"
    )
}

/// An authority of one's own.
fn make_authority(folder: &Path, name: &str) -> Outcome {
    let at = |end: &str| folder.join(format!("{name}.{end}")).display().to_string();
    openssl(&[
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        &format!("/CN=authority {name}"),
        "-addext",
        "basicConstraints=critical,CA:TRUE",
        "-keyout",
        &at("key"),
        "-out",
        &at("pem"),
    ])
}

/// The proxy's certificate, which the authority `ca` signs.
fn make_certificate(folder: &Path) -> Outcome {
    let at = |name: &str| folder.join(name).display().to_string();
    openssl(&[
        "req",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=store",
        "-keyout",
        &at("cert.key"),
        "-out",
        &at("request"),
    ])?;
    fs::write(folder.join("extensions"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")?;
    openssl(&[
        "x509",
        "-req",
        "-in",
        &at("request"),
        "-CA",
        &at("ca.pem"),
        "-CAkey",
        &at("ca.key"),
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        &at("extensions"),
        "-out",
        &at("cert.pem"),
    ])
}

fn openssl(arguments: &[&str]) -> Outcome {
    let output = Command::new("openssl").args(arguments).output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("openssl: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}
