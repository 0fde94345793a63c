//! A signed-in control connection (RFC 959, 2228, 2428, 3659, 4217).
//!
//! A call that fails, or is given up, leaves the connection in a state that nobody knows: it is not used again.

use super::data::Data;
use super::reply::{self, Reply, broke};
use super::said::{extended_port, features, passive_port, quoted};
use super::tls::{Tls, Trust};
use crate::signs;
use holdfast_auth::Secret;
use holdfast_base::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// After this, a server that takes no connection is tried again.
const CONNECT_TIME: Duration = Duration::from_secs(20);
/// Silence of a control connection after which the system asks whether the other end is there; it also keeps boxes between from forgetting it.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A stream of bytes, with TLS or without.
pub(super) trait Pipe: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Pipe for T {}

/// When TLS begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    /// Never.
    None,
    /// After the server was asked for it.
    Explicit,
    /// At once.
    Implicit,
}

/// A server, and who signs in.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) security: Security,
    pub(super) user: String,
    pub(super) password: Secret,
    pub(super) trust: Trust,
    /// Whether the server does not speak the version of TLS that is taken first.
    pub(super) any_tls: AtomicBool,
    /// Whether several questions may be asked in one go.
    pub(super) pipelined: Arc<AtomicBool>,
}

/// What a server says that it can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Features {
    pub(super) mlst: bool,
    pub(super) mdtm: bool,
    pub(super) mfmt: bool,
    pub(super) rest: bool,
    pub(super) utf8: bool,
}

/// A signed-in connection.
pub(super) struct Session {
    control: BufReader<Box<dyn Pipe>>,
    peer: IpAddr,
    tls: Option<Tls>,
    pub(super) pipelined: Arc<AtomicBool>,
    /// The folder one is in after signing in: where paths begin.
    home: String,
    extended: bool,
    pub(super) features: Features,
    pub(super) used: Instant,
    /// Replies are to come.
    pending: usize,
    /// What it took to connect, of which there is a round trip.
    pub(super) round_trip: Duration,
}

impl Session {
    /// Connects and signs in.
    pub(super) async fn open(to: &Server) -> Result<Self> {
        let any = to.any_tls.load(Ordering::Relaxed);
        match Self::open_with(to, any).await {
            Err(error) if error.kind() == ErrorKind::Unsupported && to.security != Security::None && !any => {
                let session = Self::open_with(to, true).await?;
                to.any_tls.store(true, Ordering::Relaxed);
                Ok(session)
            }
            done => done,
        }
    }

    async fn open_with(to: &Server, any_tls: bool) -> Result<Self> {
        let begun = Instant::now();
        let stream = connect(timeout(CONNECT_TIME, TcpStream::connect((to.host.as_str(), to.port))).await, &to.host)?;
        let round_trip = begun.elapsed();
        let peer = stream.peer_addr().map_err(broke)?.ip();
        let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive).map_err(broke)?;
        let tls = (to.security != Security::None).then(|| to.trust.session(&to.host, any_tls)).transpose()?;
        let control = match &tls {
            Some(tls) if to.security == Security::Explicit => {
                let stream = tls.over(asked_for_tls(stream).await?).await?;
                BufReader::new(Box::new(stream) as Box<dyn Pipe>)
            }
            Some(tls) => greeted(Box::new(tls.over(stream).await?)).await?,
            None => greeted(Box::new(stream)).await?,
        };
        let mut session = Self {
            control,
            peer,
            tls,
            pipelined: Arc::clone(&to.pipelined),
            home: String::new(),
            extended: true,
            features: Features::default(),
            used: Instant::now(),
            pending: 0,
            round_trip,
        };
        session.sign_in(to).await?;
        session.prepare().await?;
        Ok(session)
    }

    async fn sign_in(&mut self, to: &Server) -> Result<()> {
        let asked = self.ask(&format!("USER {}", to.user)).await?;
        let answer = match asked.code {
            331 | 332 => self.ask(&format!("PASS {}", to.password.expose())).await?,
            _ => asked,
        };
        if !answer.is_done() {
            let error = answer.refused(&format!("signing in as {}", to.user), ErrorKind::Forbidden);
            let wrong = matches!(answer.code, 430 | 530 | 332 | 331 | 532 | 535);
            return Err(if wrong { Error::new(ErrorKind::Unauthenticated, error.message()) } else { error });
        }
        if self.tls.is_some() {
            self.ask("PBSZ 0").await?.done("asking for TLS", ErrorKind::Forbidden)?;
            self.ask("PROT P").await?.done("asking for TLS of what is moved", ErrorKind::Forbidden)?;
        }
        Ok(())
    }

    async fn prepare(&mut self) -> Result<()> {
        let told = self.ask("FEAT").await?;
        if told.is_done() {
            self.features = features(&told);
        }
        if self.features.utf8 {
            // Whoever says that it knows UTF-8 sends it anyway, and some then know no such option.
            self.ask("OPTS UTF8 ON").await?;
        }
        self.ask("TYPE I").await?.done("asking for bytes as they are", ErrorKind::Unsupported)?;
        let told = self.ask("PWD").await?.done("asking where one is", ErrorKind::Unsupported)?;
        let home = quoted(told.text()).filter(|home| home.starts_with('/'));
        let home = home.ok_or_else(|| Error::new(ErrorKind::Unsupported, "the server's folders have no paths"))?;
        home.trim_end_matches('/').clone_into(&mut self.home);
        Ok(())
    }

    /// The path that the server knows something by.
    pub(super) fn at(&self, path: &str) -> String {
        let whole = format!("{}/{}", self.home, path.trim_start_matches('/'));
        // A folder's path ends in no slash, unless it is all of it.
        if whole.len() > 1 { whole.trim_end_matches('/').to_owned() } else { whole }
    }

    /// Sends a command and reads the reply.
    pub(super) async fn ask(&mut self, text: &str) -> Result<Reply> {
        self.send(&command(text)?, 1).await?;
        self.reply().await
    }

    /// Sends commands, to which so many replies are to come.
    pub(super) async fn send(&mut self, commands: &str, count: usize) -> Result<()> {
        self.pending += count;
        self.control.write_all(commands.as_bytes()).await.map_err(broke)?;
        self.control.flush().await.map_err(broke)
    }

    /// Reads another reply. One that only says that something begins is followed by another.
    pub(super) async fn reply(&mut self) -> Result<Reply> {
        let reply = reply::read(&mut self.control).await?;
        // 421 is the server's last word.
        if reply.code >= 200 && reply.code != 421 {
            self.pending = self.pending.saturating_sub(1);
        }
        Ok(reply)
    }

    /// Whether all that was asked has been answered, so that something else can be.
    pub(super) fn is_quiet(&self) -> bool {
        self.pending == 0 && self.control.buffer().is_empty()
    }

    /// Begins to move content, or a listing: the command is answered on a connection of its own.
    pub(super) async fn start(&mut self, command: &str, from: u64, doing: &str) -> Result<Data> {
        let stream = self.passive().await?;
        if from > 0 {
            let told = self.ask(&format!("REST {from}")).await?;
            if told.code != 350 {
                return Err(told.refused(doing, ErrorKind::Unsupported));
            }
        }
        let told = self.ask(command).await?;
        if !(100..200).contains(&told.code) {
            return Err(told.refused(doing, ErrorKind::NotFound));
        }
        let stream: Box<dyn Pipe> = match &self.tls {
            Some(tls) => Box::new(tls.over(stream).await?),
            None => Box::new(stream),
        };
        Ok(Data::new(stream))
    }

    /// Connects for content. Which address the server says is of no interest: a translated one is wrong, and a foreign one would be an attack.
    async fn passive(&mut self) -> Result<TcpStream> {
        if self.extended {
            let told = self.ask("EPSV").await?;
            if told.is_done() {
                return self.connect(extended_port(told.text())).await;
            }
            self.extended = false;
        }
        let told = self.ask("PASV").await?.done("asking for a connection", ErrorKind::Unsupported)?;
        self.connect(passive_port(told.text())).await
    }

    async fn connect(&self, port: Option<u16>) -> Result<TcpStream> {
        let port = port.filter(|port| *port > 0);
        let port = port.ok_or_else(|| Error::new(ErrorKind::Unsupported, "the server tells no port to connect to"))?;
        let to = SocketAddr::new(self.peer, port);
        connect(timeout(CONNECT_TIME, TcpStream::connect(to)).await, &to.to_string())
    }
}

fn connect(done: Result<std::io::Result<TcpStream>, tokio::time::error::Elapsed>, to: &str) -> Result<TcpStream> {
    let unreachable = || Error::unavailable(format!("{to} cannot be reached"));
    let stream = done.map_err(|_| unreachable())?.map_err(|error| unreachable().with_source(error))?;
    stream.set_nodelay(true).map_err(broke)?;
    Ok(stream)
}

async fn greeted(stream: Box<dyn Pipe>) -> Result<BufReader<Box<dyn Pipe>>> {
    let mut control = BufReader::new(stream);
    greeting(&mut control).await?;
    Ok(control)
}

async fn greeting(control: &mut BufReader<impl Pipe>) -> Result<()> {
    loop {
        let told = reply::read(control).await?;
        match told.code {
            // It will be ready in a while.
            120 => signs::current().alive(),
            _ => return told.done("connecting", ErrorKind::Unavailable).map(drop),
        }
    }
}

/// Asks for TLS. What came before it was there is nobody's word, so there may be nothing after the reply.
async fn asked_for_tls(stream: TcpStream) -> Result<TcpStream> {
    let mut control = BufReader::new(stream);
    greeting(&mut control).await?;
    let told = ask(&mut control, "AUTH TLS").await?;
    if told.code != 234 {
        let what = "the server offers no TLS, and a password is not sent without: --plain-ftp says that it may be";
        return Err(Error::new(ErrorKind::Forbidden, format!("{what} (it answered {})", told.code)));
    }
    if !control.buffer().is_empty() {
        return Err(Error::forbidden("something was said in the clear after TLS had been agreed on"));
    }
    Ok(control.into_inner())
}

async fn ask(control: &mut BufReader<impl Pipe>, text: &str) -> Result<Reply> {
    control.write_all(command(text)?.as_bytes()).await.map_err(broke)?;
    control.flush().await.map_err(broke)?;
    reply::read(control).await
}

/// A line, of which nothing can be taken for two.
pub(super) fn command(text: &str) -> Result<String> {
    if text.chars().any(char::is_control) {
        return Err(Error::invalid("FTP has no way to say a line break or another control character"));
    }
    Ok(format!("{text}\r\n"))
}
