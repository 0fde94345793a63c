//! The mount's end of the socket.

use super::{LINE_TIME, REQUEST_BYTES_MAX, Reply, Request, key_of, make_folder, read, write};
use crate::care::About;
use crate::core::Core;
use fuser::{INodeNo, Notifier};
use holdfast_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 16;
/// Of those, how many may do what waits for the drive: the others are for asking how it does.
const WORKING_MAX: usize = 8;
/// Longest that an end by force waits for what is not saved.
const FORCED_SAVE_TIME: Duration = Duration::from_secs(10);
/// Pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// What the socket serves.
pub(crate) struct Served {
    pub(crate) core: Weak<Core>,
    pub(crate) about: About,
    pub(crate) at: PathBuf,
    pub(crate) notifier: Notifier,
    pub(crate) runtime: Handle,
}

struct Shared {
    served: Served,
    ended: AtomicBool,
    connections: AtomicUsize,
    working: AtomicUsize,
    /// Who waits for the end.
    waiting: Mutex<Vec<UnixStream>>,
}

/// The socket of a mount; it goes with this.
pub(crate) struct Control {
    path: PathBuf,
    shared: Arc<Shared>,
    accepting: Option<std::thread::JoinHandle<()>>,
}

/// Whoever asked a mount to end waits until this is dropped.
#[derive(Debug, Default)]
pub struct Released(#[expect(dead_code, reason = "their ends are what is waited for")] Vec<UnixStream>);

impl Control {
    /// Begins to listen.
    pub(crate) fn start(served: Served) -> Result<Self> {
        let name = format!("{}{}.sock", key_of(&served.at), std::process::id());
        let path = make_folder()?.join(name);
        let at = |error: std::io::Error| Error::from(error).context(path.display());
        // Of a process before with this number: it cannot be there any more.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(at)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(at)?;
        let shared = Arc::new(Shared {
            served,
            ended: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            waiting: Mutex::default(),
        });
        let theirs = shared.clone();
        let accepting = std::thread::Builder::new().name("control".into()).spawn(move || accept(&listener, &theirs))?;
        Ok(Self { path, shared, accepting: Some(accepting) })
    }

    /// Ends it; whoever asked for the end waits on.
    pub(crate) fn end(self) -> Released {
        Released(std::mem::take(&mut *self.shared.waiting.lock()))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wakes the thread; if that fails, it ended by itself.
        let woken = UnixStream::connect(&self.path);
        let _ = fs::remove_file(&self.path);
        if let Some(accepting) = self.accepting.take().filter(|_| woken.is_ok()) {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.ended.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else {
            std::thread::sleep(PAUSE);
            continue;
        };
        if !is_ours(&stream) || shared.connections.load(Ordering::Acquire) >= CONNECTIONS_MAX {
            continue;
        }
        shared.connections.fetch_add(1, Ordering::AcqRel);
        let theirs = shared.clone();
        let answering = std::thread::Builder::new().name("control".into()).spawn(move || {
            converse(stream, &theirs);
            theirs.connections.fetch_sub(1, Ordering::AcqRel);
        });
        if answering.is_err() {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Whether the one who asks is the account that mounts, or root.
fn is_ours(stream: &UnixStream) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return false };
    peer.uid.is_root() || peer.uid == rustix::process::geteuid()
}

fn converse(stream: UnixStream, shared: &Shared) {
    if stream.set_read_timeout(Some(LINE_TIME)).is_err() || stream.set_write_timeout(Some(LINE_TIME)).is_err() {
        return;
    }
    let reply = match read::<Request>(&stream, REQUEST_BYTES_MAX) {
        Ok(request) => shared.answer(&request).unwrap_or_else(|error| Reply::refused(&error)),
        Err(error) => Reply::refused(&error),
    };
    let ends = matches!(reply, Reply::Unmounted { .. });
    if let Err(error) = write(&stream, &reply) {
        tracing::debug!(%error, "an answer on the mount's socket did not arrive");
    }
    if ends {
        shared.waiting.lock().push(stream);
    }
}

impl Shared {
    fn answer(&self, request: &Request) -> Result<Reply> {
        let core = self.served.core.upgrade().ok_or_else(|| Error::conflict("the mount is ending"))?;
        if *request == Request::Status {
            return Ok(Reply::Status(Box::new(core.status(self.served.about.clone()))));
        }
        if self.working.fetch_add(1, Ordering::AcqRel) >= WORKING_MAX {
            self.working.fetch_sub(1, Ordering::AcqRel);
            return Err(Error::conflict(format!("{WORKING_MAX} others wait for this mount already")));
        }
        let done = self.work(&core, request);
        self.working.fetch_sub(1, Ordering::AcqRel);
        done
    }

    fn work(&self, core: &Arc<Core>, request: &Request) -> Result<Reply> {
        let runtime = &self.served.runtime;
        match request {
            Request::Status => Err(Error::internal("a status is no work")),
            Request::Flush => Ok(Reply::Flushed { files: runtime.block_on(core.flush_all())? }),
            Request::Pin { path } => runtime.block_on(core.pin(path)).map(|()| Reply::Pinned),
            Request::Unpin { path } => runtime.block_on(core.unpin(path)).map(|()| Reply::Pinned),
            Request::Evict { path, pinned } => {
                let files = runtime.block_on(core.evict(path.as_deref(), *pinned))?;
                for ino in &files {
                    self.forget(*ino);
                }
                Ok(Reply::Evicted { files: files.len() as u64 })
            }
            Request::Unmount { force: false } => {
                runtime.block_on(core.flush_all())?;
                take_away(&self.served.at)?;
                Ok(Reply::Unmounted { unsaved: None })
            }
            Request::Unmount { force: true } => {
                let core = core.clone();
                // It goes on when nobody waits for it any more: half a save would not know what it did.
                let saving = runtime.spawn(async move { core.flush_all().await });
                let saved = runtime.block_on(async { tokio::time::timeout(FORCED_SAVE_TIME, saving).await });
                detach(&self.served.at)?;
                let unsaved = match saved {
                    Ok(Ok(Ok(_))) => None,
                    Ok(Ok(Err(error))) => Some(error.to_string()),
                    Ok(Err(_)) | Err(_) => Some(format!("saving took longer than {} s", FORCED_SAVE_TIME.as_secs())),
                };
                Ok(Reply::Unmounted { unsaved })
            }
        }
    }

    /// This thread holds no request of the kernel's, which may wait for one of its own before it forgets.
    fn forget(&self, ino: INodeNo) {
        // An inode that the kernel does not have is none to forget.
        let _ = self.served.notifier.inval_inode(ino, 0, 0);
    }
}

/// Unmounts, if nobody uses it.
fn take_away(at: &Path) -> Result<()> {
    match unmount(at, UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => fusermount(at, &["-u"]),
        Err(Errno::BUSY) => Err(Error::conflict(format!(
            "{} is in use: a program has a file open in it or works in one of its folders (`fuser -vm` names it). --force \
             takes it away all the same",
            at.display()
        ))),
        Err(error) => Err(Error::from(std::io::Error::from(error)).context(at.display())),
    }
}

/// Frees the folder at once, whoever uses it; requests that still come end in an error.
pub(super) fn detach(at: &Path) -> Result<()> {
    match unmount(at, UnmountFlags::DETACH | UnmountFlags::FORCE | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => fusermount(at, &["-u", "-z"]),
        Err(error) => Err(Error::from(std::io::Error::from(error)).context(at.display())),
    }
}

/// For accounts that may not unmount themselves.
fn fusermount(at: &Path, how: &[&str]) -> Result<()> {
    let ended = Command::new("fusermount3").args(how).arg("--").arg(at).output();
    let ended = ended.map_err(|error| Error::from(error).context("fusermount3"))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(Error::new(ErrorKind::Conflict, said.trim().to_owned()))
}
