//! A drive on a disk that forgets, made once and mounted many times.

use holdfast_testkit::crashdisk::{Config, CrashDisk, Image};
use holdfast_testkit::http::Client;
use holdfast_testkit::server::{ServerOptions, TestServer};

use crate::Outcome;
use crate::rig::{NAME, PASSWORD, make_token};

/// A disk with a new drive on it, and the way in. Making one takes longer than most tests on it.
#[derive(Debug)]
pub struct Template {
    image: Image,
    token: String,
}

/// A mounted disk in a temporary folder. The mount goes before the folder.
#[derive(Debug)]
pub struct MountedDisk {
    /// The disk.
    pub disk: CrashDisk,
    _folder: tempfile::TempDir,
}

impl Template {
    /// Makes the drive, with one account, and stops its server in good order.
    pub fn make() -> Outcome<Self> {
        let mounted = mount(Image::empty(Config::default()))?;
        let options = mounted.options();
        options.add_account(NAME, PASSWORD)?;
        let token = make_token(&options)?;
        let mut server = options.start()?;
        server.terminate()?;
        Ok(Self { image: mounted.disk.unmount()?, token })
    }

    /// The disk, not mounted.
    pub fn image(&self, config: Config) -> Image {
        self.image.clone().with_config(config)
    }

    /// A client of the drive's account.
    pub fn client(&self, server: &TestServer) -> Client {
        server.client_of(NAME, &self.token)
    }
}

/// Mounts a disk in a temporary folder.
pub fn mount(image: Image) -> Outcome<MountedDisk> {
    let folder = tempfile::tempdir()?;
    let disk = CrashDisk::mount_image(folder.path(), image)?;
    Ok(MountedDisk { disk, _folder: folder })
}

impl MountedDisk {
    /// A server on the drive of this disk.
    pub fn options(&self) -> ServerOptions {
        ServerOptions::new(self.disk.path().join("data"))
    }
}
