//! What is kept of a mount between its calls.

use super::{CONTENTS_MAX, SEAT_IDLE, SEATS_MAX};
use holdfast_auth::Session;
use holdfast_base::{ContentId, Error, Result};
use holdfast_drive::engine::MountName;
use holdfast_drive::{Deferring, OpenContent};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is asked again whether the session may still see the space: what is open would be read without that.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A session's tree.
pub(super) struct Seat {
    pub(super) tree: Arc<dyn Deferring>,
    pub(super) space: String,
    /// Kept, so that no other session gets its address while this is found by it.
    who: Arc<Session>,
    used: Mutex<Instant>,
    looked: Mutex<Option<Instant>>,
    contents: Mutex<Contents>,
}

#[derive(Default)]
struct Contents {
    open: HashMap<ContentId, (Arc<dyn OpenContent>, u64)>,
    uses: u64,
}

impl Seat {
    /// Refuses whoever may no longer see the space.
    pub(super) async fn look(&self) -> Result<()> {
        *self.used.lock() = Instant::now();
        let fresh = self.looked.lock().is_some_and(|at| at.elapsed() < LOOK_EVERY);
        if !fresh {
            let root = self.tree.entry(self.tree.root()).await?;
            root.ok_or_else(|| Error::not_found(format!("there is no space {:?}", self.space)))?;
            *self.looked.lock() = Some(Instant::now());
        }
        Ok(())
    }

    /// A content, opened now or before.
    pub(super) async fn open(&self, content: ContentId) -> Result<Arc<dyn OpenContent>> {
        {
            let mut contents = self.contents.lock();
            contents.uses += 1;
            let uses = contents.uses;
            if let Some((open, used)) = contents.open.get_mut(&content) {
                *used = uses;
                return Ok(open.clone());
            }
        }
        let open = self.tree.open(content).await?;
        let mut contents = self.contents.lock();
        if contents.open.len() >= CONTENTS_MAX
            && let Some(oldest) = contents.open.iter().min_by_key(|(_, (_, used))| *used).map(|(id, _)| *id)
        {
            contents.open.remove(&oldest);
        }
        let uses = contents.uses;
        contents.open.insert(content, (open.clone(), uses));
        Ok(open)
    }
}

/// What a seat is found by: session, space and mount.
type Key = (usize, String, MountName);

/// All seats. Sign-in gives the same session to the same credential as long as that is valid.
#[derive(Default)]
pub(super) struct Seats(HashMap<Key, Arc<Seat>>);

fn key(who: &Arc<Session>, space: &str, mount: MountName) -> Key {
    (Arc::as_ptr(who).addr(), space.to_owned(), mount)
}

impl Seats {
    pub(super) fn find(&self, who: &Arc<Session>, space: &str, mount: MountName) -> Option<Arc<Seat>> {
        self.0.get(&key(who, space, mount)).cloned()
    }

    /// A new seat. Those nobody uses go first, and if there are none, all do: they are taken again with the next call.
    pub(super) fn take(
        &mut self,
        who: Arc<Session>,
        (space, mount): (&str, MountName),
        tree: Arc<dyn Deferring>,
    ) -> Arc<Seat> {
        self.sweep();
        if self.0.len() >= SEATS_MAX {
            self.0.clear();
        }
        let key = key(&who, space, mount);
        let (used, looked, contents) = (Mutex::new(Instant::now()), Mutex::default(), Mutex::default());
        let seat = Arc::new(Seat { tree, space: space.to_owned(), who, used, looked, contents });
        self.0.insert(key, seat.clone());
        metrics::gauge!("holdfast_wire_seats").set(self.0.len() as f64);
        seat
    }

    /// Gives up those nobody uses.
    pub(super) fn sweep(&mut self) {
        self.0.retain(|_, seat| seat.used.lock().elapsed() < SEAT_IDLE);
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").field("account", &self.who.name).field("space", &self.space).finish_non_exhaustive()
    }
}
