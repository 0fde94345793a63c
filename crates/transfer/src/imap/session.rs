//! A signed-in connection, and what one asks over it.
//!
//! A command has a tag, and is over when an answer has it; what comes before that is told to whoever asked. A command that was given up leaves the connection in
//! the middle of an answer: it is not used again.

use super::answer::{Answer, Status, Told, capabilities};
use super::wire::{self, broke};
use crate::signs;
use crate::web::client::{of_tls, roots};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_auth::Secret;
use holdfast_base::{Error, ErrorKind, Result};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// After this, a server that takes no connection is tried again.
const CONNECT_TIME: Duration = Duration::from_secs(20);
/// Silence after which the system asks whether the other end is there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A server, and who signs in.
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Secret,
    pub(super) tls: TlsConnector,
}

/// TLS with the certificates that are believed.
pub(super) fn tls(ca: Option<&Path>) -> Result<TlsConnector> {
    let unusable = |error: rustls::Error| Error::internal("TLS could not be set up").with_source(error);
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
    Ok(TlsConnector::from(Arc::new(builder.with_root_certificates(roots(ca)?).with_no_client_auth())))
}

/// A mailbox that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selected {
    /// Its name on the line.
    pub(super) mailbox: String,
    /// Says whether numbers of messages mean what they did.
    pub(super) validity: u32,
    pub(super) exists: u32,
    /// Whether messages may be removed.
    pub(super) writable: bool,
}

/// A signed-in connection.
pub(super) struct Session {
    stream: BufReader<TlsStream<TcpStream>>,
    tags: u32,
    busy: bool,
    capabilities: Vec<String>,
    /// What is between the names of a mailbox's path, if there are paths.
    pub(super) delimiter: Option<char>,
    pub(super) selected: Option<Selected>,
    pub(super) used: Instant,
}

impl Session {
    /// Connects and signs in.
    pub(super) async fn open(to: &Server) -> Result<Self> {
        let mut session = Self {
            stream: BufReader::with_capacity(64 << 10, connect(to).await?),
            tags: 0,
            busy: false,
            capabilities: Vec::new(),
            delimiter: None,
            selected: None,
            used: Instant::now(),
        };
        if !session.greeted().await? {
            session.sign_in(to).await?;
        }
        session.ask("CAPABILITY").await?.done("asking what it can", ErrorKind::Unsupported)?;
        session.prepare().await?;
        Ok(session)
    }

    /// Waits for the server's first word; answers whether one is signed in already.
    async fn greeted(&mut self) -> Result<bool> {
        match wire::read(&mut self.stream, &signs::current()).await? {
            Answer::Status(told) => match told.status {
                Status::Ok => Ok(false),
                Status::PreAuth => Ok(true),
                _ => Err(told.refused("connecting", ErrorKind::Unavailable)),
            },
            _ => Err(Error::new(ErrorKind::Unsupported, "what answers there does not speak IMAP")),
        }
    }

    async fn sign_in(&mut self, to: &Server) -> Result<()> {
        self.ask("CAPABILITY").await?.done("asking what it can", ErrorKind::Unsupported)?;
        let told = if self.can("AUTH=PLAIN") {
            let secret = STANDARD.encode(format!("\0{}\0{}", to.user, to.password.expose()));
            self.converse("AUTHENTICATE PLAIN", &[secret.as_bytes()], |_| Ok(())).await?
        } else if self.can("LOGINDISABLED") {
            return Err(Error::new(ErrorKind::Unsupported, "the server takes no password"));
        } else {
            let (user, password) = (to.user.as_bytes(), to.password.expose().as_bytes());
            let (first, second) = (format!("LOGIN {{{}}}", user.len()), format!(" {{{}}}", password.len()));
            let user = [user, second.as_bytes()].concat();
            self.converse(&first, &[&user, password], |_| Ok(())).await?
        };
        let doing = format!("signing in as {}", to.user);
        told.done(&doing, ErrorKind::Unauthenticated).map(drop)
    }

    /// Asks what is between names.
    async fn prepare(&mut self) -> Result<()> {
        let mut delimiter = None;
        let told = self.run("LIST \"\" \"\"".to_owned(), |answer| {
            if let Answer::List(_, Some(told), _) = answer {
                delimiter = told.first().map(|byte| char::from(*byte)).filter(char::is_ascii);
            }
            Ok(())
        });
        told.await?.done("asking how mailboxes are named", ErrorKind::Unsupported)?;
        self.delimiter = delimiter;
        Ok(())
    }

    /// Whether the server can do something, by its name in capitals.
    pub(super) fn can(&self, what: &str) -> bool {
        self.capabilities.iter().any(|can| can == what)
    }

    /// Whether all that was asked has been answered, so that something else can be.
    pub(super) fn is_quiet(&self) -> bool {
        !self.busy && self.stream.buffer().is_empty()
    }

    /// Asks something of which only the end matters.
    pub(super) async fn ask(&mut self, command: &str) -> Result<Told> {
        self.run(command.to_owned(), |_| Ok(())).await
    }

    /// Asks something, and takes what is answered until it is over.
    pub(super) async fn run(&mut self, command: String, take: impl FnMut(Answer) -> Result<()> + Send) -> Result<Told> {
        self.converse(&command, &[], take).await
    }

    /// The same, with lines that are sent when the server waits for them.
    async fn converse(
        &mut self,
        command: &str,
        lines: &[&[u8]],
        mut take: impl FnMut(Answer) -> Result<()> + Send,
    ) -> Result<Told> {
        if command.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(Error::invalid("IMAP has no way to say a control character"));
        }
        self.tags = self.tags.wrapping_add(1);
        let tag = format!("H{}", self.tags);
        self.busy = true;
        self.send(format!("{tag} {command}").as_bytes()).await?;
        let (signs, mut lines) = (signs::current(), lines.iter());
        loop {
            match wire::read(&mut self.stream, &signs).await? {
                Answer::More => {
                    let line =
                        lines.next().ok_or_else(|| Error::damaged("the server waits for what nobody announced"))?;
                    self.send(line).await?;
                }
                Answer::Tagged(of, told) if of == tag => {
                    self.busy = false;
                    self.learn(&told);
                    return Ok(told);
                }
                Answer::Tagged(..) => return Err(Error::damaged("the server answers what was not asked")),
                Answer::Status(told) if told.status == Status::Bye => {
                    return Err(told.refused("the connection", ErrorKind::Unavailable));
                }
                Answer::Capability(words) => self.capabilities = words,
                answer => {
                    if let Answer::Status(told) = &answer {
                        self.learn(told);
                    }
                    take(answer)?;
                }
            }
        }
    }

    fn learn(&mut self, told: &Told) {
        if let Some(words) = told.code("CAPABILITY") {
            self.capabilities = capabilities(words);
        }
    }

    async fn send(&mut self, line: &[u8]) -> Result<()> {
        let line = [line, b"\r\n"].concat();
        self.stream.write_all(&line).await.map_err(broke)?;
        self.stream.flush().await.map_err(broke)
    }

    /// Opens a mailbox, to look or also to remove, and answers what it is now.
    pub(super) async fn select(&mut self, mailbox: &str, writable: bool) -> Result<Selected> {
        self.selected = None;
        let (mut exists, mut validity) = (0, None);
        let verb = if writable { "SELECT" } else { "EXAMINE" };
        let told = self.run(format!("{verb} {}", quoted(mailbox)), |answer| {
            match answer {
                Answer::Exists(count) => exists = count,
                Answer::Status(told) => {
                    validity = validity.or_else(|| told.code("UIDVALIDITY").and_then(|value| value.parse().ok()));
                }
                _ => {}
            }
            Ok(())
        });
        let told = told.await?.done("opening the mailbox", ErrorKind::NotFound)?;
        if writable && told.code("READ-ONLY").is_some() {
            return Err(Error::forbidden("the server lets one only read this mailbox"));
        }
        let lasting = "the server's numbers of messages mean nothing later";
        let validity = validity.ok_or_else(|| Error::new(ErrorKind::Unsupported, lasting))?;
        let selected = Selected { mailbox: mailbox.to_owned(), validity, exists, writable };
        self.selected = Some(selected.clone());
        Ok(selected)
    }

    /// Sees to it that a mailbox is open in which numbers of messages mean what they did.
    pub(super) async fn be_in(&mut self, mailbox: &str, validity: u32, writable: bool) -> Result<()> {
        let fits = |open: &Selected| open.mailbox == mailbox && (open.writable || !writable);
        let now = match self.selected.as_ref().filter(|open| fits(open)) {
            Some(open) => open.validity,
            None => self.select(mailbox, writable).await?.validity,
        };
        if now == validity {
            return Ok(());
        }
        Err(Error::new(ErrorKind::PreconditionFailed, "the mailbox is not the one that was listed any more"))
    }
}

async fn connect(to: &Server) -> Result<TlsStream<TcpStream>> {
    let unreachable = || Error::unavailable(format!("{} cannot be reached", to.host));
    let stream = timeout(CONNECT_TIME, TcpStream::connect((to.host.as_str(), to.port))).await;
    let stream = stream.map_err(|_| unreachable())?.map_err(|error| unreachable().with_source(error))?;
    stream.set_nodelay(true).map_err(broke)?;
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive).map_err(broke)?;
    let name = ServerName::try_from(to.host.clone());
    let name = name.map_err(|_| Error::invalid(format!("{} is no name that a certificate could have", to.host)))?;
    to.tls.connect(name, stream).await.map_err(|error| match of_tls(&error) {
        Some(rustls::Error::InvalidCertificate(why)) => {
            Error::forbidden(format!("the certificate of {} is not believed: {why:?}", to.host))
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            Error::new(ErrorKind::Unsupported, "what answers there does not speak TLS, which imaps does from the start")
        }
        _ => broke(error),
    })
}

/// A string between quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
