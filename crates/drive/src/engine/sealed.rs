//! Content that goes to and from another machine as it is sealed: whoever has the space's keys ([`super::far`]) reads and writes it by itself, and here nobody
//! sees it. Blocks that the space has already are not sent.
//!
//! **Out**: what the catalogue knows of a content, its manifest with the tags that prove it, and its records as they lie in the store.
//!
//! **In**: resumable uploads ([`super::resume`]) whose parts are sealed blocks ([`super::resume_sealed`]), and files of one block in a request.
//!
//! Roles, locks, quota and names are tested as for everybody.

pub use super::records::Record;
pub use super::resume_sealed::{ENTRY_BYTES_MAX, LENGTH_BYTES};

use super::Engine;
use super::access::Entered;
use super::finding::refuse_tags;
use super::upload::Ready;
use crate::{Conditions, ContentStream, Drive, Location, UploadPart, UploadRequest, UploadView};
use bytes::Bytes;
use holdfast_auth::Session;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, ContentId, Error, ErrorKind, Result, Uid};
use holdfast_meta::{Changed, Content, ManifestChunk, Role, Tag};
use holdfast_seal::block::RECORD_PREFIX_BYTES;
use holdfast_seal::proof::sha256;
use std::sync::Arc;

/// Contents that are asked about at once.
pub const LAYOUTS_MAX: usize = 256;
/// Blocks that are asked about at once.
pub const ASKED_MAX: usize = 1_024;

/// Longest key of an upload.
pub const KEY_BYTES_MAX: usize = 1_024;

/// A file of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneBlock {
    /// Where it is to be.
    pub at: Location,
    /// Bytes of its content: a block at most.
    pub size: u64,
    /// The time of its content.
    pub modified_ms: i64,
    /// Tags that are added to those it has.
    pub tags: Vec<Tag>,
    /// An entry of a part, without its length; see [`super::resume_sealed`].
    pub entry: Bytes,
}

impl Engine {
    /// Enters a space of which the session is a member, and no share of one.
    async fn enter_sealed(&self, who: &Session, space: &str, need: Role) -> Result<Entered> {
        let entered = self.enter(who, space, need).await?;
        if entered.view.is_some() {
            return Err(Error::forbidden("sealed content is for members of the space"));
        }
        Ok(entered)
    }

    /// What the catalogue knows of contents of a space, tiny ones with all that is in them; none for what is not there.
    pub async fn layouts(&self, who: &Session, space: &str, contents: Vec<ContentId>) -> Result<Vec<Option<Content>>> {
        if contents.len() > LAYOUTS_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("{LAYOUTS_MAX} contents can be asked about at once")));
        }
        let entered = self.enter_sealed(who, space, Role::Reader).await?;
        let mut found = Vec::with_capacity(contents.len());
        for content in contents {
            let content = self.shared.catalogue.content(content).await?;
            found.push(content.filter(|content| content.space == entered.space.id));
        }
        Ok(found)
    }

    /// Part `chunk` of a content's manifest.
    pub async fn manifest(
        &self,
        who: &Session,
        space: &str,
        content: ContentId,
        chunk: u64,
    ) -> Result<Arc<ManifestChunk>> {
        self.sealed_reading(who, space, content).await?.manifest(chunk).await
    }

    /// Block `index` of a content, as a record, behind its first `skip` bytes.
    pub async fn record(
        &self,
        who: &Session,
        space: &str,
        (content, index): (ContentId, u64),
        skip: u64,
    ) -> Result<Record> {
        self.sealed_reading(who, space, content).await?.record(who.account_uid, index, skip).await
    }

    async fn sealed_reading(
        &self,
        who: &Session,
        space: &str,
        content: ContentId,
    ) -> Result<Arc<super::read::Reading>> {
        let entered = self.enter_sealed(who, space, Role::Reader).await?;
        let found = self.shared.catalogue.content(content).await?;
        let found = found.filter(|found| found.space == entered.space.id);
        self.reading(entered.keys(who)?, found.ok_or_else(|| Error::not_found("this content is no longer kept"))?)
    }

    /// Whether the space has each of these blocks.
    pub async fn has_blocks(&self, who: &Session, space: &str, ids: Vec<BlockId>) -> Result<Vec<bool>> {
        if ids.len() > ASKED_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("{ASKED_MAX} blocks can be asked about at once")));
        }
        let entered = self.enter_sealed(who, space, Role::Editor).await?;
        let places = self.shared.catalogue.block_places(entered.space.id, &ids).await?;
        Ok(places.iter().map(Option::is_some).collect())
    }

    /// Begins a resumable upload. If one was begun with the same words for the same file, under the same conditions, it is that; also one that was
    /// finished a moment ago, as long as its file is as it was then.
    pub async fn begin_sealed(&self, who: &Session, request: UploadRequest, key: &str) -> Result<UploadView> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("an upload's key has {KEY_BYTES_MAX} bytes at most")));
        }
        self.enter_sealed(who, &request.at.space, Role::Editor).await?;
        let UploadRequest { at, length, name_taken, expect_seq, modified_ms, tags, .. } = &request;
        let mut words = format!("{at}\0{length} {name_taken:?} {expect_seq:?} {modified_ms:?}\0{key}");
        for tag in tags {
            words.push('\0');
            words.push_str(tag.shown());
        }
        let sum = sha256(&[b"upload of a transfer".as_slice(), &who.account_uid.0, words.as_bytes()].concat());
        let uid = Uid::from_slice(&sum[..Uid::BYTES])?;
        match self.resumable_view(who, uid).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(UploadView { node: Some((node, seq)), .. }) => {
                let there = self.walk(who, &request.at).await?.node().is_some_and(|it| (it.id, it.seq) == (node, seq));
                if there {
                    return self.resumable_view(who, uid).await;
                }
                self.abandon_resumable(who, uid).await?;
            }
            found => return found,
        }
        self.begin_named(who, request, uid).await
    }

    /// Continues a resumable upload with sealed blocks; see [`crate::Drive::continue_upload`].
    pub async fn continue_sealed(
        &self,
        who: &Session,
        id: Uid,
        offset: u64,
        body: ContentStream,
    ) -> Result<UploadView> {
        let part = UploadPart { offset, ..UploadPart::default() };
        self.continue_with(who, id, part, |claimed, _| claimed.receive_sealed(body)).await
    }

    /// Makes a file of one sealed block, or gives it another version.
    pub async fn write_sealed(&self, who: &Session, file: OneBlock, conditions: Conditions) -> Result<Changed> {
        let OneBlock { at, size, modified_ms, tags, entry } = file;
        refuse_tags(who, &tags)?;
        if size == 0 || size > BLOCK_BYTES as u64 {
            return Err(Error::invalid("a file that is written so has one block"));
        }
        let entered = self.enter_sealed(who, &at.space, Role::Editor).await?;
        let found = self.look(&entered, &at.path, false).await?;
        self.refuse_early(who, &entered, &found, &at.path, &conditions).await?;
        let target = self.target(&entered, entered.keys(who)?)?;
        target.refuse_without_room(size).await?;
        let hold =
            self.shared.uploads.working.take(super::budget::share_bytes(entry.len() + RECORD_PREFIX_BYTES)).await;
        let mut buffer = self.shared.uploads.pool.buffer(entry.len() + RECORD_PREFIX_BYTES, hold);
        buffer.bytes.clear();
        buffer.bytes.resize(RECORD_PREFIX_BYTES, 0);
        buffer.bytes.extend_from_slice(&entry);
        drop(entry);
        let stored = target.clone().store_sealed(buffer, None, size).await?;
        let ready = Ready::of_one(&target, stored, size).await?;
        let guard = self.guard(who, &entered, conditions);
        let path = &entered.place(&at.path)?;
        let (space, catalogue) = (entered.space.id, &self.shared.catalogue);
        let commit = |content| catalogue.commit_tagged_file(space, path, content, modified_ms, &tags, &guard);
        ready.commit(&target, commit).await.map_err(|error| entered.told(error))
    }
}
