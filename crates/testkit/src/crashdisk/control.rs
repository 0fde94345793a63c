//! The test's handle on a mounted disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, INodeNo};
use parking_lot::{Condvar, Mutex};

use super::config::Config;
use super::fault::{Action, Counts, Fault, FaultId, Faults, OpKind};
use super::fuse::Server;
use super::image::{Image, Snapshot};
use super::mount::{mount, take_away};
use super::state::State;

/// What the kernel's requests and the test's handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Mutex<Disk>,
    /// Told when the power goes.
    pub(crate) power: Condvar,
}

#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) state: State,
    pub(crate) faults: Faults,
    pub(crate) powered_off: bool,
}

/// A mounted disk. Dropping it takes the mount away.
#[derive(Debug)]
pub struct CrashDisk {
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    dir: PathBuf,
}

impl CrashDisk {
    /// Formats a disk and mounts it on the existing folder `dir`.
    pub fn mount(dir: impl AsRef<Path>, config: Config) -> io::Result<Self> {
        Self::mount_image(dir, Image::empty(config))
    }

    /// Mounts a disk that was switched off.
    pub fn mount_image(dir: impl AsRef<Path>, image: Image) -> io::Result<Self> {
        let dir = dir.as_ref().canonicalize()?;
        let threads = image.0.config.threads;
        let shared = Arc::new(Shared {
            disk: Mutex::new(Disk { state: image.0, faults: Faults::default(), powered_off: false }),
            power: Condvar::new(),
        });
        let session = mount(Server::new(Arc::clone(&shared)), &dir, threads)?;
        Ok(Self { shared, session: Some(session), dir })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The disk as it is now; programs go on.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.shared.disk.lock().state.clone())
    }

    /// Cuts the power: from now on every request fails with `EIO`. Says what the disk held.
    pub fn power_off(&self) -> Snapshot {
        let mut disk = self.shared.disk.lock();
        disk.powered_off = true;
        self.shared.power.notify_all();
        Snapshot(disk.state.clone())
    }

    /// Cuts the power and draws what the disk holds afterwards.
    pub fn power_cut(&self, seed: u64) -> Image {
        self.power_off().crash(seed)
    }

    /// Whether the power is off, by [`Self::power_off`] or by [`Action::CutPower`].
    pub fn is_powered_off(&self) -> bool {
        self.shared.disk.lock().powered_off
    }

    /// The same for whoever outlives this, as the machine's network may.
    pub fn power(&self) -> impl Fn() -> bool + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move || !shared.disk.lock().powered_off
    }

    /// Waits until the power is off, at most `limit`. Says whether it is.
    pub fn wait_powered_off(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut disk = self.shared.disk.lock();
        while !disk.powered_off {
            if self.shared.power.wait_until(&mut disk, deadline).timed_out() {
                break;
            }
        }
        disk.powered_off
    }

    /// Arms a fault.
    pub fn inject(&self, fault: Fault) -> FaultId {
        self.shared.disk.lock().faults.arm(fault)
    }

    /// Makes one operation of `kind` on a path like `pattern` fail with `errno`, after `after` that
    /// pass.
    pub fn fail_next(&self, kind: OpKind, pattern: &str, errno: i32, after: u64) -> FaultId {
        let fault = Fault::next(kind, Action::Fail(errno));
        self.inject(fault.on(pattern).after(after))
    }

    /// How often an armed fault struck.
    pub fn fired(&self, fault: FaultId) -> u64 {
        self.shared.disk.lock().faults.fired(fault)
    }

    /// Disarms all faults.
    pub fn clear_faults(&self) {
        self.shared.disk.lock().faults.clear();
    }

    /// How many operations of each kind were asked for since the mount.
    pub fn counts(&self) -> Counts {
        self.shared.disk.lock().faults.counts
    }

    /// Changes the room for file pages; below what is used, every growing write fails.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.disk.lock().state.config.capacity_bytes = bytes;
    }

    /// Bytes of pages in use.
    pub fn used_bytes(&self) -> u64 {
        self.shared.disk.lock().state.used_bytes()
    }

    /// Flips the bits of `mask` in the byte at `offset` of the file at `path` (below the mount) and
    /// drops it from the kernel's cache, so that the next read sees it.
    pub fn flip(&self, path: impl AsRef<Path>, offset: u64, mask: u8) -> io::Result<()> {
        let flipped = {
            let mut disk = self.shared.disk.lock();
            let found = disk.state.resolve(path.as_ref());
            found.and_then(|ino| disk.state.flip(ino, offset, mask).map(|()| ino))
        };
        let ino = flipped.map_err(|error| io::Error::from_raw_os_error(error.code()))?;
        if let Some(session) = &self.session {
            // An inode the kernel does not know has nothing cached: that error is no error.
            session.notifier().inval_inode(INodeNo(ino), 0, 0).ok();
        }
        Ok(())
    }

    /// Takes the mount away and says what was on it, as after a clean stop: the way to carry a disk
    /// to another folder. Programs that still use it get errors.
    pub fn unmount(mut self) -> io::Result<Image> {
        self.detach()?;
        let snapshot = Snapshot(self.shared.disk.lock().state.clone());
        Ok(snapshot.clean())
    }

    fn detach(&mut self) -> io::Result<()> {
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        take_away(&self.dir)?;
        session.join()
    }
}

impl Drop for CrashDisk {
    fn drop(&mut self) {
        if let Err(error) = self.detach() {
            eprintln!("crash disk on {}: {error}", self.dir.display());
        }
    }
}
