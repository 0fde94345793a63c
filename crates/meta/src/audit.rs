//! What a request does, noted in the transaction that does it.
//!
//! A face says before a request what it is about ([`noting`]). If the request changes accounts, credentials, spaces or members, the first
//! transaction that does so writes the note as well: a change is never without its entry. If it changes nothing of the kind, or is
//! refused, the note comes back, and the face has it written with others. The note goes with the task, not through every signature on the way.

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

/// Changes the note of the present request, if it has one that is not written yet.
pub fn amend(change: impl FnOnce(&mut AuditNote)) {
    let _ = NOTE.try_with(|pending| pending.0.lock().as_mut().map(change));
}

/// The note of the present request.
pub(crate) fn pending() -> Option<Pending> {
    NOTE.try_with(Clone::clone).ok()
}
