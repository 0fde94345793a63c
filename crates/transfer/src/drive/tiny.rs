//! What contents are, asked for many at a time: files that are small enough to lie in the server's catalogue come with that, so that a
//! thousand of them are a few requests.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_base::{ContentId, Error, Result};
use holdfast_drive::Content;
use holdfast_drive::engine::sealed::LAYOUTS_MAX;
use holdfast_remote::client::Space;
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::{mpsc, oneshot};

/// Requests under way at once.
const REQUESTS: usize = 8;
/// Contents that wait to be asked about.
const WAITING_MAX: usize = 1_024;

type Asked = (ContentId, oneshot::Sender<Result<Option<Content>>>);

/// Asks.
pub(super) struct Tiny {
    queue: mpsc::Sender<Asked>,
    space: Space,
    /// What came with the first look, until it is asked for.
    known: Mutex<HashMap<ContentId, Content>>,
}

impl Tiny {
    pub(super) fn start(space: Space, known: Vec<Content>) -> Self {
        let (queue, asked) = mpsc::channel(WAITING_MAX);
        let asks = space.clone();
        tokio::spawn(async move {
            let batches = stream::unfold(asked, |mut asked: mpsc::Receiver<Asked>| async {
                let mut batch = Vec::new();
                (asked.recv_many(&mut batch, LAYOUTS_MAX).await > 0).then_some((batch, asked))
            });
            batches.for_each_concurrent(REQUESTS, |batch| ask(&asks, batch)).await;
        });
        let known = Mutex::new(known.into_iter().map(|content| (content.id, content)).collect());
        Self { queue, space, known }
    }

    /// A content as the server knows it; none if it is gone.
    pub(super) async fn layout(&self, content: ContentId) -> Result<Option<Content>> {
        if let Some(known) = self.known.lock().remove(&content) {
            return Ok(Some(known));
        }
        let (answer, answered) = oneshot::channel();
        let stopped = || Error::internal("nobody asks the server any more");
        self.queue.send((content, answer)).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    /// The bytes of a tiny one, or of one block.
    pub(super) async fn read(&self, content: ContentId) -> Result<Bytes> {
        let gone = || Error::not_found("what a link says is gone");
        let layout = self.layout(content).await?.ok_or_else(gone)?;
        if layout.inline.is_some() {
            return self.space.open_tiny(&layout);
        }
        let chunk = self.space.manifest(&layout, 0).await?;
        let first = chunk.blocks.first().ok_or_else(gone)?;
        self.space.open(*first, self.space.record(content, 0, || ()).await?).await
    }
}

async fn ask(space: &Space, batch: Vec<Asked>) {
    let (contents, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    match space.layouts(contents).await {
        Ok(found) => {
            for (answer, found) in answers.into_iter().zip(found) {
                // Whoever asked may have given up.
                let _ = answer.send(Ok(found));
            }
        }
        Err(error) => {
            for answer in answers {
                let _ = answer.send(Err(Error::new(error.kind(), error.message())));
            }
        }
    }
}
