//! A drive on a disk that forgets, made once and mounted many times. Its data directory is there, and its packs if they are in a folder.
//! A catalogue that is not in a file is on a server whose disk forgets nothing: what PostgreSQL makes of a power cut is its own matter, and
//! what is proved is that nothing is in the catalogue whose bytes the disk may still lose.

use holdfast_testkit::crashdisk::{Config, CrashDisk, Image};
use holdfast_testkit::http::Client;
use holdfast_testkit::server::{ServerOptions, TestServer};

use crate::Outcome;
use crate::engines::{Engines, Place};
use crate::rig::{NAME, PASSWORD, make_token};

/// A disk with a new drive on it, and the way in. Making one takes longer than most tests on it.
#[derive(Debug)]
pub struct Template {
    image: Image,
    /// Where it is beside the disk; not to be changed there, but in a copy.
    pub place: Place,
    token: String,
}

/// A mounted disk in a temporary folder. The mount goes before the folder.
#[derive(Debug)]
pub struct MountedDisk {
    /// The disk.
    pub disk: CrashDisk,
    /// Where the drive is beside the disk.
    pub place: Place,
    _folder: tempfile::TempDir,
}

impl Template {
    /// Makes the drive, with one account, and stops its server in good order.
    pub fn make() -> Outcome<Self> {
        let place = Engines::of_environment()?.place()?;
        let mounted = mount(Image::empty(Config::default()), &place)?;
        let options = mounted.options()?;
        options.add_account(NAME, PASSWORD)?;
        let token = make_token(&options)?;
        let mut server = options.start()?;
        server.terminate()?;
        Ok(Self { image: mounted.disk.unmount()?, place, token })
    }

    /// The disk, not mounted.
    pub fn image(&self, config: Config) -> Image {
        self.image.clone().with_config(config)
    }

    /// A copy of the drive, mounted.
    pub fn mount(&self) -> Outcome<MountedDisk> {
        mount(self.image(Config::default()), &self.place.copy()?)
    }

    /// An app token of the drive's account.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A client of the drive's account.
    pub fn client(&self, server: &TestServer) -> Client {
        server.client_of(NAME, &self.token)
    }
}

/// Mounts a disk in a temporary folder.
pub fn mount(image: Image, place: &Place) -> Outcome<MountedDisk> {
    let folder = tempfile::tempdir()?;
    let disk = CrashDisk::mount_image(folder.path(), image)?;
    Ok(MountedDisk { disk, place: place.clone(), _folder: folder })
}

impl MountedDisk {
    /// A server on the drive of this disk.
    pub fn options(&self) -> Outcome<ServerOptions> {
        self.place.options(&self.disk.path().join("data"))
    }
}

/// Chains of power cuts at once: one core each.
const THREADS: usize = 2;

/// Runs a chain for each seed, some at a time; answers the sum of what they answer, or the first failure with its seed.
pub fn run_chains(seeds: std::ops::Range<u64>, run: impl Fn(u64) -> Outcome<u64> + Sync) -> Outcome<u64> {
    let seeds = std::sync::Mutex::new(seeds);
    let take = || seeds.lock().map_err(|_| "a chain panicked").map(|mut seeds| seeds.next());
    std::thread::scope(|scope| {
        let work = || -> Outcome<u64> {
            let mut answers = 0;
            while let Some(seed) = take()? {
                answers += run(seed).map_err(|error| format!("chain {seed}: {error}"))?;
            }
            Ok(answers)
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a chain panicked")?).sum()
    })
}
