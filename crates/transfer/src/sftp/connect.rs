//! From an address to a session: TCP, SSH with the host's key checked, signing in, and the subsystem.

use super::known_hosts::KnownHosts;
use super::session::{FRAMES_WAITING, Session};
use super::sign_in::sign_in;
use crate::other::Login;
use bytes::Bytes;
use futures_util::stream;
use holdfast_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use russh::client::{self, DisconnectReason, Msg};
use russh::keys::{Algorithm, PublicKey, PublicKeyOrCertificate};
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Preferred, SshId, cipher};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How long a server may take to accept a connection, and then for keys and signing in.
const CONNECT_TIME: Duration = Duration::from_secs(20);
const BEGIN_TIME: Duration = Duration::from_mins(1);
/// Silence after which the server is asked whether it is there, and questions without an answer after which it is not.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVES: usize = 2;
/// How long what was sent may stay without an acknowledgement: while a socket takes no more, nobody is asked anything.
const UNACKNOWLEDGED: Duration = Duration::from_mins(1);
/// What a server may send before it is read: with a delay of 100 ms, 80 MiB a second.
const WINDOW: u32 = 8 << 20;
/// Ciphers: those that processors have instructions for come first.
const CIPHERS: &[cipher::Name] =
    &[cipher::AES_256_GCM, cipher::CHACHA20_POLY1305, cipher::AES_256_CTR, cipher::AES_192_CTR, cipher::AES_128_CTR];

/// Where a server is, and as whom one signs in.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) login: Login,
}

/// What is heard while a connection is made: why the host was refused, or why the server went.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard(Arc<Mutex<(Option<Error>, Option<String>)>>);

impl Heard {
    /// The error of a connection that was not made, or did not last.
    pub(super) fn lost(&self, error: Option<&russh::Error>) -> Error {
        let mut heard = self.0.lock();
        if let Some(refusal) = heard.0.take() {
            return refusal;
        }
        let said = heard.1.clone().or_else(|| Some(error?.to_string())).unwrap_or_else(|| "it ended".into());
        // Which sshd says when it was offered too much that it does not take.
        if said.contains("authentication failures") {
            return Error::new(ErrorKind::Unauthenticated, format!("the server ended the sign-in: {said}"));
        }
        match error {
            Some(russh::Error::NoCommonAlgo { .. } | russh::Error::Version) => Error::new(ErrorKind::Unsupported, said),
            Some(russh::Error::WrongServerSig) => Error::new(ErrorKind::Unauthenticated, said),
            _ => Error::unavailable(said),
        }
    }
}

/// Hears what a server says beside the channel.
pub(super) struct Handler {
    known: KnownHosts,
    heard: Heard,
}

impl client::Handler for Handler {
    type Error = russh::Error;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, russh::Error> {
        let checked = match key {
            PublicKeyOrCertificate::PublicKey { key, .. } => self.known.check(key),
            PublicKeyOrCertificate::Certificate(_) => {
                Err(Error::new(ErrorKind::Unauthenticated, "the server has a certificate where its key was asked for"))
            }
        };
        let believed = checked.is_ok();
        if let Err(error) = checked {
            self.heard.0.lock().0 = Some(error);
        }
        Ok(believed)
    }

    async fn disconnected(&mut self, reason: DisconnectReason<russh::Error>) -> Result<(), russh::Error> {
        match reason {
            DisconnectReason::ReceivedDisconnect(told) => {
                self.heard.0.lock().1 = Some(told.message.chars().filter(|c| !c.is_control()).take(200).collect());
                Ok(())
            }
            DisconnectReason::Error(error) => Err(error),
        }
    }
}

/// Connects, and begins a session.
pub(super) async fn connect(target: &Target) -> Result<Session> {
    let Target { host, port, .. } = target;
    let at = |error: Error| error.context(format_args!("{host}:{port}"));
    let late = |what: &str| Error::new(ErrorKind::Timeout, what.to_owned());
    let socket = timeout(CONNECT_TIME, TcpStream::connect((host.as_str(), *port))).await;
    let socket = socket.map_err(|_| at(late("it takes no connection")))?;
    let socket = socket.map_err(|error| at(Error::unavailable("it cannot be reached").with_source(error)))?;
    let set = socket.set_nodelay(true);
    let set = set.and_then(|()| socket2::SockRef::from(&socket).set_tcp_user_timeout(Some(UNACKNOWLEDGED)));
    set.map_err(|error| at(Error::from(error)))?;
    timeout(BEGIN_TIME, begin(target, socket))
        .await
        .map_err(|_| at(late("it does not go on with the connection")))?
        .map_err(at)
}

async fn begin(target: &Target, socket: TcpStream) -> Result<Session> {
    let (known, heard) =
        (KnownHosts::new(&target.host, target.port, target.login.accept_new_host_key), Heard::default());
    let config = Arc::new(config(&known.keys()?));
    let handler = Handler { known, heard: heard.clone() };
    let connected = client::connect_stream(config, socket, handler).await;
    let mut ssh = connected.map_err(|error| heard.lost(Some(&error)))?;
    sign_in(&mut ssh, target, &heard).await?;
    let channel = ssh.channel_open_session().await.map_err(|error| heard.lost(Some(&error)))?;
    let (mut from, to) = channel.split();
    to.request_subsystem(true, "sftp").await.map_err(|error| heard.lost(Some(&error)))?;
    accepted(&mut from, &heard).await?;
    let (frames, writer) = write_to(to);
    Session::begin(Box::pin(arriving(from)), frames, Box::new((ssh, writer))).await
}

fn config(known: &[PublicKey]) -> client::Config {
    let usual = Preferred::default();
    // Keys that the host is known by are asked for first, since it may have others, too.
    let is_known = |algorithm: &&Algorithm| {
        known.iter().any(|key| match (key.algorithm(), algorithm) {
            (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }) => true,
            (a, b) => a == **b,
        })
    };
    let first: Vec<Algorithm> = usual.key.iter().filter(is_known).cloned().collect();
    let rest = usual.key.iter().filter(|algorithm| !is_known(algorithm)).cloned();
    client::Config {
        client_id: SshId::Standard(Cow::Borrowed(concat!("SSH-2.0-Holdfast_", env!("CARGO_PKG_VERSION")))),
        window_size: WINDOW,
        preferred: Preferred {
            key: first.iter().cloned().chain(rest).collect(),
            cipher: Cow::Borrowed(CIPHERS),
            ..usual
        },
        keepalive_interval: Some(KEEP_ALIVE),
        keepalive_max: KEEP_ALIVES,
        nodelay: true,
        ..client::Config::default()
    }
}

async fn accepted(from: &mut ChannelReadHalf, heard: &Heard) -> Result<()> {
    loop {
        match from.wait().await {
            Some(ChannelMsg::Success) => return Ok(()),
            Some(ChannelMsg::Failure) => {
                return Err(Error::new(ErrorKind::Unsupported, "the server has no SFTP, or not for this account"));
            }
            Some(_) => {}
            None => return Err(heard.lost(None)),
        }
    }
}

/// What arrives on a channel.
fn arriving(from: ChannelReadHalf) -> impl futures_util::Stream<Item = Bytes> + Send + 'static {
    stream::unfold(from, |mut from| async move {
        loop {
            match from.wait().await? {
                ChannelMsg::Data { data } => return Some((data, from)),
                ChannelMsg::Eof | ChannelMsg::Close => return None,
                _ => {}
            }
        }
    })
}

/// A task that writes frames to a channel, for as long as the session keeps it.
fn write_to(to: ChannelWriteHalf<Msg>) -> (mpsc::Sender<Bytes>, Aborts) {
    let (frames, mut waiting) = mpsc::channel::<Bytes>(FRAMES_WAITING);
    let writer = tokio::spawn(async move {
        while let Some(frame) = waiting.recv().await {
            // The reading side sees the end as well, and tells those who wait.
            if to.data_bytes(frame).await.is_err() {
                return;
            }
        }
    });
    (frames, Aborts(writer))
}

/// Ends a task with what it works for: it may be waiting for a window that nobody will open.
struct Aborts(tokio::task::JoinHandle<()>);

impl Drop for Aborts {
    fn drop(&mut self) {
        self.0.abort();
    }
}
