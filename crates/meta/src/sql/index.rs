//! Keeping the words of names and tags.
//!
//! **How it works.** Whoever writes a name or a tag only notes the node in `unindexed`, in the same transaction: one narrow row. Steps of
//! [`STEP_NODES`] take nodes out of it and write their rows of `word` anew, each step one operation under the space's lock, so that no
//! name changes between the two. A job works the queue off, and a search first works off what is left of its spaces. After an
//! upgrade or a move from another database nothing is indexed and nothing noted: then `reindex` says up to which id nodes have been put into
//! the queue, and the steps do that first.
//!
//! What lies in the trash keeps its rows, so that putting it back costs nothing; search looks whether what it finds is in the tree. Rows go with
//! their node (`garbage`).
//!
//! **Limits.** Rows of a node: [`BEGINNINGS_MAX`](crate::words::BEGINNINGS_MAX) for the name, and for each of its
//! [`TAGS_MAX`](crate::TAGS_MAX) tags one and [`TAG_BEGINNINGS_MAX`].

use super::codec::rows;
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::{Done, Fault};
use super::query::{self as sql, in_lists, in_lists_after, insertion};
use super::seam::{Link, Value};
use super::tags;
use super::tx::Tx;
use crate::types::{Durable, Node};
use crate::words::{Folded, cut};
use holdfast_base::{Result, SpaceId};
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

/// Nodes of one step: some milliseconds, for which other writers of the space (in SQLite: all) wait.
const STEP_NODES: usize = 128;
/// Nodes that are taken from the queue's beginning at once. PostgreSQL walks over what was deleted there until it is cleaned
/// up, which is done after each.
const BATCH_NODES: usize = 32 * STEP_NODES;
/// Nodes put into the queue by one step, which costs less each.
const STEP_QUEUED: usize = 1_024;
/// Nodes that a search indexes first: what a person, or a small script, has just written.
const CATCH_UP_NODES: usize = 2 * STEP_NODES;
/// Words of a tag that count.
const TAG_BEGINNINGS_MAX: usize = 8;

/// A row's place: see the table. The name from its first word on.
pub(super) const NAME: i64 = 0;
/// The name from a later word on.
const NAME_LATER: i64 = 1;
/// A whole tag.
pub(super) const TAG: i64 = 2;
/// A tag from one of its words on.
const TAG_WORD: i64 = 3;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn index_words(&self) -> Result<bool> {
        let next = |link: &dyn Link| {
            let sql = "SELECT space_id, node_id FROM unindexed ORDER BY space_id, node_id LIMIT ?1";
            let waiting = sql::all(link, sql, [rows(BATCH_NODES)], |row| Ok((SpaceId(row.get(0)?), row.get(1)?)))?;
            Ok((waiting, is_reindexing(link)?))
        };
        let (waiting, reindexing): (Vec<(SpaceId, i64)>, bool) = self.0.read(Reading::Point, next).await?;
        for of_space in waiting.chunk_by(|one, other| one.0 == other.0) {
            for step in of_space.chunks(STEP_NODES) {
                let (space, nodes) = (step[0].0, step.iter().map(|(_, node)| *node).collect::<Vec<_>>());
                self.index_step(space, move |tx| index(tx, space, &nodes)).await?;
            }
        }
        if waiting.len() == BATCH_NODES {
            self.0.clean_queue().await?;
        }
        if waiting.is_empty() && reindexing {
            self.0.write("reindex", Scope::Administration, queue_more).await?;
        }
        Ok(reindexing || !waiting.is_empty())
    }

    /// Indexes what waits of spaces that are about to be searched, up to [`CATCH_UP_NODES`]; answers whether more waits.
    pub(super) async fn catch_up(&self, spaces: &[SpaceId]) -> Result<bool> {
        let ids: Vec<i64> = spaces.iter().map(|space| space.0).collect();
        let of_spaces = move |link: &dyn Link| {
            let mut waiting = Vec::new();
            in_lists(&ids, |list, ids| {
                let sql = format!(
                    "SELECT space_id FROM space_sum WHERE space_id IN ({list}) AND EXISTS \
                     (SELECT 1 FROM unindexed WHERE unindexed.space_id = space_sum.space_id)"
                );
                waiting.extend(sql::all(link, &sql, ids, |row| row.get(0).map(SpaceId))?);
                Ok(())
            })?;
            Ok((waiting, is_reindexing(link)?))
        };
        let (waiting, reindexing) = self.0.read(Reading::Point, of_spaces).await?;
        let mut left = CATCH_UP_NODES / STEP_NODES;
        for space in waiting {
            loop {
                if left == 0 {
                    return Ok(true);
                }
                left -= 1;
                match self.index_step(space, move |tx| index_next(tx, space)).await {
                    Ok(STEP_NODES) => {}
                    Ok(_) => break,
                    // A disk that takes nothing must not keep anybody from finding what is there.
                    Err(error) => {
                        tracing::warn!(?error, "names could not be indexed before a search");
                        return Ok(true);
                    }
                }
            }
        }
        Ok(reindexing)
    }

    /// One step. Nobody waits for it to be on the disk: what a power cut takes back waits in the queue again.
    async fn index_step<T: Send + 'static>(
        &self,
        space: SpaceId,
        step: impl Fn(&Tx<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T> {
        let refusal = |fault: Fault| Err(fault.into());
        self.0.submit_when("index_words", Scope::Space(space), step, refusal, Durable::Soon).await
    }
}

/// Whether nodes wait to be indexed.
pub(super) fn waits(link: &dyn Link) -> Done<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM unindexed) OR EXISTS (SELECT 1 FROM reindex)";
    sql::only(link, sql, (), |row| row.get(0))
}

fn is_reindexing(link: &dyn Link) -> Done<bool> {
    sql::only(link, "SELECT EXISTS (SELECT 1 FROM reindex)", (), |row| row.get(0))
}

/// Notes that a node's name or tags are new.
pub(super) fn note(tx: &Tx<'_>, space: SpaceId, node: i64) -> Done<()> {
    let sql = "INSERT INTO unindexed (space_id, node_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    sql::put(tx, sql, (space.0, node))
}

/// Notes new nodes.
pub(super) fn note_all(tx: &Tx<'_>, nodes: &[Node]) -> Done<()> {
    static MANY: LazyLock<String> =
        LazyLock::new(|| insertion("unindexed (space_id, node_id)", 2, ROWS) + " ON CONFLICT DO NOTHING");
    let (many, rest) = nodes.as_chunks::<ROWS>();
    for nodes in many {
        let values = nodes.each_ref().map(|node| [Value::Integer(node.space.0), Value::Integer(node.id.0)]);
        tx.put(&MANY, values.as_flattened())?;
    }
    rest.iter().try_for_each(|node| note(tx, node.space, node.id.0))
}

/// Rows of one statement.
const ROWS: usize = 64;

/// Puts the next nodes into the queue, or ends the reindexing. A node that is purged meanwhile is passed over when its turn comes.
fn queue_more(tx: &Tx<'_>) -> Done<()> {
    let after = sql::first(tx, "SELECT after_id FROM reindex WHERE id = 1", (), |row| row.get::<i64>(0))?;
    let Some(after) = after else { return Ok(()) };
    let sql = "SELECT max(id) FROM (SELECT id FROM node WHERE id > ?1 ORDER BY id LIMIT ?2) AS next";
    let last: Option<i64> = sql::only(tx, sql, (after, rows(STEP_QUEUED)), |row| row.get(0))?;
    let Some(last) = last else { return sql::put(tx, "DELETE FROM reindex", ()) };
    let sql = "INSERT INTO unindexed (space_id, node_id) SELECT space_id, id FROM node \
               WHERE id > ?1 AND id <= ?2 AND parent_id <> 0 ON CONFLICT DO NOTHING";
    sql::put(tx, sql, (after, last))?;
    sql::put(tx, "UPDATE reindex SET after_id = ?1 WHERE id = 1", [last])
}

/// Indexes the next nodes of a space; answers how many it took.
fn index_next(tx: &Tx<'_>, space: SpaceId) -> Done<usize> {
    let sql = "SELECT node_id FROM unindexed WHERE space_id = ?1 ORDER BY node_id LIMIT ?2";
    let nodes: Vec<i64> = sql::all(tx, sql, (space.0, rows(STEP_NODES)), |row| row.get(0))?;
    index(tx, space, &nodes)?;
    Ok(nodes.len())
}

/// Indexes nodes of a space.
fn index(tx: &Tx<'_>, space: SpaceId, nodes: &[i64]) -> Done<()> {
    // As `garbage` does: what is left of a removed space has no row of its own to lock.
    if sql::first(tx, "SELECT 1 FROM space_sum WHERE space_id = ?1", [space.0], |_| Ok(()))?.is_none() {
        tx.lock_administration()?;
    }
    let found = words_of(tx, nodes)?;
    let named: Vec<i64> = found.keys().copied().collect();
    in_lists(&named, |list, ids| sql::put(tx, &format!("DELETE FROM word WHERE node_id IN ({list})"), ids))?;
    insert(tx, space, &found)?;
    in_lists_after(&[Value::Integer(space.0)], nodes, |list, values| {
        sql::put(tx, &format!("DELETE FROM unindexed WHERE space_id = ?1 AND node_id IN ({list})"), values)
    })
}

/// The rows a node is to have.
pub(super) type Words = BTreeSet<(i64, String)>;

/// The words of nodes. What is in the trash by itself, or purged, has another name there; it is left as it is, and noted when it is put back.
pub(super) fn words_of(link: &dyn Link, nodes: &[i64]) -> Done<HashMap<i64, Words>> {
    let (mut found, mut tagged) = (HashMap::new(), Vec::new());
    in_lists(nodes, |list, ids| {
        let sql = format!("SELECT id, name, has_properties FROM node WHERE id IN ({list}) AND parent_id > 0");
        let mut take = |row: &super::seam::Row<'_>| {
            let id: i64 = row.get(0)?;
            found.insert(id, name_words(&row.get::<String>(1)?));
            if row.get(2)? {
                tagged.push(id);
            }
            Ok(super::seam::Flow::On)
        };
        link.query(&sql, ids, &mut take)
    })?;
    for (node, tags) in tags::of_nodes(link, &tagged)? {
        let words = found.entry(node).or_default();
        for tag in &tags {
            tag_words(tag, words);
        }
    }
    Ok(found)
}

fn name_words(name: &str) -> Words {
    let folded = Folded::new(name);
    let mut words: Words = folded.rests().skip(1).map(|rest| (NAME_LATER, rest.to_owned())).collect();
    words.insert((NAME, folded.rests().next().unwrap_or_default().to_owned()));
    words
}

fn tag_words(tag: &tags::Kept, words: &mut Words) {
    words.insert((TAG, tag.folded.clone()));
    words.extend(Folded::new(&tag.shown).rests().take(TAG_BEGINNINGS_MAX).map(|rest| (TAG_WORD, rest.to_owned())));
}

fn insert(tx: &Tx<'_>, space: SpaceId, found: &HashMap<i64, Words>) -> Done<()> {
    const INTO: &str = "word (space_id, place, word, node_id)";
    static ONE: LazyLock<String> = LazyLock::new(|| insertion(INTO, 4, 1));
    static MANY: LazyLock<String> = LazyLock::new(|| insertion(INTO, 4, ROWS));
    let mut rows: Vec<[Value<'_>; 4]> = Vec::new();
    for (node, words) in found {
        rows.extend(words.iter().map(|(place, word)| {
            [Value::Integer(space.0), Value::Integer(*place), Value::Text(word), Value::Integer(*node)]
        }));
    }
    // In the order of the table: neighbours share pages.
    rows.sort_unstable_by_key(|row| match row {
        [_, Value::Integer(place), Value::Text(word), _] => (*place, *word),
        _ => (0, ""),
    });
    let (many, rest) = rows.as_chunks::<ROWS>();
    many.iter().try_for_each(|rows| tx.put(&MANY, rows.as_flattened()))?;
    rest.iter().try_for_each(|row| tx.put(&ONE, row))
}

/// Ids of nodes of a space whose name or a tag has a word that begins like this, in the order of the table, so that names that begin with it
/// come first; `limit` at most.
pub(super) fn nodes_with(link: &dyn Link, space: SpaceId, word: &str, limit: usize) -> Done<Vec<i64>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let part = |place: i64| {
            format!(
                "SELECT node_id FROM (SELECT node_id FROM word WHERE space_id = ?1 AND place = {place} \
                 AND word >= ?2 AND word < ?3 ORDER BY word LIMIT ?4) AS place{place}"
            )
        };
        format!("{} LIMIT ?4", [NAME, NAME_LATER, TAG_WORD].map(part).join(" UNION ALL "))
    });
    let word = cut(word);
    let (end, limit) = (end_of(word), rows(limit));
    sql::all(link, &SQL, (space.0, word, end.as_str(), limit), |row| row.get(0))
}

/// Ids of nodes of a space that have a tag, newest nodes first; `limit` at most.
pub(super) fn nodes_tagged(link: &dyn Link, space: SpaceId, tag: &str, limit: usize) -> Done<Vec<i64>> {
    let sql = "SELECT node_id FROM word WHERE space_id = ?1 AND place = 2 AND word = ?2 ORDER BY node_id DESC LIMIT ?3";
    sql::all(link, sql, (space.0, tag, rows(limit)), |row| row.get(0))
}

/// What comes after everything that begins like this: no text has this character in it.
pub(super) fn end_of(word: &str) -> String {
    format!("{word}\u{10ffff}")
}
