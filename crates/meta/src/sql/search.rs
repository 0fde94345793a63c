//! Finding nodes by name, path and tags.
//!
//! **What is found.** A node whose name or tags have at least one of the query's words, if every word is in its name, its tags or the name of a
//! folder above it. The index only says where to look: what it gives is read from the tree and compared ([`examine`](Search::examine)), so
//! that what was renamed, removed or moved since is found as it is now or not at all.
//!
//! **How it works.** With one word, the rows of the index that begin like it are the candidates. With several, each word's rows are read
//! up to a bound. If all were read, whatever has one of the words is a candidate. If those are too many, what has all words in its own name and
//! its folder's comes first ([`in_fitting_folders`](Search::in_fitting_folders)). Then, and if a word was too common to read all its rows, every hit
//! has the rarest word on its path: the candidates are what has it, what in such a folder begins with another word
//! ([`named_in`](Search::named_in)), and everything below ([`below`](Search::below)). Tags that were asked for come before words: only what has
//! them can be a hit.
//!
//! **Two looks.** Whoever asks for a page is answered as soon as a first look ([`Bounds::FIRST`]) finds something for it: the likeliest hits,
//! at a cost that hardly depends on how much there is. Only if it finds nothing, or a later page asks for more than it found, is there a
//! thorough look ([`Bounds::THOROUGH`]). What that adds is *late*: it comes after what the first look finds, so that pages neither overlap nor
//! leave anything out.
//!
//! **Limits.** Of a thorough look [`Bounds::THOROUGH`]: some tens of milliseconds at any size. An answer that had to stop there says that there may be
//! more; then names that begin with the word are what was looked at first.

mod asked;
pub(super) mod paths;

use super::codec::{self, node_columns, rows};
use super::engine::{Engine, Ops};
use super::fault::Done;
use super::index::{nodes_tagged, nodes_with};
use super::query::{self as sql, in_lists, in_lists_after};
use super::seam::{Link, Value};
use super::tags;
use crate::types::{Cursor, Hit, Node, SMART_HITS_MAX, SearchAnswer, SearchIn, SearchQuery};
use crate::words::Folded;
use asked::Asked;
use holdfast_base::{DrivePath, Error, NodeId, NodeName, Result, SpaceId};
use paths::Folders;
use std::collections::{HashMap, HashSet};

/// What one look reads at most.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Rows of the index; a microsecond each.
    rows: usize,
    /// Nodes that are read and compared; some microseconds each.
    nodes: usize,
    /// Candidates that have several words in a row: the likeliest hits of all, looked at before others.
    phrase: usize,
    /// Folders in which names are looked up by their beginnings, some ranges of a B-tree for each.
    folders: usize,
    /// What lies below folders.
    below: usize,
}

impl Bounds {
    /// Enough for a page of [`HITS_MAX`](crate::types::HITS_MAX) hits where most candidates are some.
    const FIRST: Self = Self { rows: 512, nodes: 256, phrase: 64, folders: 128, below: 0 };
    const THOROUGH: Self = Self { rows: 32_768, nodes: 4_096, phrase: 256, folders: 512, below: 4_096 };
}

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn search(&self, places: &[SearchIn], query: &SearchQuery) -> Result<SearchAnswer> {
        let asked = Asked::new(query)?;
        if query.within_days.is_some() {
            return Err(Error::internal("a search has no time of its own: say which"));
        }
        let within = Within::new(places);
        let indexing = self.catch_up(&within.spaces).await?;
        if asked.finds_nothing() {
            return Ok(SearchAnswer { indexing, ..SearchAnswer::default() });
        }
        let answer = self.0.read(E::SEARCH, move |link| Search::new(link, &within, &asked).run()).await?;
        Ok(SearchAnswer { indexing, ..answer })
    }
}

/// Refuses a query that is over a limit, or that nothing could be a hit of.
pub(super) fn check_query(query: &SearchQuery) -> Result<()> {
    if Asked::new(query)?.finds_nothing() {
        return Err(Error::invalid(
            "a search that is saved looks for something: words, a type, a size, a date or a tag",
        ));
    }
    Ok(())
}

/// Where a search looks.
#[derive(Debug)]
pub(super) struct Within {
    pub(super) spaces: Vec<SpaceId>,
    /// Of a space that is not looked at as a whole, the folders below which it is.
    folders: HashMap<SpaceId, Vec<i64>>,
}

impl Within {
    pub(super) fn new(places: &[SearchIn]) -> Self {
        let mut within = Self { spaces: Vec::new(), folders: HashMap::new() };
        for place in places {
            if !within.spaces.contains(&place.space) {
                within.spaces.push(place.space);
            }
            if let Some(folder) = place.below {
                within.folders.entry(place.space).or_default().push(folder.0);
            }
        }
        let whole = |space: &SpaceId| places.iter().any(|place| place.space == *space && place.below.is_none());
        within.folders.retain(|space, _| !whole(space));
        within
    }

    /// The folders below which a node of this space must be, if it need not only be in the space.
    pub(super) fn folders(&self, space: SpaceId) -> Option<&[i64]> {
        self.folders.get(&space).map(Vec::as_slice)
    }
}

/// The words a name has, as a set of bits.
fn words_in(name: &Folded, words: &[String]) -> u16 {
    words.iter().enumerate().filter(|(_, word)| name.has(word)).fold(0, |mask, (index, _)| mask | 1 << index)
}

/// Nodes that the index has for a word or a tag.
#[derive(Debug, Default)]
struct Matches {
    ids: Vec<i64>,
    /// Whether these are all.
    complete: bool,
}

/// A running search.
struct Search<'s> {
    link: &'s dyn Link,
    within: &'s Within,
    asked: &'s Asked,
    bounds: Bounds,
    folders: Folders,
    seen: HashSet<i64>,
    hits: Vec<(Cursor, Node)>,
    /// Whether what is found now was not found by a first look.
    late: bool,
    /// Whether everything that could be a hit was looked at.
    complete: bool,
}

impl<'s> Search<'s> {
    fn new(link: &'s dyn Link, within: &'s Within, asked: &'s Asked) -> Self {
        let bounds = if asked.query.whole { Bounds::THOROUGH } else { Bounds::FIRST };
        let folders = Folders::new(&asked.words);
        let (seen, hits) = (HashSet::new(), Vec::new());
        Self { link, within, asked, bounds, folders, seen, hits, late: false, complete: true }
    }

    fn run(mut self) -> Done<SearchAnswer> {
        self.look()?;
        if !self.asked.query.whole && !self.complete && !self.has_a_page() {
            (self.bounds, self.late, self.complete) = (Bounds::THOROUGH, true, true);
            self.look()?;
        }
        self.answer()
    }

    fn look(&mut self) -> Done<()> {
        if self.by_tags()? { Ok(()) } else { self.by_words() }
    }

    /// Whether something was found that belongs to the page asked for.
    fn has_a_page(&self) -> bool {
        self.hits.iter().any(|(cursor, _)| self.asked.query.after.is_none_or(|after| *cursor > after))
    }

    /// Looks at what has the rarest of the tags asked for; false if there are none, or all are too common.
    fn by_tags(&mut self) -> Done<bool> {
        let mut rarest: Option<Matches> = None;
        for tag in &self.asked.query.tags {
            let (link, limit) = (self.link, self.bounds.nodes);
            let found =
                matches(&self.within.spaces, limit, |space, limit| nodes_tagged(link, space, tag.folded(), limit))?;
            if found.complete && rarest.as_ref().is_none_or(|other| other.ids.len() > found.ids.len()) {
                rarest = Some(found);
            } else if !found.complete && self.asked.words.is_empty() && rarest.is_none() {
                // Nothing narrows it down: the newest that have the tag.
                self.examine(&found.ids)?;
                self.complete = false;
            }
        }
        if let Some(found) = rarest {
            self.complete = true;
            self.examine(&found.ids)?;
            return Ok(true);
        }
        Ok(!self.asked.query.tags.is_empty() && self.asked.words.is_empty())
    }

    fn by_words(&mut self) -> Done<()> {
        let words = &self.asked.words;
        if words.len() < 2 {
            let found = self.with_word(words.first().map_or("", String::as_str), self.bounds.nodes)?;
            self.complete &= found.complete;
            return self.examine(&found.ids);
        }
        let limit = self.bounds.rows / words.len();
        let found = words.iter().map(|word| self.with_word(word, limit)).collect::<Done<Vec<Matches>>>()?;
        let masks = words_by_node(&found);
        let (most_first, with_all) = most_words_first(&masks, words.len());
        let complete = found.iter().all(|found| found.complete);
        if complete && most_first.len() <= self.bounds.nodes {
            return self.examine(&most_first);
        }
        let phrase = self.with_word(&self.asked.phrase, self.bounds.phrase)?;
        self.examine(&phrase.ids)?;
        self.examine(most_first.get(..with_all).unwrap_or(&most_first))?;
        if complete {
            let fitting = self.in_fitting_folders(&masks, &most_first)?;
            self.examine(&fitting)?;
        }
        let with_rows = found.iter().enumerate().filter(|(_, found)| found.complete);
        let Some((word, rarest)) = with_rows.min_by_key(|(_, found)| found.ids.len()) else {
            // Each is too common to be sure of anything: some of what lies in folders that have one of them, best names first.
            self.complete = false;
            return found.iter().enumerate().try_for_each(|(word, found)| self.named_in(&found.ids, word));
        };
        self.named_in(&rarest.ids, word)?;
        self.examine(&rarest.ids)?;
        self.below(&rarest.ids)
    }

    fn with_word(&self, word: &str, limit: usize) -> Done<Matches> {
        matches(&self.within.spaces, limit, |space, limit| nodes_with(self.link, space, word, limit))
    }

    /// Of nodes that were found for some of the words, those whose folder was found for the others.
    fn in_fitting_folders(&self, masks: &HashMap<i64, u16>, nodes: &[i64]) -> Done<Vec<i64>> {
        let all = self.asked.all();
        let mut fitting = Vec::new();
        in_lists(nodes, |list, ids| {
            let sql = format!("SELECT id, parent_id FROM node WHERE id IN ({list})");
            for (id, parent) in sql::all(self.link, &sql, ids, |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))? {
                let mask = |node| masks.get(&node).copied().unwrap_or_default();
                if mask(id) | mask(parent) == all {
                    fitting.push(id);
                }
            }
            Ok(())
        })?;
        Ok(fitting)
    }

    /// Looks at what, right in folders that have one of the words, has a name that begins with another one as it was typed or as names are
    /// mostly written. So a file is found by its folder and its name however large the folders are; other names in them only if
    /// [`Self::below`] gets there.
    fn named_in(&mut self, folders: &[i64], word: usize) -> Done<()> {
        let folders = folders.get(..self.bounds.folders).unwrap_or(folders);
        for beginning in self.asked.beginnings(word) {
            let after = format!("{beginning}{}", char::MAX);
            let room = self.bounds.nodes.saturating_sub(self.seen.len());
            let values = [Value::Text(&beginning), Value::Text(&after), Value::Integer(rows(room))];
            let (mut nodes, link) = (Vec::new(), self.link);
            in_lists_after(&values, folders, |list, values| {
                const SELECT: &str = concat!("SELECT ", node_columns!(), " FROM node WHERE parent_id IN (");
                let sql = format!("{SELECT}{list}) AND name >= ?1 AND name < ?2 LIMIT ?3");
                nodes.extend(sql::all(link, &sql, values, codec::node)?);
                Ok(())
            })?;
            self.complete &= nodes.len() < room;
            nodes.truncate(room);
            let seen = &mut self.seen;
            nodes.retain(|node| seen.insert(node.id.0));
            self.compare(nodes)?;
        }
        Ok(())
    }

    /// Looks at everything below folders.
    fn below(&mut self, folders: &[i64]) -> Done<()> {
        const SQL: (&str, &str) = (
            concat!("WITH RECURSIVE below AS (SELECT ", node_columns!(), " FROM node WHERE parent_id IN ("),
            concat!(
                ") UNION ALL SELECT ",
                node_columns!("node."),
                " FROM below JOIN node ON node.parent_id = below.id WHERE below.kind = 0) SELECT ",
                node_columns!(),
                " FROM below LIMIT ?1"
            ),
        );
        let mut nodes = Vec::new();
        let (link, room) = (self.link, self.bounds.below);
        in_lists_after(&[Value::Integer(rows(room))], folders, |list, values| {
            if nodes.len() < room {
                nodes.extend(sql::all(link, &format!("{}{list}{}", SQL.0, SQL.1), values, codec::node)?);
            }
            Ok(())
        })?;
        self.complete &= nodes.len() < room;
        let seen = &mut self.seen;
        nodes.retain(|node| seen.insert(node.id.0));
        self.compare(nodes)
    }

    /// Looks at candidates, unless they were looked at already.
    fn examine(&mut self, ids: &[i64]) -> Done<()> {
        let mut new: Vec<i64> = ids.iter().copied().filter(|id| self.seen.insert(*id)).collect();
        let room = self.bounds.nodes.saturating_sub(self.seen.len() - new.len());
        if new.len() > room {
            new.truncate(room);
            self.complete = false;
        }
        let mut nodes = Vec::with_capacity(new.len());
        in_lists(&new, |list, ids| {
            let sql = format!(concat!("SELECT ", node_columns!(), " FROM node WHERE id IN ({})"), list);
            nodes.extend(sql::all(self.link, &sql, ids, codec::node)?);
            Ok(())
        })?;
        self.compare(nodes)
    }

    /// Keeps those of the nodes that are hits.
    fn compare(&mut self, mut nodes: Vec<Node>) -> Done<()> {
        let (asked, spaces) = (self.asked, &self.within.spaces);
        nodes.retain(|node| node.parent.is_some() && spaces.contains(&node.space) && asked.admits(node));
        let named: Vec<(Node, Folded)> = nodes
            .into_iter()
            .map(|node| {
                let name = Folded::new(&node.name);
                (node, name)
            })
            .collect();
        let own: Vec<u16> = named.iter().map(|(_, name)| words_in(name, &asked.words)).collect();
        // Only those that need them, and may have any.
        let wants_tags =
            |own: u16, node: &Node| node.has_properties && (own != asked.all() || !asked.query.tags.is_empty());
        let tagged: Vec<i64> = named
            .iter()
            .zip(&own)
            .filter(|((node, _), own)| wants_tags(**own, node))
            .map(|((node, _), _)| node.id.0)
            .collect();
        let tags = tags::of_nodes(self.link, &tagged)?;
        let mut likely = Vec::new();
        for ((node, name), mut own) in named.into_iter().zip(own) {
            let tags = tags.get(&node.id.0).map_or(&[][..], Vec::as_slice);
            for tag in tags {
                own |= words_in(&Folded::new(&tag.shown), &asked.words);
            }
            let has = |wanted: &crate::types::Tag| tags.iter().any(|tag| tag.folded == wanted.folded());
            if (own != 0 || asked.words.is_empty()) && asked.query.tags.iter().all(has) {
                likely.push((node, name, own));
            }
        }
        let parents: Vec<i64> = likely.iter().filter_map(|(node, ..)| node.parent).map(|parent| parent.0).collect();
        self.complete &= self.folders.load(self.link, &parents)?;
        for (node, name, own) in likely {
            let roots = self.within.folders(node.space);
            let above = node.parent.and_then(|parent| self.folders.words_within(parent.0, roots));
            if above.is_some_and(|above| above | own == asked.all()) {
                let rank = asked.rank(&node, &name, own);
                let (late, age) = (self.late, node.modified_ms.saturating_neg());
                let cursor = Cursor { late, rank, age, node: -node.id.0 };
                self.hits.push((cursor, node));
            }
        }
        Ok(())
    }

    /// The page that was asked for.
    fn answer(self) -> Done<SearchAnswer> {
        let Self { link, asked, folders, mut hits, complete, .. } = self;
        let limit = asked.query.limit.clamp(1, SMART_HITS_MAX);
        hits.retain(|(cursor, _)| asked.query.after.is_none_or(|after| *cursor > after));
        hits.sort_unstable_by_key(|(cursor, _)| *cursor);
        let may_find_more = !complete && !asked.query.whole && !self.late;
        let goes_on = hits.len() > limit || may_find_more;
        hits.truncate(limit);
        let next = hits.last().filter(|_| goes_on).map(|(cursor, _)| *cursor);
        let tagged: Vec<i64> = hits.iter().filter(|(_, node)| node.has_properties).map(|(_, node)| node.id.0).collect();
        let mut tags = tags::of_nodes(link, &tagged)?;
        let mut found = Vec::with_capacity(hits.len());
        for (_, node) in hits {
            let tags = tags.remove(&node.id.0).unwrap_or_default().into_iter().map(|tag| tag.shown).collect();
            found.push(Hit { path: path(&folders, &node)?, node, tags });
        }
        Ok(SearchAnswer { hits: found, next, more: next.is_some() || !complete, indexing: false })
    }
}

fn path(folders: &Folders, node: &Node) -> Done<DrivePath> {
    let mut names = folders.names(node.parent.map_or(0, |NodeId(parent)| parent));
    names.push(&node.name);
    let names = names.into_iter().map(NodeName::new).collect::<Result<_>>()?;
    Ok(DrivePath::from_names(names)?)
}

/// What the index has in each of the spaces, up to `limit` in all. The first spaces may take more: an account's home comes first.
fn matches(spaces: &[SpaceId], limit: usize, mut read: impl FnMut(SpaceId, usize) -> Done<Vec<i64>>) -> Done<Matches> {
    let mut found = Matches { ids: Vec::new(), complete: true };
    for (number, &space) in spaces.iter().enumerate() {
        let left = limit.saturating_sub(found.ids.len());
        let share = if number + 1 == spaces.len() { left } else { left / 2 };
        let ids = if share > 0 { read(space, share)? } else { Vec::new() };
        found.complete &= ids.len() < share;
        found.ids.extend(ids);
    }
    Ok(found)
}

/// The words each node was found for, as a set of bits.
fn words_by_node(found: &[Matches]) -> HashMap<i64, u16> {
    let mut masks: HashMap<i64, u16> = HashMap::new();
    for (index, found) in found.iter().enumerate() {
        for id in &found.ids {
            *masks.entry(*id).or_default() |= 1 << index;
        }
    }
    masks
}

/// Nodes by the number of words they were found for, most first; and how many were found for all.
fn most_words_first(masks: &HashMap<i64, u16>, words: usize) -> (Vec<i64>, usize) {
    let mut nodes: Vec<(u32, i64)> = masks.iter().map(|(id, mask)| (mask.count_ones(), *id)).collect();
    nodes.sort_unstable_by_key(|(count, id)| (std::cmp::Reverse(*count), std::cmp::Reverse(*id)));
    let with_all = nodes.partition_point(|(count, _)| *count as usize == words);
    (nodes.into_iter().map(|(_, id)| id).collect(), with_all)
}
