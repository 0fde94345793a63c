//! Calls about sealed content, by paths; see [`holdfast_drive::engine::sealed`].

use super::operate::{done, nothing_behind};
use crate::wire::{Begin, Call, Put, Sent};
use bytes::Bytes;
use holdfast_auth::Session;
use holdfast_base::{Error, Result};
use holdfast_drive::engine::Engine;
use holdfast_drive::engine::sealed::OneBlock;
use holdfast_drive::{Conditions, ContentStream, Drive, Location, Tag, UploadRequest, UploadView};

/// Whether a call is one of these.
pub(super) const fn is_one(call: &Call) -> bool {
    matches!(
        call,
        Call::Layouts(_)
            | Call::Manifest(..)
            | Call::HasBlocks(_)
            | Call::Put(_)
            | Call::PutTagged(..)
            | Call::Begin(_)
            | Call::BeginTagged(..)
            | Call::Continue(..)
            | Call::Finish(..)
            | Call::Abandon(_)
    )
}

/// Does what a call asks for.
pub(super) async fn operate(
    engine: &Engine,
    (who, space): (&Session, &str),
    call: Call,
    mut body: ContentStream,
) -> Result<Bytes> {
    if let Call::Continue(upload, offset) = call {
        return engine.continue_sealed(who, upload, offset, body).await.map(|view| done(sent(&view)));
    }
    nothing_behind(&mut body).await?;
    match call {
        Call::Layouts(contents) => engine.layouts(who, space, contents).await.map(done),
        Call::Manifest(content, chunk) => {
            engine.manifest(who, space, content, chunk).await.map(|found| done((*found).clone()))
        }
        Call::HasBlocks(ids) => engine.has_blocks(who, space, ids).await.map(done),
        Call::Put(file) => put(engine, (who, space), file, Vec::new()).await,
        Call::PutTagged(file, tags) => put(engine, (who, space), file, parse_tags(&tags)?).await,
        Call::Begin(upload) => begin(engine, (who, space), upload, Vec::new()).await,
        Call::BeginTagged(upload, tags) => begin(engine, (who, space), upload, parse_tags(&tags)?).await,
        Call::Finish(upload, name_taken) => {
            engine.finish_upload(who, upload, Some(name_taken)).await.map(|view| done(sent(&view)))
        }
        Call::Abandon(upload) => engine.abandon_upload(who, upload).await.map(done),
        _ => Err(Error::internal("this call is done elsewhere")),
    }
}

async fn put(engine: &Engine, (who, space): (&Session, &str), file: Put, tags: Vec<Tag>) -> Result<Bytes> {
    let Put { path, size, modified_ms, expect, entry } = file;
    let file = OneBlock { at: Location { space: space.to_owned(), path }, size, modified_ms, tags, entry };
    let conditions = Conditions { expect, tokens: Vec::new() };
    engine.write_sealed(who, file, conditions).await.map(|changed| done((changed.node.id, changed.node.seq)))
}

async fn begin(engine: &Engine, (who, space): (&Session, &str), upload: Begin, tags: Vec<Tag>) -> Result<Bytes> {
    let Begin { path, length, name_taken, expect_seq, modified_ms, key } = upload;
    let request = UploadRequest {
        at: Location { space: space.to_owned(), path },
        length,
        name_taken,
        expect_seq,
        modified_ms: Some(modified_ms),
        metadata: String::new(),
        tags,
    };
    engine.begin_sealed(who, request, &key).await.map(|view| done(sent(&view)))
}

fn parse_tags(texts: &[String]) -> Result<Vec<Tag>> {
    texts.iter().map(|text| Tag::new(text)).collect()
}

fn sent(view: &UploadView) -> Sent {
    Sent { upload: view.id, offset: view.offset, waits: view.waits, node: view.node }
}
