//! A server of OpenSSH with SFTP and nothing else, on a port of its own, with a host key, an authorized key and, as root, a password that nothing outside of it knows.
//!
//! It runs as the account that runs the tests. As root it gets a mount namespace of its own, in which `/etc/shadow` has one line, and the sign-in by questions asks for
//! the password in it.

use super::process::{Kept, is_root};
use super::{find_program, free_port, need};
use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const START_LIMIT: Duration = Duration::from_secs(30);
/// Mounts what is only for this server over what is of the machine, and becomes the server.
const APART: &str = r#"mount --bind "$1/shadow" /etc/shadow && mount --bind "$1/pam" /etc/pam.d/sshd && mkdir -p /run/sshd && shift && exec "$@""#;

/// The password of the account, if the tests run as root.
pub const PASSWORD: &str = "mole under the lawn";

/// A running server.
#[derive(Debug)]
pub struct Sshd {
    process: Option<Kept>,
    folder: tempfile::TempDir,
    port: u16,
    more: String,
    starts: u32,
}

impl Sshd {
    /// Starts one. `more` is put before the rest of its configuration, and decides.
    pub fn start(more: &str) -> io::Result<Self> {
        need(&["sshd", "ssh-keygen", "openssl", "unshare"])?;
        let (folder, port) = (tempfile::tempdir()?, free_port()?);
        for name in ["host", "key"] {
            make_key(&folder.path().join(name), "")?;
        }
        fs::copy(folder.path().join("key.pub"), folder.path().join("authorized"))?;
        if is_root() {
            let hash = Command::new("openssl").args(["passwd", "-6", PASSWORD]).output()?.stdout;
            let hash = String::from_utf8_lossy(&hash).trim().to_owned();
            fs::write(folder.path().join("shadow"), format!("root:{hash}:19000:0:99999:7:::\nsshd:!:19000::::::\n"))?;
            let pam = "auth required pam_unix.so\naccount required pam_permit.so\nsession required pam_permit.so\n";
            fs::write(folder.path().join("pam"), pam)?;
        }
        let mut sshd = Self { process: None, folder, port, more: more.to_owned(), starts: 0 };
        sshd.start_again()?;
        Ok(sshd)
    }

    /// Starts it once more, on the same port.
    pub fn start_again(&mut self) -> io::Result<()> {
        drop(self.process.take());
        let at = self.folder.path();
        // Which goes with the process.
        let own = at.join(format!("run-{}", self.starts));
        fs::create_dir(&own)?;
        let (at, port, more) = (at.display(), self.port, &self.more);
        // Which it takes once.
        let sftp = if more.contains("Subsystem") { "" } else { "Subsystem sftp internal-sftp" };
        let configuration = format!(
            "{more}\nListenAddress 127.0.0.1:{port}\nHostKey {at}/host\nPidFile {at}/pid\nAuthorizedKeysFile {at}/authorized\n\
             StrictModes no\nUsePAM no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nMaxStartups 100\nLogLevel VERBOSE\n\
             {sftp}\n"
        );
        fs::write(own.join("conf"), configuration)?;
        let sshd = find_program("sshd").ok_or_else(|| io::Error::other("there is no sshd"))?;
        let arguments = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let configured = own.join("conf").display().to_string();
        let server = [sshd.display().to_string(), "-D".into(), "-e".into(), "-f".into(), configured];
        let (program, arguments) = if is_root() {
            let unshare = find_program("unshare").ok_or_else(|| io::Error::other("there is no unshare"))?;
            let apart = [arguments(&["--mount", "sh", "-c", APART, "sh"]), vec![at.to_string()]].concat();
            (unshare, [apart, server.to_vec()].concat())
        } else {
            (sshd, server[1..].to_vec())
        };
        let log = self.folder.path().join(format!("log-{}", self.starts));
        self.starts += 1;
        let mut process = Kept::start_as_is("sshd", &program, &arguments, &own, log)?;
        process.wait_until(START_LIMIT, || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        self.process = Some(process);
        Ok(())
    }

    /// Kills it, with all its connections, as a power cut of its programs would.
    pub fn kill(&mut self) -> io::Result<()> {
        let text = fs::read_to_string(self.folder.path().join("pid"))?;
        let server: i32 = text.trim().parse().map_err(io::Error::other)?;
        // The one that accepts goes first, so that there are no more.
        let mut all = vec![server];
        all.extend(below(server)?);
        for id in all {
            let Some(id) = rustix::process::Pid::from_raw(id) else { continue };
            match rustix::process::kill_process(id, rustix::process::Signal::KILL) {
                Err(rustix::io::Errno::SRCH) | Ok(()) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        drop(self.process.take());
        Ok(())
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of a path.
    pub fn url(&self, path: &Path) -> String {
        format!("sftp://{}@127.0.0.1:{}{}", user(), self.port, path.display())
    }

    /// The file of the key that it takes.
    pub fn key(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    /// Takes one more key.
    pub fn authorize(&self, key: &Path) -> io::Result<()> {
        let (all, more) = (self.folder.path().join("authorized"), key.with_extension("pub"));
        fs::write(&all, fs::read_to_string(&all)? + &fs::read_to_string(more)?)
    }

    /// The line by which it is known.
    pub fn known_host(&self) -> io::Result<String> {
        let key = fs::read_to_string(self.folder.path().join("host.pub"))?;
        Ok(format!("[127.0.0.1]:{} {key}", self.port))
    }
}

/// Makes a key, and the public half of it beside it.
pub fn make_key(file: &Path, passphrase: &str) -> io::Result<()> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f"]).arg(file);
    let output = command.output()?;
    if output.status.success() { Ok(()) } else { Err(io::Error::other(format!("ssh-keygen failed: {output:?}"))) }
}

/// Who signs in: the account that runs the tests.
pub fn user() -> String {
    if is_root() { "root".into() } else { std::env::var("USER").unwrap_or_default() }
}

/// Processes below one, as they are now.
fn below(id: i32) -> io::Result<Vec<i32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<i32>().ok());
        parents.extend(parent.map(|parent| (parent, process)));
    }
    let mut found = vec![id];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(of, _)| *of == parent).map(|(_, process)| *process));
        at += 1;
    }
    found.remove(0);
    Ok(found)
}
