//! SeaweedFS: an S3 service in one program.

use super::process::{Kept, hand_over};
use super::{ask, find_program, free_port, need, workspace};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Its parts wait for each other at the start; some seconds on an idle machine.
const START_LIMIT: Duration = Duration::from_mins(1);

/// A running SeaweedFS with one bucket.
#[derive(Debug)]
pub struct Seaweed {
    // Before the folder, which must outlive it.
    _server: Kept,
    /// The port of its S3 face.
    pub s3_port: u16,
    /// The port of its filer, where buckets are folders.
    pub filer_port: u16,
    folder: tempfile::TempDir,
}

impl Seaweed {
    /// The access key.
    pub const ACCESS_KEY_ID: &str = "drive";
    /// Its secret; of no use to anybody else, since the server is on loopback and ends with the test.
    pub const SECRET_ACCESS_KEY: &str = "only-for-tests";
    /// The bucket.
    pub const BUCKET: &str = "packs";

    /// Starts it and waits until the bucket is there.
    pub fn start() -> io::Result<Self> {
        let program = program()?;
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        let identities = format!(
            r#"{{"identities": [{{"name": "drive", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
                "credentials": [{{"accessKey": "{}", "secretKey": "{}"}}]}}]}}"#,
            Self::ACCESS_KEY_ID,
            Self::SECRET_ACCESS_KEY
        );
        std::fs::write(path("s3.json"), identities)?;
        let (master, volume, filer_port, s3_port) = (free_port()?, free_port()?, free_port()?, free_port()?);
        let arguments = [
            "server".to_owned(),
            format!("-dir={}", folder.path().display()),
            "-ip=127.0.0.1".to_owned(),
            "-ip.bind=127.0.0.1".to_owned(),
            format!("-master.port={master}"),
            "-master.volumeSizeLimitMB=256".to_owned(),
            format!("-volume.port={volume}"),
            "-volume.max=64".to_owned(),
            "-filer".to_owned(),
            format!("-filer.port={filer_port}"),
            "-s3".to_owned(),
            format!("-s3.port={s3_port}"),
            format!("-s3.config={}", path("s3.json").display()),
            // Ports and sockets that it would share with another one on this machine.
            "-s3.port.iceberg=0".to_owned(),
            "-s3.port.lance=0".to_owned(),
            format!("-s3.localSocket={}", path("s3.sock").display()),
            format!("-filer.localSocket={}", path("filer.sock").display()),
        ];
        // Sockets that it makes in /tmp whatever it is told, and leaves there.
        let sockets = [("master", master), ("volume", volume), ("filer", filer_port), ("s3", s3_port)];
        let sockets = sockets.map(|(part, port)| format!("/tmp/seaweedfs-{part}-grpc-{}.sock\n", port + 10_000));
        std::fs::write(path("leftovers"), sockets.concat())?;
        hand_over(folder.path())?;
        let mut server = Kept::start("seaweedfs", &program, &arguments, folder.path(), path("log"))?;
        server.wait_until(START_LIMIT, || {
            let bucket = ask(filer_port, "POST", &format!("/buckets/{}/", Self::BUCKET), &[]);
            let answers = ask(s3_port, "GET", "/", &[]);
            // 409: an earlier look has made it.
            bucket.is_ok_and(|(status, _)| status / 100 == 2 || status == 409) && answers.is_ok()
        })?;
        Ok(Self { _server: server, s3_port, filer_port, folder })
    }

    /// The folder of everything that it writes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The address of its S3 face.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.s3_port)
    }
}

/// The program `weed`: the one named by `HOLDFAST_WEED`, or on the `PATH`, or in `target/bench-tools`, where it is installed
/// if it is nowhere.
fn program() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("HOLDFAST_WEED") {
        return Ok(path.into());
    }
    let installed = workspace().join("target/bench-tools/bin/weed");
    if let Some(path) = find_program("weed").or_else(|| installed.is_file().then(|| installed.clone())) {
        return Ok(path);
    }
    need(&["weed"])?;
    Ok(installed)
}
