//! Keeping the write-ahead log short without making writers wait.
//!
//! SQLite's own checkpoint at commit would stop the writer for as long as it takes to copy a thousand pages and sync twice. Here a
//! thread of its own copies (a PASSIVE checkpoint waits for nobody) once the log is over [`LOG_BYTES`]. While writers go
//! on it can never copy the very last pages, and a log that is not copied whole does not start again from its beginning; so
//! when little is left, the writer itself copies the rest between two batches, which takes a millisecond or two.
//!
//! One of the two copies at a time: of two checkpoints SQLite would refuse one. While the thread copies, the writer goes on, unless the log is so long
//! that it has to wait.
//!
//! A long read (a check, a snapshot) holds the log open: it grows by what is written meanwhile and shrinks after.

use super::fault::explain;
use super::open::{Opener, Purpose};
use holdfast_base::Result;
use parking_lot::Mutex;
use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Pages are SQLite's default size.
const PAGE_BYTES: i32 = 4_096;

/// Length of the log at which copying starts.
const LOG_BYTES: i32 = 16 << 20;

/// Length at which the writer copies everything itself and so waits for the disk: the log never grows without bound.
const LOG_BYTES_MAX: i32 = 64 << 20;

/// Pages the writer copies by itself.
const REST_PAGES: i32 = (1 << 20) / PAGE_BYTES;

/// Growth of the log after which a checkpoint that could not finish is tried again.
const AGAIN_PAGES: i32 = (4 << 20) / PAGE_BYTES;

/// How often a checkpoint is tried at once: SQLite refuses one that looks at the log's head in the moment in which a commit writes it.
const ATTEMPTS: usize = 5;

/// The copying thread and the writer's side of it.
pub(super) struct LogKeeper {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Held by who copies.
    copying: Arc<Mutex<()>>,
    last_pages: i32,
    attempt_at: i32,
}

impl LogKeeper {
    /// Starts the thread.
    pub(super) fn start(opener: &Opener) -> Result<Self> {
        let connection = opener.open(Purpose::Write).map_err(explain)?;
        let (wake, woken) = sync_channel(1);
        let copying = Arc::new(Mutex::new(()));
        let held = copying.clone();
        let thread = std::thread::Builder::new().name("catalogue-log".to_owned()).spawn(move || {
            while woken.recv().is_ok() {
                let _copying = held.lock();
                checkpoint(&connection, CheckpointMode::PASSIVE);
            }
        })?;
        Ok(Self { wake: Some(wake), thread: Some(thread), copying, last_pages: 0, attempt_at: LOG_BYTES / PAGE_BYTES })
    }

    /// Called by the writer between two batches.
    pub(super) fn after_commit(&mut self, connection: &Connection) {
        let Ok((pages, copied)) = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::NOOP) else { return };
        if pages < self.last_pages {
            self.attempt_at = LOG_BYTES / PAGE_BYTES;
        }
        self.last_pages = pages;
        if pages < self.attempt_at {
            return;
        }
        metrics::gauge!("holdfast_catalogue_log_bytes").set(f64::from(pages) * f64::from(PAGE_BYTES));
        let too_long = pages >= LOG_BYTES_MAX / PAGE_BYTES;
        if pages - copied > REST_PAGES && !too_long {
            if let Some(wake) = &self.wake {
                // A full channel means that the thread is awake already.
                let _ = wake.try_send(());
            }
            self.attempt_at = pages + REST_PAGES / 2;
        } else if let Some(_copying) = if too_long { Some(self.copying.lock()) } else { self.copying.try_lock() } {
            checkpoint(connection, CheckpointMode::PASSIVE);
            self.attempt_at = pages + AGAIN_PAGES;
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the catalogue's log keeper ended with a defect");
        }
    }
}

/// Copies the whole log into the file, if no other process is in the way; closing the last connection then takes the log away.
///
/// Never TRUNCATE: SQLite does not sync the cut, and a disk that loses power may keep the old length with some pages gone. What is left of
/// the log can be a valid but shorter one, and its old pages would cover the newer ones in the file. A log that was only removed
/// comes back whole or not at all.
pub(super) fn copy_all(connection: &Connection) {
    checkpoint(connection, CheckpointMode::PASSIVE);
}

fn checkpoint(connection: &Connection, mode: CheckpointMode) {
    let began = std::time::Instant::now();
    let busy = |error: &rusqlite::Error| error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
    let mut done = connection.wal_checkpoint_v2(None::<&str>, mode);
    for _ in 1..ATTEMPTS {
        if !done.as_ref().is_err_and(busy) {
            break;
        }
        std::thread::yield_now();
        done = connection.wal_checkpoint_v2(None::<&str>, mode);
    }
    match done {
        Ok(_) => metrics::histogram!("holdfast_catalogue_checkpoint_seconds").record(began.elapsed().as_secs_f64()),
        // Nothing is lost: the log keeps what was not copied.
        Err(error) => tracing::warn!(%error, "the catalogue's log could not be copied into the file"),
    }
}
