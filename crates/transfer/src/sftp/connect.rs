//! From an address to a session: the machine's own `ssh`, asked for the server's SFTP, with pipes in between.
//!
//! So whoever signs in does it as always: with what `~/.ssh/config` says of the host, through jump hosts, with keys of agents, files, cards and certificates, over a connection that is there
//! already (`ControlMaster`), to hosts that `known_hosts` has. What is said on the command line beats the configuration, so there is little of it: what a transfer needs to end
//! when a server is dead, that nobody is asked at a terminal that others use, and that no host is believed without a word.
//!
//! An ssh ends with its session: its standard input ends. If it does not, it is killed; if this program is killed, the pipe ends as well.

use super::askpass::{Asked, Desk};
use super::heard::Heard;
use super::session::Session;
use crate::other::Login;
use holdfast_base::{Error, ErrorKind, Result};
use std::ffi::{OsStr, OsString};
use std::path::{Path, absolute};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The program, which is looked for on the PATH.
const PROGRAM: &str = "ssh";
/// The port of SSH.
const PORT: u16 = 22;
/// How long a connection may take, with all questions of SSH and its keys; of this, how long a server may take to accept one and to name its keys.
const BEGIN_TIME: Duration = Duration::from_secs(80);
const ACCEPT_TIME_S: u32 = 20;
/// Silence after which the server is asked whether it is there, and questions without an answer after which it is not.
const KEEP_ALIVE_S: u32 = 15;
const KEEP_ALIVES: u32 = 2;
/// How long an ssh whose pipe has ended may take to end, and then what it said to arrive: a process that it started may hold that open.
const END_TIME: Duration = Duration::from_secs(2);
const SAID_TIME: Duration = Duration::from_millis(500);
/// Bytes that wait in a pipe: enough for some requests, where the system's own 64 KiB are half of one.
const PIPE_BYTES: usize = 1 << 20;

/// Where a server is, and as whom one signs in.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) host: String,
    /// None is what ssh's configuration says of the host, or else the usual one.
    pub(super) port: Option<u16>,
    pub(super) user: Option<String>,
    pub(super) login: Login,
}

impl Target {
    /// The host as it stands among known hosts.
    pub(super) fn name(&self) -> String {
        match self.port.unwrap_or(PORT) {
            PORT => self.host.clone(),
            port => format!("[{}]:{port}", self.host),
        }
    }

    /// Words for ssh.
    fn arguments(&self) -> Result<Vec<OsString>> {
        let Login { password, identity, ssh_config, accept_new_host_key, .. } = &self.login;
        let mut words: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: &str| words.push(format!("-o{name}={value}").into());
        option("StrictHostKeyChecking", if *accept_new_host_key { "accept-new" } else { "yes" });
        option("ConnectTimeout", &ACCEPT_TIME_S.to_string());
        option("ServerAliveInterval", &KEEP_ALIVE_S.to_string());
        option("ServerAliveCountMax", &KEEP_ALIVES.to_string());
        // What the configuration may have for people at a terminal, as sftp(1) and scp(1) leave it out.
        for no in ["ForwardX11", "ForwardAgent", "PermitLocalCommand", "RequestTTY"] {
            option(no, "no");
        }
        option("ClearAllForwardings", "yes");
        option("RemoteCommand", "none");
        // Who the host is, and what was tried, is in no other place.
        option("LogLevel", "DEBUG1");
        option("NumberOfPasswordPrompts", "1");
        match (password, identity) {
            (Some(_), None) => option("PreferredAuthentications", "password,keyboard-interactive,publickey"),
            (Some(_), Some(_)) => {}
            (None, _) => {
                // Nothing is sent for a password, which would be a try that failed.
                option("PasswordAuthentication", "no");
                option("KbdInteractiveAuthentication", "no");
            }
        }
        if identity.is_some() {
            option("IdentitiesOnly", "yes");
        }
        let mut with = |flag: &str, value: &OsStr| words.extend([flag.into(), value.to_owned()]);
        if let Some(file) = identity {
            with("-i", key_file(file)?.as_ref());
        }
        if let Some(file) = ssh_config {
            std::fs::metadata(file).map_err(|error| Error::from(error).context(file.display()))?;
            with("-F", absolute(file)?.as_os_str());
        }
        if let Some(port) = self.port {
            with("-p", port.to_string().as_ref());
        }
        if let Some(user) = &self.user {
            with("-l", user.as_ref());
        }
        words.extend(["-s", "--", &self.host, "sftp"].map(OsString::from));
        Ok(words)
    }
}

/// The path of a key as ssh takes it, which would expand some of what it may have in it. ssh goes on without one that it cannot read.
fn key_file(file: &Path) -> Result<String> {
    let at = |error: Error| error.context(file.display());
    std::fs::File::open(file).map_err(|error| at(error.into()))?;
    match absolute(file)?.to_str() {
        Some(path) if !path.contains("${") => Ok(path.replace('%', "%%")),
        _ => Err(at(Error::invalid("ssh takes no such name for a key"))),
    }
}

/// Connects, and begins a session.
pub(super) async fn connect(target: &Target) -> Result<Session> {
    begin_with(PROGRAM.as_ref(), target).await.map_err(|error| error.context(target.name()))
}

async fn begin_with(program: &OsStr, target: &Target) -> Result<Session> {
    let desk = Desk::open()?;
    let mut ssh = Ssh::start(program, target, &desk)?;
    let (Some(id), Some((from, to))) = (ssh.child.as_ref().and_then(Child::id), ssh.pipes.take()) else {
        return Err(Error::internal("an ssh has no pipes"));
    };
    let (asked, name) = (Arc::clone(&ssh.asked), target.name());
    let begun = timeout(BEGIN_TIME, async {
        tokio::select! {
            begun = Session::begin(from, to, ssh.ended(name)) => begun,
            refusal = desk.serve(id, target, &asked) => Err(refusal),
        }
    });
    begun.await.map_err(|_| {
        let what = format!("ssh has no connection after {} s", BEGIN_TIME.as_secs());
        Error::new(ErrorKind::Timeout, what)
    })?
}

/// A running ssh.
struct Ssh {
    child: Option<Child>,
    pipes: Option<(ChildStdout, ChildStdin)>,
    heard: Arc<Heard>,
    asked: Arc<Asked>,
    listening: JoinHandle<()>,
}

impl Ssh {
    fn start(program: &OsStr, target: &Target, desk: &Desk) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(target.arguments()?).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: what a terminal sends is for this program, which puts aside what is under way, over this connection.
        command.process_group(0).kill_on_drop(true);
        desk.of(&mut command);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::new(
                ErrorKind::Unsupported,
                "there is no ssh on the PATH, and SFTP goes over it: install OpenSSH's client (package openssh-client, or openssh-clients)",
            ),
            _ => Error::from(error).context("ssh does not start"),
        })?;
        let (Some(from), Some(to), Some(said)) = (child.stdout.take(), child.stdin.take(), child.stderr.take()) else {
            return Err(Error::internal("an ssh has no pipes"));
        };
        // Without it everything goes as well, and slower.
        let _ = rustix::pipe::fcntl_setpipe_size(&from, PIPE_BYTES);
        let _ = rustix::pipe::fcntl_setpipe_size(&to, PIPE_BYTES);
        let heard = Arc::new(Heard::default());
        let listening = tokio::spawn(listen(said, Arc::clone(&heard)));
        Ok(Self { child: Some(child), pipes: Some((from, to)), heard, asked: Arc::default(), listening })
    }

    /// Why it ended, which is asked when its pipes have.
    async fn ended(mut self, name: String) -> Error {
        let status = match &mut self.child {
            Some(child) => timeout(END_TIME, child.wait()).await.ok().and_then(std::io::Result::ok),
            None => None,
        };
        let _ = timeout(SAID_TIME, &mut self.listening).await;
        self.heard.error(&name, &self.asked, status)
    }
}

impl Drop for Ssh {
    /// Its pipes are closed, which ends it, with what it started. It is killed if it does not end, or if this program ends before it.
    fn drop(&mut self) {
        self.listening.abort();
        if let (Some(mut child), Ok(runtime)) = (self.child.take(), Handle::try_current()) {
            runtime.spawn(async move { timeout(END_TIME, child.wait()).await });
        }
    }
}

async fn listen(mut said: ChildStderr, heard: Arc<Heard>) {
    let mut piece = [0; 4 << 10];
    while let Ok(count @ 1..) = said.read(&mut piece).await {
        heard.take(&piece[..count]);
    }
}
