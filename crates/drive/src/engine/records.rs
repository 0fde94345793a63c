//! Records on their way to clients that open them by themselves.
//!
//! A record is read, and its sum tested, as a whole. Where there is room its reader gets it so, and it lies in memory until the reader's network has taken it.
//! No account holds more than is left for others ("dynamic thresholds", Choudhury and Hahne 1998): whoever asks for many at once over a slow network would
//! have all of it, and everybody else would wait for that network. Who gets none within [`WAIT`] gets copies: pieces of the record
//! in order, each read when the one before is gone, between which nothing of it is held.

use super::budget::{BUFFER_BYTES, Hold, Meter, Pool, Region, UNIT_BYTES, share_bytes};
use super::copies::{COPY_BYTES_MAX, COPY_BYTES_MIN, Copying};
use super::pace::Pace;
use super::read::Reading;
use crate::ContentStream;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_base::{Error, ErrorKind, Result, Uid};
use holdfast_meta::BlockPlace;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// How long a whole record waits for room: over a network that is not slow some comes back sooner.
const WAIT: Duration = Duration::from_millis(200);

/// A record, or the end of one.
pub struct Record {
    /// Its length.
    pub bytes: u64,
    /// It.
    pub content: ContentStream,
}

/// The memory of whole records.
pub(crate) struct Records {
    region: Region,
    pool: Arc<Pool>,
    /// What each account has of it.
    accounts: Mutex<HashMap<Uid, usize>>,
    /// Some came back.
    returned: Notify,
}

/// What a record has of its account's part.
struct Tally {
    records: Arc<Records>,
    account: Uid,
    bytes: usize,
}

impl Records {
    /// Records of up to `bytes` in all.
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        let bytes = bytes.max(BUFFER_BYTES);
        let region = Region::client_bound(&Meter::new("sealed downloads", bytes), bytes, UNIT_BYTES);
        Arc::new(Self { region, pool: Pool::new(bytes), accounts: Mutex::default(), returned: Notify::new() })
    }

    /// Room for a record; none if this account gets none for a while.
    async fn take(self: &Arc<Self>, account: Uid, bytes: usize) -> Option<(Hold, Tally)> {
        let room = async {
            loop {
                let mut returned = std::pin::pin!(self.returned.notified());
                returned.as_mut().enable();
                if let Some(room) = self.try_take(account, bytes) {
                    return room;
                }
                returned.await;
            }
        };
        timeout(WAIT, room).await.ok()
    }

    fn try_take(self: &Arc<Self>, account: Uid, bytes: usize) -> Option<(Hold, Tally)> {
        let mut accounts = self.accounts.lock();
        let has = accounts.get(&account).copied().unwrap_or(0);
        if has + bytes > self.region.free_bytes() {
            return None;
        }
        let hold = self.region.try_take(bytes)?;
        accounts.insert(account, has + bytes);
        Some((hold, Tally { records: self.clone(), account, bytes }))
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let mut accounts = self.records.accounts.lock();
        if let Some(has) = accounts.get_mut(&self.account) {
            *has = has.saturating_sub(self.bytes);
            if *has == 0 {
                accounts.remove(&self.account);
            }
        }
        drop(accounts);
        self.records.returned.notify_waiters();
    }
}

/// A whole record on its way. The bytes go first, with their room: who is told of it finds it.
struct Whole {
    record: Bytes,
    _tally: Tally,
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.record
    }
}

/// A record that goes in copies.
struct Copied {
    reading: Arc<Reading>,
    place: BlockPlace,
    /// The next byte of it.
    at: usize,
    copying: Copying,
    pace: Pace,
}

impl Copied {
    /// A copy of its next bytes, which are these and more.
    fn copy(&mut self, bytes: &[u8]) -> Bytes {
        let copy = self.copying.copy(bytes, self.pace.copy_bytes());
        self.at += copy.len();
        self.pace.gave(copy.len(), Instant::now());
        copy
    }

    /// The next copy, when the one before is gone.
    async fn piece(&mut self) -> Result<Option<Bytes>> {
        self.copying.wait().await;
        self.pace.took(Instant::now());
        let left = self.place.place.sealed_bytes as usize - self.at;
        if left == 0 {
            return Ok(None);
        }
        // No more than one copy takes, and, however slow, no less than the smallest.
        let wanted = self.pace.copy_bytes().clamp(COPY_BYTES_MIN, COPY_BYTES_MAX);
        let bytes = self.reading.record_piece(&self.place, self.at, left.min(wanted)).await?;
        Ok(Some(self.copy(&bytes)))
    }
}

impl Reading {
    /// Block `index` behind the first `skip` bytes of its record, whole as far as its sum tells, for somebody of this account.
    pub(crate) async fn record(self: &Arc<Self>, account: Uid, index: u64, skip: u64) -> Result<Record> {
        let beyond = |what| Error::new(ErrorKind::RangeNotSatisfiable, what);
        if self.is_inline() || index >= self.size().div_ceil(self.block_bytes()) {
            return Err(beyond("the content has no such block"));
        }
        let (downloads, room) = (self.downloads(), self.record_bytes(index));
        let (buffer, tally) = match downloads.records.take(account, share_bytes(room)).await {
            Some((hold, tally)) => (downloads.records.pool.buffer(room, hold), Some(tally)),
            None => (downloads.cache.buffer(room).await, None),
        };
        let (record, place) = self.fetch_record(index, buffer).await?;
        let length = record.bytes.len();
        let skip = usize::try_from(skip).ok().filter(|skip| *skip <= length);
        let skip = skip.ok_or_else(|| beyond("the block's record is shorter"))?;
        let bytes = (length - skip) as u64;
        if let Some(tally) = tally {
            let whole = Bytes::from_owner(Whole { record: record.into_bytes(skip..length), _tally: tally });
            return Ok(Record { bytes, content: stream::once(async { Ok(whole) }).boxed() });
        }
        let (reading, copying) = (self.clone(), downloads.copies.join());
        let mut copied = Copied { reading, place, at: skip, copying, pace: Pace::default() };
        let first = copied.copy(&record.bytes[skip..]);
        let rest =
            stream::try_unfold(
                copied,
                |mut copied| async move { Ok(copied.piece().await?.map(|piece| (piece, copied))) },
            );
        Ok(Record { bytes, content: stream::once(async { Ok(first) }).chain(rest).boxed() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const RECORD: usize = 16 * UNIT_BYTES;
    const SLOW: Uid = Uid([1; 16]);
    const FAST: Uid = Uid([2; 16]);

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_much_leaves_as_much_to_others() {
        let records = Records::new(12 * RECORD);
        let mut slow = Vec::new();
        while let Some(room) = records.take(SLOW, RECORD).await {
            slow.push(room);
        }
        assert_eq!(slow.len(), 6, "half of it is left");
        let fast: Vec<_> = std::iter::from_fn(|| records.try_take(FAST, RECORD)).collect();
        assert_eq!(fast.len(), 3, "and of that half again");
        drop((slow, fast));
        assert_eq!(records.region.free_bytes(), records.region.bytes());
        assert!(records.accounts.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_what_comes_back() {
        let records = Records::new(2 * RECORD);
        let first = records.take(FAST, RECORD).await;
        let mut second = Box::pin(records.take(FAST, RECORD));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.await.is_some());
    }
}
