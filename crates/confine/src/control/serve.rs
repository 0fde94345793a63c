//! The supervisor's end of the socket.

use super::follow::{Followers, log};
use super::{LINE_TIME, Reply, Request, Status, make_folder, read, write};
use crate::Confined;
use crate::audit::Log;
use crate::revoke::Revoked;
use holdfast_base::{Error, Result};
use holdfast_policy::Policy;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// What a program is, for who asks.
#[derive(Debug, Clone)]
pub struct About {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where its policy is from.
    pub policy: String,
    /// When it was started, in milliseconds since 1970.
    pub since_ms: i64,
}

/// The socket of a running program; it goes with this.
#[derive(Debug)]
pub struct Control {
    confined: Arc<Confined>,
    path: PathBuf,
    ended: Arc<AtomicBool>,
    answering: Option<JoinHandle<()>>,
}

impl Control {
    /// Begins to listen.
    ///
    /// # Errors
    /// If there is no place for the socket.
    pub fn start(confined: Arc<Confined>, about: About) -> Result<Self> {
        let id = std::process::id();
        let folder = make_folder()?;
        let path = folder.join(format!("{id}.sock"));
        let at = |error: std::io::Error| Error::from(error).context(path.display());
        // Whoever finds a socket that nobody listens on takes it for a dead program's and removes it: it gets its name when somebody does.
        let unheard = folder.join(format!("new.{id}"));
        // Of a process before with this number: it cannot be there any more.
        match fs::remove_file(&unheard) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&unheard).map_err(at)?;
        fs::set_permissions(&unheard, Permissions::from_mode(0o600)).map_err(at)?;
        fs::rename(&unheard, &path).map_err(at)?;
        let ended = Arc::new(AtomicBool::new(false));
        let theirs = ended.clone();
        let mut served = Served {
            status: Status {
                id,
                pid: confined.pid(),
                command: about.command,
                policy: about.policy,
                since_ms: about.since_ms,
                frozen: false,
            },
            confined: confined.clone(),
            followers: Followers::default(),
        };
        let answering =
            std::thread::Builder::new().name("control".into()).spawn(move || served.accept(&listener, &theirs))?;
        Ok(Self { confined, path, ended, answering: Some(answering) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(log) = self.confined.log() {
            log.recent().end();
        }
        // Wakes the thread; if that fails, it ended by itself.
        let woken = UnixStream::connect(&self.path);
        let _ = fs::remove_file(&self.path);
        if let Some(answering) = self.answering.take().filter(|_| woken.is_ok()) {
            let _ = answering.join();
        }
    }
}

struct Served {
    status: Status,
    confined: Arc<Confined>,
    followers: Followers,
}

impl Served {
    fn accept(&mut self, listener: &UnixListener, ended: &AtomicBool) {
        for stream in listener.incoming() {
            if ended.load(Ordering::Acquire) {
                break;
            }
            match stream {
                // Whoever asked may be gone again.
                Ok(stream) if is_ours(&stream) => drop(self.answer(stream)),
                Ok(_) => {}
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
        self.followers.finish();
    }

    fn answer(&mut self, stream: UnixStream) -> Result<()> {
        stream.set_read_timeout(Some(LINE_TIME))?;
        stream.set_write_timeout(Some(LINE_TIME))?;
        let request = read(&stream)?;
        if request == (Request::Log { follow: true }) {
            let refused = stream.try_clone()?;
            let Err(error) = self.followers.add(stream, self.confined.clone()) else { return Ok(()) };
            return write(&refused, &Reply::of(Err(error)));
        }
        write(&stream, &self.done(request))
    }

    fn done(&mut self, request: Request) -> Reply {
        let result = match request {
            Request::Status => return Reply::Status(self.status.clone()),
            Request::Log { .. } => {
                let page = self.confined.log().map(Log::recent).map(|recent| recent.since(0)).unwrap_or_default();
                return Reply::Log(log(&self.confined, page));
            }
            Request::Freeze => self.confined.freeze().map(|()| self.status.frozen = true),
            Request::Thaw => self.confined.thaw().map(|()| self.status.frozen = false),
            Request::Kill => {
                self.confined.kill();
                Ok(())
            }
            Request::Policy { file, base, text, revoke } => {
                let policy = Policy::from_toml(&file, &base, text.as_bytes())
                    .map_err(|mistakes| Error::invalid(mistakes.to_string()));
                match policy.and_then(|policy| self.set(policy, revoke)) {
                    Ok(revoked) => {
                        self.status.policy = file;
                        return revoked.map_or(Reply::Done, Reply::Revoked);
                    }
                    Err(error) => Err(error),
                }
            }
        };
        Reply::of(result)
    }
}

impl Served {
    fn set(&self, policy: Policy, revoke: bool) -> Result<Option<Revoked>> {
        if revoke {
            return self.confined.set_policy_and_revoke(policy, self.status.frozen).map(Some);
        }
        self.confined.set_policy(policy).map(|()| None)
    }
}

/// Whether the one who asks is the account that runs it, or root.
fn is_ours(stream: &UnixStream) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return false };
    peer.uid.is_root() || peer.uid == rustix::process::geteuid()
}
