//! Moves and copies. Within a space one catalogue transaction does it, whatever the size of the tree. Between spaces content has to be
//! sealed anew for the target's key: the copy is made aside, under a name of its own beside the target, and takes the target's place in
//! one transaction when it is whole.

use super::Engine;
use super::access::Entered;
use super::faces::refuse_root;
use super::finding::refuse_tags;
use super::intake::Intake;
use super::store::Around;
use crate::{Conditions, Transfer};
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt};
use holdfast_auth::Session;
use holdfast_base::{ByteRange, DrivePath, Error, ErrorKind, NodeName, Result, Uid};
use holdfast_meta::{Changed, Expect, Guard, Node, NodeKind, PropertyChange, Relocation, Role};

/// Copies between spaces at once. Each holds buffers of both budgets; few of them can never hold all of either, and so never wait for
/// each other.
pub(crate) const COPIES_AT_ONCE: usize = 4;
/// Members of a folder fetched at a time.
const PAGE_NODES: usize = 1_000;

impl Engine {
    pub(crate) async fn transfer(&self, who: &Session, transfer: &Transfer, guard: Conditions) -> Result<Changed> {
        refuse_root(&transfer.to)?;
        refuse_tags(who, &transfer.tags)?;
        if !transfer.copy {
            refuse_root(&transfer.from)?;
        }
        let need = if transfer.copy { Role::Reader } else { Role::Editor };
        let from = self.enter(who, &transfer.from.space, need).await?;
        let to = self.enter(who, &transfer.to.space, Role::Editor).await?;
        let mut guard = self.guard(who, &to, guard);
        guard.through.extend(from.through());
        if from.space.id != to.space.id {
            let done = self.transfer_between(who, transfer, &from, &to, &guard).await;
            return done.map_err(|error| to.told(from.told(error)));
        }
        let relocation = Relocation {
            space: to.space.id,
            from: from.place(&transfer.from.path)?,
            to: to.place(&transfer.to.path)?,
            overwrite: transfer.overwrite,
            deep: transfer.deep,
            source_expect: transfer.source_expect,
            tags: transfer.tags.clone(),
        };
        let done = if transfer.copy {
            self.shared.catalogue.copy(&relocation, &guard).await
        } else {
            self.shared.catalogue.relocate(&relocation, &guard).await
        };
        done.map_err(|error| to.told(from.told(error)))
    }

    async fn transfer_between(
        &self,
        who: &Session,
        transfer: &Transfer,
        from: &Entered,
        to: &Entered,
        guard: &Guard,
    ) -> Result<Changed> {
        let _turn = self.shared.copies.acquire().await.map_err(|_| Error::unavailable("the drive is stopping"))?;
        let source = self.node_at(from, &transfer.from).await?;
        if let Expect::Seq(seq) = transfer.source_expect
            && source.seq != seq
        {
            let message = format!("{} was changed meanwhile: load it again", transfer.from);
            return Err(Error::new(ErrorKind::PreconditionFailed, message));
        }
        if transfer.source_expect == Expect::Absent {
            return Err(Error::new(ErrorKind::PreconditionFailed, format!("{} exists already", transfer.from)));
        }
        let there = self.look(to, &transfer.to.path, false).await?;
        if there.node(&transfer.to.path).is_some() && !transfer.overwrite {
            return Err(Error::new(ErrorKind::PreconditionFailed, format!("{} exists already", transfer.to)));
        }
        let target = to.place(&transfer.to.path)?;
        let aside = aside(&target)?;
        let quiet = Guard { expect: Expect::Absent, ..guard.clone() };
        let deep = transfer.deep || !transfer.copy;
        let copied = self.copy_node(who, from, to, source, &aside, deep, &quiet).await;
        let relocation = Relocation {
            space: to.space.id,
            from: aside.clone(),
            to: target,
            overwrite: transfer.overwrite,
            deep: true,
            source_expect: Expect::Any,
            tags: transfer.tags.clone(),
        };
        let placed = match copied {
            Ok(()) => self.shared.catalogue.relocate(&relocation, guard).await,
            Err(error) => Err(error),
        };
        if placed.is_err() {
            let any = Guard { expect: Expect::Any, ..guard.clone() };
            if let Err(error) = self.shared.catalogue.remove(to.space.id, &aside, &any).await {
                tracing::warn!(?error, "an unfinished copy could not be removed");
            }
        }
        let placed = placed?;
        if !transfer.copy {
            // What was written to the source while it was copied is not thrown away with it.
            let same = Guard { expect: transfer.source_expect, ..guard.clone() };
            self.shared.catalogue.remove(from.space.id, &from.place(&transfer.from.path)?, &same).await?;
        }
        Ok(placed)
    }

    #[expect(clippy::too_many_arguments, reason = "one recursion of a tree copy; a struct of these would be used once")]
    fn copy_node<'a>(
        &'a self,
        who: &'a Session,
        from: &'a Entered,
        to: &'a Entered,
        node: Node,
        path: &'a DrivePath,
        deep: bool,
        guard: &'a Guard,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            match node.kind {
                NodeKind::File => self.copy_file(who, from, to, &node, path, guard).await?,
                NodeKind::Folder => {
                    self.shared.catalogue.make_folder(to.space.id, path, guard).await?;
                    let mut after: Option<NodeName> = None;
                    loop {
                        if !deep {
                            break;
                        }
                        let members = self.shared.catalogue.children(node.id, after.as_ref(), PAGE_NODES).await?;
                        let Some(last) = members.last() else { break };
                        after = Some(NodeName::new(&last.name)?);
                        for member in members {
                            let below = path.join(NodeName::new(&member.name)?)?;
                            self.copy_node(who, from, to, member, &below, true, guard).await?;
                        }
                    }
                }
            }
            self.copy_properties(to, &node, path, guard).await
        }
        .boxed()
    }

    async fn copy_file(
        &self,
        who: &Session,
        from: &Entered,
        to: &Entered,
        node: &Node,
        path: &DrivePath,
        guard: &Guard,
    ) -> Result<()> {
        let body = match node.content {
            None => futures_util::stream::empty().boxed(),
            Some(id) => {
                let content = self.shared.catalogue.content(id).await?;
                let content =
                    content.ok_or_else(|| Error::conflict("a file changed while it was copied; try again"))?;
                self.reading(from.keys(who)?, content)?.stream(ByteRange::whole(node.size)).await?
            }
        };
        let target = self.target(to, to.keys(who)?)?;
        let intake = Intake::new(body, Some(node.size), Vec::new());
        let ready = target.store(intake, Some(node.size), Around::default()).await?;
        let (space, modified_ms) = (to.space.id, node.modified_ms);
        let commit = |content| self.shared.catalogue.commit_file(space, path, content, modified_ms, guard);
        ready.commit(&target, commit).await.map(|_| ())
    }

    async fn copy_properties(&self, to: &Entered, node: &Node, path: &DrivePath, guard: &Guard) -> Result<()> {
        if !node.has_properties {
            return Ok(());
        }
        let found = self.shared.catalogue.properties(&[node.id]).await?;
        let changes: Vec<_> = found.into_iter().flat_map(|(_, all)| all).map(PropertyChange::Set).collect();
        let any = Guard { expect: Expect::Any, ..guard.clone() };
        self.shared.catalogue.change_properties(to.space.id, path, &changes, &any).await.map(|_| ())
    }
}

/// A free name beside `path`.
fn aside(path: &DrivePath) -> Result<DrivePath> {
    let id = Uid(holdfast_seal::keys::random_bytes()?);
    let folder = path.parent().ok_or_else(|| Error::forbidden("a space's root cannot be replaced"))?;
    folder.join(NodeName::new(&format!(".holdfast-copy-{id}"))?)
}
