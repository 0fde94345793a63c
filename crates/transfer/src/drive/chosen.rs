//! Why a drive is reached by the plane that it is, and what was found out about its network, which is remembered for a while.
//!
//! One small file for each server, in the user's state folder (`$XDG_STATE_HOME/holdfast/planes`). Lost or torn, it costs finding out anew; so it is never
//! synced. Who has no such folder finds out each time.

use super::Plane;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long it is remembered: a network is another one in an hour, or after a walk.
const REMEMBERED: Duration = Duration::from_hours(1);
const MAGIC: &str = "holdfast plane 1";
const FILE_BYTES_MAX: u64 = 4 << 10;

/// Why a plane was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// Somebody said so.
    Asked,
    /// The server is near, where TCP takes less work.
    Near,
    /// The server is far, and answers by QUIC.
    Far,
    /// The other does not get through.
    Blocked,
    /// Over TCP much is lost, or comes late.
    Lossy,
    /// Both were used for a while, and this one is faster.
    Faster,
    /// Both were used for a while, and the other one is no faster.
    Compared,
}

impl Why {
    /// Its word, for people, programs and files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Near => "near",
            Self::Far => "far",
            Self::Blocked => "blocked",
            Self::Lossy => "lossy",
            Self::Faster => "faster",
            Self::Compared => "compared",
        }
    }
}

/// A plane, and why it is that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// Which.
    pub plane: Plane,
    /// Why.
    pub why: Why,
    /// Whether that was found out by an earlier transfer.
    pub remembered: bool,
}

impl Chosen {
    pub(super) const fn new(plane: Plane, why: Why) -> Self {
        Self { plane, why, remembered: false }
    }
}

/// Where it is remembered of a server; none without a folder for it.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    server: String,
    path: Option<PathBuf>,
}

impl Memory {
    /// That of a server.
    pub(super) fn of(server: String) -> Self {
        Self::in_folder(usual_folder(), server)
    }

    fn in_folder(folder: Option<PathBuf>, server: String) -> Self {
        let name = blake3::hash(server.as_bytes()).to_hex().to_string();
        Self { path: folder.map(|folder| folder.join(name)), server }
    }

    /// What was found out lately.
    pub(super) fn recall(&self, now: SystemTime) -> Option<Chosen> {
        let mut text = String::new();
        let file = fs::File::open(self.path.as_ref()?).ok()?;
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
        let (chosen, at_s) = self.parse(&text)?;
        let age = now.duration_since(UNIX_EPOCH).ok()?.checked_sub(Duration::from_secs(at_s))?;
        (age < REMEMBERED).then_some(chosen)
    }

    /// Writes down what was found out.
    pub(super) fn keep(&self, chosen: Chosen, now: SystemTime) {
        let Some(path) = &self.path else { return };
        let at_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (plane, why) = (word(chosen.plane), chosen.why.word());
        let text = [MAGIC, &self.server, plane, why, &at_s.to_string(), "end\n"].join("\n");
        let folder = path.parent().unwrap_or(path);
        let written = DirBuilder::new().recursive(true).mode(0o700).create(folder).and_then(|()| {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(path)?
                .write_all(text.as_bytes())
        });
        if let Err(error) = written {
            tracing::debug!(%error, path = %path.display(), "which plane is better is not remembered");
        }
    }

    /// Nothing is remembered any more.
    pub(super) fn forget(&self) {
        if let Some(path) = &self.path {
            // What is not there is forgotten.
            let _ = fs::remove_file(path);
        }
    }

    fn parse(&self, text: &str) -> Option<(Chosen, u64)> {
        let lines: Vec<&str> = text.lines().collect();
        let [MAGIC, server, plane, why, at_s, "end"] = lines[..] else { return None };
        let plane = [Plane::Tcp, Plane::Quic].into_iter().find(|known| word(*known) == plane)?;
        let why =
            [Why::Blocked, Why::Lossy, Why::Faster, Why::Compared].into_iter().find(|known| known.word() == why)?;
        (server == self.server).then_some((Chosen { plane, why, remembered: true }, at_s.parse().ok()?))
    }
}

const fn word(plane: Plane) -> &'static str {
    match plane {
        Plane::Tcp => "tcp",
        Plane::Quic => "quic",
    }
}

fn usual_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("holdfast/planes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_out_about_a_server_is_known_for_a_while_and_of_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |server: &str| Memory::in_folder(Some(folder.path().join("planes")), server.into());
        let (memory, now) = (of("https://a:443"), UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        assert_eq!(memory.recall(now), None);
        for why in [Why::Blocked, Why::Lossy, Why::Faster, Why::Compared] {
            memory.keep(Chosen::new(Plane::Tcp, why), now);
            let found = Chosen { plane: Plane::Tcp, why, remembered: true };
            assert_eq!(memory.recall(now + Duration::from_mins(59)), Some(found));
        }
        assert_eq!(memory.recall(now + REMEMBERED), None);
        assert_eq!(memory.recall(now - Duration::from_secs(1)), None, "a clock that was set back");
        assert_eq!(of("https://b:443").recall(now), None);
        memory.forget();
        assert_eq!(memory.recall(now), None);
        let nowhere = Memory::in_folder(None, "https://a:443".into());
        nowhere.keep(Chosen::new(Plane::Tcp, Why::Blocked), now);
        assert_eq!(nowhere.recall(now), None);
    }

    #[test]
    fn what_is_torn_is_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let memory = Memory::in_folder(Some(folder.path().to_owned()), "https://a:443".into());
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        memory.keep(Chosen::new(Plane::Quic, Why::Compared), now);
        let path = memory.path.clone().expect("a path");
        let text = fs::read_to_string(&path).expect("is there");
        for end in 0..text.len() - 1 {
            fs::write(&path, &text[..end]).expect("writes");
            assert_eq!(memory.recall(now), None, "{end}");
        }
    }
}
