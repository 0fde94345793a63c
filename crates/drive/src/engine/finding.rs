//! Tags and search: which spaces a session may look in, and places in place of rows.

use super::Engine;
use crate::{Conditions, FoundNode, FoundNodes, Location};
use holdfast_auth::Session;
use holdfast_base::{DrivePath, Error, Result, SpaceId};
use holdfast_meta::{Node, Role, SearchQuery, TAG_NAMESPACE, TagChange, TagCount};
use std::collections::HashMap;

impl Engine {
    /// The space of this name, or all that the session may see, the account's home first.
    async fn visible(&self, who: &Session, space: Option<&str>) -> Result<Vec<(SpaceId, String)>> {
        if let Some(name) = space {
            let entered = self.enter(who, name, Role::Reader).await?;
            return Ok(vec![(entered.space.id, entered.space.name)]);
        }
        let spaces = self.shared.catalogue.spaces_of(who.account).await?.into_iter().map(|(space, _)| space);
        let visible = spaces.filter(|space| who.scope.space.is_none_or(|only| only == space.id));
        Ok(visible.map(|space| (space.id, space.name)).collect())
    }

    pub(super) async fn find_nodes(
        &self,
        who: &Session,
        space: Option<&str>,
        query: &SearchQuery,
    ) -> Result<FoundNodes> {
        let spaces = self.visible(who, space).await?;
        let ids: Vec<SpaceId> = spaces.iter().map(|(id, _)| *id).collect();
        let answer = self.shared.catalogue.search(&ids, query).await?;
        let names: HashMap<SpaceId, String> = spaces.into_iter().collect();
        let found = answer.hits.into_iter().filter_map(|hit| {
            let space = names.get(&hit.node.space)?.clone();
            Some(FoundNode { at: Location { space, path: hit.path }, node: hit.node, tags: hit.tags })
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
        let spaces: Vec<SpaceId> = self.visible(who, space).await?.into_iter().map(|(id, _)| id).collect();
        self.shared.catalogue.tags_in_use(&spaces, prefix, limit).await
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
            let done = match self.enter(who, space, Role::Editor).await {
                Ok(entered) => {
                    let guard = self.guard(who, Conditions::default());
                    self.shared.catalogue.change_tags(entered.space.id, &paths, change, &guard).await?
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
