//! The [`Drive`] trait on the engine: each method enters the space, checks the role, and calls the pipeline or the
//! catalogue.

use super::Engine;
use super::access::{Entered, effective_role};
use super::finding::refuse_tags;
use super::intake::{Digester, Intake};
use super::patch::{Patched, lay_over};
use super::read::Reading;
use super::store::Around;
use crate::{
    Conditions, ContentStream, DigestAlgorithm, Drive, FoundNodes, Location, LockRequest, SavedView, SavedWish,
    SearchToSave, SpaceView, Transfer, UploadPart, UploadRequest, UploadView, Walk, WriteOptions,
};
use async_trait::async_trait;
use futures_util::StreamExt;
use holdfast_auth::Session;
use holdfast_base::limits::LOCK_SECONDS_MAX;
use holdfast_base::{ByteRange, DrivePath, Error, ErrorKind, NodeName, Result, SpaceId, Uid};
use holdfast_meta::{
    Changed, Content, Lock, NameTaken, NewLock, Node, NodeKind, Property, PropertyChange, Role, SearchQuery,
    TAG_NAMESPACE, TagChange, TagCount, TrashEntry, Version, WhichSearch,
};
use holdfast_seal::BlockKeys;
use std::collections::HashMap;
use std::sync::Arc;

#[async_trait]
impl Drive for Engine {
    async fn spaces(&self, who: &Session) -> Result<Vec<SpaceView>> {
        let mut views = Vec::new();
        let own = match who.visit {
            Some(_) => Vec::new(),
            None => self.shared.catalogue.spaces_of(who.account).await?,
        };
        for (space, membership) in own {
            if who.scope.space.is_none_or(|only| only == space.id) {
                let role = effective_role(who, &membership);
                views.push(self.view(&Entered { space, membership, role, view: None }).await?);
            }
        }
        for entered in self.shared_with(who).await? {
            match self.view(&entered).await {
                // It was removed this moment.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                view => views.push(view?),
            }
        }
        Ok(views)
    }

    async fn space(&self, who: &Session, name: &str) -> Result<SpaceView> {
        self.view(&self.enter(who, name, Role::Reader).await?).await
    }

    async fn walk(&self, who: &Session, at: &Location) -> Result<Walk> {
        let entered = self.enter(who, &at.space, Role::Reader).await?;
        let found = self.look(&entered, &at.path, true).await?;
        let Entered { space, membership, role, .. } = entered;
        let complete = found.node(&at.path).is_some();
        Ok(Walk { space, membership, role, chain: found.chain, complete, content: found.content })
    }

    async fn list(&self, who: &Session, folder: &Node, after: Option<&NodeName>, limit: usize) -> Result<Vec<Node>> {
        self.member_of(who, folder.space).await?;
        self.shared.catalogue.children(folder.id, after, limit).await
    }

    async fn count_below(&self, who: &Session, folder: &Node, limit: usize) -> Result<usize> {
        self.member_of(who, folder.space).await?;
        self.shared.catalogue.count_below(folder.id, limit).await
    }

    async fn properties(&self, who: &Session, nodes: &[Node]) -> Result<Vec<Vec<Property>>> {
        let mut all = self.all_properties(who, nodes).await?;
        // A tag's value is text and no XML.
        for properties in &mut all {
            properties.retain(|property| property.namespace != TAG_NAMESPACE);
        }
        Ok(all)
    }

    async fn locks(&self, who: &Session, nodes: &[Node]) -> Result<Vec<Lock>> {
        let Some(first) = nodes.first() else { return Ok(Vec::new()) };
        let through = self.member_of(who, first.space).await?;
        let ids: Vec<_> = nodes.iter().map(|node| node.id).collect();
        let mut locks = self.shared.catalogue.locks_on(first.space, &ids, self.shared.clock.now_ms()).await?;
        if !through.is_empty() {
            for lock in &mut locks {
                let seen = through.iter().find_map(|entered| entered.relative(&lock.path));
                lock.path = seen.unwrap_or_else(DrivePath::root);
            }
        }
        Ok(locks)
    }

    async fn read(&self, who: &Session, walk: &Walk, range: ByteRange) -> Result<ContentStream> {
        // The walk has entered the space, on behalf of the same request.
        if walk.membership.account != who.account || who.scope.space.is_some_and(|only| only != walk.space.id) {
            return Err(Error::not_found("this is the walk of another session"));
        }
        let node = walk.node().ok_or_else(|| Error::not_found("there is no such file"))?;
        if node.kind != NodeKind::File {
            return Err(Error::new(ErrorKind::WrongKind, "a folder has no content"));
        }
        match &walk.content {
            Some(content) => {
                let keys = who.block_keys(walk.space.uid, &walk.membership)?;
                self.reading(keys, content.clone())?.stream(range).await
            }
            None if range.is_empty() => Ok(futures_util::stream::empty().boxed()),
            None => Err(Error::new(ErrorKind::RangeNotSatisfiable, "the file is empty")),
        }
    }

    async fn digest(&self, who: &Session, walk: &Walk, algorithm: DigestAlgorithm) -> Result<Vec<u8>> {
        let size = walk.content.as_ref().map_or(0, |content| content.size);
        let mut stream = self.read(who, walk, ByteRange::whole(size)).await?;
        let mut digester = Digester::new(algorithm);
        while let Some(piece) = stream.next().await {
            digester.update(&piece?);
        }
        Ok(digester.finish())
    }

    async fn write(&self, who: &Session, at: &Location, options: WriteOptions, body: ContentStream) -> Result<Changed> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        let found = self.look(&entered, &at.path, options.patch.is_some()).await?;
        self.refuse_early(who, &entered, &found, &at.path, &options.conditions).await?;
        refuse_tags(who, &options.tags)?;
        let target = self.target(&entered, entered.keys(who)?)?;
        let ready = match options.patch {
            None => {
                let intake = Intake::new(body, options.length, options.digests);
                target.store(intake, options.length, Around::default()).await?
            }
            Some(patch) => {
                let length = options.length.ok_or_else(|| Error::invalid("a partial write needs a stated length"))?;
                let old = found.content.map(|content| self.reading(entered.keys(who)?, content)).transpose()?;
                let Patched { before, body, body_bytes, after, after_bytes } =
                    lay_over(old, patch, length, body).await?;
                let intake = Intake::new(body, Some(body_bytes), options.digests);
                let around = Around { before, after: (after, after_bytes), ..Around::default() };
                target.store(intake, Some(body_bytes), around).await?
            }
        };
        let mut conditions = options.conditions;
        if let (Some(_), Some(node)) = (options.patch, found.chain.get(at.path.names().len())) {
            // The new version is made of the old one: if another came in between, it must not be lost.
            conditions.expect = holdfast_meta::Expect::Seq(node.seq);
        }
        let guard = self.guard(who, &entered, conditions);
        let modified_ms = options.modified_ms.unwrap_or(guard.now_ms);
        let (space, path) = (entered.space.id, &entered.place(&at.path)?);
        let (catalogue, tags) = (&self.shared.catalogue, &options.tags);
        let commit = |content| catalogue.commit_tagged_file(space, path, content, modified_ms, tags, &guard);
        ready.commit(&target, commit).await.map_err(|error| entered.told(error))
    }

    async fn begin_upload(&self, who: &Session, request: UploadRequest) -> Result<UploadView> {
        self.begin_resumable(who, request).await
    }

    async fn uploads(&self, who: &Session) -> Result<Vec<UploadView>> {
        self.resumable_views(who).await
    }

    async fn upload(&self, who: &Session, id: Uid) -> Result<UploadView> {
        self.resumable_view(who, id).await
    }

    async fn continue_upload(
        &self,
        who: &Session,
        id: Uid,
        part: UploadPart,
        body: ContentStream,
    ) -> Result<UploadView> {
        self.continue_resumable(who, id, part, body).await
    }

    async fn finish_upload(&self, who: &Session, id: Uid, name_taken: Option<NameTaken>) -> Result<UploadView> {
        self.finish_waiting(who, id, name_taken).await
    }

    async fn abandon_upload(&self, who: &Session, id: Uid) -> Result<()> {
        self.abandon_resumable(who, id).await
    }

    async fn make_folder(&self, who: &Session, at: &Location, guard: Conditions) -> Result<Node> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        let (path, guard) = (entered.place(&at.path)?, self.guard(who, &entered, guard));
        let made = self.shared.catalogue.make_folder(entered.space.id, &path, &guard).await;
        made.map_err(|error| entered.told(error))
    }

    async fn remove(&self, who: &Session, at: &Location, guard: Conditions) -> Result<Option<i64>> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        refuse_root(at)?;
        let (path, guard) = (entered.place(&at.path)?, self.guard(who, &entered, guard));
        let removed = self.shared.catalogue.remove(entered.space.id, &path, &guard).await;
        removed.map_err(|error| entered.told(error))
    }

    async fn relocate(&self, who: &Session, transfer: &Transfer, guard: Conditions) -> Result<Changed> {
        self.transfer(who, transfer, guard).await
    }

    async fn change_properties(
        &self,
        who: &Session,
        at: &Location,
        changes: &[PropertyChange],
        guard: Conditions,
    ) -> Result<Node> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        let namespaces = changes.iter().map(|change| match change {
            PropertyChange::Set(property) => property.namespace.as_str(),
            PropertyChange::Remove { namespace, .. } => namespace,
            PropertyChange::Modified(_) => "",
        });
        if namespaces.into_iter().any(|namespace| namespace == TAG_NAMESPACE) {
            return Err(Error::forbidden("tags are no properties that can be changed by themselves"));
        }
        let (path, guard) = (entered.place(&at.path)?, self.guard(who, &entered, guard));
        let node = self.shared.catalogue.change_properties(entered.space.id, &path, changes, &guard).await;
        node.map_err(|error| entered.told(error))
    }

    async fn lock(
        &self,
        who: &Session,
        at: &Location,
        request: LockRequest,
        guard: Conditions,
    ) -> Result<(Lock, Changed)> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        let guard = self.guard(who, &entered, guard);
        let new = NewLock {
            token: lock_token()?,
            exclusive: request.exclusive,
            deep: request.deep,
            owner_xml: request.owner_xml,
            expires_ms: expiry(guard.now_ms, request.seconds),
        };
        let taken = self.shared.catalogue.lock(entered.space.id, &entered.place(&at.path)?, new, &guard).await;
        let (lock, changed) = taken.map_err(|error| entered.told(error))?;
        Ok((entered.lock_seen(lock), changed))
    }

    async fn refresh_lock(
        &self,
        who: &Session,
        at: &Location,
        token: &str,
        seconds: u32,
        guard: Conditions,
    ) -> Result<Lock> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        let (path, guard) = (entered.place(&at.path)?, self.guard(who, &entered, guard));
        let expires_ms = expiry(guard.now_ms, seconds);
        let lock = self.shared.catalogue.refresh_lock(entered.space.id, &path, token, expires_ms, &guard).await;
        lock.map(|lock| entered.lock_seen(lock)).map_err(|error| entered.told(error))
    }

    async fn unlock(&self, who: &Session, at: &Location, token: &str) -> Result<()> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        let (path, guard) = (entered.place(&at.path)?, self.guard(who, &entered, Conditions::default()));
        let unlocked = self.shared.catalogue.unlock(entered.space.id, &path, token, &guard).await;
        unlocked.map_err(|error| entered.told(error))
    }

    async fn tags(&self, who: &Session, nodes: &[Node]) -> Result<Vec<Vec<String>>> {
        self.tags_of(who, nodes).await
    }

    async fn change_tags(&self, who: &Session, items: &[Location], change: &TagChange) -> Result<Vec<Result<Node>>> {
        self.tag_nodes(who, items, change).await
    }

    async fn tags_in_use(
        &self,
        who: &Session,
        space: Option<&str>,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<TagCount>> {
        self.count_tags(who, space, prefix, limit).await
    }

    async fn search(&self, who: &Session, space: Option<&str>, query: &SearchQuery) -> Result<FoundNodes> {
        self.find_nodes(who, space, query).await
    }

    async fn saved_searches(&self, who: &Session) -> Result<Vec<SavedView>> {
        self.searches_of(who).await
    }

    async fn saved_search(&self, who: &Session, which: &WhichSearch) -> Result<SavedView> {
        self.search_of(who, which).await
    }

    async fn save_search(&self, who: &Session, wanted: SearchToSave) -> Result<SavedView> {
        self.keep_search(who, wanted).await
    }

    async fn change_search(&self, who: &Session, id: i64, wish: SavedWish) -> Result<SavedView> {
        self.alter_search(who, id, wish).await
    }

    async fn remove_search(&self, who: &Session, id: i64) -> Result<()> {
        self.forget_search(who, id).await
    }

    async fn state_of_all(&self, who: &Session) -> Result<String> {
        self.state_of_visible(who).await
    }

    async fn versions(&self, who: &Session, at: &Location) -> Result<Vec<Version>> {
        let entered = self.enter(who, &at.space, Role::Reader).await?;
        let node = self.node_at(&entered, at).await?;
        self.shared.catalogue.versions(node.id).await
    }

    async fn walk_version(&self, who: &Session, at: &Location, seq: i64) -> Result<Walk> {
        if who.visit.is_some() {
            return Err(Error::forbidden("a link shows the present version only"));
        }
        let mut walk = self.walk(who, at).await?;
        let gone = || Error::not_found(format!("{at} has no version {seq}"));
        let node = walk.chain.last_mut().filter(|_| walk.complete).ok_or_else(gone)?;
        if node.seq == seq && node.kind == NodeKind::File {
            return Ok(walk);
        }
        let versions = self.shared.catalogue.versions(node.id).await?;
        let version = versions.into_iter().find(|version| version.seq == seq).ok_or_else(gone)?;
        (node.seq, node.size, node.modified_ms) = (version.seq, version.size, version.modified_ms);
        node.content = version.content;
        walk.content = match version.content {
            Some(id) => Some(self.shared.catalogue.content(id).await?.ok_or_else(gone)?),
            None => None,
        };
        Ok(walk)
    }

    async fn restore_version(&self, who: &Session, at: &Location, seq: i64, guard: Conditions) -> Result<Node> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        let (path, guard) = (entered.place(&at.path)?, self.guard(who, &entered, guard));
        let restored = self.shared.catalogue.restore_version(entered.space.id, &path, seq, &guard).await;
        restored.map_err(|error| entered.told(error))
    }

    async fn remove_version(&self, who: &Session, at: &Location, seq: i64) -> Result<()> {
        let entered = self.enter(who, &at.space, Role::Owner).await?;
        let node = self.node_at(&entered, at).await?;
        self.shared.catalogue.remove_version(node.id, seq).await
    }

    async fn trash(&self, who: &Session, space: &str, before: Option<i64>, limit: usize) -> Result<Vec<TrashEntry>> {
        let entered = self.enter(who, space, Role::Reader).await?;
        entered.refuse_view("the trash")?;
        self.shared.catalogue.trash(entered.space.id, before, limit).await
    }

    async fn restore_trash(&self, who: &Session, space: &str, entry: i64, to: Option<&Location>) -> Result<Node> {
        let entered = self.enter(who, space, Role::Editor).await?;
        if to.is_some_and(|to| to.space != space) {
            return Err(Error::invalid("a trash entry is restored within its own space"));
        }
        if entered.view.is_some() {
            self.refuse_others_trash(who, &entered, entry, to).await?;
        }
        let guard = self.guard(who, &entered, Conditions::default());
        let restored =
            self.shared.catalogue.restore_trash(entered.space.id, entry, to.map(|to| &to.path), &guard).await;
        restored.map_err(|error| entered.told(error))
    }

    async fn purge_trash(&self, who: &Session, space: &str, entry: Option<i64>) -> Result<u64> {
        let entered = self.enter(who, space, Role::Owner).await?;
        self.shared.catalogue.purge_trash(entered.space.id, entry).await
    }
}

impl Engine {
    /// Dead properties and tags.
    pub(super) async fn all_properties(&self, who: &Session, nodes: &[Node]) -> Result<Vec<Vec<Property>>> {
        let with: Vec<_> = nodes.iter().filter(|node| node.has_properties).map(|node| node.id).collect();
        let mut found = HashMap::new();
        if let Some(first) = nodes.first().filter(|_| !with.is_empty()) {
            self.member_of(who, first.space).await?;
            found.extend(self.shared.catalogue.properties(&with).await?);
        }
        Ok(nodes.iter().map(|node| found.remove(&node.id).unwrap_or_default()).collect())
    }

    pub(crate) fn reading(&self, keys: Arc<BlockKeys>, content: Content) -> Result<Arc<Reading>> {
        Reading::new(self.shared.clone(), keys, content)
    }

    pub(crate) async fn node_at(&self, entered: &Entered, at: &Location) -> Result<Node> {
        let found = self.look(entered, &at.path, false).await?;
        found.node(&at.path).cloned().ok_or_else(|| Error::not_found(format!("{at} does not exist")))
    }

    /// Refuses nodes the session may not see; otherwise what it sees them through, nothing where it is a member of the space.
    async fn member_of(&self, who: &Session, space: SpaceId) -> Result<Vec<Entered>> {
        let space = self.shared.catalogue.space(space).await?;
        self.seen_through(who, &space.ok_or_else(|| Error::not_found("the space was removed"))?).await
    }

    /// Whom a folder was shared with does not see the space's trash, but may undo their own removal.
    async fn refuse_others_trash(
        &self,
        who: &Session,
        entered: &Entered,
        entry: i64,
        to: Option<&Location>,
    ) -> Result<()> {
        let trash = self.shared.catalogue.trash(entered.space.id, entry.checked_add(1), 1).await?;
        let own = trash.first().is_some_and(|found| {
            let path = DrivePath::parse(&found.path).ok();
            let seen = path.and_then(|path| entered.relative(&path)).is_some_and(|path| !path.is_root());
            found.id == entry && found.by == who.account && seen
        });
        if own && to.is_none() && who.visit.is_none() {
            return Ok(());
        }
        Err(Error::not_found("there is nothing of yours to be restored"))
    }
}

pub(crate) fn refuse_root(at: &Location) -> Result<()> {
    if at.path.is_root() {
        Err(Error::forbidden("a space's root can be neither removed, moved nor replaced"))
    } else {
        Ok(())
    }
}

fn lock_token() -> Result<String> {
    let mut id: [u8; 16] = holdfast_seal::keys::random_bytes()?;
    // A version 4 UUID (RFC 9562 section 5.4).
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    let hex = holdfast_base::Uid(id).to_string();
    Ok(format!("urn:uuid:{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

fn expiry(now_ms: i64, seconds: u32) -> i64 {
    now_ms + i64::from(seconds.clamp(1, LOCK_SECONDS_MAX)) * 1_000
}
