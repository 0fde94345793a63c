//! Beginning and ending a mount.

use crate::attributes::now_ns;
use crate::care::About;
use crate::control::{Control, Released, Served};
use crate::core::{Core, HELD_MS};
use crate::follow::follow;
use crate::meter::LOOK_EVERY;
use crate::overlay::Room;
use crate::request::Face;
use fuser::{BackgroundSession, MountOption, Notifier, Session, SessionACL};
use holdfast_base::{Error, Result};
use holdfast_drive::scratch::Scratch;
use holdfast_drive::{Posix, Tree};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// How long a mount that is to end may still be in use before it is taken away from whoever uses it.
const IN_USE_FOR: Duration = Duration::from_secs(1);
/// How often that is looked at.
const IN_USE_AGAIN: Duration = Duration::from_millis(20);
/// Time between two looks whether something is to get to the disk.
const TICK: Duration = Duration::from_secs(1);
/// Every so many of them files without a name are held on.
const HOLD_TICKS: i64 = HELD_MS / 3_000;

/// How long the kernel believes names and attributes of what others change as well, where it cannot be told to ask again. What another changes is heard of
/// at once, so this is what is left of the time until it is seen.
const BELIEVED: Duration = Duration::from_millis(100);

/// How a space is mounted. Every bound is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// What `mount` and `df` call it.
    pub name: String,
    /// The drive, for whoever asks how the mount does: its server's address, or its data directory.
    pub target: String,
    /// The space, for the same.
    pub space: String,
    /// Refuse every change.
    pub read_only: bool,
    /// Let other accounts of this machine in, as far as owners and modes allow. Otherwise it is for the account that mounts.
    pub allow_other: bool,
    /// How long the kernel believes names and attributes without asking: what another face changes is seen within this time.
    pub believed: Duration,
    /// Look at open files when others change the space; and have the kernel believe longer, and ask again then.
    pub follow: bool,
    /// Threads that take requests. They wait for the catalogue's answers only, so more than cores.
    pub threads: usize,
    /// Written content in memory at most, of all files together.
    pub memory_bytes: usize,
    /// Written content set aside on the disk at most.
    pub scratch_bytes: u64,
    /// Folder for that.
    pub scratch_folder: PathBuf,
}

impl MountOptions {
    /// The usual ones, with a folder for what is set aside.
    pub fn new(name: String, (target, space): (String, String), scratch_folder: PathBuf) -> Self {
        Self {
            name,
            target,
            space,
            read_only: false,
            allow_other: false,
            believed: Duration::from_secs(1),
            follow: false,
            threads: std::thread::available_parallelism().map_or(8, |cores| (2 * cores.get()).clamp(8, 32)),
            memory_bytes: 256 << 20,
            scratch_bytes: 64 << 30,
            scratch_folder,
        }
    }

    /// The same of a space that others change meanwhile, of which the tree tells.
    #[must_use]
    pub fn followed(self) -> Self {
        Self { believed: BELIEVED, follow: true, ..self }
    }
}

/// A mount. Dropping it takes it away without saving what is open: better [`Self::stop`] it.
pub struct Mounted {
    core: Arc<Core>,
    session: Option<BackgroundSession>,
    control: Option<Control>,
    tasks: Vec<JoinHandle<()>>,
    at: PathBuf,
}

impl Mounted {
    /// Mounts a space on a folder, within a tokio runtime of several threads.
    pub fn start(tree: Arc<dyn Tree>, at: &Path, options: &MountOptions) -> Result<Self> {
        if crate::control::sweep(at)? {
            tracing::warn!(at = %at.display(), "a mount that was killed was left here, and is taken away");
        }
        let at = at.canonicalize().map_err(|error| Error::from(error).context(at.display()))?;
        if !at.is_dir() {
            return Err(Error::invalid(format!("{} is not a folder", at.display())));
        }
        let room = Room::new(options.memory_bytes, Scratch::new(options.scratch_folder.clone(), options.scratch_bytes));
        let usual = Posix {
            mode: 0o644,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            ..Posix::default()
        };
        let core = Arc::new(Core::new(tree, usual, room, (options.believed, options.follow)));
        let face = Face::new(core.clone(), Handle::current());
        let (session, device) = session(face, &at, options).map_err(|error| {
            Error::from(error).context(format!("{} could not be mounted on (is /dev/fuse there?)", at.display()))
        })?;
        let _ = core.notifier.set(session.notifier());
        let mut tasks = vec![
            tokio::spawn(crate::locks::keep(core.clone())),
            tokio::spawn(tick(core.clone())),
            tokio::spawn(look(core.clone())),
        ];
        let control = control(&core, session.notifier(), &at, options);
        if options.follow {
            tasks.push(tokio::spawn(follow(core.clone())));
            tasks.push(tokio::spawn(core.belief.clone().keep(session.notifier(), device)));
        }
        Ok(Self { core, session: Some(session), control, tasks, at })
    }

    /// Where it is mounted.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Whether it was unmounted from outside.
    pub fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Saves everything that is open and takes the mount away, whoever still uses it. Who asked it to end on its socket waits for the end of what
    /// this answers.
    pub async fn stop(mut self) -> Result<Released> {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.core.save_all().await;
        let (session, at) = (self.session.take(), self.at.clone());
        let ended = tokio::task::spawn_blocking(move || end(session, &at)).await;
        // What came in while it was taken away.
        self.core.save_all().await;
        crate::locks::leave(&self.core).await;
        self.core.tree.leave().await;
        ended.map_err(|error| Error::internal("ending the mount failed").with_source(error))?;
        Ok(self.control.take().map(Control::end).unwrap_or_default())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        let session = self.session.take();
        if session.is_some() {
            end(session, &self.at);
        }
    }
}

/// Mounts, and begins to answer; with another handle on what the kernel's requests come from.
fn session(face: Face, at: &Path, options: &MountOptions) -> io::Result<(BackgroundSession, File)> {
    let session = Session::new(face, at, &config(options))?;
    let device = session.as_fd().try_clone_to_owned()?;
    Ok((session.spawn()?, device.into()))
}

/// The mount's socket. Without it, it works as well.
fn control(core: &Arc<Core>, notifier: Notifier, at: &Path, options: &MountOptions) -> Option<Control> {
    let about = About {
        at: at.display().to_string(),
        target: options.target.clone(),
        space: options.space.clone(),
        read_only: options.read_only,
        since_ms: now_ns().div_euclid(1_000_000),
    };
    let (core, at, runtime) = (Arc::downgrade(core), at.to_owned(), Handle::current());
    let control = Control::start(Served { core, about, at, notifier, runtime });
    control.inspect_err(|error| tracing::warn!(%error, "`holdfast mount status` will not find this mount")).ok()
}

/// Takes a mount away that nobody uses. A program that is just being started holds its parent's files for a moment, so it is asked more than once.
fn freed(session: &BackgroundSession, at: &Path) -> bool {
    let deadline = Instant::now() + IN_USE_FOR;
    loop {
        match unmount(at, UnmountFlags::empty()) {
            Err(Errno::BUSY) if !session.guard.is_finished() && Instant::now() < deadline => {
                std::thread::sleep(IN_USE_AGAIN);
            }
            ended => return ended.is_ok(),
        }
    }
}

/// Takes a mount away, and waits for its threads.
fn end(session: Option<BackgroundSession>, at: &Path) {
    let Some(session) = session else { return };
    if !session.guard.is_finished() && !freed(&session, at) {
        // Somebody has a file open, or it is for root only: then the path is free at once, and requests that still come end in an error.
        let detached = unmount(at, UnmountFlags::DETACH | UnmountFlags::FORCE);
        tracing::warn!(at = %at.display(), freed = detached.is_ok(), "the mount was still in use");
    }
    if let Err(error) = session.umount_and_join() {
        tracing::debug!(%error, "the mount had ended");
    }
}

fn config(options: &MountOptions) -> fuser::Config {
    let mut config = fuser::Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.name.clone()),
        MountOption::Subtype("holdfast".into()),
        MountOption::NoAtime,
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    if options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    // Nothing is refused to root, and to nobody else does the kernel let a mount of root's alone. Where it has permissions to look at, it asks for a
    // folder's attributes after each change of its members.
    if options.allow_other || !rustix::process::geteuid().is_root() {
        config.mount_options.push(MountOption::DefaultPermissions);
    }
    config.n_threads = Some(options.threads.max(2));
    config.clone_fd = true;
    config
}

async fn look(core: Arc<Core>) {
    let mut every = tokio::time::interval(LOOK_EVERY);
    loop {
        every.tick().await;
        core.meter.look();
    }
}

async fn tick(core: Arc<Core>) {
    let mut every = tokio::time::interval(TICK);
    let mut ticks = 0_i64;
    loop {
        every.tick().await;
        ticks += 1;
        core.tick(ticks % HOLD_TICKS == 0).await;
    }
}
