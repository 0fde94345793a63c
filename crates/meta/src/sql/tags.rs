//! Tags: properties in a namespace of our own, so that they are copied, moved and purged with everything else; changed by operations of their
//! own, which know their limits; and found by the rows they have in the index of words.

use super::codec::rows;
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, Fault, refuse};
use super::index::{TAG, end_of, nodes_tagged, note};
use super::lock_check::{self, Change};
use super::query::{self as sql, in_lists_after};
use super::seam::{Link, Value};
use super::search::Within;
use super::search::paths::Folders;
use super::state::SpaceState;
use super::tx::Tx;
use super::walk::walk;
use crate::catalogue::{Changed, Expect, Guard};
use crate::types::{Node, SearchIn, TAG_COUNT_MAX, TAG_LIST_MAX, TAG_NAMESPACE, TAGS_MAX, Tag, TagChange, TagCount};
use crate::words::fold_tag;
use holdfast_base::limits::PROPERTIES_BYTES_MAX;
use holdfast_base::{DrivePath, ErrorKind, Result, SpaceId};
use std::collections::BTreeMap;

/// Nodes tagged in one transaction: some tens of milliseconds over a network, for which the space's other writers wait.
const STEP_PATHS: usize = 100;
/// Tags of a space that are looked at for those in use below a folder of it.
const TAGS_BELOW_MAX: usize = 1_000;
/// Nodes that are looked at for the same: as many as a search reads.
const NODES_BELOW_MAX: usize = 4_096;

/// A tag as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) folded: String,
    pub(super) shown: String,
}

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn change_tags(
        &self,
        space: SpaceId,
        paths: &[DrivePath],
        change: &TagChange,
        guard: &Guard,
    ) -> Result<Vec<Result<Node>>> {
        let mut answers = Vec::with_capacity(paths.len());
        for paths in paths.chunks(STEP_PATHS) {
            let (paths, change, guard) = (paths.to_vec(), change.clone(), guard.clone());
            let work = move |tx: &Tx<'_>| change_all(tx, space, &paths, &change, &guard);
            answers.extend(self.0.write("change_tags", Scope::Space(space), work).await?);
        }
        Ok(answers)
    }

    pub(super) async fn tags_in_use(&self, places: &[SearchIn], prefix: &str, limit: usize) -> Result<Vec<TagCount>> {
        let within = Within::new(places);
        self.catch_up(&within.spaces).await?;
        let (prefix, limit) = (fold_tag(prefix), limit.min(TAG_LIST_MAX));
        self.0.read(E::SEARCH, move |link| in_use(link, &within, &prefix, limit)).await
    }
}

/// Tags of nodes, in the order of their folded text; nodes without any are left out.
pub(super) fn of_nodes(link: &dyn Link, nodes: &[i64]) -> Done<BTreeMap<i64, Vec<Kept>>> {
    let mut found: BTreeMap<i64, Vec<Kept>> = BTreeMap::new();
    in_lists_after(&[Value::Text(TAG_NAMESPACE)], nodes, |list, values| {
        let sql = format!(
            "SELECT node_id, name, xml FROM property WHERE node_id IN ({list}) AND namespace = ?1 ORDER BY node_id, name"
        );
        for (node, tag) in
            sql::all(link, &sql, values, |row| Ok((row.get(0)?, Kept { folded: row.get(1)?, shown: row.get(2)? })))?
        {
            found.entry(node).or_default().push(tag);
        }
        Ok(())
    })?;
    Ok(found)
}

fn change_all(
    tx: &Tx<'_>,
    space: SpaceId,
    paths: &[DrivePath],
    change: &TagChange,
    guard: &Guard,
) -> Done<Vec<Result<Node>>> {
    let mut state = SpaceState::load_for(tx, space, guard)?;
    let mut answers = Vec::with_capacity(paths.len());
    for path in paths {
        answers.push(match change_one(tx, &mut state, path, change, guard) {
            Ok(node) => Ok(node),
            // It wrote nothing.
            Err(Fault::Refused(error)) => Err(*error),
            Err(fault) => return Err(fault),
        });
    }
    state.save(tx)?;
    Ok(answers)
}

/// Adds tags to the file that a commit just made or changed, in its transaction.
pub(super) fn add_to_written(
    tx: &Tx<'_>,
    state: &mut SpaceState,
    path: &DrivePath,
    changed: Changed,
    tags: &[Tag],
    guard: &Guard,
) -> Done<Changed> {
    if tags.is_empty() {
        return Ok(changed);
    }
    // What was expected was of the version before.
    let guard = Guard { expect: Expect::Any, ..guard.clone() };
    let change = TagChange { add: tags.to_vec(), remove: Vec::new() };
    Ok(Changed { node: change_one(tx, state, path, &change, &guard)?, ..changed })
}

/// Changes the tags of one node. Everything that may be refused is looked at before anything is written.
fn change_one(tx: &Tx<'_>, state: &mut SpaceState, path: &DrivePath, change: &TagChange, guard: &Guard) -> Done<Node> {
    let spot = walk(tx, state.id, state.root, path)?;
    spot.expect(guard.expect)?;
    let mut node = spot.existing()?.clone();
    if path.is_root() {
        return refuse(ErrorKind::Forbidden, "the root of a space has no tags");
    }
    lock_check::check(tx, state, &spot, Change::Modify, guard)?;
    let before: BTreeMap<String, String> =
        of_nodes(tx, &[node.id.0])?.into_values().flatten().map(|tag| (tag.folded, tag.shown)).collect();
    let mut after = before.clone();
    for tag in &change.remove {
        after.remove(tag.folded());
    }
    after.extend(change.add.iter().map(|tag| (tag.folded().to_owned(), tag.shown().to_owned())));
    if after == before {
        return Ok(node);
    }
    let others = check_room(tx, &node, path, &after)?;
    for gone in before.keys().filter(|tag| after.get(*tag) != before.get(*tag)) {
        let sql = "DELETE FROM property WHERE node_id = ?1 AND namespace = ?2 AND name = ?3";
        sql::put(tx, sql, (node.id.0, TAG_NAMESPACE, gone.as_str()))?;
    }
    for (folded, shown) in after.iter().filter(|(tag, shown)| before.get(*tag) != Some(shown)) {
        let sql = "INSERT INTO property (node_id, namespace, name, xml) VALUES (?1, ?2, ?3, ?4)";
        sql::put(tx, sql, (node.id.0, TAG_NAMESPACE, folded.as_str(), shown.as_str()))?;
    }
    node.has_properties = others || !after.is_empty();
    node.seq = state.next_seq_in(node.parent.into_iter().chain([node.id]));
    let sql = "UPDATE node SET has_properties = ?2, seq = ?3 WHERE id = ?1";
    sql::put(tx, sql, (node.id.0, node.has_properties, node.seq))?;
    note(tx, state.id, node.id.0)?;
    Ok(node)
}

/// `TooLarge` if a node has no room for these tags; answers whether it has other properties.
fn check_room(tx: &Tx<'_>, node: &Node, path: &DrivePath, tags: &BTreeMap<String, String>) -> Done<bool> {
    if tags.len() > TAGS_MAX {
        return refuse(ErrorKind::TooLarge, format!("{path} would have more than {TAGS_MAX} tags"));
    }
    let sql = "SELECT CAST(coalesce(sum(octet_length(namespace) + octet_length(name) + octet_length(xml)), 0) AS BIGINT) \
               FROM property WHERE node_id = ?1 AND namespace <> ?2";
    let others: usize = sql::only(tx, sql, (node.id.0, TAG_NAMESPACE), |row| row.get(0))?;
    let bytes: usize = tags.iter().map(|(folded, shown)| TAG_NAMESPACE.len() + folded.len() + shown.len()).sum();
    if others + bytes > PROPERTIES_BYTES_MAX && !tags.is_empty() {
        let message = format!("tags and properties of {path} would have more than {PROPERTIES_BYTES_MAX} bytes");
        return refuse(ErrorKind::TooLarge, message);
    }
    Ok(others > 0)
}

fn in_use(link: &dyn Link, within: &Within, prefix: &str, limit: usize) -> Done<Vec<TagCount>> {
    let mut found: BTreeMap<String, TagCount> = BTreeMap::new();
    let mut folders = Folders::new(&[]);
    for &space in &within.spaces {
        let roots = within.folders(space);
        // Of a whole space the index knows what is in use; what of it is below a folder is looked for, up to a bound.
        let (tags, mut room) = if roots.is_some() { (TAGS_BELOW_MAX, NODES_BELOW_MAX) } else { (limit, usize::MAX) };
        let mut in_space = 0;
        for folded in distinct(link, space, prefix, tags)? {
            if in_space == limit || room == 0 {
                break;
            }
            let nodes = nodes_tagged(link, space, &folded, if roots.is_some() { room } else { TAG_COUNT_MAX + 1 })?;
            room -= nodes.len().min(room);
            let live = folders.live(link, &nodes, roots)?;
            let more = room == 0 || if roots.is_some() { live.len() } else { nodes.len() } > TAG_COUNT_MAX;
            if let Some(&newest) = live.first() {
                in_space += 1;
                count(link, &mut found, folded, newest, (live.len().min(TAG_COUNT_MAX), more))?;
            }
        }
    }
    Ok(found.into_values().take(limit).collect())
}

/// Adds to what was counted of a tag, which is shown as the newest node has it.
fn count(
    link: &dyn Link,
    found: &mut BTreeMap<String, TagCount>,
    folded: String,
    newest: i64,
    (count, more): (usize, bool),
) -> Done<()> {
    if let Some(tag) = found.get_mut(&folded) {
        tag.count += count;
        tag.more |= more;
        return Ok(());
    }
    // A node that lost it a moment ago is not indexed yet.
    let kept = of_nodes(link, &[newest])?.into_values().flatten().find(|kept| kept.folded == folded);
    if let Some(Kept { shown, .. }) = kept {
        found.insert(folded, TagCount { tag: shown, count, more });
    }
    Ok(())
}

/// The tags of a space that begin like this, each once: one look-up each, however many nodes have it.
fn distinct(link: &dyn Link, space: SpaceId, prefix: &str, limit: usize) -> Done<Vec<String>> {
    let next = |after: &str| {
        format!(
            "(SELECT at.word FROM word AS at WHERE at.space_id = ?1 AND at.place = {TAG} AND at.word {after} AND at.word < ?3 \
             ORDER BY at.word LIMIT 1)"
        )
    };
    let sql = format!(
        "WITH RECURSIVE tag (word) AS (SELECT {} UNION ALL SELECT {} FROM tag WHERE tag.word IS NOT NULL) \
         SELECT word FROM tag WHERE word IS NOT NULL LIMIT ?4",
        next(">= ?2"),
        next("> tag.word")
    );
    sql::all(link, &sql, (space.0, prefix, end_of(prefix).as_str(), rows(limit)), |row| row.get(0))
}
