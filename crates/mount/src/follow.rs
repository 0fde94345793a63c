//! Files that are open while somebody else changes them.
//!
//! How long the kernel believes names and attributes says [`belief`](crate::belief). What it has of a file's bytes it
//! keeps until the file is opened again, so whoever has it open all the time must be helped: after a change of the space the files that are open for
//! reading are looked at, and the kernel forgets those that have another content. It may wait for a request of its own before it does so, so the
//! thread that tells it holds none.

use crate::core::Core;
use crate::file::OpenFile;
use crate::known::Found;
use crate::meter::waits_for;
use crate::under_way::Wait;
use holdfast_base::NodeId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// Files that are looked at after a change; of more, the others are seen anew when they are opened.
const LOOKED_MAX: usize = 256;
/// Pause after a look: changes in it are looked at together.
const REST: Duration = Duration::from_millis(50);

/// Follows the changes of a space for as long as it is mounted.
pub(crate) async fn follow(core: Arc<Core>) {
    let mut changes = core.tree.changes();
    loop {
        if matches!(changes.recv().await, Err(RecvError::Closed)) {
            return;
        }
        while matches!(changes.try_recv(), Ok(_) | Err(TryRecvError::Lagged(_))) {}
        for file in core.changed_elsewhere(LOOKED_MAX).await {
            core.has_only(&file).await;
        }
        tokio::time::sleep(REST).await;
    }
}

impl Core {
    /// When it answers, the kernel has nothing of another content of a file than it has now, will ask how long it is, and is told that: nothing has it
    /// ask again meanwhile, on which the answer would be lost (`fuse_change_attributes`). Waits for what is being read of the file, so no thread that takes the kernel's
    /// requests is to wait for it.
    pub(crate) async fn has_only(&self, file: &OpenFile) {
        let forgotten = async {
            let _one = file.forgetting.lock().await;
            let (ino, content) = (self.ino(file.id), file.shown().entry.node.content);
            if self.known.find(ino, content) != Found::This {
                self.belief.take_back(ino).await;
                self.forget_pages(file.id).await;
                self.known.has_only(ino, content);
            }
        };
        waits_for(Wait::Forgotten, forgotten).await;
    }

    /// Has the kernel forget the pages that it has of a file, on a thread that holds no request: it may wait for such that are being read or written. Begins
    /// now, whoever waits for it.
    pub(crate) fn forget_pages(&self, node: NodeId) -> impl Future<Output = ()> + Send + use<> {
        let ino = self.ino(node);
        let forgotten = self.notifier.get().cloned().map(|notifier| {
            // An inode that the kernel does not have is none to forget.
            tokio::task::spawn_blocking(move || drop(notifier.inval_inode(ino, 0, 0)))
        });
        async move {
            if let Some(forgotten) = forgotten {
                let _ = forgotten.await;
            }
        }
    }

    /// Open files that nobody here writes to and that have another content than when they were opened, from now on with that. One that lost its
    /// name here while it got another elsewhere has that.
    async fn changed_elsewhere(&self, looked_max: usize) -> Vec<Arc<OpenFile>> {
        let mut stale = Vec::new();
        let looked = |file: &Arc<OpenFile>| !file.has_writers() || file.may_have_a_name();
        for file in self.files.all().into_iter().filter(looked).take(looked_max) {
            let (version, before) = (file.version(), file.shown());
            let Ok(Some(entry)) = self.tree.entry(file.id).await else { continue };
            if before.unnamed {
                file.has_a_name(&before.entry, &entry);
            }
            if file.has_writers() {
                continue;
            }
            let known = file.shown().entry;
            if known.node.content == entry.node.content && known.bond == entry.bond {
                continue;
            }
            if !file.refresh(self, &entry, version) && self.look_at(&file).await.is_err() {
                continue;
            }
            if known.node.content != entry.node.content {
                stale.push(file);
            }
        }
        stale
    }
}
