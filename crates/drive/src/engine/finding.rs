//! Tags and search: which spaces a session may look in, and places in place of rows.

use super::Engine;
use super::access::{Entered, effective_role};
use crate::{Conditions, FoundNode, FoundNodes, Location};
use holdfast_auth::Session;
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use holdfast_meta::{Node, Role, SearchIn, SearchQuery, TAG_NAMESPACE, TAGS_MAX, Tag, TagChange, TagCount};
use std::collections::HashMap;

impl Engine {
    /// The space of this name, or all that the session may see, the account's home first and what is shared with it last.
    pub(super) async fn visible(&self, who: &Session, space: Option<&str>) -> Result<Vec<Entered>> {
        if let Some(name) = space {
            return Ok(vec![self.enter(who, name, Role::Reader).await?]);
        }
        let own = match who.visit {
            Some(_) => Vec::new(),
            None => self.shared.catalogue.spaces_of(who.account).await?,
        };
        let visible = own.into_iter().filter(|(space, _)| who.scope.space.is_none_or(|only| only == space.id));
        let mut all: Vec<Entered> = visible
            .map(|(space, membership)| Entered {
                role: effective_role(who, &membership),
                space,
                membership,
                view: None,
            })
            .collect();
        let shared = self.shared_with(who).await?;
        all.extend(shared.into_iter().filter(|entered| !entered.uploads_only()));
        Ok(all)
    }

    pub(super) async fn find_nodes(
        &self,
        who: &Session,
        space: Option<&str>,
        query: &SearchQuery,
    ) -> Result<FoundNodes> {
        let visible = self.visible(who, space).await?;
        let places: Vec<SearchIn> = visible.iter().map(Entered::searched).collect();
        let answer = self.shared.catalogue.search(&places, &query.at(self.shared.clock.now_ms())).await?;
        // A member's own way to it comes first.
        let found = answer.hits.into_iter().filter_map(|hit| {
            let mut same_space = visible.iter().filter(|entered| entered.space.id == hit.node.space);
            let (entered, path) = same_space.find_map(|entered| Some((entered, entered.relative(&hit.path)?)))?;
            let at = Location { space: entered.space.name.clone(), path };
            Some(FoundNode { at, role: entered.role, node: hit.node, tags: hit.tags })
        });
        Ok(FoundNodes { found: found.collect(), next: answer.next, more: answer.more, indexing: answer.indexing })
    }

    pub(super) async fn count_tags(
        &self,
        who: &Session,
        space: Option<&str>,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<TagCount>> {
        let places: Vec<SearchIn> = self.visible(who, space).await?.iter().map(Entered::searched).collect();
        self.shared.catalogue.tags_in_use(&places, prefix, limit).await
    }

    /// One or a few transactions a space.
    pub(super) async fn tag_nodes(
        &self,
        who: &Session,
        items: &[Location],
        change: &TagChange,
    ) -> Result<Vec<Result<Node>>> {
        let mut by_space: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, item) in items.iter().enumerate() {
            by_space.entry(&item.space).or_default().push(index);
        }
        let mut answers: Vec<Option<Result<Node>>> = items.iter().map(|_| None).collect();
        for (space, of_space) in by_space {
            let paths: Vec<DrivePath> = of_space.iter().map(|&index| items[index].path.clone()).collect();
            let done: Vec<Result<Node>> = match self.enter(who, space, Role::Editor).await {
                Ok(entered) => {
                    let guard = self.guard(who, &entered, Conditions::default());
                    let paths = paths.iter().map(|path| entered.place(path)).collect::<Result<Vec<_>>>()?;
                    let done = self.shared.catalogue.change_tags(entered.space.id, &paths, change, &guard).await?;
                    done.into_iter().map(|one| one.map_err(|error| entered.told(error))).collect()
                }
                Err(error) => {
                    let again = || Error::new(error.kind(), error.message());
                    of_space.iter().map(|_| Err(again())).collect()
                }
            };
            for (index, answer) in of_space.into_iter().zip(done) {
                answers[index] = Some(answer);
            }
        }
        let missing = || Err(Error::internal("an item was not looked at"));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect())
    }

    pub(super) async fn tags_of(&self, who: &Session, nodes: &[Node]) -> Result<Vec<Vec<String>>> {
        let properties = self.all_properties(who, nodes).await?;
        let tags = properties.into_iter().map(|all| {
            all.into_iter().filter(|property| property.namespace == TAG_NAMESPACE).map(|tag| tag.xml).collect()
        });
        Ok(tags.collect())
    }
}

/// Refuses tags of a file to be written that are bound to be refused, before its body is read.
pub(super) fn refuse_tags(who: &Session, tags: &[Tag]) -> Result<()> {
    if who.visit.is_some() && !tags.is_empty() {
        return Err(Error::forbidden("the visitor of a link cannot tag files"));
    }
    if tags.len() > TAGS_MAX {
        return Err(Error::new(ErrorKind::TooLarge, format!("a file can have {TAGS_MAX} tags at most")));
    }
    Ok(())
}
