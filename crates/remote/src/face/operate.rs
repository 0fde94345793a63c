//! From a call to its answer.

use super::Did;
use super::seat::Seat;
use crate::wire::{self, Call, HOLD_MAX, Hello, LIST_MAX, Opened, Value};
use bytes::Bytes;
use futures_util::StreamExt;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, ContentId, Error, ErrorKind, Result};
use holdfast_drive::ContentStream;

/// Does what a call asks for. What follows a call that nothing may follow is an error before anything is done.
pub(super) async fn operate(seat: &Seat, call: Call, mut body: ContentStream) -> Result<Bytes> {
    let tree = &seat.tree;
    if let Call::Save(save) = call {
        return tree.save(save, body).await.map(done);
    }
    if body.next().await.is_some() {
        return Err(Error::invalid("there is something behind the call"));
    }
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
        Call::Save(_) => Err(Error::internal("a save was not saved")),
        Call::SetAttributes(node, change, usual) => tree.set_attributes(node, change, usual).await.map(done),
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
            tree.extend(save, futures_util::stream::empty().boxed(), tail).await.map(done)
        }
        Call::Settle() => tree.settle().await.map(done),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of what is answered")]
fn done<T: Value>(answer: T) -> Bytes {
    wire::frame(&answer)
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

/// What is written down of a call that changes files.
pub(super) fn did(call: &Call, space: &str) -> Option<Did> {
    let named = |action, node: holdfast_base::NodeId, name: &holdfast_base::NodeName| {
        Some(Did { action, object: format!("{space} #{node}/{name}") })
    };
    let numbered = |action, node: holdfast_base::NodeId| Some(Did { action, object: format!("{space} #{node}") });
    match call {
        Call::Create(new, ..) if new.kind == holdfast_drive::NodeKind::Folder => {
            named("file.make-folder", new.parent, &new.name)
        }
        Call::Create(new, ..) => named("file.write", new.parent, &new.name),
        Call::Save(save) | Call::Extend(save, _) => numbered("file.write", save.node),
        Call::SetAttributes(node, ..) | Call::SetXattr(node, ..) => numbered("file.properties", *node),
        Call::Unlink(unlink) => named("file.remove", unlink.parent, &unlink.name),
        Call::Rename(rename) => named("file.move", rename.from.0, &rename.from.1),
        _ => None,
    }
}
