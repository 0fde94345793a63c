//! A server of SFTP, and `push`, `pull` and `sync` as they come to it: with a configuration of ssh that has nothing of the machine's.

use crate::Outcome;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::program;
use holdfast_testkit::services::sshd::Sshd;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Bytes of a block.
pub const MIB: u64 = 1 << 20;
/// Some failed and the rest is done (docs/operating/exit-codes.md).
pub const PARTIAL: i32 = 74;

/// A server, a home folder of whoever comes, and a folder at each end.
#[derive(Debug)]
pub struct Rig {
    /// The server.
    pub sshd: Sshd,
    folder: tempfile::TempDir,
}

impl Rig {
    /// Starts the server, with `more` in its configuration.
    pub fn start(more: &str) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["home/.ssh", "here", "there"] {
            fs::create_dir_all(folder.path().join(name))?;
        }
        let sshd = Sshd::start(more)?;
        let rig = Self { sshd, folder };
        fs::write(rig.at("home/.ssh/known_hosts"), rig.sshd.known_host()?)?;
        rig.configure("")?;
        Ok(rig)
    }

    /// Writes ssh's configuration, with `more` before what it has for all hosts: files of the rig's home, and none of the machine's.
    pub fn configure(&self, more: &str) -> Outcome {
        let ssh = self.at("home/.ssh");
        let (config, ssh) = (ssh.join("config"), ssh.display());
        let usual = format!(
            "Host *\nUserKnownHostsFile {ssh}/known_hosts\nGlobalKnownHostsFile {ssh}/none\nIdentityFile {ssh}/id_ed25519\nHashKnownHosts no\n"
        );
        Ok(fs::write(config, format!("{more}\n{usual}"))?)
    }

    /// A path in the folder.
    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The address of a folder at the server's end.
    pub fn there(&self, path: &str) -> String {
        self.sshd.url(&self.at("there")) + path
    }

    /// A path at this end.
    pub fn here(&self, path: &str) -> String {
        format!("{}{path}", self.at("here").display())
    }

    /// The program with nothing to sign in with.
    pub fn bare(&self, arguments: &[&str]) -> Outcome<Command> {
        let mut command = Command::new(program()?);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.arg("--ssh-config").arg(self.at("home/.ssh/config")).env_remove("SSH_AUTH_SOCK");
        Ok(command)
    }

    /// The program with the key that the server takes.
    pub fn command(&self, arguments: &[&str]) -> Outcome<Command> {
        let mut command = self.bare(arguments)?;
        command.arg("--identity").arg(self.sshd.key());
        Ok(command)
    }

    /// Runs it, and answers its last line.
    pub fn run(&self, arguments: &[&str]) -> Outcome<Value> {
        let output = self.command(&[arguments, &["--json"]].concat())?.output()?;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        end_of(&output)
    }

    /// A file with a password in it.
    pub fn secret(&self, text: &str) -> Outcome<String> {
        let path = self.at("secret");
        fs::write(&path, format!("{text}\n"))?;
        Ok(path.display().to_string())
    }
}

/// The last line of what a command says.
pub fn end_of(output: &Output) -> Outcome<Value> {
    let text = std::str::from_utf8(&output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().ok_or_else(|| format!("nothing was said: {output:?}"))?)?)
}

/// What a command says on standard error.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Bytes that do not shrink.
pub fn random(bytes: u64, seed: u64) -> Outcome<Vec<u8>> {
    let mut rng = Prng::new(seed);
    Ok((0..=bytes / 8).flat_map(|_| rng.next_u64().to_le_bytes()).take(usize::try_from(bytes)?).collect())
}

/// Bytes of part files in a folder.
pub fn parts(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let parts = entries.flatten().filter(|entry| entry.path().extension().is_some_and(|ending| ending == "part"));
    parts.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// Waits until so much is in part files; false if the program ended before.
pub fn wait_for(child: &mut Child, folder: &Path, bytes: u64) -> Outcome<bool> {
    while parts(folder) < bytes {
        if child.try_wait()?.is_some() {
            return Ok(false);
        }
        sleep(Duration::from_millis(1));
    }
    Ok(true)
}
