//! A mount on another machine: what it is handed, and what is looked at before it is believed.
//!
//! Such a mount answers its programs first and hands over what it answered in batches ([`crate::Deferring::apply`]), with content it sealed by
//! itself and under numbers it chose. For that it is handed the slot that its app token opens, and the space's key as it is wrapped for the account:
//! nothing that opens without the token's secret. What comes from it may be a lie, so each change is looked at by itself:
//!
//! - **numbers** of nodes and contents must have been given to this account for this space, so nobody takes or overwrites what is another's;
//! - **content** must have the shape and size that it is said to have, and a tag by the space's key ([`super::small`]); quota counts its plain bytes,
//!   which are never fewer than those that are stored, less a record's own; blocks come with the batch, and each is opened and looked at as in an upload
//!   ([`super::resume_sealed`]), and synced before the batch is made;
//! - **the journal's name** is bound to account and space, so nobody can say for another's journal that it was gone through.
//!
//! Roles, locks, quota and places are tested by the catalogue, as for everybody. What is refused is an answer to that change alone; of blocks that cannot be
//! stored, or are not what they are said to be, to all changes of the batch that have some.

use super::Engine;
use super::access::Entered;
use super::intake::Intake;
use super::resume_sealed::{ENTRY_BYTES_MAX, LENGTH_BYTES, cut, sizes, take_entries};
use super::small::look_at;
use super::target::{Stored, Target};
use super::upload::Upload;
use crate::{ContentStream, PREPARED_BYTES_MAX};
use holdfast_auth::Session;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{Error, ErrorKind, Result, SpaceId, Uid};
use holdfast_meta::{
    Applied, BATCH_CHANGES_MAX, Batch, Compression, Deferred, Durable, Guard, HeldUp, NewContent, Role, SlotKind,
    StagedBlock,
};
use holdfast_seal::BlockKeys;
use holdfast_seal::proof::sha256;
use std::collections::HashSet;
use std::sync::Arc;

/// What a client needs to seal by itself, beside the secret of its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedKeys {
    /// The account's random name.
    pub account: Uid,
    /// The slot that the token opens: the account's key is in it.
    pub slot: Vec<u8>,
    /// The space.
    pub space: SpaceId,
    /// Its random name.
    pub space_uid: Uid,
    /// The space's key, wrapped for the account.
    pub wrapped: Vec<u8>,
    /// How its content is compressed.
    pub compression: Compression,
}

impl Engine {
    /// What a client that came with an app token may have; `Forbidden` to everybody else.
    pub async fn handed_keys(&self, who: &Session, space: &str) -> Result<HandedKeys> {
        let Entered { space, membership, view, .. } = self.enter(who, space, Role::Reader).await?;
        let slots = self.shared.catalogue.slots(who.account).await?;
        let own = slots.into_iter().find(|slot| slot.kind == SlotKind::Token && Some(slot.id) == who.slot);
        let slot = own.filter(|_| view.is_none()).ok_or_else(|| {
            Error::forbidden("keys are handed to whoever comes with an app token, for a space of which it is a member")
        })?;
        Ok(HandedKeys {
            account: who.account_uid,
            slot: slot.sealed,
            space: space.id,
            space_uid: space.uid,
            wrapped: membership.wrapped_key,
            compression: space.compression,
        })
    }

    /// Makes changes that a mount on another machine answered.
    pub(crate) async fn apply_far(
        &self,
        (who, entered): (&Session, &Entered),
        (mut batch, records): (Batch, Option<ContentStream>),
        guard: &Guard,
        durable: Durable,
    ) -> Result<Vec<Result<Applied>>> {
        if batch.changes.len() > BATCH_CHANGES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("a batch has {BATCH_CHANGES_MAX} changes at most")));
        }
        let (keys, space, catalogue) = (entered.keys(who)?, entered.space.id, &self.shared.catalogue);
        // Where they would be on another machine is nothing here.
        blocks_of(&mut batch).for_each(|block| block.written = None);
        let (stored, unstored) = match records {
            None => (Vec::new(), None),
            Some(records) => {
                match self.store_records(self.target(entered, keys.clone())?, &mut batch, records).await? {
                    Ok(stored) => (stored, None),
                    Err(error) if error.is_temporary() => return Err(error),
                    // What it is about is refused, with what comes after it; the rest may be what makes room.
                    Err(error) => (Vec::new(), Some(error)),
                }
            }
        };
        let numbers: Vec<i64> = batch.changes.iter().flat_map(|(_, change)| numbers_of(change)).collect();
        let given = catalogue.given(space, who.account, numbers.clone()).await?;
        let own: HashSet<i64> = numbers.into_iter().zip(given).filter(|(_, given)| *given).map(|(it, _)| it).collect();
        let journal = journal_of(who, space, batch.journal);
        let (mut refused, mut changes) = (Vec::new(), Vec::new());
        let mut held_up = HeldUp::default();
        for mut change in batch.changes {
            let has_blocks = content_in_blocks(&mut change).is_some();
            let error = match &unstored {
                Some(error) if has_blocks => Some(Error::new(error.kind(), error.message().to_owned())),
                _ if held_up.holds_up(&change.1) => Some(Error::unavailable("a change before this one was refused")),
                _ => None,
            };
            if error.is_some() {
                held_up.add(&change.1);
            }
            let error = error.or_else(|| look_at_change(&keys, &own, &change.1).err());
            if error.is_none() {
                changes.push(change);
            }
            refused.push(error);
        }
        let applied = if changes.is_empty() {
            Vec::new()
        } else {
            catalogue.apply(space, Batch { journal, changes }, guard, durable).await?
        };
        let mut applied = applied.into_iter();
        let missing = || Error::internal("a change was not answered");
        // The catalogue has them now: until here their packs were kept open.
        drop(stored);
        let answers = refused.into_iter().map(|refused| match refused {
            Some(error) => Ok(Err(error)),
            None => applied.next().ok_or_else(missing),
        });
        answers.collect()
    }
}

impl Engine {
    /// Stores the blocks that come with a batch, and says in it where they are. Fails where they did not all come, which says nothing of what did: of a
    /// batch that broke off nothing is made, or what was answered later could be there without what was answered before.
    async fn store_records(
        &self,
        target: Arc<Target>,
        batch: &mut Batch,
        records: ContentStream,
    ) -> Result<Result<Vec<Stored>>> {
        let plain = match plain_sizes(batch) {
            Ok(plain) => plain,
            Err(error) => return Ok(Err(error)),
        };
        let records_max = (plain.len() * (LENGTH_BYTES + ENTRY_BYTES_MAX)) as u64;
        let mut intake = Intake::part(records, records_max, None);
        let mut upload = Upload::unsynced(target.clone(), plain.iter().sum()).await?;
        match take_entries(&mut upload, &target, &mut intake, plain.into_iter()).await {
            Ok(true) => Ok(stored_in(batch, upload).await),
            // More than may come is no break.
            Err(error) if intake.has_ended() && error.kind() != ErrorKind::TooLarge => Err(error),
            Err(error) => Ok(Err(error)),
            Ok(false) => Err(cut()),
        }
    }
}

/// Waits for the blocks of a batch, and says in it where they are.
async fn stored_in(batch: &mut Batch, upload: Upload) -> Result<Vec<Stored>> {
    let stored = upload.into_stored().await?;
    let mut came = stored.iter();
    for block in blocks_of(batch) {
        let found = came.next().filter(|stored| stored.id == block.id);
        let lease = found.and_then(|stored| stored.lease.as_ref());
        let lease = lease.ok_or_else(|| Error::invalid("a block that came is not the one that the content has"))?;
        block.written = Some(lease.place);
    }
    Ok(stored)
}

/// Plain bytes of the blocks that come with a batch.
fn plain_sizes(batch: &mut Batch) -> Result<Vec<u64>> {
    let (mut bytes, mut plain) = (0_u64, Vec::new());
    for content in batch.changes.iter_mut().filter_map(content_in_blocks) {
        let NewContent::Blocks { size, runs, .. } = content else { continue };
        bytes = bytes.saturating_add(*size);
        if bytes > PREPARED_BYTES_MAX {
            let message = format!("{PREPARED_BYTES_MAX} bytes of content in blocks can come with a batch");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        plain.extend(sizes(*size));
        if runs.iter().map(|run| run.blocks.len()).sum::<usize>() as u64 != size.div_ceil(BLOCK_BYTES as u64) {
            return Err(Error::invalid("a content has not the blocks that its size needs"));
        }
    }
    Ok(plain)
}

/// The blocks of a batch's contents, in order.
fn blocks_of(batch: &mut Batch) -> impl Iterator<Item = &mut StagedBlock> {
    let runs = batch.changes.iter_mut().filter_map(content_in_blocks).flat_map(|content| match content {
        NewContent::Blocks { runs, .. } => runs.as_mut_slice(),
        _ => &mut [],
    });
    runs.flat_map(|run| &mut run.blocks)
}

/// The content that a change gives, if that is in blocks.
fn content_in_blocks((_, change): &mut (u64, Deferred)) -> Option<&mut NewContent> {
    let content = match change {
        Deferred::Create { new, .. } => &mut new.content,
        Deferred::Save { rewrite, .. } => &mut rewrite.content,
        Deferred::Attributes { .. } | Deferred::Unlink { .. } | Deferred::Rename { .. } | Deferred::Passed { .. } => {
            return None;
        }
    };
    matches!(content, NewContent::Blocks { .. }).then_some(content)
}

/// Numbers that a change uses for the first time.
fn numbers_of(change: &Deferred) -> impl Iterator<Item = i64> + use<> {
    let (node, content) = match change {
        Deferred::Create { id, new, content_id } => {
            (Some(id.0), (new.content != NewContent::Empty).then_some(*content_id))
        }
        Deferred::Save { rewrite, content_id, .. } => {
            (None, (rewrite.content != NewContent::Empty).then_some(*content_id))
        }
        Deferred::Attributes { .. } | Deferred::Unlink { .. } | Deferred::Rename { .. } | Deferred::Passed { .. } => {
            (None, None)
        }
    };
    node.into_iter().chain(content.map(|content| content.0))
}

fn look_at_change(keys: &BlockKeys, own: &HashSet<i64>, change: &Deferred) -> Result<()> {
    if let Some(number) = numbers_of(change).find(|number| !own.contains(number)) {
        let message = format!(
            "number {number} was not given to this account for this space, or so long ago that it is forgotten"
        );
        return Err(Error::invalid(message));
    }
    match change {
        Deferred::Create { new, .. } => look_at(keys, &new.content),
        Deferred::Save { rewrite, .. } => look_at(keys, &rewrite.content),
        Deferred::Attributes { .. } | Deferred::Unlink { .. } | Deferred::Rename { .. } | Deferred::Passed { .. } => {
            Ok(())
        }
    }
}

/// What a client's journal is called in the catalogue.
pub(super) fn journal_of(who: &Session, space: SpaceId, journal: [u8; 16]) -> [u8; 16] {
    let sum =
        sha256(&[b"journal of a mount".as_slice(), &who.account_uid.0, &space.0.to_le_bytes(), &journal].concat());
    let mut name = [0; 16];
    name.copy_from_slice(&sum[..16]);
    name
}
