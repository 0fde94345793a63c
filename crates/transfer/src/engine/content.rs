//! Comparing two files by their content.

use super::run::{PERMITS, Run};
use crate::signs;
use crate::site::{Content, Item, Site};
use bytes::Bytes;
use holdfast_base::{ByteRange, DrivePath, Error, ErrorKind, Result};
use std::sync::Arc;

/// Bytes that are compared at a time; both sides have them in memory.
const STEP: u64 = 1 << 20;
/// Room for both.
const ROOM: u32 = 2 << 10;
const _: () = assert!(ROOM < PERMITS);

/// Whether a file of the source and one of the destination, of the same size, have the same content.
pub(super) async fn same_content(
    run: &Run,
    (source, from, item): (&Arc<dyn Site>, &DrivePath, &Item),
    (to, there): (&DrivePath, &Item),
) -> Result<bool> {
    let compared = run.persist(from, || async {
        let (a, b) = tokio::try_join!(source.open(from, item), run.destination.open(to, there))?;
        compare(run, &*a, &*b, item.size).await
    });
    compared.await.map_err(|error| match error.kind() {
        ErrorKind::PreconditionFailed => Error::new(ErrorKind::Conflict, error.message()),
        _ => error,
    })
}

async fn compare(run: &Run, a: &dyn Content, b: &dyn Content, size: u64) -> Result<bool> {
    let room = Arc::clone(&run.budget).acquire_many_owned(ROOM).await;
    let _room = room.map_err(|_| Error::internal("the budget of memory was closed"))?;
    let signs = signs::current();
    let mut at = 0;
    while at < size {
        let range = ByteRange { start: at, end: size.min(at + STEP) };
        let (a, b): (Bytes, Bytes) = tokio::try_join!(a.read(range), b.read(range))?;
        if a != b {
            return Ok(false);
        }
        signs.alive();
        at = range.end;
    }
    let (a, b) = tokio::try_join!(a.is_still(), b.is_still())?;
    if a && b {
        Ok(true)
    } else {
        Err(Error::new(ErrorKind::Conflict, "one of the two changed while they were compared"))
    }
}
