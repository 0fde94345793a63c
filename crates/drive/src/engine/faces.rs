//! The [`Drive`] trait on the engine: each method enters the space, checks the role, and calls the pipeline or the
//! catalogue.

use super::Engine;
use super::access::{Entered, effective_role};
use super::intake::{Digester, Intake};
use super::patch::{Patched, lay_over};
use super::read::Reading;
use crate::{
    Conditions, ContentStream, DigestAlgorithm, Drive, FoundNodes, Location, LockRequest, SpaceView, Transfer, Walk,
    WriteOptions,
};
use async_trait::async_trait;
use futures_util::StreamExt;
use holdfast_auth::Session;
use holdfast_base::limits::LOCK_SECONDS_MAX;
use holdfast_base::{ByteRange, Error, ErrorKind, NodeName, Result, SpaceId};
use holdfast_meta::{
    Changed, Content, Lock, NewLock, Node, NodeKind, Property, PropertyChange, Role, SearchQuery, TAG_NAMESPACE,
    TagChange, TagCount, TrashEntry, Version,
};
use holdfast_seal::BlockKeys;
use std::collections::HashMap;
use std::sync::Arc;

#[async_trait]
impl Drive for Engine {
    async fn spaces(&self, who: &Session) -> Result<Vec<SpaceView>> {
        let mut views = Vec::new();
        for (space, membership) in self.shared.catalogue.spaces_of(who.account).await? {
            if who.scope.space.is_none_or(|only| only == space.id) {
                let role = effective_role(who, &membership);
                views.push(self.view(&Entered { space, membership, role }).await?);
            }
        }
        Ok(views)
    }

    async fn space(&self, who: &Session, name: &str) -> Result<SpaceView> {
        self.view(&self.enter(who, name, Role::Reader).await?).await
    }

    async fn walk(&self, who: &Session, at: &Location) -> Result<Walk> {
        let Entered { space, membership, role } = self.enter(who, &at.space, Role::Reader).await?;
        let found = self.shared.catalogue.find(space.id, &at.path, true).await?;
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
        self.member_of(who, first.space).await?;
        let ids: Vec<_> = nodes.iter().map(|node| node.id).collect();
        self.shared.catalogue.locks_on(first.space, &ids, self.shared.clock.now_ms()).await
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
        let found = self.shared.catalogue.find(entered.space.id, &at.path, options.patch.is_some()).await?;
        self.refuse_early(who, &entered, &found, &at.path, &options.conditions).await?;
        let target = self.target(&entered, entered.keys(who)?)?;
        let ready = match options.patch {
            None => {
                let intake = Intake::new(body, options.length, options.digests);
                target.store(intake, options.length, Vec::new(), (Vec::new(), 0)).await?
            }
            Some(patch) => {
                let length = options.length.ok_or_else(|| Error::invalid("a partial write needs a stated length"))?;
                let old = found.content.map(|content| self.reading(entered.keys(who)?, content)).transpose()?;
                let Patched { before, body, body_bytes, after, after_bytes } =
                    lay_over(old, patch, length, body).await?;
                let intake = Intake::new(body, Some(body_bytes), options.digests);
                target.store(intake, Some(body_bytes), before, (after, after_bytes)).await?
            }
        };
        let mut conditions = options.conditions;
        if let (Some(_), Some(node)) = (options.patch, found.chain.get(at.path.names().len())) {
            // The new version is made of the old one: if another came in between, it must not be lost.
            conditions.expect = holdfast_meta::Expect::Seq(node.seq);
        }
        let guard = self.guard(who, conditions);
        let modified_ms = options.modified_ms.unwrap_or(guard.now_ms);
        let (space, path) = (entered.space.id, &at.path);
        ready
            .commit(&target, |content| self.shared.catalogue.commit_file(space, path, content, modified_ms, &guard))
            .await
    }

    async fn make_folder(&self, who: &Session, at: &Location, guard: Conditions) -> Result<Node> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        self.shared.catalogue.make_folder(entered.space.id, &at.path, &self.guard(who, guard)).await
    }

    async fn remove(&self, who: &Session, at: &Location, guard: Conditions) -> Result<()> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        refuse_root(at)?;
        self.shared.catalogue.remove(entered.space.id, &at.path, &self.guard(who, guard)).await
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
        self.shared.catalogue.change_properties(entered.space.id, &at.path, changes, &self.guard(who, guard)).await
    }

    async fn lock(
        &self,
        who: &Session,
        at: &Location,
        request: LockRequest,
        guard: Conditions,
    ) -> Result<(Lock, Changed)> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        let guard = self.guard(who, guard);
        let new = NewLock {
            token: lock_token()?,
            exclusive: request.exclusive,
            deep: request.deep,
            owner_xml: request.owner_xml,
            expires_ms: expiry(guard.now_ms, request.seconds),
        };
        self.shared.catalogue.lock(entered.space.id, &at.path, new, &guard).await
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
        let guard = self.guard(who, guard);
        let expires_ms = expiry(guard.now_ms, seconds);
        self.shared.catalogue.refresh_lock(entered.space.id, &at.path, token, expires_ms, &guard).await
    }

    async fn unlock(&self, who: &Session, at: &Location, token: &str) -> Result<()> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        self.shared.catalogue.unlock(entered.space.id, &at.path, token, &self.guard(who, Conditions::default())).await
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

    async fn versions(&self, who: &Session, at: &Location) -> Result<Vec<Version>> {
        let entered = self.enter(who, &at.space, Role::Reader).await?;
        let node = self.node_at(&entered, at).await?;
        self.shared.catalogue.versions(node.id).await
    }

    async fn read_version(&self, who: &Session, at: &Location, seq: i64) -> Result<(Version, ContentStream)> {
        let entered = self.enter(who, &at.space, Role::Reader).await?;
        let node = self.node_at(&entered, at).await?;
        let versions = self.shared.catalogue.versions(node.id).await?;
        let gone = || Error::not_found(format!("{at} has no version {seq}"));
        let version = versions.into_iter().find(|version| version.seq == seq).ok_or_else(gone)?;
        let stream = match version.content {
            None => futures_util::stream::empty().boxed(),
            Some(id) => {
                let content = self.shared.catalogue.content(id).await?.ok_or_else(gone)?;
                let range = ByteRange::whole(content.size);
                self.reading(entered.keys(who)?, content)?.stream(range).await?
            }
        };
        Ok((version, stream))
    }

    async fn restore_version(&self, who: &Session, at: &Location, seq: i64, guard: Conditions) -> Result<Node> {
        let entered = self.enter(who, &at.space, Role::Editor).await?;
        self.shared.catalogue.restore_version(entered.space.id, &at.path, seq, &self.guard(who, guard)).await
    }

    async fn remove_version(&self, who: &Session, at: &Location, seq: i64) -> Result<()> {
        let entered = self.enter(who, &at.space, Role::Owner).await?;
        let node = self.node_at(&entered, at).await?;
        self.shared.catalogue.remove_version(node.id, seq).await
    }

    async fn trash(&self, who: &Session, space: &str, before: Option<i64>, limit: usize) -> Result<Vec<TrashEntry>> {
        let entered = self.enter(who, space, Role::Reader).await?;
        self.shared.catalogue.trash(entered.space.id, before, limit).await
    }

    async fn restore_trash(&self, who: &Session, space: &str, entry: i64, to: Option<&Location>) -> Result<Node> {
        let entered = self.enter(who, space, Role::Editor).await?;
        if to.is_some_and(|to| to.space != space) {
            return Err(Error::invalid("a trash entry is restored within its own space"));
        }
        let guard = self.guard(who, Conditions::default());
        self.shared.catalogue.restore_trash(entered.space.id, entry, to.map(|to| &to.path), &guard).await
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
        let found = self.shared.catalogue.find(entered.space.id, &at.path, false).await?;
        found.node(&at.path).cloned().ok_or_else(|| Error::not_found(format!("{at} does not exist")))
    }

    /// Whether the session may see nodes of this space. Nodes come from a walk of the same session, so this only closes the gap in
    /// which a membership ended.
    async fn member_of(&self, who: &Session, space: SpaceId) -> Result<()> {
        let name = self.shared.catalogue.space(space).await?.map(|space| space.name);
        let name = name.ok_or_else(|| Error::not_found("the space was removed"))?;
        self.enter(who, &name, Role::Reader).await.map(|_| ())
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
