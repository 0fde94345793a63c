//! What ssh asks, and who answers: ssh starts this program again, which passes the question to the one that started ssh, over a socket.
//!
//! So a secret is in no argument, no variable and no file. The socket has no name in the file system ("abstract", unix(7)), takes processes of the same account only, and a secret is given only to
//! the ssh that was started here: one that it starts itself, to get past a jump host, asks for another host's password, and gets none. ssh closes all descriptors
//! but the first three when it starts (`closefrom` in its `main`), so nothing can be inherited.
//!
//! ```text
//! question: what sort (SSH_ASKPASS_PROMPT of ssh(1)), a line break, the words, the end     answer: 1 and the secret, or nothing
//! ```

use super::connect::Target;
use aws_lc_rs::rand;
use holdfast_auth::Secret;
use holdfast_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::process::ExitCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;

/// The variable with the socket's name, which makes this program the one that passes questions on.
const VARIABLE: &str = "HOLDFAST_ASKPASS";
/// Bytes of a question, and of an answer.
const QUESTION_MAX: u64 = 4 << 10;
const ANSWER_MAX: u64 = 64 << 10;
/// Passphrases that are asked for.
const PASSPHRASES_MAX: usize = 16;

/// Passes a question of ssh on, if that is what this program was started for: its one argument is the question.
#[must_use]
pub fn answer() -> Option<ExitCode> {
    let name = std::env::var_os(VARIABLE)?;
    let [_, question] = <[_; 2]>::try_from(std::env::args_os().collect::<Vec<_>>()).ok()?;
    Some(match pass_on(&name, &question) {
        Ok(true) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn pass_on(name: &OsStr, question: &OsStr) -> std::io::Result<bool> {
    let mut to = StdStream::connect_addr(&SocketAddr::from_abstract_name(name.as_encoded_bytes())?)?;
    let sort = std::env::var_os("SSH_ASKPASS_PROMPT").unwrap_or_default();
    to.write_all(&[sort.as_encoded_bytes(), b"\n", question.as_encoded_bytes()].concat())?;
    to.shutdown(Shutdown::Write)?;
    let mut answer = zeroize::Zeroizing::new(Vec::new());
    to.take(ANSWER_MAX).read_to_end(&mut answer)?;
    let Some((1, secret)) = answer.split_first() else { return Ok(false) };
    let mut out = std::io::stdout();
    out.write_all(secret)?;
    out.flush()?;
    Ok(true)
}

/// What was asked while a connection was made.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<Questions>);

#[derive(Debug, Default)]
struct Questions {
    /// Keys whose passphrase was asked for.
    passphrases: Vec<String>,
    password: bool,
    /// Whether there was an answer.
    has_secret: bool,
}

impl Asked {
    /// Why signing in failed, as far as questions tell.
    pub(super) fn notes(&self) -> Vec<String> {
        let asked = self.0.lock();
        let of_keys = asked.passphrases.iter().map(|key| {
            if asked.has_secret {
                format!("the passphrase of {key} is another one")
            } else {
                format!("{key} has a passphrase: --password-file names a file with it, or an agent has the key")
            }
        });
        of_keys.chain(asked.password.then(|| "the password is not taken".into())).collect()
    }

    /// The secret for a question of the ssh that was started here; none is no answer. A second question for the password is why the first was of no use.
    fn answer<'t>(&self, question: &str, target: &'t Target) -> Result<Option<&'t Secret>> {
        let mut asked = self.0.lock();
        let Some(secret) = &target.login.password else {
            asked.passphrase_of(question);
            return Ok(None);
        };
        asked.has_secret = true;
        if question.starts_with("Enter PIN") {
            return Ok(None);
        }
        if question.starts_with(PASSPHRASE) {
            return Ok(asked.passphrase_of(question).then_some(secret));
        }
        // What opens a key of this machine is nothing for the server.
        if target.login.identity.is_some() && !asked.passphrases.is_empty() {
            return Ok(None);
        }
        if asked.password {
            return Err(Error::new(ErrorKind::Unauthenticated, "the sign-in was refused: the password is not taken"));
        }
        asked.password = true;
        Ok(Some(secret))
    }
}

/// How ssh asks for what opens a key.
const PASSPHRASE: &str = "Enter passphrase for key ";

impl Questions {
    /// Whether a question is for the passphrase of a key for the first time.
    fn passphrase_of(&mut self, question: &str) -> bool {
        let Some(key) = question.strip_prefix(PASSPHRASE) else { return false };
        let key = key.trim_end_matches([':', ' ']).to_owned();
        let first = !self.passphrases.contains(&key) && self.passphrases.len() < PASSPHRASES_MAX;
        self.passphrases.extend(first.then_some(key));
        first
    }
}

/// Where questions of one ssh arrive.
pub(super) struct Desk {
    listener: UnixListener,
    name: String,
}

impl Desk {
    pub(super) fn open() -> Result<Self> {
        let mut random = [0; 16];
        rand::fill(&mut random).map_err(|_| Error::internal("there are no random numbers"))?;
        let name = format!("holdfast-askpass-{:032x}", u128::from_ne_bytes(random));
        let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, name })
    }

    /// Has an ssh ask here, and never at a terminal.
    pub(super) fn of(&self, ssh: &mut Command) {
        // Which is this program whatever became of its file.
        ssh.env("SSH_ASKPASS", format!("/proc/{}/exe", std::process::id()));
        ssh.env("SSH_ASKPASS_REQUIRE", "force").env(VARIABLE, &self.name);
    }

    /// Answers the ssh with this id, until an answer turns out to be wrong.
    pub(super) async fn serve(&self, ssh: u32, target: &Target, asked: &Asked) -> Error {
        loop {
            let mut stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => return Error::from(error).context("ssh cannot be answered"),
            };
            let served = async {
                let peer = stream.peer_cred()?;
                if peer.uid() != rustix::process::geteuid().as_raw() {
                    return Ok(());
                }
                let own = peer.pid().and_then(parent_of) == Some(ssh);
                one(&mut stream, own, target, asked).await
            };
            match served.await {
                Err(error) if error.kind() == ErrorKind::Unauthenticated => return error,
                Err(error) => tracing::debug!(%error, "a question of ssh was not answered"),
                Ok(()) => {}
            }
        }
    }
}

async fn one(stream: &mut UnixStream, own: bool, target: &Target, asked: &Asked) -> Result<()> {
    let mut question = String::new();
    (&mut *stream).take(QUESTION_MAX).read_to_string(&mut question).await?;
    let (sort, question) = question.split_once('\n').unwrap_or_default();
    tracing::debug!(sort, question, own, "ssh asks");
    match sort {
        // Nothing that is to be confirmed is.
        "" if own => {
            if let Some(secret) = asked.answer(question, target)? {
                stream.write_all(&[1]).await?;
                stream.write_all(secret.expose().as_bytes()).await?;
            }
        }
        // It says that a key waits to be touched, and ends the program when that was done.
        "none" => tracing::warn!("{question}"),
        _ => {}
    }
    Ok(())
}

/// The parent of a process: the second field after its name, which is in brackets and may have some (proc(5), `stat`).
fn parent_of(process: i32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}
