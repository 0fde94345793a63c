//! A real engine with its wire face on a socket of this machine, and something between the two that cuts connections.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_auth::accounts::{NewPerson, NewToken, Proof};
use holdfast_auth::{Accounts, AuthOptions, Authenticator, Credential, Secret, Session};
use holdfast_base::{Error, ManualClock};
use holdfast_blob::layer::Layered;
use holdfast_blob::layer::fault::Faults;
use holdfast_blob::memory::MemoryStore;
use holdfast_drive::engine::{Engine, EngineOptions};
use holdfast_drive::{Deferring, Leave, NewNode, NodeKind, Posix, SaveBody};
use holdfast_meta::sqlite::{Options as CatalogueOptions, SqliteCatalogue};
use holdfast_remote::client::{Options, Remote};
use holdfast_remote::face::{Answer, WireFace};
use holdfast_seal::keys::Argon2Params;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// Bytes of an answer that come together.
const PIECE: usize = 8 << 10;

/// The account, and its space.
pub(crate) const NAME: &str = "ana";

pub(crate) struct Rig {
    pub(crate) engine: Engine,
    /// Signed in with the token.
    pub(crate) who: Arc<Session>,
    pub(crate) token: Secret,
    pub(crate) face: WireFace,
    pub(crate) address: SocketAddr,
    pub(crate) harm: Arc<Harm>,
    /// What the store does wrong.
    pub(crate) faults: Arc<Faults>,
    _folder: tempfile::TempDir,
}

/// What is done to connections.
#[derive(Default)]
pub(crate) struct Harm {
    /// Of so many requests, the answers to all but each third are swallowed: the operation is done, and the connection cut.
    pub(crate) swallow: AtomicU64,
    /// Answers that were swallowed.
    pub(crate) swallowed: AtomicU64,
    /// Calls that came in, but for those by which mounts say what they have heard of.
    pub(crate) calls: AtomicU64,
    /// Answers nothing any more, and keeps the connection.
    pub(crate) silent: AtomicU64,
    /// Whoever asks does not say that it knows of several names of a file, as clients before that.
    pub(crate) is_older: AtomicBool,
    /// It does not know the operation of this number and those behind it, which are below 256, if it is not 0.
    pub(crate) knows_below: AtomicU64,
    /// No more than so many bytes of an answer come, if it is not 0.
    pub(crate) bytes: AtomicU64,
    /// Milliseconds before each piece of an answer.
    pub(crate) pace_ms: AtomicU64,
    /// Bytes of answers.
    pub(crate) answered: Arc<AtomicU64>,
    /// Every other connection comes to another node, as behind a balancer.
    pub(crate) is_balanced: AtomicBool,
    /// Cuts all connections.
    pub(crate) cut: Notify,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("catalogue.db");
        let catalogue = Arc::new(SqliteCatalogue::open(&path, &CatalogueOptions::default()).expect("opens"));
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let faults = Arc::new(Faults::default());
        let store = Arc::new(Layered::sharing(Arc::new(MemoryStore::new()), faults.clone()));
        let options = EngineOptions { pack_bytes: 8 << 20, ..EngineOptions::default() };
        let engine = Engine::start(catalogue.clone(), store, clock.clone(), options).await.expect("starts");
        let argon2 = Argon2Params { memory_kib: 8, passes: 1, lanes: 1 };
        let options = AuthOptions { argon2, ..AuthOptions::default() };
        let accounts = Accounts::new(catalogue.clone(), clock.clone(), &options).expect("makes");
        let password = Secret::new("correct horse battery staple, twice");
        let person = NewPerson { name: NAME.into(), password: Some(password.clone()), ..NewPerson::default() };
        accounts.create(person).await.expect("makes an account");
        let owner = accounts.open(NAME, Proof::Password(&password)).await.expect("opens it");
        let token = accounts.create_token(&owner, NewToken { label: "mount".into(), ..NewToken::default() }).await;
        let token = token.expect("makes a token").token;
        let doors = Authenticator::new(catalogue, clock, options).expect("starts");
        let who = doors.sign_in(&Credential::Bearer(token.clone()), None).await.expect("signs in");
        let face = WireFace::new(engine.clone());
        let harm = Arc::new(Harm::default());
        let nodes = [face.clone(), WireFace::new(engine.clone())];
        let address = serve(nodes, who.clone(), harm.clone()).await;
        Self { engine, who, token, face, address, harm, faults, _folder: folder }
    }

    pub(crate) async fn remote(&self) -> Remote {
        self.remote_within(Duration::from_secs(20)).await
    }

    pub(crate) async fn remote_within(&self, deadline: Duration) -> Remote {
        let target = format!("http://{}", self.address).parse().expect("an address");
        let options = Options { deadline, ..Options::new(target) };
        Remote::connect(options, &self.token).await.expect("connects")
    }

    /// One that answers first.
    pub(crate) async fn deferring(&self) -> Remote {
        let mut remote = self.remote().await;
        remote.take_keys(&self.token).await.expect("has keys");
        remote
    }

    /// The same space without a network.
    pub(crate) async fn local(&self) -> Arc<dyn Deferring> {
        self.engine.tree(self.who.clone(), NAME).await.expect("opens")
    }
}

async fn serve(nodes: [WireFace; 2], who: Arc<Session>, harm: Arc<Harm>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut count = 0;
        while let Ok((socket, _)) = listener.accept().await {
            let face = nodes[if harm.is_balanced.load(Ordering::SeqCst) { count % 2 } else { 0 }].clone();
            count += 1;
            let (who, harm) = (who.clone(), harm.clone());
            tokio::spawn(async move {
                let cut = Arc::new(Notify::new());
                let (inner_cut, inner_harm) = (cut.clone(), harm.clone());
                let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    let (face, who, harm, cut) = (face.clone(), who.clone(), inner_harm.clone(), inner_cut.clone());
                    async move {
                        let is_post = request.method() == http::Method::POST;
                        let (head, mut body) = request.into_parts();
                        let first = if is_post { body.frame().await } else { None };
                        let is_call = is_post && !first.as_ref().is_some_and(is_word);
                        let count = harm.calls.fetch_add(u64::from(is_call), Ordering::SeqCst);
                        if harm.silent.load(Ordering::SeqCst) > 0 {
                            std::future::pending::<()>().await;
                        }
                        let mut request = http::Request::from_parts(head, body);
                        if harm.is_older.load(Ordering::SeqCst) {
                            request.headers_mut().remove("holdfast-bonds");
                        }
                        let knows_below = harm.knows_below.load(Ordering::SeqCst);
                        let first = first.map(|frame| {
                            frame.map(|frame| frame.map_data(|data| of_an_older_server(&data, knows_below)))
                        });
                        let request = request.map(|body| {
                            let body = StreamBody::new(stream::iter(first).chain(BodyStream::new(body)));
                            body.map_err(|error| Error::unavailable(error.to_string())).boxed_unsync()
                        });
                        let answer = face.handle(who, request).await;
                        let left = harm.swallow.load(Ordering::SeqCst);
                        if is_call && left > 0 && count % 3 != 2 {
                            harm.swallow.store(left - 1, Ordering::SeqCst);
                            harm.swallowed.fetch_add(1, Ordering::SeqCst);
                            cut.notify_one();
                            std::future::pending::<()>().await;
                        }
                        let limit = harm.bytes.load(Ordering::SeqCst);
                        let pace = Duration::from_millis(harm.pace_ms.load(Ordering::SeqCst));
                        let body = answer.map(|body| held(body, limit, pace, harm.answered.clone()));
                        Ok::<_, std::convert::Infallible>(body)
                    }
                });
                let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let connection = http.serve_connection(TokioIo::new(socket), service);
                tokio::select! {
                    _ = connection => {}
                    () = cut.notified() => {}
                    () = harm.cut.notified() => {}
                }
            });
        }
    });
    address
}

/// Whether a call begins with this that says what a mount has heard of: each says so every second, whatever else it does.
fn is_word(first: &Result<Frame<Bytes>, hyper::Error>) -> bool {
    let call = first.as_ref().ok().and_then(Frame::data_ref);
    call.and_then(|call| call.get(5..7)).is_some_and(|number| matches!(number, [0x18, 52]))
}

/// A call as a server sees it that knows the operations below this number: the others are none.
fn of_an_older_server(call: &[u8], knows_below: u64) -> Bytes {
    let mut call = call.to_vec();
    // Behind the length an array begins, and in it the number, which has a byte of its own from 24 on.
    if let Some([0x18, number]) = call.get_mut(5..7)
        && knows_below > 0
        && u64::from(*number) >= knows_below
    {
        *number = 255;
    }
    call.into()
}

/// An answer in small pieces, of which no more come than these bytes if there is such a limit.
fn held(body: Answer, limit: u64, pace: Duration, answered: Arc<AtomicU64>) -> UnsyncBoxBody<Bytes, Error> {
    let pieces = BodyStream::new(body).flat_map(|frame| {
        let whole = frame.expect("does not break off").into_data().unwrap_or_default();
        stream::iter(whole.chunks(PIECE).map(Bytes::copy_from_slice).collect::<Vec<_>>())
    });
    let mut left = if limit == 0 { u64::MAX } else { limit };
    let frames = pieces.then(move |piece| {
        let length = piece.len() as u64;
        let is_within = left >= length;
        left = left.saturating_sub(length);
        answered.fetch_add(if is_within { length } else { 0 }, Ordering::SeqCst);
        async move {
            if !is_within {
                std::future::pending::<()>().await;
            }
            if !pace.is_zero() {
                tokio::time::sleep(pace).await;
            }
            Ok(Frame::data(piece))
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Times that are never the same twice, as a clock of nanoseconds has them.
pub(crate) fn posix() -> Posix {
    static CLOCK: AtomicI64 = AtomicI64::new(1_700_000_000_000_000_000);
    Posix { mode: 0o644, ..Posix::default() }.at(CLOCK.fetch_add(1_000_003, Ordering::Relaxed))
}

pub(crate) fn new_file(parent: holdfast_base::NodeId, name: &str) -> NewNode {
    NewNode { parent, name: named(name), kind: NodeKind::File, posix: posix() }
}

pub(crate) fn named(name: &str) -> holdfast_base::NodeName {
    holdfast_base::NodeName::new(name).expect("a name")
}

pub(crate) fn leave() -> Leave {
    Leave { now_ns: posix().ctime_ns, held_until_ms: None, forget_after_ms: 0 }
}

pub(crate) fn body(content: &[u8]) -> SaveBody {
    let chunks: Vec<_> = content.chunks(77_777).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    stream::iter(chunks).boxed().into()
}

/// Bytes that are different everywhere.
pub(crate) fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..count).map(|_| next()).collect()
}
