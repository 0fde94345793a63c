//! Servers that speak FTP: vsftpd, which lists as `ls -l` does, and `ProFTPD`, which knows MLSD.
//!
//! Both have one folder, in which [`USER`] may do everything with [`PASSWORD`]; vsftpd knows accounts of the machine alone, and lets this one in as it
//! lets in everybody, if the password is in its list.

use super::process::{Kept, hand_over};
use super::{find_program, free_port, id, make_certificate, need, workspace};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Who signs in.
pub const USER: &str = "ftp";
/// With this.
pub const PASSWORD: &str = "open sesame";

const START_LIMIT: Duration = Duration::from_secs(30);

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// vsftpd.
    Vsftpd,
    /// `ProFTPD`.
    Proftpd,
}

/// When it speaks TLS, without which it then does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Never.
    No,
    /// When it is asked.
    Asked,
    /// At once.
    AtOnce,
}

/// A running server.
#[derive(Debug)]
pub struct FtpServer {
    process: Option<Kept>,
    kind: Kind,
    tls: Tls,
    port: u16,
    root: PathBuf,
    folder: tempfile::TempDir,
}

impl FtpServer {
    /// Starts one, with lines added to its configuration.
    pub fn start(kind: Kind, tls: Tls, more: &str) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        // The keeper of a process removes its folder, and the files are to outlive it.
        let root = folder.path().join("site");
        fs::create_dir(&root)?;
        let mut server = Self { process: None, kind, tls, port: free_port()?, root, folder };
        server.restart(more)?;
        Ok(server)
    }

    /// Ends it as a power cut of the program would, and starts it again.
    pub fn restart(&mut self, more: &str) -> io::Result<()> {
        need(&["openssl", if self.kind == Kind::Vsftpd { "vsftpd" } else { "proftpd" }])?;
        self.stop();
        let at = self.folder.path().join("run");
        fs::create_dir_all(&at)?;
        let authority = self.authority();
        if !authority.exists() {
            make_certificate(&authority)?;
        }
        fs::copy(&authority, at.join("pem"))?;
        let (program, configuration) = match self.kind {
            Kind::Vsftpd => (find_program("vsftpd"), self.vsftpd(&at, more)?),
            Kind::Proftpd => (Some(proftpd().join("usr/sbin/proftpd")), self.proftpd(&at, more)?),
        };
        let program = program.ok_or_else(|| io::Error::other("there is no vsftpd"))?;
        let file = at.join("conf");
        fs::write(&file, configuration)?;
        // What was unpacked below the tree runs as whoever runs the tests, and gives up root's right to all files.
        if self.kind == Kind::Vsftpd {
            hand_over(self.folder.path())?;
        }
        let file = file.display().to_string();
        let arguments = match self.kind {
            Kind::Vsftpd => vec![file],
            Kind::Proftpd => vec!["-n".to_owned(), "-c".to_owned(), file],
        };
        let mut process = Kept::start("ftp", &program, &arguments, &at, at.join("out"))?;
        let port = self.port;
        process.wait_until(START_LIMIT, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// The folder it serves.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// PEM file with the certificate that it shows.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// Whether it does anything only over TLS.
    pub fn has_tls(&self) -> bool {
        self.tls != Tls::No
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of something in it.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.tls == Tls::AtOnce { "ftps" } else { "ftp" };
        format!("{scheme}://{USER}@127.0.0.1:{}/{path}", self.port)
    }

    fn vsftpd(&self, at: &Path, more: &str) -> io::Result<String> {
        fs::write(at.join("passwords"), format!("{PASSWORD}\n"))?;
        let (at, root, port) = (at.display(), self.root.display(), self.port);
        let yes = |yes| if yes { "YES" } else { "NO" };
        let (tls, at_once) = (yes(self.tls != Tls::No), yes(self.tls == Tls::AtOnce));
        Ok(format!(
            "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\nrun_as_launching_user=YES\nseccomp_sandbox=NO\n\
             anonymous_enable=YES\nlocal_enable=NO\nsecure_email_list_enable=YES\nemail_password_file={at}/passwords\nanon_root={root}\n\
             write_enable=YES\nanon_upload_enable=YES\nanon_mkdir_write_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\n\
             anon_world_readable_only=NO\nxferlog_enable=NO\nconnect_from_port_20=NO\nutf8_filesystem=YES\n\
             ssl_enable={tls}\nallow_anon_ssl={tls}\nforce_anon_logins_ssl={tls}\nforce_anon_data_ssl={tls}\nimplicit_ssl={at_once}\n\
             rsa_cert_file={at}/pem\nrsa_private_key_file={at}/pem\nssl_ciphers=HIGH\n{more}\n"
        ))
    }

    fn proftpd(&self, at: &Path, more: &str) -> io::Result<String> {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let (name, of) = (id("-un")?, id("-gn")?);
        let hash = Command::new("openssl").args(["passwd", "-6", PASSWORD]).output()?;
        let hash = String::from_utf8_lossy(&hash.stdout).trim().to_owned();
        let root = self.root.display();
        fs::write(
            at.join("passwd"),
            format!("{USER}:{hash}:{user}:{group}::{root}:/bin/sh\n{name}:x:{user}:{group}::/:/bin/sh\n"),
        )?;
        fs::write(at.join("group"), format!("{of}:x:{group}:\n"))?;
        for file in ["passwd", "group"] {
            Command::new("chmod").arg("600").arg(at.join(file)).status()?;
        }
        let (modules, at, port) = (proftpd().join("usr/lib/proftpd").display().to_string(), at.display(), self.port);
        // Of two lines the first counts.
        let usual = if more.contains("AllowStoreRestart") { "" } else { "AllowOverwrite on\nAllowStoreRestart on\n" };
        let tls = match self.tls {
            Tls::No => String::new(),
            asked => format!(
                "LoadModule mod_tls.c\nTLSEngine on\nTLSLog {at}/tls\nTLSRSACertificateFile {at}/pem\nTLSRSACertificateKeyFile {at}/pem\n\
                 TLSRequired on\n{}\n",
                if asked == Tls::AtOnce { "TLSOptions UseImplicitSSL" } else { "" }
            ),
        };
        Ok(format!(
            "ModulePath {modules}\nServerName test\nServerType standalone\nDefaultAddress 127.0.0.1\nPort {port}\nUser {name}\nGroup {of}\n\
             AuthOrder mod_auth_file.c\nAuthUserFile {at}/passwd\nAuthGroupFile {at}/group\nAuthPAM off\nRootLogin on\nRequireValidShell off\n\
             UseReverseDNS off\nPidFile {at}/pid\nScoreboardFile {at}/score\nDelayTable {at}/delay\nSystemLog {at}/log\nWtmpLog off\nTransferLog none\n\
             UseFtpUsers off\n{usual}UseIPv6 off\n{tls}{more}\n"
        ))
    }
}

/// Where `ProFTPD` was unpacked.
fn proftpd() -> PathBuf {
    workspace().join("target/bench-tools/proftpd")
}
