//! Uploads that are continued request by request.
//!
//! The state of such an upload is in the catalogue and nowhere else, so any node continues it, after any restart. A request takes a
//! *claim*, receives a part ([`super::resume_part`]), and answers when what it tells is durable: blocks in packs that are synced and
//! staged, and a tail in the catalogue.
//!
//! The last byte is acknowledged by the file's commit and by nothing else: a client that hears of it has its file. An upload that has
//! all bytes and no file yet, because its name was taken or the power went, therefore stands one byte before its end. Whoever sends
//! that byte again, or asks for it by name, has the file made.
//!
//! **Limits.** An upload is given up [`LASTS`] after its last byte; a finished one is remembered for [`REMEMBERED`].

use super::Engine;
use super::access::Entered;
use super::finding::refuse_tags;
use super::intake::Intake;
use super::resume_part::Claimed;
use super::view::LINK_VIEW;
use crate::{CHECKED_PART_BYTES_MAX, Conditions, ContentStream, Location, UploadPart, UploadRequest, UploadView};
use holdfast_auth::Session;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{DrivePath, Error, ErrorKind, Result, Uid};
use holdfast_meta::audit::carried;
use holdfast_meta::{Expect, NameTaken, NewResumable, Resumable, Role};
use std::time::Duration;

/// From the last byte until an upload is given up: what a failing network or a laptop that was shut broke off goes on days later.
const LASTS: Duration = Duration::from_hours(7 * 24);
/// From its end until a finished upload is forgotten: clients that did not hear the answer ask again within minutes.
const REMEMBERED: Duration = Duration::from_hours(1);
/// Unfinished uploads listed: all that an account may have.
const LISTED_MAX: usize = holdfast_base::limits::UPLOADS_PER_ACCOUNT_MAX;

/// When an upload whose last byte comes now is given up.
pub(super) fn expiry(now_ms: i64) -> i64 {
    after(now_ms, LASTS)
}

/// Until when an upload that is finished now is remembered.
pub(super) fn remembered(now_ms: i64) -> i64 {
    after(now_ms, REMEMBERED)
}

fn after(now_ms: i64, time: Duration) -> i64 {
    now_ms.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

impl Engine {
    pub(super) async fn begin_resumable(&self, who: &Session, request: UploadRequest) -> Result<UploadView> {
        self.begin_named(who, request, Uid(holdfast_seal::keys::random_bytes()?)).await
    }

    /// The same under a name that nobody else may know.
    pub(super) async fn begin_named(&self, who: &Session, request: UploadRequest, uid: Uid) -> Result<UploadView> {
        let UploadRequest { at, length, name_taken, expect_seq, modified_ms, metadata, tags } = request;
        refuse_tags(who, &tags)?;
        let entered = self.enter_to_upload(who, &at.space).await?;
        Self::refuse_deep_upload(&entered, &at)?;
        let name_taken = entered.rule(name_taken);
        self.refuse_end(who, &entered, &at, name_taken, expect_seq).await?;
        let target = self.target(&entered, entered.keys(who)?)?;
        target.refuse_without_room(length).await?;
        let now_ms = self.shared.clock.now_ms();
        let new = NewResumable {
            uid,
            space: entered.space.id,
            account: who.account,
            share: entered.view.as_ref().map_or(0, |view| view.share),
            visit: entered.view.as_ref().map_or(0, |view| view.visit),
            path: entered.place(&at.path)?,
            length,
            name_taken,
            expect_seq,
            modified_ms,
            metadata,
            tags,
            block_bytes: u32::try_from(BLOCK_BYTES).unwrap_or(u32::MAX),
            nonce: target.nonce,
            now_ms,
            expires_ms: expiry(now_ms),
        };
        let content = self.shared.catalogue.begin_resumable(new).await?;
        if length == 0
            && let Err(error) = self.finish_waiting(who, uid, None).await
        {
            // There is nothing to continue, so nobody is told of it.
            self.shared.catalogue.abandon_upload(content).await?;
            return Err(error);
        }
        self.resumable_view(who, uid).await
    }

    /// Refuses what would be refused at the end, as far as it can be known now.
    async fn refuse_end(
        &self,
        who: &Session,
        entered: &Entered,
        at: &Location,
        name_taken: NameTaken,
        expect_seq: Option<i64>,
    ) -> Result<()> {
        let found = self.look(entered, &at.path, false).await?;
        if found.node(&at.path).is_some() && !at.path.is_root() {
            match name_taken {
                NameTaken::Fail => {
                    return Err(Error::new(ErrorKind::AlreadyExists, format!("{at} exists already")));
                }
                NameTaken::KeepBoth => return Ok(()),
                NameTaken::Replace => {}
            }
        }
        let expect = expect_seq.map_or(Expect::Any, Expect::Seq);
        let conditions = Conditions { expect, tokens: Vec::new() };
        self.refuse_early(who, entered, &found, &at.path, &conditions).await
    }

    /// An upload of the session's account, in a space that the session may see.
    async fn own_resumable(&self, who: &Session, id: Uid, need: Role) -> Result<(Resumable, Entered)> {
        let gone = || Error::not_found("there is no such upload: it was finished, given up, or has expired");
        let found = self.shared.catalogue.resumable(id, self.shared.clock.now_ms()).await?;
        let visit = who.visit.as_ref().map_or(0, |visit| visit.id);
        let own = |upload: &Resumable| upload.account == who.account && upload.visit == visit;
        let found = found.filter(own).ok_or_else(gone)?;
        let name = match found.share {
            0 => self.shared.catalogue.space(found.space).await?.ok_or_else(gone)?.name,
            _ if who.visit.is_some() => LINK_VIEW.to_owned(),
            share => self.shared.catalogue.share_by_id(share).await?.ok_or_else(gone)?.share.name,
        };
        let entered = match need {
            Role::Reader if !who.scope.read_only && who.visit.is_some() => self.enter_to_upload(who, &name).await?,
            Role::Reader => self.enter(who, &name, need).await?,
            Role::Editor | Role::Owner => self.enter_to_upload(who, &name).await?,
        };
        Ok((found, entered))
    }

    pub(super) async fn resumable_view(&self, who: &Session, id: Uid) -> Result<UploadView> {
        let (found, entered) = self.own_resumable(who, id, Role::Reader).await?;
        Ok(view(found, &entered))
    }

    pub(super) async fn resumable_views(&self, who: &Session) -> Result<Vec<UploadView>> {
        let now_ms = self.shared.clock.now_ms();
        let visit = who.visit.as_ref().map_or(0, |visit| visit.id);
        let found = self.shared.catalogue.resumables_of(who.account, visit, now_ms, LISTED_MAX).await?;
        let mut all = self.visible(who, None).await?;
        if who.visit.is_some() {
            all = self.shared_with(who).await?;
        }
        let visible = |upload: Resumable| {
            let came_through = |entered: &&Entered| {
                let share = entered.view.as_ref().map_or(0, |view| view.share);
                entered.space.id == upload.space && share == upload.share
            };
            let entered = all.iter().find(came_through)?;
            Some(view(upload, entered))
        };
        Ok(found.into_iter().filter_map(visible).collect())
    }

    pub(super) async fn continue_resumable(
        &self,
        who: &Session,
        id: Uid,
        part: UploadPart,
        body: ContentStream,
    ) -> Result<UploadView> {
        let digest = part.digest.clone();
        let receive = |claimed: Claimed, left| claimed.receive(Intake::part(body, left, digest));
        self.continue_with(who, id, part, receive).await
    }

    /// Continues an upload by what `receive` does with the claim and the number of bytes to come.
    pub(super) async fn continue_with<R>(
        &self,
        who: &Session,
        id: Uid,
        part: UploadPart,
        receive: impl FnOnce(Claimed, u64) -> R,
    ) -> Result<UploadView>
    where
        R: Future<Output = Result<()>> + Send + 'static,
    {
        let (found, entered) = self.own_resumable(who, id, Role::Editor).await?;
        let known = view(found.clone(), &entered);
        let left = known.length - known.offset;
        refuse_part(&known, &part, left)?;
        if known.node.is_some() {
            return Ok(known);
        }
        self.shared.refuse_without_room(part.length.unwrap_or(left)).await?;
        let claimed = self.claim(who, &found, &entered).await?;
        // What arrived is kept also when the client goes away, and with it whoever waits for this.
        let received = tokio::spawn(carried(receive(claimed, left))).await;
        received
            .map_err(|error| Error::internal("receiving a part of an upload failed").with_source(error))?
            .map_err(|error| entered.told(error))?;
        self.resumable_view(who, id).await
    }

    pub(super) async fn finish_waiting(
        &self,
        who: &Session,
        id: Uid,
        name_taken: Option<NameTaken>,
    ) -> Result<UploadView> {
        let (found, entered) = self.own_resumable(who, id, Role::Editor).await?;
        if found.node.is_some() {
            return Ok(view(found, &entered));
        }
        if found.stored < found.length {
            let message = format!("{} of its {} bytes are here: send the rest", found.stored, found.length);
            return Err(Error::conflict(message));
        }
        let name_taken = name_taken.map(|wanted| entered.rule(wanted));
        let finished = self.claim(who, &found, &entered).await?.finish_stored(name_taken).await;
        finished.map_err(|error| entered.told(error))?;
        self.resumable_view(who, id).await
    }

    /// Takes the right to continue it.
    async fn claim(&self, who: &Session, found: &Resumable, entered: &Entered) -> Result<Claimed> {
        let keys = entered.keys(who)?;
        let now_ms = self.shared.clock.now_ms();
        let claim = self.shared.catalogue.claim_resumable(found.content, Some(found.stored), now_ms).await?;
        Ok(Claimed {
            target: self.target_of(entered, keys, claim.nonce),
            claim,
            account: who.account,
            through: entered.through().into_iter().collect(),
            length: found.length,
            stored: found.stored,
        })
    }

    pub(super) async fn abandon_resumable(&self, who: &Session, id: Uid) -> Result<()> {
        let (found, _) = self.own_resumable(who, id, Role::Editor).await?;
        self.shared.catalogue.abandon_upload(found.content).await
    }
}

/// Refuses a part that is not the next one, or too long.
fn refuse_part(view: &UploadView, part: &UploadPart, left: u64) -> Result<()> {
    if part.offset != view.offset {
        return Err(Error::conflict(format!("the upload stands at byte {}: go on from there", view.offset)));
    }
    if part.length.is_some_and(|bytes| bytes > left) {
        let message = format!("the part is longer than the {left} bytes to come");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    if part.digest.is_some() && part.length.unwrap_or(left) > CHECKED_PART_BYTES_MAX {
        let message =
            format!("a part with a checksum can have {CHECKED_PART_BYTES_MAX} bytes at most: send smaller ones");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

fn view(found: Resumable, entered: &Entered) -> UploadView {
    // Whoever only uploads is not told which name was free; nor is anybody told where a folder is that was moved away meanwhile.
    let seen = entered.relative(&found.path).filter(|_| !entered.uploads_only());
    let waits = found.node.is_none() && found.stored == found.length;
    UploadView {
        id: found.uid,
        at: Location { space: entered.space.name.clone(), path: seen.unwrap_or_else(DrivePath::root) },
        length: found.length,
        offset: if waits { found.length.saturating_sub(1) } else { found.stored },
        waits,
        name_taken: found.name_taken,
        metadata: found.metadata,
        created_ms: found.created_ms,
        expires_ms: found.expires_ms,
        node: found.node,
    }
}
