//! Apache with `mod_dav`: a WebDAV server of others.

use super::process::{Kept, hand_over};
use super::{find_program, free_port, need};
use std::io;
use std::path::Path;
use std::time::Duration;

const START_LIMIT: Duration = Duration::from_secs(30);
/// Where Debian has its modules.
const MODULES: &str = "/usr/lib/apache2/modules";

/// A running Apache with one folder, which a user may change.
#[derive(Debug)]
pub struct Apache {
    // Before the folder, which must outlive it.
    _server: Kept,
    /// Its port.
    pub port: u16,
    folder: tempfile::TempDir,
}

impl Apache {
    /// The user.
    pub const USER: &str = "ann";
    /// The user's password; of no use to anybody else, since the server is on loopback and ends with the test.
    pub const PASSWORD: &str = "only-for-tests";

    /// Starts it and waits until it listens; one signs in by `Basic`.
    pub fn start() -> io::Result<Self> {
        Self::start_with("auth_basic", "Basic")
    }

    /// The same, but that one signs in by `Digest`.
    pub fn start_with_digest() -> io::Result<Self> {
        Self::start_with("auth_digest", "Digest")
    }

    fn start_with(module: &str, kind: &str) -> io::Result<Self> {
        need(&["apache2"])?;
        let program = find_program("apache2").ok_or_else(|| io::Error::other("there is no apache2"))?;
        let (folder, port) = (tempfile::tempdir()?, free_port()?);
        let at = folder.path().display();
        std::fs::create_dir(folder.path().join("files"))?;
        // SHA-1 of the password; MD5 of user, realm and password.
        let users = match kind {
            "Basic" => format!("{}:{{SHA}}//lkd1GPL38JvMjE85VOw2cmiiI=\n", Self::USER),
            _ => format!("{}:files:ec328777dab337f0769534f6ee94185f\n", Self::USER),
        };
        std::fs::write(folder.path().join("users"), users)?;
        let modules = ["mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", module, "dav", "dav_fs"];
        let modules = modules.map(|name| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n")).concat();
        let configuration = format!(
            "{modules}ServerRoot {at}\nServerName 127.0.0.1\nListen 127.0.0.1:{port}\nPidFile {at}/pid\nErrorLog {at}/error\nLogLevel warn\n\
             Mutex file:{at} default\nDocumentRoot {at}/files\nDavLockDB {at}/locks\nMaxRequestWorkers 150\n\
             <Directory {at}/files>\nDav On\nAuthType {kind}\nAuthName files\nAuthUserFile {at}/users\nRequire valid-user\n</Directory>\n"
        );
        std::fs::write(folder.path().join("conf"), configuration)?;
        hand_over(folder.path())?;
        let arguments = ["-f".to_owned(), format!("{at}/conf"), "-DFOREGROUND".to_owned()];
        let mut server = Kept::start("apache2", &program, &arguments, folder.path(), folder.path().join("out"))?;
        server.wait_until(START_LIMIT, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(Self { _server: server, port, folder })
    }

    /// Its files.
    pub fn files(&self) -> std::path::PathBuf {
        self.folder.path().join("files")
    }

    /// What it writes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
