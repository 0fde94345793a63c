//! Changes, told to those who follow them: this node's after each commit, other nodes' as soon as they are heard of.
//!
//! A thread with a connection of its own tells other nodes by NOTIFY and hears them by LISTEN. It does so after the commit and
//! beside it, since a NOTIFY inside a transaction makes all commits of the database follow one another; what gathers during
//! one round trip is told together. Nothing relies on it: every few seconds the thread looks at the counts of all spaces
//! itself, and so finds what was lost with a connection, and what is changed through databases without NOTIFY. A look costs
//! one row a space.

use super::Options;
use super::address::Address;
use super::connector::{Connector, jittered};
use crate::catalogue::Change;
use holdfast_base::{Result, SpaceId};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio_postgres::{AsyncMessage, Client, Connection, Error, NoTls};

/// Changes kept for a receiver that is behind; one that is further behind is told so.
const CHANGES: usize = 1_024;

/// Changes in one notification: with numbers of 19 digits they stay below the 8,000 bytes a payload may have.
const PAYLOAD_CHANGES: usize = 128;

/// Notifications heard and not looked at yet; beyond, the next look finds them.
const HEARD: usize = 1_024;

/// Pause before a lost connection is made again.
const PAUSE: Duration = Duration::from_secs(1);

/// The feed's thread and what it shares with writers.
pub(super) struct Feed {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    changes: broadcast::Sender<Change>,
    known: Mutex<Known>,
    more: Notify,
}

#[derive(Default)]
struct Known {
    /// The highest count that was told of each space.
    told: HashMap<SpaceId, i64>,
    /// What other nodes are to be told.
    outgoing: BTreeMap<SpaceId, i64>,
}

/// A writer's end.
#[derive(Clone)]
pub(super) struct Teller(Arc<Shared>);

impl Teller {
    /// Tells of changes that are on disk.
    pub(super) fn tell(&self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        let mut all: BTreeMap<SpaceId, Change> = BTreeMap::new();
        for change in changes {
            all.entry(change.space).and_modify(|all| *all = all.and(*change)).or_insert(*change);
        }
        for change in all.values() {
            self.0.hear(*change);
        }
        self.0.known().outgoing.extend(all.values().map(|change| (change.space, change.seq)));
        self.0.more.notify_one();
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a change on, unless it was told before.
    fn hear(&self, change: Change) {
        let mut known = self.known();
        let told = known.told.entry(change.space).or_insert(i64::MIN);
        if *told < change.seq {
            // What another node changed before this and was not heard of yet is not told any more, so this stands for it.
            let by = if *told == change.since { change.by } else { 0 };
            *told = change.seq;
            // Under the lock, so that counts of a space are told in order. Nobody may be listening.
            let _ = self.changes.send(Change { by, ..change });
        }
    }

    /// The same of a change that somebody made.
    fn hear_of(&self, space: SpaceId, seq: i64) {
        self.hear(Change { space, since: seq - 1, seq, by: 0 });
    }
}

impl Feed {
    /// Starts the thread.
    pub(super) fn start(connector: &Arc<Connector>, options: &Options) -> Result<Self> {
        let shared =
            Arc::new(Shared { changes: broadcast::Sender::new(CHANGES), known: Mutex::default(), more: Notify::new() });
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let follower = Follower {
            shared: Arc::clone(&shared),
            address: connector.address().clone(),
            poll_every: options.poll_every,
            notify: options.notify,
            baseline: true,
        };
        let thread = std::thread::Builder::new()
            .name("catalogue-feed".to_owned())
            .spawn(move || runtime.block_on(follower.work(stopped)))?;
        Ok(Self { shared, stop, thread: Mutex::new(Some(thread)) })
    }

    /// For a writer.
    pub(super) fn teller(&self) -> Teller {
        Teller(Arc::clone(&self.shared))
    }

    /// Changes from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.shared.changes.subscribe()
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        // The thread may have ended.
        let _ = self.stop.send(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the catalogue's feed ended with a defect");
        }
    }
}

struct Follower {
    shared: Arc<Shared>,
    address: Address,
    poll_every: Duration,
    notify: bool,
    /// The first look says where everything stands; nobody is told of that.
    baseline: bool,
}

impl Follower {
    async fn work(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return,
                ended = self.follow() => {
                    if let Err(error) = ended {
                        tracing::warn!(%error, "the feed of the catalogue's changes lost its connection");
                    }
                }
            }
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return,
                () = tokio::time::sleep(jittered(PAUSE)) => {}
            }
        }
    }

    /// Connects and follows until the connection is lost.
    async fn follow(&mut self) -> Result<(), Error> {
        let (hear, heard) = mpsc::channel(HEARD);
        let config = self.address.config.clone();
        if let Some(tls) = self.address.tls.clone() {
            let (client, connection) = config.connect(tls).await?;
            self.beside(client, listen(connection, hear), heard).await
        } else {
            let (client, connection) = config.connect(NoTls).await?;
            self.beside(client, listen(connection, hear), heard).await
        }
    }

    async fn beside(
        &mut self,
        client: Client,
        connection: impl Future<Output = Result<(), Error>>,
        heard: mpsc::Receiver<String>,
    ) -> Result<(), Error> {
        tokio::select! {
            ended = connection => ended,
            ended = self.converse(&client, heard) => ended,
        }
    }

    async fn converse(&mut self, client: &Client, mut heard: mpsc::Receiver<String>) -> Result<(), Error> {
        if self.notify {
            client.batch_execute("LISTEN holdfast").await?;
        }
        let mut look = tokio::time::interval(self.poll_every);
        loop {
            tokio::select! {
                _ = look.tick() => self.look(client).await?,
                payload = heard.recv() => match payload {
                    Some(payload) => self.hear(&payload),
                    None => return Ok(()),
                },
                () = self.shared.more.notified() => self.tell(client).await?,
            }
        }
    }

    /// Looks at the count of every space.
    async fn look(&mut self, client: &Client) -> Result<(), Error> {
        let rows = client.query("SELECT space_id, seq FROM space_sum", &[]).await?;
        let mut now = HashMap::with_capacity(rows.len());
        for row in &rows {
            now.insert(SpaceId(row.try_get(0)?), row.try_get::<_, i64>(1)?);
        }
        if std::mem::take(&mut self.baseline) {
            let mut known = self.shared.known();
            for (&space, &seq) in &now {
                let told = known.told.entry(space).or_insert(seq);
                *told = seq.max(*told);
            }
            return Ok(());
        }
        for (&space, &seq) in &now {
            self.shared.hear_of(space, seq);
        }
        // Spaces that are gone need not be remembered.
        self.shared.known().told.retain(|space, _| now.contains_key(space));
        Ok(())
    }

    fn hear(&self, payload: &str) {
        for (space, seq) in payload.split(' ').filter_map(|pair| pair.split_once(':')) {
            if let (Ok(space), Ok(seq)) = (space.parse(), seq.parse()) {
                self.shared.hear_of(SpaceId(space), seq);
            }
        }
    }

    /// Tells other nodes what gathered. What cannot be told is found by their next look.
    async fn tell(&self, client: &Client) -> Result<(), Error> {
        let outgoing: Vec<(SpaceId, i64)> = std::mem::take(&mut self.shared.known().outgoing).into_iter().collect();
        if !self.notify {
            return Ok(());
        }
        let mut sql = String::new();
        for part in outgoing.chunks(PAYLOAD_CHANGES) {
            sql.push_str("NOTIFY holdfast, '");
            for (space, seq) in part {
                // Numbers need no quoting, and writing to a string cannot fail.
                let _ = write!(sql, "{space}:{seq} ");
            }
            sql.push_str("'; ");
        }
        client.batch_execute(&sql).await
    }
}

/// Runs a connection's other half and hands notifications on.
async fn listen<S, T>(mut connection: Connection<S, T>, hear: mpsc::Sender<String>) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    poll_fn(|context| {
        loop {
            match std::task::ready!(Pin::new(&mut connection).poll_message(context)) {
                Some(Ok(AsyncMessage::Notification(heard))) => {
                    // If there is no room, the next look finds it.
                    let _ = hear.try_send(heard.payload().to_owned());
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return std::task::Poll::Ready(Err(error)),
                None => return std::task::Poll::Ready(Ok(())),
            }
        }
    })
    .await
}
