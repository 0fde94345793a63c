//! Keys that a host is known to have: `~/.ssh/known_hosts` and `/etc/ssh/ssh_known_hosts`, in the format of sshd(8).
//!
//! Names as they are, hashed, with wildcards and exceptions, and `[host]:port` are understood. A key marked `@revoked` is refused; lines marked
//! `@cert-authority` are passed over, since no certificates of hosts are asked for.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_base::{Error, ErrorKind, Result};
use russh::keys::{HashAlg, PublicKey};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a file of known hosts that are read.
const FILE_MAX: u64 = 16 << 20;
/// Known hosts of the machine.
const OF_THE_MACHINE: &str = "/etc/ssh/ssh_known_hosts";

/// Whose keys are looked for, and where.
#[derive(Debug, Clone)]
pub(super) struct KnownHosts {
    name: String,
    files: Vec<PathBuf>,
    /// Whether the key of a host of which none is known is believed, and written down.
    accept_new: bool,
}

/// A key of a line that is about the host.
#[derive(Debug)]
struct Known {
    key: PublicKey,
    revoked: bool,
}

impl KnownHosts {
    pub(super) fn new(host: &str, port: u16, accept_new: bool) -> Self {
        let host = host.to_ascii_lowercase();
        let name = if port == 22 { host } else { format!("[{host}]:{port}") };
        let own = std::env::home_dir().map(|home| home.join(".ssh/known_hosts"));
        Self { name, files: own.into_iter().chain([OF_THE_MACHINE.into()]).collect(), accept_new }
    }

    /// Keys that the host may have.
    pub(super) fn keys(&self) -> Result<Vec<PublicKey>> {
        Ok(self.known()?.into_iter().filter(|known| !known.revoked).map(|known| known.key).collect())
    }

    /// Refuses a key that the host is not known to have.
    pub(super) fn check(&self, key: &PublicKey) -> Result<()> {
        let known = self.known()?;
        let (name, print) = (&self.name, key.fingerprint(HashAlg::Sha256));
        let refuse = |what: String| Err(Error::new(ErrorKind::Unauthenticated, what));
        if known.iter().any(|known| known.revoked && known.key.key_data() == key.key_data()) {
            return refuse(format!("{name} has a key that is marked as revoked: {print}"));
        }
        if known.iter().any(|known| known.key.key_data() == key.key_data()) {
            return Ok(());
        }
        let file = self.files.first().map_or_else(String::new, |file| file.display().to_string());
        if known.iter().any(|known| !known.revoked) {
            return refuse(format!(
                "{name} has another host key than the known one: somebody may be in between, or it was set up anew. It is {} {print}; \
                 if its owner says that this is right, remove the old one: ssh-keygen -f {file} -R '{name}'",
                key.algorithm()
            ));
        }
        if self.accept_new {
            return self.write_down(key);
        }
        refuse(format!(
            "{name} is not known: its host key is {} {print}. If its owner says that this is right, say --accept-new-host-key, which writes it to {file}, \
             or connect once with ssh",
            key.algorithm()
        ))
    }

    fn known(&self) -> Result<Vec<Known>> {
        let mut known = Vec::new();
        for file in &self.files {
            let text = read(file).map_err(|error| error.context(file.display()))?;
            known.extend(text.lines().filter_map(|line| self.line(line)));
        }
        Ok(known)
    }

    /// The key of a line about the host.
    fn line(&self, line: &str) -> Option<Known> {
        let mut fields = line.split_ascii_whitespace().peekable();
        let revoked = match *fields.peek()? {
            "@revoked" => fields.next().is_some(),
            first if first.starts_with(['#', '@']) => return None,
            _ => false,
        };
        if !names(fields.next()?, &self.name) {
            return None;
        }
        let key = PublicKey::from_openssh(&format!("{} {}", fields.next()?, fields.next()?)).ok()?;
        Some(Known { key, revoked })
    }

    fn write_down(&self, key: &PublicKey) -> Result<()> {
        let file = self.files.first().ok_or_else(|| Error::invalid("HOME is not set, so a host key cannot be kept"))?;
        let text =
            key.to_openssh().map_err(|error| Error::internal("a key could not be written").with_source(error))?;
        let written = || -> std::io::Result<()> {
            if let Some(folder) = file.parent() {
                std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
                    .create(folder)?;
            }
            let before = std::fs::read(file).unwrap_or_default();
            let gap = if before.last().is_some_and(|last| *last != b'\n') { "\n" } else { "" };
            let mut opened = OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
            opened.write_all(format!("{gap}{} {}\n", self.name, text.trim()).as_bytes())?;
            opened.sync_all()
        };
        written().map_err(|error| Error::from(error).context(file.display()))
    }
}

fn read(file: &Path) -> Result<String> {
    let opened = match File::open(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    opened.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(Error::new(ErrorKind::TooLarge, format!("it has more than {} MiB", FILE_MAX >> 20)));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a list of patterns means a host: one of them matches, and none that says it is not.
fn names(patterns: &str, host: &str) -> bool {
    let mut named = false;
    for pattern in patterns.split(',') {
        if let Some(hashed) = pattern.strip_prefix("|1|") {
            named |= is_hash_of(hashed, host);
        } else if let Some(except) = pattern.strip_prefix('!') {
            if matches(except.to_ascii_lowercase().as_bytes(), host.as_bytes()) {
                return false;
            }
        } else {
            named |= matches(pattern.to_ascii_lowercase().as_bytes(), host.as_bytes());
        }
    }
    named
}

fn is_hash_of(hashed: &str, host: &str) -> bool {
    let Some((salt, hash)) = hashed.split_once('|') else { return false };
    let (Ok(salt), Ok(hash)) = (STANDARD.decode(salt), STANDARD.decode(hash)) else { return false };
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    hmac::verify(&key, host.as_bytes(), &hash).is_ok()
}

/// `*` is any number of characters, `?` is one. Where it does not match, the last `*` takes one more.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut back) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match back {
                Some((star, at)) => {
                    back = Some((star, at + 1));
                    (p, t) = (star + 1, at + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    const B: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP8BAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

    fn key(text: &str) -> PublicKey {
        PublicKey::from_openssh(text).expect("a key")
    }

    fn knowing(folder: &Path, host: &str, port: u16, lines: &str) -> KnownHosts {
        let file = folder.join("ssh/known_hosts");
        if !lines.is_empty() {
            std::fs::create_dir_all(folder.join("ssh")).expect("a folder");
            std::fs::write(&file, lines).expect("writes");
        }
        KnownHosts { files: vec![file], ..KnownHosts::new(host, port, false) }
    }

    fn hashed(host: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"salt");
        format!("|1|{}|{}", STANDARD.encode("salt"), STANDARD.encode(hmac::sign(&key, host.as_bytes())))
    }

    #[test]
    fn a_host_is_known_by_name_hash_port_and_pattern_and_not_where_it_is_excepted() {
        let folder = tempfile::tempdir().expect("a folder");
        for (host, port, line, is_known) in [
            ("Here.example", 22, format!("other,here.example {A}"), true),
            ("here.example", 22, format!("{} {A}", hashed("here.example")), true),
            ("here.example", 2222, format!("{} {A}", hashed("[here.example]:2222")), true),
            ("here.example", 2222, format!("[here.example]:2222 {A}"), true),
            ("here.example", 2222, format!("here.example {A}"), false),
            ("here.example", 22, format!("[here.example]:2222 {A}"), false),
            ("here.example", 22, format!("*.exam?le {A}"), true),
            ("here.example", 22, format!("*.example,!here.* {A}"), false),
            ("here.example", 22, format!("# here.example {A}"), false),
            ("here.example", 22, format!("@cert-authority here.example {A}"), false),
            ("here.example", 22, "here.example ssh-ed25519 AAAA".to_owned(), false),
        ] {
            let known = knowing(folder.path(), host, port, &line);
            assert_eq!(known.check(&key(A)).is_ok(), is_known, "{line}");
        }
    }

    #[test]
    fn an_unknown_key_is_told_from_another_and_both_say_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let told = |known: KnownHosts| known.check(&key(A)).expect_err("refused");
        let unknown = told(knowing(folder.path(), "h", 22, ""));
        assert_eq!(unknown.kind(), ErrorKind::Unauthenticated);
        assert!(
            unknown.message().contains("SHA256:") && unknown.message().contains("--accept-new-host-key"),
            "{unknown}"
        );
        let mut other = knowing(folder.path(), "h", 22, &format!("h {B}\n"));
        other.accept_new = true;
        let other = told(other);
        assert!(other.message().contains("SHA256:") && other.message().contains("ssh-keygen -f"), "{other}");
        let revoked = told(knowing(folder.path(), "h", 22, &format!("@revoked * {A}\nh {A}\n")));
        assert!(revoked.message().contains("revoked"), "{revoked}");
    }

    #[test]
    fn a_new_key_is_written_down_when_that_is_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        for lines in ["", "other ssh-ed25519 AAAA"] {
            let mut known = knowing(folder.path(), "h", 2022, lines);
            known.accept_new = true;
            known.check(&key(A)).expect("accepted");
            known.accept_new = false;
            known.check(&key(A)).expect("known now");
            assert!(known.check(&key(B)).is_err());
            std::fs::remove_file(&known.files[0]).expect("removes");
        }
    }
}
