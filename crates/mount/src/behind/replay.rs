//! Going through what mounts before this left in their journals.
//!
//! Content in blocks is in packs that were never synced, so each of its blocks is looked at and written once more before it is handed over. Where one is not as
//! it was written, a power cut took it, and what was answered after it goes with it ([`Left::cut_content`]).

use super::after::after;
use super::apply::tell_late;
use super::left::{Left, batch_of, content_in_blocks};
use super::state::{State, Trouble};
use holdfast_base::{AccountId, Error, NodeId, Result, SpaceId, Uid};
use holdfast_drive::engine::Engine;
use holdfast_drive::{
    Applied, Batch, Deferred, Deferring, Durable, Entry, NewContent, PREPARED_BYTES_MAX, Rescued, Unsynced,
};
use std::collections::HashSet;

/// Who takes what is handed over.
pub(super) trait Taker {
    /// Content that was written once more.
    type Content;

    async fn answered(&self, journal: [u8; 16], numbers: Vec<u64>) -> Result<Vec<bool>>;
    /// Writes a content once more; answers it with its new places, none if it is lost.
    async fn rescue(&self, content: &NewContent) -> Result<Option<(NewContent, Self::Content)>>;
    async fn sync(&self, contents: &[Self::Content]) -> Result<()>;
    /// Bytes of content in blocks in a batch; see [`batch_of`].
    fn bytes_max(&self) -> u64;
    async fn apply(&self, batch: Batch) -> Result<Vec<Result<Applied>>>;
}

/// A mount.
impl Taker for dyn Deferring {
    type Content = Unsynced;

    async fn answered(&self, journal: [u8; 16], numbers: Vec<u64>) -> Result<Vec<bool>> {
        Deferring::answered(self, journal, numbers).await
    }

    async fn rescue(&self, content: &NewContent) -> Result<Option<(NewContent, Unsynced)>> {
        let rescued = Deferring::rescue(self, content).await?;
        Ok(rescued.map(|unsynced| (unsynced.content().clone(), unsynced)))
    }

    async fn sync(&self, contents: &[Unsynced]) -> Result<()> {
        Deferring::sync(self, contents).await
    }

    fn bytes_max(&self) -> u64 {
        self.prepared_bytes_max()
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Result<Applied>>> {
        Deferring::apply(self, batch, Durable::Soon).await
    }
}

/// A drive without anybody's keys.
pub(super) struct Without<'e> {
    pub(super) engine: &'e Engine,
    /// Whose changes they are.
    pub(super) account: AccountId,
    pub(super) space: (SpaceId, Uid),
}

impl Taker for Without<'_> {
    type Content = Rescued;

    async fn answered(&self, journal: [u8; 16], numbers: Vec<u64>) -> Result<Vec<bool>> {
        self.engine.catalogue().answered(self.space.0, journal, numbers).await
    }

    async fn rescue(&self, content: &NewContent) -> Result<Option<(NewContent, Rescued)>> {
        let rescued = self.engine.rescue(self.space.1, content).await?;
        Ok(rescued.map(|rescued| (rescued.content.clone(), rescued)))
    }

    async fn sync(&self, contents: &[Rescued]) -> Result<()> {
        self.engine.sync_rescued(contents).await
    }

    fn bytes_max(&self) -> u64 {
        PREPARED_BYTES_MAX
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Result<Applied>>> {
        self.engine.apply_answered(self.account, self.space.0, batch).await
    }
}

/// A change that was refused, why, and its content in blocks.
pub(super) type Refused<C> = (Deferred, Error, Option<C>);

/// Hands over what mounts before this left. Answers what was refused; the rest is not on disk yet.
pub(super) async fn go_through<T: Taker + ?Sized>(left: &mut [Left], taker: &T) -> Result<Vec<Refused<T::Content>>> {
    let (mut refused, mut changes) = (Vec::new(), 0);
    for journal in left {
        let mut at = 0;
        while at < journal.changes.len() {
            let count = batch_of(journal.changes[at..].iter(), taker.bytes_max());
            let mut some = journal.changes[at..at + count].to_vec();
            let mut contents = rescue(journal, at, &mut some, taker).await?;
            (at, changes) = (journal.changes.len().min(at + count), changes + some.len());
            if some.is_empty() {
                continue;
            }
            let batch = Batch { journal: journal.id, changes: some.clone() };
            let answers = taker.apply(batch).await;
            let answers =
                answers.map_err(|error| error.context("what the last mount answered, and did not hand over"))?;
            for ((number, change), answer) in some.into_iter().zip(answers) {
                match answer {
                    Ok(Applied::Aside(entry)) => {
                        tracing::warn!(beside = %entry.node.name, "what was written before the last end of the mount is kept beside another file");
                    }
                    Ok(Applied::Late) => tell_late(&change),
                    Ok(_) => {}
                    Err(error) if change.is_pointless(error.kind()) => {}
                    Err(error) => {
                        let place = contents.0.iter().position(|of| *of == number);
                        let content = place.map(|place| {
                            contents.0.swap_remove(place);
                            contents.1.swap_remove(place)
                        });
                        refused.push((change, error, content));
                    }
                }
            }
        }
    }
    if changes > 0 {
        tracing::debug!(changes, refused = refused.len(), "the journal of the last mount was gone through");
    }
    Ok(refused)
}

/// Writes the content of changes once more, of which the first is `at` in the journal, and makes it durable. The first of which that is lost is cut off, with
/// what follows; those that the catalogue has already are left out. Answers the contents with the numbers of their changes.
async fn rescue<T: Taker + ?Sized>(
    journal: &mut Left,
    at: usize,
    some: &mut Vec<(u64, Deferred)>,
    taker: &T,
) -> Result<(Vec<u64>, Vec<T::Content>)> {
    let in_blocks = |(_, change): &&(u64, Deferred)| content_in_blocks(change).is_some();
    let asked: Vec<u64> = some.iter().filter(in_blocks).map(|(number, _)| *number).collect();
    let (mut numbers, mut contents) = (Vec::new(), Vec::new());
    if asked.is_empty() {
        return Ok((numbers, contents));
    }
    // What the catalogue has is left out: its blocks may be elsewhere by now, or nowhere on this machine.
    let answered = taker.answered(journal.id, asked.clone()).await?;
    let answered: HashSet<u64> = asked.into_iter().zip(answered).filter(|(_, well)| *well).map(|(it, _)| it).collect();
    for (index, (number, mut change)) in std::mem::take(some).into_iter().enumerate() {
        if answered.contains(&number) {
            continue;
        }
        if let (Some(content), Deferred::Save { rewrite, .. }) = (content_in_blocks(&change).cloned(), &mut change) {
            let Some((content, kept)) = taker.rescue(&content).await? else {
                journal.cut_content(at + index)?;
                break;
            };
            rewrite.content = content;
            numbers.push(number);
            contents.push(kept);
        }
        some.push((number, change));
    }
    taker.sync(&contents).await?;
    Ok((numbers, contents))
}

/// Takes a change that was refused when the last journal was gone through into this one.
pub(super) async fn park_again(
    inner: &dyn Deferring,
    state: &mut State,
    (change, error, unsynced): Refused<Unsynced>,
    space: SpaceId,
) -> Result<()> {
    let node = before(inner, state, Some(change.node())).await?;
    let other = before(inner, state, change.other()).await?;
    tracing::error!(node = %change.node(), %error, "a change of the last mount is refused: it stays in the journal and is tried again");
    let Some(after) = after(&change, (node, other), space) else { return Ok(()) };
    let number = state.journal.append(&change)?;
    state.view.add(&change, after);
    state.keep(number, &change, unsynced);
    state.held_up.add(&change);
    state.refused.insert(number, error.message().to_owned());
    state.troubles.insert(change.node(), Trouble { kind: error.kind(), message: error.message().to_owned() });
    state.parked.push_back((number, change));
    Ok(())
}

/// A node as it is now.
async fn before(inner: &dyn Deferring, state: &State, node: Option<NodeId>) -> Result<Option<Entry>> {
    let Some(node) = node else { return Ok(None) };
    match state.view.shown(node) {
        Some(entry) => Ok(Some(entry)),
        None => inner.entry(node).await,
    }
}
