//! Connections to a server: made as they are wanted, up to a number, and made again when they are lost.

use super::connect::{Target, connect};
use super::session::Session;
use holdfast_base::Result;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// After a server would have no connection more, it is not asked for one for this long.
const NO_MORE: Duration = Duration::from_secs(30);

pub(super) struct Pool {
    target: Target,
    most: usize,
    sessions: Mutex<Vec<Arc<Session>>>,
    /// Held by whoever connects. When another connection beside those there may be tried.
    connecting: tokio::sync::Mutex<Option<Instant>>,
}

impl Pool {
    pub(super) fn new(target: Target, most: usize) -> Self {
        Self { target, most, sessions: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// A session: one that has nothing to do, a new one, or the one with the least to do.
    pub(super) async fn get(&self) -> Result<Arc<Session>> {
        loop {
            let best = self.best();
            if let Some((session, load, count)) = best {
                if load == 0 || count >= self.most {
                    return Ok(session);
                }
                // Somebody else connects already, or it was of no use a moment ago.
                let Ok(mut connecting) = self.connecting.try_lock() else { return Ok(session) };
                if connecting.is_some_and(|not_before| Instant::now() < not_before) {
                    return Ok(session);
                }
                // Said before, since who waits for one that hangs is given up.
                *connecting = Some(Instant::now() + NO_MORE);
                match connect(&self.target).await {
                    Ok(another) => {
                        *connecting = None;
                        return Ok(self.keep(another));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "there is no connection more");
                        if session.load().is_some() {
                            return Ok(session);
                        }
                        return Err(error);
                    }
                }
            }
            let _connecting = self.connecting.lock().await;
            if self.best().is_none() {
                return Ok(self.keep(connect(&self.target).await?));
            }
        }
    }

    fn keep(&self, session: Session) -> Arc<Session> {
        let session = Arc::new(session);
        self.sessions.lock().push(Arc::clone(&session));
        session
    }

    /// The session with the least to do, how much that is, and how many there are. Those that ended are let go of.
    fn best(&self) -> Option<(Arc<Session>, usize, usize)> {
        let mut sessions = self.sessions.lock();
        sessions.retain(|session| session.load().is_some());
        let count = sessions.len();
        let loads = sessions.iter().filter_map(|session| Some((Arc::clone(session), session.load()?, count)));
        // Of those with as much to do, the one that was made first.
        loads.min_by_key(|(_, load, _)| *load)
    }
}
