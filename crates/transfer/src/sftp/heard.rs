//! What ssh says on standard error, and what it means when ssh ends.
//!
//! It is told to say much (`LogLevel=DEBUG1`): which key the server has, which keys were offered, and which ways to sign in the server takes are in no other place.
//! Of these lines only such facts are kept. Of all others the last few are, and an error has the end of them.

use super::askpass::Asked;
use holdfast_base::{Error, ErrorKind};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::process::ExitStatus;

/// Bytes of a line that are kept.
const LINE_MAX: usize = 512;
/// Lines that are kept: the warning of a changed host key has fifteen.
const LINES_MAX: usize = 24;
/// Lines that an error shows.
const SHOWN: usize = 3;
/// Keys that an error names.
const KEYS_SHOWN: usize = 6;

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Heard(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    /// Of a line that has no end yet.
    piece: Vec<u8>,
    last: VecDeque<String>,
    host_key: Option<String>,
    /// Ways to sign in that the server takes.
    ways: Option<String>,
    /// Keys that were offered, and not taken so far.
    offered: Vec<String>,
}

impl Heard {
    /// Takes what arrived, in pieces of any size.
    pub(super) fn take(&self, bytes: &[u8]) {
        let mut said = self.0.lock();
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut said.piece);
                let line: String = String::from_utf8_lossy(&line).chars().filter(|c| !c.is_control()).collect();
                said.line(line.trim());
            } else if said.piece.len() < LINE_MAX {
                said.piece.push(byte);
            }
        }
    }

    /// The error of an ssh that ended before SFTP began, or while it went on. `name` is the host as it stands among known hosts.
    pub(super) fn error(&self, name: &str, asked: &Asked, status: Option<ExitStatus>) -> Error {
        self.0.lock().error(name, asked, status)
    }
}

impl Said {
    fn line(&mut self, line: &str) {
        let Some(fact) = line.strip_prefix("debug1: ") else {
            if line.starts_with("Confirm user presence") {
                tracing::warn!("{line}");
            }
            if !line.is_empty() && !line.starts_with("@@@@") {
                tracing::debug!(line, "ssh says");
                self.last.push_back(line.to_owned());
            }
            if self.last.len() > LINES_MAX {
                self.last.pop_front();
            }
            return;
        };
        let key = |text: &str| text.split(" SHA256:").next().unwrap_or_default().to_owned();
        if let Some(text) = fact.strip_prefix("Server host key: ") {
            self.host_key = Some(text.to_owned());
        } else if let Some(text) = fact.strip_prefix("Authentications that can continue: ") {
            self.ways = Some(text.replace(',', ", "));
        } else if let Some(text) = fact.strip_prefix("Offering public key: ") {
            self.offered.truncate(KEYS_SHOWN - 1);
            self.offered.push(key(text));
        } else if fact.starts_with("Server accepts key: ") {
            self.offered.pop();
        }
    }

    fn error(&self, name: &str, asked: &Asked, status: Option<ExitStatus>) -> Error {
        let has = |text: &str| self.last.iter().any(|line| line.contains(text));
        let of = |kind, what: String| Error::new(kind, what);
        // Where there is no key of this host, it was another on the way to it that was refused, or refused.
        if has("Host key verification failed") {
            return of(ErrorKind::Unauthenticated, self.host_refused(name));
        }
        if let Some(ways) = &self.ways
            && ["Permission denied (", "Too many authentication failures", "No more authentication methods"]
                .iter()
                .any(|text| has(text))
        {
            return of(ErrorKind::Unauthenticated, format!("{}. The server takes {ways}", self.tried(asked)));
        }
        let (words, end) = (self.end(), status.map(|status| format!("ssh ended with {status}")).unwrap_or_default());
        let words = if words.is_empty() { end } else { words };
        let any = |texts: &[&str]| texts.iter().any(|text| has(text));
        if any(&["Permission denied (", "Too many authentication failures"]) {
            return of(ErrorKind::Unauthenticated, words);
        }
        if any(&["subsystem request failed"]) {
            return of(ErrorKind::Unsupported, "the server has no SFTP, or not for this account".into());
        }
        if any(&["Unable to negotiate with", "no matching "]) {
            return of(ErrorKind::Unsupported, words);
        }
        if any(&["onfiguration option", "Can't open user config file", "Bad owner or permissions", "terminating, "]) {
            return of(ErrorKind::InvalidInput, words);
        }
        if any(&["Could not resolve hostname", "connect to host", "timed out"]) {
            return Error::unavailable(format!("it cannot be reached: {words}"));
        }
        Error::unavailable(words)
    }

    /// The last lines.
    fn end(&self) -> String {
        let lines: Vec<&str> =
            self.last.iter().skip(self.last.len().saturating_sub(SHOWN)).map(String::as_str).collect();
        lines.join("; ")
    }

    fn host_refused(&self, name: &str) -> String {
        let has = |text: &str| self.last.iter().any(|line| line.contains(text));
        let Some(key) = &self.host_key else { return format!("a host on the way is not believed: {}", self.end()) };
        if has("REVOKED HOST KEY") {
            return format!("{name} has a key that is marked as revoked: {key}");
        }
        if has("HAS CHANGED") {
            let line = self.last.iter().find_map(|line| line.strip_prefix("Offending "));
            let file = line.and_then(|line| Some(line.split_once(" in ")?.1.rsplit_once(':')?.0));
            let file = file.map(|file| format!("-f '{file}' ")).unwrap_or_default();
            return format!(
                "{name} has another host key than the known one: somebody may be in between, or it was set up anew. It is {key}; if its owner says \
                 that this is right, remove the old one: ssh-keygen {file}-R '{name}'"
            );
        }
        if has("you have requested strict checking") {
            return format!(
                "{name} is not known: its host key is {key}. If its owner says that this is right, say --accept-new-host-key, which writes it where ssh \
                 has known hosts, or connect once with ssh"
            );
        }
        format!("{name} is not believed, with its host key {key}: {}", self.end())
    }

    /// What was tried to sign in.
    fn tried(&self, asked: &Asked) -> String {
        let keys = self.offered.iter().map(|key| format!("the key {key} is not taken"));
        let mut notes: Vec<String> = keys.chain(asked.notes()).collect();
        // Which is why a key was not used that is there.
        notes.extend(self.last.iter().filter(|line| line.contains("bad permissions")).cloned());
        if notes.is_empty() {
            return "nobody can sign in so: there was nothing to sign in with".into();
        }
        format!("the sign-in was refused: {}", notes.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Error {
        let heard = Heard::default();
        text.as_bytes().chunks(7).for_each(|piece| heard.take(piece));
        heard.error("[h]:2222", &Asked::default(), None)
    }

    #[test]
    fn what_ssh_says_tells_who_is_to_act() {
        let key = "debug1: Server host key: ssh-ed25519 SHA256:abc\r\n";
        let ways = "debug1: Authentications that can continue: publickey,password\r\n";
        for (text, kind, part) in [
            (
                format!(
                    "{key}No ED25519 host key is known for [h]:2222 and you have requested strict checking.\nHost key verification failed.\n"
                ),
                ErrorKind::Unauthenticated,
                "[h]:2222 is not known: its host key is ssh-ed25519 SHA256:abc",
            ),
            (
                format!(
                    "{key}@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nOffending ED25519 key in /k n:1\nHost key verification failed.\n"
                ),
                ErrorKind::Unauthenticated,
                "remove the old one: ssh-keygen -f '/k n' -R '[h]:2222'",
            ),
            (
                format!(
                    "{key}@       WARNING: REVOKED HOST KEY DETECTED!               @\nHost key verification failed.\n"
                ),
                ErrorKind::Unauthenticated,
                "revoked",
            ),
            (
                "Host key verification failed.\nkex_exchange_identification: Connection closed by remote host\n".into(),
                ErrorKind::Unauthenticated,
                "on the way",
            ),
            (
                format!("{ways}u@h: Permission denied (publickey,password).\n"),
                ErrorKind::Unauthenticated,
                "nothing to sign in with",
            ),
            (
                format!(
                    "{ways}debug1: Offering public key: /k ED25519 SHA256:x explicit\n{ways}u@h: Permission denied (publickey,password).\n"
                ),
                ErrorKind::Unauthenticated,
                "the key /k ED25519 is not taken. The server takes publickey, password",
            ),
            (
                "u@jump: Permission denied (publickey).\nConnection closed by UNKNOWN port 65535\n".into(),
                ErrorKind::Unauthenticated,
                "u@jump",
            ),
            (
                "ssh: Could not resolve hostname h: Name or service not known\n".into(),
                ErrorKind::Unavailable,
                "cannot be reached",
            ),
            ("ssh: connect to host h port 2222: Connection refused\n".into(), ErrorKind::Unavailable, "refused"),
            ("subsystem request failed on channel 0\n".into(), ErrorKind::Unsupported, "no SFTP"),
            (
                "Unable to negotiate with h port 22: no matching host key type found. Their offer: ssh-dss\n".into(),
                ErrorKind::Unsupported,
                "ssh-dss",
            ),
            (
                "/c: line 3: Bad configuration option: nonsense\n/c: terminating, 1 bad configuration options\n".into(),
                ErrorKind::InvalidInput,
                "nonsense",
            ),
            ("Timeout, server h not responding.\n".into(), ErrorKind::Unavailable, "not responding"),
        ] {
            let error = said(&text);
            assert!(error.kind() == kind && error.message().contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn little_is_kept_of_a_server_that_says_much() {
        let heard = Heard::default();
        for _ in 0..10_000 {
            heard.take(&[b'x'; 700]);
            heard.take(b"\x1b[2J\r\ndebug1: Offering public key: k\n");
        }
        let said = heard.0.lock();
        assert!(said.last.len() <= LINES_MAX && said.offered.len() <= KEYS_SHOWN);
        assert!(said.last.iter().all(|line| line.len() <= LINE_MAX && !line.contains('\x1b')));
    }
}
