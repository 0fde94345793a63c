//! Services of others, really running, for tests that speak to them.
//!
//! Each is started on free loopback ports with a folder and a configuration of its own, as an unprivileged account if the
//! tests run as root, and ends with the test: when its handle is dropped, and also when the test process is gone without
//! having dropped anything ([`process`]). So one server may serve all tests of a binary from a `static`.
//!
//! Their programs are found, or installed by `scripts/need.sh`; a test that cannot have them fails and says what is missing.

pub mod apache;
pub mod dovecot;
pub mod ftp;
pub mod identity;
pub mod link;
pub mod process;
pub mod proxy;
pub mod seaweed;
pub mod sshd;
pub mod swift;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a service may take to answer a small request of a test's own.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The root of the source tree.
pub fn workspace() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    path.canonicalize().unwrap_or(path)
}

/// Runs `scripts/need.sh` for some tools.
pub fn need(tools: &[&str]) -> io::Result<()> {
    let output = Command::new(workspace().join("scripts/need.sh")).args(tools).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("scripts/need.sh {} failed: {}", tools.join(" "), said.trim())))
}

/// A program on the `PATH` or in the folders of system programs.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A free port with a free port 10,000 above it (for services that take that one too), below the range that the system
/// gives to outgoing connections. Until this process ends no other test is given it, so a server can be started again there.
pub fn free_port() -> io::Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join(format!("holdfast-ports-{}", rustix::process::geteuid().as_raw()));
    // Root of a user namespace may not write to what the machine's root made, and has a network of its own.
    let _ = fs::create_dir_all(&folder);
    // Another test binary begins elsewhere.
    let base = 10_200 + (std::process::id() % 90) as u16 * 100;
    for _ in 0..9_000 {
        let port = 10_200 + (base - 10_200 + NEXT.fetch_add(1, Ordering::Relaxed)) % 9_700;
        let lock = File::options().create(true).truncate(false).write(true).open(folder.join(port.to_string())).ok();
        let is_others = lock.as_ref().is_some_and(|lock| lock.try_lock().is_err());
        let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if !is_others && free(port) && free(port + 10_000) {
            HELD.lock().unwrap_or_else(PoisonError::into_inner).extend(lock);
            return Ok(port);
        }
    }
    Err(io::Error::other("no free port below 20,000"))
}

/// Sends a request without a body to a port of this machine and answers the status and the body.
pub fn ask(port: u16, method: &str, path: &str, headers: &[(&str, &str)]) -> io::Result<(u16, String)> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_read_timeout(Some(ANSWER_LIMIT))?;
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Length: 0\r\n");
    for (name, value) in headers {
        request.extend([name, ": ", value, "\r\n"]);
    }
    socket.write_all((request + "\r\n").as_bytes())?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no HTTP answer"))?;
    Ok((status, answer))
}

/// What `id` says of who runs the tests.
fn id(what: &str) -> io::Result<String> {
    let output = Command::new("id").arg(what).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Makes a certificate for loopback with its key, both in one file, its own authority.
fn make_certificate(pem: &Path) -> io::Result<()> {
    let output = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "-", "-out", "-"])
        .output()?;
    if output.status.success() {
        return fs::write(pem, output.stdout);
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}
