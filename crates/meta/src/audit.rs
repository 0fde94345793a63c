//! What a request does, noted in the transaction that does it.
//!
//! A face says before a request what it is about ([`noting`]). If the request changes accounts, credentials, spaces or members, the first
//! transaction that does so writes the note as well: a change is never without its entry. If it changes nothing of the kind, or is
//! refused, the note comes back, and the face has it written with others. The note goes with the task, not through every signature on the way; where a request goes on in a task of
//! its own, [`carried`] takes it along.

use crate::types::AuditNote;
use parking_lot::Mutex;
use std::sync::Arc;

tokio::task_local! {
    static NOTE: Pending;
}

/// A note that waits to be written; none when it was.
#[derive(Debug, Clone)]
pub(crate) struct Pending(Arc<Mutex<Option<AuditNote>>>);

impl Pending {
    /// What is to be written.
    pub(crate) fn note(&self) -> Option<AuditNote> {
        self.0.lock().clone()
    }

    /// It is on disk.
    pub(crate) fn is_written(&self) {
        *self.0.lock() = None;
    }
}

/// Does `work` with a note for what it changes; the note comes back if nothing wrote it.
pub async fn noting<T>(note: AuditNote, work: impl Future<Output = T>) -> (T, Option<AuditNote>) {
    let pending = Pending(Arc::new(Mutex::new(Some(note))));
    let done = NOTE.scope(pending.clone(), work).await;
    let left = pending.0.lock().take();
    (done, left)
}

/// `work` with the note of the present request, wherever it is run.
pub fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let pending = pending();
    async move {
        match pending {
            Some(pending) => NOTE.scope(pending, work).await,
            None => work.await,
        }
    }
}

/// Changes the note of the present request, if it has one that is not written yet.
pub fn amend(change: impl FnOnce(&mut AuditNote)) {
    let _ = NOTE.try_with(|pending| pending.0.lock().as_mut().map(change));
}

/// The note of the present request.
pub(crate) fn pending() -> Option<Pending> {
    NOTE.try_with(Clone::clone).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_note_goes_along_into_another_task() {
        let work = async {
            let seen = async {
                amend(|note| note.detail.push_str("in another task"));
                pending().map(|pending| pending.note())
            };
            tokio::spawn(carried(seen)).await.expect("ends")
        };
        let (seen, left) = noting(AuditNote::default(), work).await;
        let seen = seen.flatten().expect("has the note");
        assert_eq!((seen.detail.as_str(), left), ("in another task", Some(seen.clone())));

        let write = async { pending().map(|pending| pending.is_written()) };
        let work = async { tokio::spawn(carried(write)).await.expect("ends") };
        let (_, left) = noting(AuditNote::default(), work).await;
        assert!(left.is_none(), "what another task wrote is written");
        assert!(tokio::spawn(carried(async { pending().is_none() })).await.expect("ends"));
    }
}
