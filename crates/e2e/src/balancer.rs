//! The balancers of `deploy/balancer`, each the real program with the very file that is there: only names of machines, ports and
//! certificates are replaced, and a second listener is added that speaks without TLS.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use holdfast_testkit::services::process::{Kept, hand_over};
use holdfast_testkit::services::{find_program, free_port, need, workspace};

use crate::Outcome;

/// The name in the certificate.
pub const HOST: &str = "drive.example.org";

const START_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of its log that a failing test shows.
const SHOWN_LOG_BYTES: usize = 8 << 10;

/// A kind of balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `HAProxy`.
    Haproxy,
    /// nginx.
    Nginx,
    /// Apache's `mod_proxy_balancer`.
    Apache,
    /// Caddy.
    Caddy,
}

/// A running balancer.
#[derive(Debug)]
pub struct Balancer {
    _process: Kept,
    /// Where it speaks TLS, as [`HOST`].
    pub tls: SocketAddr,
    /// Where it speaks without.
    pub plain: SocketAddr,
    folder: tempfile::TempDir,
}

impl Balancer {
    /// Starts one before these nodes.
    pub fn start(kind: Kind, nodes: &[SocketAddr]) -> Outcome<Self> {
        let name = match kind {
            Kind::Haproxy => "haproxy",
            Kind::Nginx => "nginx",
            Kind::Apache => "apache2",
            Kind::Caddy => "caddy",
        };
        if find_program(name).is_none() {
            need(&[name])?;
        }
        let program = find_program(name).ok_or_else(|| format!("there is no program {name}"))?;
        let folder = tempfile::tempdir()?;
        let address = || Ok::<_, std::io::Error>(SocketAddr::from(([127, 0, 0, 1], free_port()?)));
        let (tls, plain) = (address()?, address()?);
        make_certificate(folder.path())?;
        let (text, arguments) = configuration(kind, folder.path(), tls, plain)?;
        let text = nodes.iter().enumerate().fold(text, |text, (number, node)| {
            text.replace(&format!("node{}.example.org:8642", number + 1), &node.to_string())
        });
        fs::write(folder.path().join("conf"), text)?;
        hand_over(folder.path())?;
        let mut process = Kept::start(name, &program, &arguments, folder.path(), folder.path().join("log"))?;
        process.wait_until(START_LIMIT, || {
            holdfast_testkit::http::Client::new(plain).get("/healthz").is_ok_and(|answer| answer.status == 200)
        })?;
        Ok(Self { _process: process, tls, plain, folder })
    }

    /// The end of what it logged.
    pub fn log(&self) -> String {
        let log = fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(SHOWN_LOG_BYTES)..]).into_owned()
    }

    /// The certificate of its TLS listener.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("cert")
    }

    /// curl, set up to reach the TLS listener by its name, and to fail if an answer says that something failed.
    pub fn curl(&self) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail-with-body", "--max-time", "60", "--resolve"])
            .arg(format!("{HOST}:{}:127.0.0.1", self.tls.port()))
            .arg("--cacert")
            .arg(self.certificate());
        curl
    }

    /// The URL of a path behind the TLS listener.
    pub fn url(&self, path: &str) -> String {
        format!("https://{HOST}:{}{path}", self.tls.port())
    }
}

/// A certificate and its key, apart and in one file.
fn make_certificate(folder: &Path) -> Outcome {
    let output = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", &format!("/CN={HOST}"), "-addext", &format!("subjectAltName=DNS:{HOST}"), "-keyout"])
        .arg(folder.join("key"))
        .arg("-out")
        .arg(folder.join("cert"))
        .output()?;
    if !output.status.success() {
        return Err(format!("openssl: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let both = fs::read_to_string(folder.join("cert"))? + &fs::read_to_string(folder.join("key"))?;
    Ok(fs::write(folder.join("both"), both)?)
}

/// The file of `deploy/balancer`, with what only a test needs, and the program's arguments.
fn configuration(kind: Kind, folder: &Path, tls: SocketAddr, plain: SocketAddr) -> Outcome<(String, Vec<String>)> {
    let deployed = |name: &str| fs::read_to_string(workspace().join("deploy/balancer").join(name));
    let at = |name: &str| folder.join(name).display().to_string();
    // A line of the file that is not there any more would leave the test with less than it promises.
    let swap = |text: String, from: &str, to: &str| match text.matches(from).count() {
        1 => Ok(text.replace(from, to)),
        count => Err(format!("{kind:?}: «{from}» is in the file {count} times")),
    };
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let conf = at("conf");
    Ok(match kind {
        Kind::Haproxy => {
            let text = swap(deployed("haproxy.cfg")?, "bind :443 ", &format!("bind {plain}\n    bind {tls} "))?;
            let text = swap(text, &format!("/etc/haproxy/{HOST}.pem"), &at("both"))?;
            // More open files than a test may have.
            let text = swap(text, "maxconn 20000", "maxconn 1000")?;
            (text, words(&["-db", "-f", &conf]))
        }
        Kind::Nginx => {
            let listen = format!("listen {plain};\n    listen {tls} ssl http2;");
            let text = swap(deployed("nginx.conf")?, "listen 443 ssl http2;", &listen)?;
            let text = swap(text, &format!("/etc/nginx/{HOST}.pem"), &at("cert"))?;
            let text = swap(text, &format!("/etc/nginx/{HOST}.key"), &at("key"))?;
            let mut all = format!(
                "daemon off;\npid {};\nerror_log stderr info;\nevents {{}}\nhttp {{\naccess_log off;\n",
                at("pid")
            );
            for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
                writeln!(all, "{kind}_temp_path {};", at(kind))?;
            }
            (format!("{all}{text}}}\n"), words(&["-e", "stderr", "-p", &folder.display().to_string(), "-c", &conf]))
        }
        Kind::Apache => {
            let text = swap(deployed("apache.conf")?, "Listen 443", &format!("Listen {tls}"))?;
            let text = swap(text, "<VirtualHost *:443>", &format!("<VirtualHost {tls}>"))?;
            let text = swap(text, &format!("/etc/apache2/{HOST}.pem"), &at("cert"))?;
            let text = swap(text, &format!("/etc/apache2/{HOST}.key"), &at("key"))?;
            let begin = text.find("<VirtualHost").ok_or("no virtual host")?;
            // The second listener: the same host without TLS, before a balancer of its own name.
            let without =
                text[begin..].lines().filter(|line| !line.trim_start().starts_with("SSL")).collect::<Vec<_>>();
            let without = without.join("\n").replace(&tls.to_string(), &plain.to_string());
            let without = without.replace("balancer://holdfast", "balancer://plain").replace("ready", "ready2");
            let without = without.replace("/ready2z", "/readyz");
            let mut all = format!(
                "ServerName test\nPidFile {}\nErrorLog {}\nDefaultRuntimeDir {}\nListen {plain}\n",
                at("pid"),
                at("errors"),
                folder.display()
            );
            for module in [
                "mpm_event",
                "authz_core",
                "proxy",
                "proxy_http",
                "proxy_balancer",
                "proxy_hcheck",
                "lbmethod_byrequests",
                "slotmem_shm",
                "headers",
                "socache_shmcb",
                "ssl",
            ] {
                writeln!(all, "LoadModule {module}_module /usr/lib/apache2/modules/mod_{module}.so")?;
            }
            (format!("{all}{text}\n{without}\n"), words(&["-D", "FOREGROUND", "-f", &conf]))
        }
        Kind::Caddy => {
            let host = format!("{HOST} {{");
            let deployed = deployed("Caddyfile")?;
            let tls = format!("https://{HOST}:{} {{\n\ttls {} {}\n\tbind 127.0.0.1", tls.port(), at("cert"), at("key"));
            let plain = swap(deployed.clone(), &host, &format!("http://:{} {{\n\tbind 127.0.0.1", plain.port()))?;
            let all = format!("{{\n\tadmin off\n\tauto_https off\n}}\n{}{plain}", swap(deployed, &host, &tls)?);
            (all, words(&["run", "--adapter", "caddyfile", "--config", &conf]))
        }
    })
}
