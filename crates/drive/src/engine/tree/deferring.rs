//! What a mount answers before it comes here: see [`Deferring`].

use super::super::far::journal_of;
use super::super::small::{self, Sealed, SealedBlock};
use super::super::store::Around;
use super::super::target::Stored;
use super::super::unsynced::{Prepared, PreparedAs, Unsynced};
use super::super::upload::Ready;
use super::{Believer, EngineTree};
use crate::{ContentStream, Deferring, PREPARED_BYTES_MAX, Save, SaveBody};
use async_trait::async_trait;
use holdfast_base::{Error, NodeId, Result};
use holdfast_meta::{Applied, Batch, Durable, Entry, NewContent, Role};
use std::collections::BTreeSet;
use std::ops::Range;

#[async_trait]
impl Deferring for EngineTree {
    async fn may_change(&self) -> Result<()> {
        self.enter(Role::Editor).await.map(drop)
    }

    async fn reserve(&self, count: u32) -> Result<Range<i64>> {
        let (entered, guard) = self.enter_to_write().await?;
        let catalogue = &self.engine.shared.catalogue;
        if self.far {
            catalogue.give(entered.space.id, guard.account, count, guard.now_ms).await
        } else {
            catalogue.reserve(count).await
        }
    }

    fn seal_small(&self, plain: &[u8]) -> Result<Sealed> {
        let entered = self.entered.lock().0.clone();
        let keys = entered.keys(&self.who)?;
        small::seal_any(&keys, small::codec_of(entered.space.compression), plain)
    }

    fn open_small(&self, content: &NewContent) -> Result<Vec<u8>> {
        let entered = self.entered.lock().0.clone();
        let keys = entered.keys(&self.who)?;
        small::open(&keys, content)
    }

    fn prepared_bytes_max(&self) -> u64 {
        // Another node would take what nobody knows of for dead.
        if self.far || self.engine.shared.catalogue.is_shared() { 0 } else { PREPARED_BYTES_MAX }
    }

    async fn prepare(&self, save: &Save, body: SaveBody) -> Result<Prepared> {
        let (entered, _) = self.enter_to_write().await?;
        let target = self.engine.target(&entered, entered.keys(&self.who)?)?;
        let (intake, within) = self.intake((&entered, &target), save, body).await?;
        let ready = target.write(intake, save.size, Around { within, ..Around::default() }).await?;
        Ok(Prepared(PreparedAs::Packed(target, ready)))
    }

    async fn prepare_block(&self, SealedBlock { id, size, record }: SealedBlock) -> Result<Option<Prepared>> {
        let (entered, _) = self.enter_to_write().await?;
        let target = self.engine.target(&entered, entered.keys(&self.who)?)?;
        let lease = if let Some(waiting) = target.waiting(id) {
            waiting.lease().clone()
        } else {
            target.refuse_without_room(size).await?;
            if target.has(id).await? {
                return Ok(None);
            }
            self.engine.shared.packer.append(record.into(), 0).await?
        };
        let ready = Ready::written(&target, Stored::written(id, lease), size);
        Ok(Some(Prepared(PreparedAs::Packed(target, ready))))
    }

    async fn save_prepared(&self, save: Save, Prepared(prepared): Prepared) -> Result<Entry> {
        let PreparedAs::Packed(target, ready) = prepared else {
            return Err(Error::internal("only a client keeps what it has prepared"));
        };
        target.sync(&ready.stored).await?;
        self.commit(save, (&target, ready)).await
    }

    async fn sync(&self, contents: &[Unsynced]) -> Result<()> {
        self.engine.sync_unsynced(contents).await
    }

    async fn rescue(&self, content: &NewContent) -> Result<Option<Unsynced>> {
        let (entered, _) = self.enter_to_write().await?;
        let rescued = self.engine.rescue(entered.space.uid, content).await?;
        let target = self.engine.target(&entered, entered.keys(&self.who)?)?;
        Ok(rescued.and_then(|rescued| rescued.unsynced(&target)))
    }

    async fn answered(&self, journal: [u8; 16], numbers: Vec<u64>) -> Result<Vec<bool>> {
        let entered = self.enter(Role::Reader).await?;
        let space = entered.space.id;
        let journal = if self.far { journal_of(&self.who, space, journal) } else { journal };
        self.engine.shared.catalogue.answered(space, journal, numbers).await
    }

    async fn has_locks(&self) -> Result<bool> {
        Ok(self.standing().await?.locks > 0)
    }

    fn believes(&self) -> Option<Believer> {
        self.believer()
    }

    async fn seq(&self) -> Result<Option<i64>> {
        self.standing().await.map(|standing| Some(standing.seq))
    }

    async fn apply(&self, batch: Batch, durable: Durable) -> Result<Vec<Result<Applied>>> {
        if self.far {
            return self.apply_far(batch, None, durable).await;
        }
        let (entered, guard) = self.enter_to_write().await?;
        self.engine.shared.catalogue.apply(entered.space.id, batch, &guard, durable).await
    }

    async fn apply_with(&self, batch: Batch, records: ContentStream, durable: Durable) -> Result<Vec<Result<Applied>>> {
        self.apply_far(batch, Some(records), durable).await
    }
}

impl EngineTree {
    async fn apply_far(
        &self,
        batch: Batch,
        records: Option<ContentStream>,
        durable: Durable,
    ) -> Result<Vec<Result<Applied>>> {
        let asking = self.asking();
        let (entered, guard) = self.enter_to_write().await?;
        let from = (&*self.who, &*entered);
        let folders: BTreeSet<NodeId> = batch.changes.iter().flat_map(|(_, change)| change.folders()).collect();
        let answers = self.engine.apply_far(from, (batch, records), &guard, durable).await?;
        let made = answers.iter().filter_map(|answer| match answer {
            Ok(Applied::Made(entry) | Applied::Aside(entry)) => Some(entry),
            _ => None,
        });
        asking.tells(made, folders).await;
        let told = |applied| match applied {
            Applied::Made(entry) => Applied::Made(self.told(entry)),
            Applied::Aside(entry) => Applied::Aside(self.told(entry)),
            other => other,
        };
        Ok(answers.into_iter().map(|answer| answer.map(told)).collect())
    }
}
