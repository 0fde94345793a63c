//! From a call to its answer.

use super::Did;
use super::seat::Seat;
use crate::wire::{self, Call, HOLD_MAX, Handed, Hello, Keys, LIST_MAX, NUMBERS_MAX, Opened, Put, Value};
use bytes::Bytes;
use futures_util::StreamExt;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, ContentId, Error, ErrorKind, NodeId, NodeName, Result, SpaceId};
use holdfast_drive::engine::Word;
use holdfast_drive::engine::far::HandedKeys;
use holdfast_drive::{
    Applied, BATCH_CHANGES_MAX, Batch, ContentStream, Deferred, Durable, LeftOut, NodeKind, SaveBody,
};
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

/// Does what a call asks for. What follows a call that nothing may follow is an error before anything is done.
pub(super) async fn operate(seat: &Seat, call: Call, mut body: ContentStream) -> Result<Bytes> {
    let tree = &seat.tree;
    let call = match call {
        Call::Save(save) => return tree.save(save, body.into()).await.map(done),
        Call::SavePart(save, stay, zeros) => {
            let left_out = LeftOut { stay: ranges(stay)?, zeros: ranges(zeros)? };
            return tree.save(save, SaveBody { left_out, ..body.into() }).await.map(done);
        }
        call => call,
    };
    nothing_behind(&mut body).await?;
    match call {
        Call::Hello() => hello(seat).await,
        Call::Entry(node) => tree.entry(node).await.map(done),
        Call::Lookup(folder, name) => tree.lookup(folder, &name).await.map(done),
        Call::List(folder, after, limit) => {
            let limit = usize::try_from(limit).unwrap_or(LIST_MAX).min(LIST_MAX);
            tree.list(folder, after.as_ref(), limit).await.map(done)
        }
        Call::Room() => tree.room().await.map(done),
        Call::Open(content) => {
            let open = seat.open(content).await?;
            Ok(done(Opened { size: open.size(), grain: open.grain() }))
        }
        Call::Read(content, range) => read(seat, content, range).await,
        Call::Create(new, content, durable) => tree.create(new, content, durable).await.map(done),
        Call::Save(_) | Call::SavePart(..) => Err(Error::internal("a save was not saved")),
        Call::SetAttributes(node, change, usual) => tree.set_attributes(node, change, usual).await.map(done),
        Call::Link(link, usual) => tree.link(link, usual).await.map(done),
        Call::Unlink(unlink) => tree.unlink(unlink).await.map(done),
        Call::Rename(rename) => tree.rename(rename).await.map(done),
        Call::Hold(nodes, until_ms) if nodes.len() <= HOLD_MAX => tree.hold(nodes, until_ms).await.map(done),
        Call::Hold(..) => Err(Error::new(ErrorKind::TooLarge, format!("{HOLD_MAX} nodes can be held with one call"))),
        Call::LetGo(node) => tree.let_go(node).await.map(done),
        Call::Xattrs(node) => {
            let all = tree.xattrs(node).await?;
            Ok(done(all.into_iter().map(|(name, value)| (name, Bytes::from(value))).collect::<Vec<_>>()))
        }
        Call::SetXattr(node, (name, value, rule), usual) => {
            let change = (name, value.map(|value| value.to_vec()), rule);
            tree.set_xattr(node, change, usual).await.map(done)
        }
        Call::Extend(save, tail) => {
            if !save.body.is_empty() {
                return Err(Error::new(ErrorKind::Unsupported, "only what is sent with a save can be between"));
            }
            tree.extend(save, futures_util::stream::empty().boxed().into(), tail).await.map(done)
        }
        Call::Settle() => tree.settle().await.map(done),
        Call::MayChange() => tree.may_change().await.map(done),
        Call::Reserve(of, count) => {
            refuse_another(seat, of).await?;
            tree.reserve(count.min(NUMBERS_MAX)).await.map(|numbers| done((numbers.start, numbers.end)))
        }
        Call::Answered(of, journal, numbers) if numbers.len() <= BATCH_CHANGES_MAX => {
            refuse_another(seat, of).await?;
            tree.answered(journal, numbers).await.map(done)
        }
        Call::Answered(..) => {
            let message = format!("{BATCH_CHANGES_MAX} changes can be asked about with one call");
            Err(Error::new(ErrorKind::TooLarge, message))
        }
        Call::Locks() => tree.has_locks().await.map(done),
        Call::Operations() => Ok(done(Call::LAST)),
        Call::Heard(number, heard, forgot) => {
            Ok(done(tree.believes().map(|believer| believer.hear(Word { number, heard, forgot }))))
        }
        Call::Forgot(number) => {
            if let Some(believer) = tree.believes() {
                believer.leave(number);
            }
            Ok(done(None::<bool>))
        }
        // Done before anything comes here.
        Call::Keys()
        | Call::Attach(..)
        | Call::AskLock(..)
        | Call::TakeBack(..)
        | Call::LeaveOnly(..)
        | Call::YieldWhole(..)
        | Call::Recalls(..)
        | Call::Leave(_)
        | Call::Apply(..)
        | Call::ApplyWith(..)
        | Call::Layouts(_)
        | Call::Manifest(..)
        | Call::Record(..)
        | Call::RecordRest(..)
        | Call::HasBlocks(_)
        | Call::Look(..)
        | Call::Put(_)
        | Call::PutTagged(..)
        | Call::Begin(_)
        | Call::BeginTagged(..)
        | Call::Continue(..)
        | Call::Lane(..)
        | Call::Finish(..)
        | Call::Abandon(_) => Err(Error::internal("this call is done elsewhere")),
    }
}

/// Refuses content behind a call that has none.
pub(super) async fn nothing_behind(body: &mut ContentStream) -> Result<()> {
    while let Some(piece) = body.next().await {
        // A body may end in an empty piece.
        if !piece?.is_empty() {
            return Err(Error::invalid("there is something behind the call"));
        }
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of what is answered")]
pub(super) fn done<T: Value>(answer: T) -> Bytes {
    wire::frame(&answer)
}

/// Ranges of blocks, as many as a client may name.
fn ranges(said: Vec<(u64, u64)>) -> Result<Vec<Range<u64>>> {
    if said.len() > LeftOut::RANGES_MAX {
        let message = format!("a save can leave out {} ranges of a kind", LeftOut::RANGES_MAX);
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(said.into_iter().map(|(start, end)| start..end).collect())
}

async fn hello(seat: &Seat) -> Result<Bytes> {
    let root = seat.tree.root();
    let entry = seat.tree.entry(root).await?.ok_or_else(|| Error::not_found("the space is gone"))?;
    Ok(done(Hello { version: wire::VERSION, name: seat.space.clone(), space: entry.node.space, root }))
}

async fn read(seat: &Seat, content: ContentId, range: ByteRange) -> Result<Bytes> {
    if range.len() > BLOCK_BYTES as u64 {
        return Err(Error::new(ErrorKind::TooLarge, format!("{BLOCK_BYTES} bytes can be read with one call")));
    }
    let open = seat.open(content).await?;
    open.read(range).await.map(|bytes| done(Bytes::from(bytes)))
}

/// What was made for one space is not for another that has its name by now.
async fn refuse_another(seat: &Seat, of: SpaceId) -> Result<()> {
    let root = seat.tree.entry(seat.tree.root()).await?;
    if root.is_none_or(|root| root.node.space != of) {
        return Err(Error::not_found("this is not the space that was mounted: is it gone, and another has its name?"));
    }
    Ok(())
}

/// What a client is handed to seal by itself.
pub(super) fn keys(keys: HandedKeys) -> Bytes {
    let HandedKeys { account, slot, space, space_uid, wrapped, compression } = keys;
    done(Keys { account, slot: slot.into(), space, space_uid, wrapped: wrapped.into(), compression })
}

/// Makes changes that a mount answered; with what is written down of them.
pub(super) async fn hand_over(
    seat: &Seat,
    of: SpaceId,
    (batch, records): (Batch, Option<ContentStream>),
    durable: Durable,
) -> Result<(Bytes, Vec<Did>)> {
    refuse_another(seat, of).await?;
    let touched: BTreeSet<NodeId> = batch.changes.iter().flat_map(|(_, change)| change.folders()).collect();
    let noted = did_together(&batch, &seat.space);
    let answers = match records {
        Some(records) => seat.tree.apply_with(batch, records, durable).await?,
        None => seat.tree.apply(batch, durable).await?,
    };
    let mut folders = Vec::with_capacity(touched.len());
    for folder in touched {
        folders.extend(seat.tree.entry(folder).await?);
    }
    let noted = noted.into_iter().zip(&answers).filter_map(|(did, answer)| match answer {
        // It was written down then, or is when it is tried again.
        Ok(Applied::Before | Applied::Late) => None,
        Err(error) if error.kind() == ErrorKind::Unavailable => None,
        Ok(_) => did,
        Err(error) => did.map(|did| Did { refused: Some(error.kind().status()), ..did }),
    });
    let noted = noted.collect();
    Ok((done(Handed { answers, folders }), noted))
}

/// What is written down of each change, a file that is made and written being one thing.
fn did_together(batch: &Batch, space: &str) -> Vec<Option<Did>> {
    let mut made = HashSet::new();
    let each = batch.changes.iter().map(|(_, change)| match change {
        Deferred::Create { id, new, .. } => {
            made.insert(*id);
            let action = if new.kind == NodeKind::Folder { "file.make-folder" } else { "file.write" };
            Some(named(action, space, new.parent, &new.name))
        }
        Deferred::Save { rewrite, .. } => {
            (!made.contains(&rewrite.node)).then(|| numbered("file.write", space, rewrite.node))
        }
        Deferred::Attributes { node, .. } => Some(numbered("file.properties", space, *node)),
        Deferred::Unlink { unlink, .. } => Some(named("file.remove", space, unlink.parent, &unlink.name)),
        Deferred::Rename { rename, .. } => Some(named("file.move", space, rename.from.0, &rename.from.1)),
        Deferred::Passed { .. } => None,
    });
    each.collect()
}

fn named(action: &'static str, space: &str, folder: NodeId, name: &NodeName) -> Did {
    Did { action, object: format!("{space} #{folder}/{name}"), refused: None }
}

fn numbered(action: &'static str, space: &str, node: NodeId) -> Did {
    Did { action, object: format!("{space} #{node}"), refused: None }
}

/// What is written down of a call that changes files.
pub(super) fn did(call: &Call, space: &str) -> Option<Did> {
    let named = |action, node, name: &NodeName| Some(named(action, space, node, name));
    let numbered = |action, node| Some(numbered(action, space, node));
    match call {
        Call::Create(new, ..) if new.kind == NodeKind::Folder => named("file.make-folder", new.parent, &new.name),
        Call::Create(new, ..) => named("file.write", new.parent, &new.name),
        Call::Save(save) | Call::SavePart(save, ..) | Call::Extend(save, _) => numbered("file.write", save.node),
        Call::Put(Put { path, .. }) | Call::PutTagged(Put { path, .. }, _) => {
            Some(Did { action: "file.write", object: format!("/{space}{path}"), refused: None })
        }
        Call::Continue(upload, _) | Call::Finish(upload, _) | Call::Lane(upload, _, _, true) => {
            Some(Did { action: "file.write", object: format!("{space} upload {upload}"), refused: None })
        }
        Call::SetAttributes(node, ..) | Call::SetXattr(node, ..) => numbered("file.properties", *node),
        Call::Link(link, _) => named("file.link", link.parent, &link.name),
        Call::Unlink(unlink) => named("file.remove", unlink.parent, &unlink.name),
        Call::Rename(rename) => named("file.move", rename.from.0, &rename.from.1),
        // If it fails as a whole; otherwise each change is noted.
        Call::Apply(..) | Call::ApplyWith(..) => {
            Some(Did { action: "file.write", object: space.to_owned(), refused: None })
        }
        _ => None,
    }
}
