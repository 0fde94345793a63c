//! Dovecot: a server of mailboxes, over IMAP with TLS from the start.
//!
//! It has one account, [`USER`] with [`PASSWORD`], whose mailboxes are Maildirs: a message is a file that a test puts there, and the time of the file is when
//! it came in.

use super::process::{Kept, hand_over};
use super::{find_program, free_port, id, make_certificate, need};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Who signs in.
pub const USER: &str = "ann";
/// With this.
pub const PASSWORD: &str = "open sesame";

const START_LIMIT: Duration = Duration::from_secs(30);

/// A running server.
#[derive(Debug)]
pub struct Dovecot {
    process: Option<Kept>,
    port: u16,
    folder: tempfile::TempDir,
}

impl Dovecot {
    /// Starts one, with lines added to its configuration.
    pub fn start(more: &str) -> io::Result<Self> {
        let mut server = Self { process: None, port: free_port()?, folder: tempfile::tempdir()? };
        fs::create_dir(server.folder.path().join("mail"))?;
        server.restart(more)?;
        Ok(server)
    }

    /// Ends it, and starts it again.
    pub fn restart(&mut self, more: &str) -> io::Result<()> {
        need(&["openssl", "dovecot"])?;
        self.stop();
        let at = self.folder.path().join("run");
        fs::create_dir_all(&at)?;
        if !self.authority().exists() {
            make_certificate(&self.authority())?;
        }
        fs::copy(self.authority(), at.join("pem"))?;
        fs::write(at.join("passwd"), format!("{USER}:{{PLAIN}}{PASSWORD}\n"))?;
        let file = at.join("conf");
        fs::write(&file, self.configuration(&at, more)?)?;
        hand_over(self.folder.path())?;
        let program = find_program("dovecot").ok_or_else(|| io::Error::other("there is no dovecot"))?;
        let arguments = ["-F".to_owned(), "-c".to_owned(), file.display().to_string()];
        let mut process = Kept::start("dovecot", &program, &arguments, &at, at.join("out"))?;
        let port = self.port;
        process.wait_until(START_LIMIT, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// PEM file with the certificate that it shows.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// The address of something in it.
    pub fn url(&self, path: &str) -> String {
        format!("imaps://{USER}@127.0.0.1:{}/{path}", self.port)
    }

    /// The folder of a mailbox; INBOX is the one without a name.
    pub fn mailbox(&self, name: &str) -> PathBuf {
        let mail = self.folder.path().join("mail");
        if name.is_empty() { mail } else { mail.join(format!(".{}", name.replace('/', "."))) }
    }

    /// Puts messages into a mailbox, each with the name of its file; they get their numbers in the order of these.
    pub fn put<'m>(
        &self,
        mailbox: &str,
        mails: impl IntoIterator<Item = (String, &'m [u8])>,
        came: SystemTime,
    ) -> io::Result<()> {
        let at = self.mailbox(mailbox);
        for folder in ["tmp", "cur", "new"] {
            fs::create_dir_all(at.join(folder))?;
        }
        for (name, content) in mails {
            let file = at.join("tmp").join(&name);
            fs::write(&file, content)?;
            File::open(&file)?.set_modified(came)?;
            hand_over(&file)?;
            fs::rename(&file, at.join("new").join(&name))?;
        }
        [&at, &at.join("tmp"), &at.join("cur"), &at.join("new")].into_iter().try_for_each(|folder| own(folder))
    }

    /// Names of the files of a mailbox's messages.
    pub fn messages(&self, mailbox: &str) -> io::Result<Vec<String>> {
        let at = self.mailbox(mailbox);
        let mut found = Vec::new();
        for folder in ["cur", "new"] {
            for entry in fs::read_dir(at.join(folder))? {
                found.push(entry?.file_name().to_string_lossy().into_owned());
            }
        }
        found.sort();
        Ok(found)
    }

    fn configuration(&self, at: &Path, more: &str) -> io::Result<String> {
        let (user, group) = if super::process::is_root() {
            ("nobody".to_owned(), "nogroup".to_owned())
        } else {
            (id("-un")?, id("-gn")?)
        };
        let (mail, at, port) = (self.folder.path().join("mail").display().to_string(), at.display(), self.port);
        Ok(format!(
            "base_dir = {at}/base\nstate_dir = {at}/state\nlog_path = {at}/log\nprotocols = imap\nlisten = 127.0.0.1\n\
             ssl = required\nssl_cert = <{at}/pem\nssl_key = <{at}/pem\n\
             default_internal_user = {user}\ndefault_internal_group = {group}\ndefault_login_user = {user}\n\
             first_valid_uid = 1\nfirst_valid_gid = 1\nmail_location = maildir:{mail}\nauth_failure_delay = 0\n\
             passdb {{\n driver = passwd-file\n args = {at}/passwd\n}}\n\
             userdb {{\n driver = static\n args = uid={user} gid={group} home={mail}\n}}\n\
             namespace inbox {{\n inbox = yes\n separator = /\n}}\n\
             service anvil {{\n chroot =\n}}\nservice imap-login {{\n chroot =\n inet_listener imap {{\n port = 0\n }}\n\
             inet_listener imaps {{\n port = {port}\n ssl = yes\n }}\n}}\n{more}\n"
        ))
    }
}

/// Gives one folder, and not what is in it, to the account that services run as.
fn own(folder: &Path) -> io::Result<()> {
    if !super::process::is_root() {
        return Ok(());
    }
    let status = Command::new("chown").arg("nobody:nogroup").arg(folder).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("chown of {} failed", folder.display()))) }
}
