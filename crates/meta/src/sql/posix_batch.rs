//! Changes that a mount answered before they came here: many in one transaction. If one of them is refused, which is rare, all are made once
//! more, each in a savepoint of its own: SQLite keeps the pages of each beside, and PostgreSQL is asked twice more for each.
//!
//! **Again is harmless.** Each change has a number in its mount's journal, and the row of that journal says which were answered well: the
//! greatest number, and those before it that were refused or left out. A mount that was killed sends what is in its journal once more. Beyond
//! that, a node or content that is there by its own number was made.
//!
//! **Nothing is dropped.** The program that wrote was told long ago that all is well, so a name that is taken by now, a file that somebody
//! else changed and a folder that is gone are no refusals: what was written goes beside it, or to the space's root, and the
//! answer says where. Removals and renames are in [`super::posix_batch_names`]. What is refused (quota, locks) is remembered and can be sent again, and
//! what comes after it for the same nodes and names waits with it.
//!
//! **What it costs.** The space's sums are read and written once, a folder's place is looked for once, its times are written once. A file that is
//! made and written in one batch is made with its content.

use super::chain::child;
use super::contents::{Bytes, insert_as};
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, Fault, refuse};
use super::posix::{self, End, Place, for_change, place, touch};
use super::posix_write::{add_entry, change_attributes, refusal, replace_content};
use super::query as sql;
use super::seam::Link;
use super::state::SpaceState;
use super::tx::Tx;
use crate::catalogue::Guard;
use crate::types::{
    Applied, BATCH_CHANGES_MAX, Batch, Deferred, Durable, GIVEN_MS, HeldUp, NewContent, NewEntry, NodeKind, Posix,
    Rewrite, Special, to_ms,
};
use holdfast_base::{ContentId, Error, ErrorKind, NodeId, NodeName, Result, SpaceId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Names that are tried for what somebody else's stands in the way of.
const NAMES_TRIED_MAX: u32 = 1_000;
/// Refused changes that are remembered of a journal; a mount stops long before.
const MISSED_MAX: usize = 65_536;
/// Journals of a space that are remembered, the latest; each start of a mount begins one.
const JOURNALS_MAX: i64 = 1_024;
/// Numbers that are given out at a time at most.
pub(super) const RESERVED_MAX: u32 = 65_536;

impl<E: Engine> Ops<'_, E> {
    /// On disk before they are used: a journal may survive a power cut that the catalogue's last changes did not.
    pub(super) async fn reserve(&self, count: u32) -> Result<Range<i64>> {
        let work = move |tx: &Tx<'_>| tx.reserve(count.clamp(1, RESERVED_MAX));
        self.0.write("reserve", Scope::Alone, work).await
    }

    pub(super) async fn apply(
        &self,
        space: SpaceId,
        batch: Batch,
        guard: &Guard,
        durable: Durable,
    ) -> Result<Vec<Result<Applied>>> {
        if batch.changes.len() > BATCH_CHANGES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("a batch has {BATCH_CHANGES_MAX} changes at most")));
        }
        let guard = guard.clone();
        let work = move |tx: &Tx<'_>| apply(tx, space, &batch, &guard);
        self.0.submit_when("apply", Scope::Space(space), work, refusal, durable).await
    }
}

/// See [`Catalogue::answered`](crate::Catalogue::answered).
pub(super) fn answered(link: &dyn Link, space: SpaceId, journal: [u8; 16], numbers: &[u64]) -> Done<Vec<bool>> {
    let journal = Journal::found(link, space, journal)?;
    Ok(numbers.iter().map(|number| journal.as_ref().is_some_and(|journal| journal.has(*number))).collect())
}

fn apply(tx: &Tx<'_>, space: SpaceId, batch: &Batch, guard: &Guard) -> Done<Vec<Result<Applied>>> {
    sql::put(tx, "SAVEPOINT batch", ())?;
    if let Some(answers) = attempt(tx, space, batch, guard, false)? {
        sql::put(tx, "RELEASE SAVEPOINT batch", ())?;
        return Ok(answers);
    }
    sql::put(tx, "ROLLBACK TO SAVEPOINT batch", ())?;
    sql::put(tx, "RELEASE SAVEPOINT batch", ())?;
    attempt(tx, space, batch, guard, true)?.ok_or_else(|| Error::internal("a batch was given up twice").into())
}

/// Makes all changes, with `apart` each in a savepoint of its own. Without, the first that is refused leaves none of them well: none then.
fn attempt(
    tx: &Tx<'_>,
    space: SpaceId,
    batch: &Batch,
    guard: &Guard,
    apart: bool,
) -> Done<Option<Vec<Result<Applied>>>> {
    let state = SpaceState::load_for(tx, space, guard)?;
    let mut journal = Journal::load(tx, space, batch.journal, guard.now_ms)?;
    journal.leave_out(&batch.changes.iter().map(|(number, _)| *number).collect())?;
    let (places, touched, held_up) = (HashMap::new(), BTreeMap::new(), HeldUp::default());
    let mut run = Run { tx, guard, state, places, touched, held_up, ids_end: tx.ids_end()? };
    let mut answers: Vec<Option<Result<Applied>>> = batch.changes.iter().map(|_| None).collect();
    for at in 0..batch.changes.len() {
        let (number, change) = &batch.changes[at];
        if answers[at].is_some() {
            continue;
        }
        if journal.has(*number) {
            answers[at] = Some(Ok(Applied::Before));
            continue;
        }
        let with = Run::save_of(&batch.changes, at, &journal);
        let save = with.map(|with| &batch.changes[with].1);
        let answer = if apart {
            run.guarded(change, save)?
        } else {
            match run.whole(change, save) {
                Ok(applied) => Ok(applied),
                Err(Fault::Refused(_)) => return Ok(None),
                Err(fault) => return Err(fault),
            }
        };
        if let Some(with) = with {
            journal.note(batch.changes[with].0, answer.is_ok())?;
            answers[with] = Some(again(&answer));
        }
        journal.note(*number, answer.is_ok())?;
        answers[at] = Some(answer);
    }
    run.touch_all()?;
    run.state.save(tx)?;
    journal.save(tx, guard.now_ms)?;
    Ok(Some(answers.into_iter().flatten().collect()))
}

/// The same answer once more.
fn again(answer: &Result<Applied>) -> Result<Applied> {
    match answer {
        Ok(applied) => Ok(applied.clone()),
        Err(error) => Err(Error::new(error.kind(), error.message().to_owned())),
    }
}

/// What was answered of a journal.
struct Journal {
    id: [u8; 16],
    space: SpaceId,
    /// The greatest number that was answered before this batch.
    before: u64,
    /// The same with this batch.
    last: u64,
    missed: BTreeSet<u64>,
}

impl Journal {
    fn load(tx: &Tx<'_>, space: SpaceId, id: [u8; 16], now_ms: i64) -> Done<Self> {
        if let Some(found) = Self::found(tx, space, id)? {
            return Ok(found);
        }
        let sql = "DELETE FROM journal WHERE space_id = ?1 AND seen_ms < ?2";
        sql::put(tx, sql, (space.0, now_ms.saturating_sub(GIVEN_MS)))?;
        let sql = "DELETE FROM journal WHERE space_id = ?1 AND seen_ms <= (SELECT seen_ms FROM journal WHERE space_id = ?1 \
                   ORDER BY seen_ms DESC LIMIT 1 OFFSET ?2)";
        sql::put(tx, sql, (space.0, JOURNALS_MAX))?;
        Ok(Self { id, space, before: 0, last: 0, missed: BTreeSet::new() })
    }

    fn found(link: &dyn Link, space: SpaceId, id: [u8; 16]) -> Done<Option<Self>> {
        let sql = "SELECT last, missed FROM journal WHERE id = ?1 AND space_id = ?2";
        sql::first(link, sql, (&id, space.0), |row| {
            let (last, missed) = (row.get::<u64>(0)?, row.get::<Vec<u8>>(1)?);
            let (numbers, _) = missed.as_chunks::<8>();
            let missed = numbers.iter().map(|number| u64::from_le_bytes(*number)).collect();
            Ok(Self { id, space, before: last, last, missed })
        })
    }

    /// Numbers follow one another, so those that are left out come later.
    fn leave_out(&mut self, numbers: &BTreeSet<u64>) -> Done<()> {
        let last = numbers.last().copied().unwrap_or(0);
        if last.saturating_sub(self.before) > MISSED_MAX as u64 {
            return refuse(ErrorKind::InvalidInput, "too many numbers of a journal are left out");
        }
        self.missed.extend((self.before + 1..=last).filter(|number| !numbers.contains(number)));
        Ok(())
    }

    fn has(&self, number: u64) -> bool {
        number <= self.before && !self.missed.contains(&number)
    }

    fn note(&mut self, number: u64, well: bool) -> Done<()> {
        self.last = self.last.max(number);
        if well {
            self.missed.remove(&number);
        } else {
            self.missed.insert(number);
        }
        if self.missed.len() > MISSED_MAX {
            return refuse(ErrorKind::TooLarge, "too many changes of this mount were refused");
        }
        Ok(())
    }

    fn save(&self, tx: &Tx<'_>, now_ms: i64) -> Done<()> {
        let missed: Vec<u8> = self.missed.iter().flat_map(|number| number.to_le_bytes()).collect();
        let last = i64::try_from(self.last).unwrap_or(i64::MAX);
        let sql = "INSERT INTO journal (id, space_id, last, missed, seen_ms) VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT (id) DO UPDATE SET last = excluded.last, missed = excluded.missed, seen_ms = excluded.seen_ms";
        sql::put(tx, sql, (&self.id, self.space.0, last, &missed, now_ms))
    }
}

/// A batch on its way.
pub(super) struct Run<'t, 'c> {
    pub(super) tx: &'t Tx<'c>,
    pub(super) guard: &'t Guard,
    pub(super) state: SpaceState,
    /// Folders that were found in the tree.
    pub(super) places: HashMap<NodeId, Place>,
    /// Folders whose members changed, and when.
    touched: BTreeMap<NodeId, i64>,
    /// What must wait for what was refused.
    held_up: HeldUp,
    /// No number from here on was given out.
    ids_end: i64,
}

impl Run<'_, '_> {
    /// The change that gives a file, which change `at` makes, its first content, if nothing else is done to the file before.
    fn save_of(changes: &[(u64, Deferred)], at: usize, journal: &Journal) -> Option<usize> {
        let Deferred::Create { id, new, .. } = &changes[at].1 else { return None };
        if new.kind != NodeKind::File || new.posix.special != Special::None || new.content != NewContent::Empty {
            return None;
        }
        let later = |change: &(u64, Deferred)| change.1.node() == *id;
        let with = at + 1 + changes[at + 1..].iter().position(later)?;
        let (number, Deferred::Save { rewrite, .. }) = &changes[with] else { return None };
        (rewrite.base.is_none() && !journal.has(*number)).then_some(with)
    }

    /// Makes a change, or leaves no trace of it.
    fn guarded(&mut self, change: &Deferred, save: Option<&Deferred>) -> Done<Result<Applied>> {
        if self.held_up.holds_up(change) {
            self.held_up.add(change);
            let message = "a change before this one was refused";
            return Ok(Err(Error::new(ErrorKind::Unavailable, message)));
        }
        let before = (self.state.clone(), self.touched.clone());
        sql::put(self.tx, "SAVEPOINT change", ())?;
        match self.whole(change, save) {
            Ok(applied) => {
                sql::put(self.tx, "RELEASE SAVEPOINT change", ())?;
                Ok(Ok(applied))
            }
            Err(Fault::Refused(error)) => {
                sql::put(self.tx, "ROLLBACK TO SAVEPOINT change", ())?;
                sql::put(self.tx, "RELEASE SAVEPOINT change", ())?;
                (self.state, self.touched) = before;
                if !change.is_pointless(error.kind()) {
                    self.held_up.add(change);
                }
                Ok(Err(*error))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Makes a change, if there is room for it.
    fn whole(&mut self, change: &Deferred, save: Option<&Deferred>) -> Done<Applied> {
        let applied = self.one(change, save)?;
        self.state.admit(self.tx)?;
        Ok(applied)
    }

    fn one(&mut self, change: &Deferred, save: Option<&Deferred>) -> Done<Applied> {
        match change {
            Deferred::Create { id, new, content_id } => {
                self.refuse_number(id.0)?;
                // Nearly always there is none: without bonds in the space, that is one question.
                let there = match posix::by_node(self.tx, self.state.id, *id)? {
                    None if self.state.bonds => posix::by_bond(self.tx, self.state.id, *id)?,
                    there => there,
                };
                match (there, save) {
                    (None, Some(Deferred::Save { rewrite, content_id, .. })) => {
                        let made = new;
                        let new = NewEntry { posix: as_saved(rewrite), ..made.clone() };
                        let made_ns = made.posix.ctime_ns;
                        self.create(*id, &new, (&rewrite.content, *content_id), made_ns)
                    }
                    (None, _) => self.create(*id, new, (&new.content, *content_id), new.posix.ctime_ns),
                    (Some(_), Some(save)) => self.one(save, None),
                    (Some(entry), None) => Ok(Applied::Made(entry)),
                }
            }
            Deferred::Save { rewrite, content_id, at } => self.save(rewrite, *content_id, at),
            Deferred::Attributes { node, change, usual } => {
                self.touch_all()?;
                change_attributes(self.tx, &mut self.state, *node, change, usual, self.guard).map(Applied::Made)
            }
            Deferred::Unlink { unlink, node, content } => self.unlink(unlink, *node, *content),
            Deferred::Rename { rename, node, other } => self.rename(rename, *node, *other),
            Deferred::Passed { node, folder, now_ns } => {
                if self.find_place(*folder)? {
                    self.touch(*folder, *now_ns);
                }
                Ok(Applied::Gone(*node))
            }
        }
    }

    fn create(&mut self, id: NodeId, new: &NewEntry, content: (&NewContent, ContentId), made_ns: i64) -> Done<Applied> {
        let (bytes, (new, aside)) = (self.content(content)?, self.free_place(new, 1)?);
        let entry = add_entry(self.tx, &mut self.state, id, &new, bytes, to_ms(made_ns))?;
        self.touch(new.parent, new.posix.ctime_ns);
        Ok(if aside { Applied::Aside(entry) } else { Applied::Made(entry) })
    }

    fn save(&mut self, rewrite: &Rewrite, content_id: ContentId, at: &(NodeId, NodeName)) -> Done<Applied> {
        let old = match for_change(self.tx, &mut self.state, rewrite.node, self.guard) {
            Ok(old) => Some(old),
            Err(Fault::Refused(error)) if error.kind() == ErrorKind::NotFound => None,
            Err(fault) => return Err(fault),
        };
        let is_made = |content: Option<ContentId>| rewrite.content != NewContent::Empty && content == Some(content_id);
        let (parent, name) = match old {
            Some(old) if is_made(old.node.content) => return Ok(Applied::Made(old)),
            Some(old) if old.node.kind == NodeKind::File && old.node.content == rewrite.base => {
                let bytes = self.content((&rewrite.content, content_id))?;
                let (tx, guard) = (self.tx, self.guard);
                return replace_content(tx, &mut self.state, old, rewrite, bytes, guard).map(Applied::Made);
            }
            Some(old) => (old.node.parent.unwrap_or(at.0), NodeName::new(&old.node.name)?),
            None => at.clone(),
        };
        if rewrite.content != NewContent::Empty && self.is_content(content_id)? {
            // It was saved, and changed again since, by a journal that nobody remembers.
            return Ok(Applied::Before);
        }
        let content = NewContent::Empty;
        let new = NewEntry { parent, name, kind: NodeKind::File, posix: as_saved(rewrite), content };
        let (bytes, (new, _)) = (self.content((&rewrite.content, content_id))?, self.free_place(&new, 2)?);
        let id = NodeId(self.tx.new_id()?);
        let entry = add_entry(self.tx, &mut self.state, id, &new, bytes, to_ms(new.posix.ctime_ns))?;
        self.touch(new.parent, new.posix.ctime_ns);
        Ok(Applied::Aside(entry))
    }

    fn content(&mut self, (content, id): (&NewContent, ContentId)) -> Done<Bytes> {
        if *content != NewContent::Empty {
            self.refuse_number(id.0)?;
        }
        match insert_as(self.tx, &mut self.state, content, id) {
            Err(Fault::Missing(_)) => refuse(ErrorKind::InvalidInput, "the content has blocks that were not written"),
            inserted => inserted,
        }
    }

    fn is_content(&self, id: ContentId) -> Done<bool> {
        let sql = "SELECT 1 FROM content WHERE id = ?1 AND space_id = ?2";
        Ok(sql::first(self.tx, sql, (id.0, self.state.id.0), |_| Ok(()))?.is_some())
    }

    fn refuse_number(&self, id: i64) -> Done<()> {
        if id <= 0 || id >= self.ids_end {
            return refuse(ErrorKind::InvalidInput, format!("number {id} was not reserved"));
        }
        Ok(())
    }

    /// The node with a place that is free, and whether that is another than it was to have. Names are tried from number `from` on.
    fn free_place(&mut self, new: &NewEntry, from: u32) -> Done<(NewEntry, bool)> {
        let (mut new, mut aside) = (new.clone(), from > 1);
        if !self.find_place(new.parent)? {
            new.parent = NodeId(self.state.root);
            aside = true;
            if !self.find_place(new.parent)? {
                return Err(Error::damaged("a space has no root folder").into());
            }
        }
        let number;
        (new.name, number) = self.free_name(new.parent, &new.name, from)?;
        self.end(new.parent, &new.name)?.found(self.tx, &mut self.state, None, self.guard)?;
        Ok((new, aside || number > 1))
    }

    /// A name like this one that is free, and its number; numbers are tried from `from` on.
    pub(super) fn free_name(&self, folder: NodeId, name: &NodeName, from: u32) -> Done<(NodeName, u32)> {
        for number in from..NAMES_TRIED_MAX {
            let tried = if number > 1 { name.numbered(number) } else { name.clone() };
            if child(self.tx, folder.0, tried.as_str())?.is_none() {
                return Ok((tried, number));
            }
        }
        refuse(ErrorKind::Conflict, format!("no name like {name} is free"))
    }

    /// A name in a folder that was looked for.
    pub(super) fn end(&self, folder: NodeId, name: &NodeName) -> Done<End> {
        let place = self.places.get(&folder).cloned();
        End::at(place.ok_or_else(|| Error::internal("a folder was not looked for"))?, name)
    }

    /// Whether a folder is in the tree.
    pub(super) fn find_place(&mut self, folder: NodeId) -> Done<bool> {
        if self.places.contains_key(&folder) {
            return Ok(true);
        }
        match place(self.tx, &self.state, folder) {
            Ok(place) => {
                self.places.insert(folder, place);
                Ok(true)
            }
            Err(Fault::Refused(error)) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WrongKind) => {
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }

    pub(super) fn touch(&mut self, folder: NodeId, now_ns: i64) {
        let latest = self.touched.entry(folder).or_insert(now_ns);
        *latest = now_ns.max(*latest);
    }

    pub(super) fn touch_all(&mut self) -> Done<()> {
        std::mem::take(&mut self.touched).into_iter().try_for_each(|(folder, now_ns)| touch(self.tx, folder, now_ns))
    }
}

/// The attributes of a file that is made and saved.
const fn as_saved(rewrite: &Rewrite) -> Posix {
    Posix { xattrs: 0, special: Special::None, ..rewrite.posix }
}
