//! A pack that grows until its sync, which makes it an object.

use super::open::Growing;
use super::upload::Upload;
use super::{Core, told};
use crate::Appender;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_base::{Error, PackName, Result};
use std::sync::Arc;

/// The writer of one growing pack.
pub(super) struct ObjectAppender {
    core: Arc<Core>,
    growing: Arc<Growing>,
    /// None while an append runs, after one that failed or was abandoned, and once a sync has begun.
    upload: Option<Upload>,
    /// The pack is the sync's now.
    syncing: bool,
}

impl ObjectAppender {
    pub(super) fn new(core: Arc<Core>, growing: Arc<Growing>, name: PackName) -> Self {
        let upload = Some(Upload::new(Arc::clone(&core), name));
        Self { core, growing, upload, syncing: false }
    }

    fn error(&self, why: &str) -> Error {
        Error::unavailable(format!("writing pack {}: {why}", self.growing.name))
    }

    /// Sends what fills parts.
    async fn send_full_parts(&self, upload: &mut Upload) -> Result<()> {
        while let Some(part) = self.growing.take_part(self.core.options.part_bytes) {
            upload.send_part(part).await?;
        }
        Ok(())
    }

    /// Ends the pack without an object.
    fn give_up(&self, error: Error) {
        self.core.open.forget(&self.growing);
        self.growing.end(Err(error));
    }
}

#[async_trait]
impl Appender for ObjectAppender {
    async fn append(&mut self, parts: Vec<Bytes>) -> Result<u64> {
        let Some(mut upload) = self.upload.take() else {
            return Err(self.error("it takes no more bytes: it was synced, or a write to it failed before"));
        };
        let name = self.growing.name;
        let context = |error: Error| told(error).context(format_args!("writing pack {name}"));
        let offset = match self.growing.push(parts) {
            Ok(offset) => offset,
            Err(error) => {
                // Kept, since a removal ends a pack properly.
                self.upload = Some(upload);
                return Err(context(error));
            }
        };
        if let Err(error) = self.send_full_parts(&mut upload).await {
            self.give_up(self.error("a write to it failed before"));
            return Err(context(error));
        }
        self.upload = Some(upload);
        Ok(offset)
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<()>> {
        let (growing, name) = (Arc::clone(&self.growing), self.growing.name);
        let open_until_now = growing.close();
        match self.upload.take() {
            Some(upload) if open_until_now => {
                self.syncing = true;
                let (open, rest, growing) = (self.core.open.clone(), growing.rest(), Arc::clone(&growing));
                // A task of its own: it goes on when the one who waits for it stops waiting.
                tokio::spawn(async move {
                    let result = upload.finish(rest).await;
                    growing.note_stored(result.is_ok());
                    // First, so that who waits for the end finds the name free or the object there.
                    open.forget(&growing);
                    growing.end(result.map_err(|error| told(error).context(format_args!("storing pack {name}"))));
                });
            }
            // Another sync runs; or it was removed, and ended then.
            _ if self.syncing || !open_until_now => {}
            _ => self.give_up(self.error("a write to it was abandoned")),
        }
        Box::pin(async move { growing.ended().await })
    }

    fn sync_ends_pack(&self) -> bool {
        true
    }

    fn waiting_bytes(&self) -> u64 {
        self.growing.held_bytes()
    }
}

impl Drop for ObjectAppender {
    fn drop(&mut self) {
        if !self.syncing {
            self.growing.close();
            self.give_up(self.error("its writer has gone without a sync"));
        }
    }
}
