//! What mounts before this left in their journals: see [`super::journal`].

use super::frame::{self, Frame};
use super::journal::{HEADER_BYTES, MAGIC, MAGICS_BEFORE, SEGMENT_BYTES, files, is_of_this_boot};
use holdfast_base::{Error, Result};
use holdfast_drive::{BATCH_CHANGES_MAX, Deferred, NewContent};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A journal that nobody writes any more.
pub(super) struct Left {
    /// Its name.
    pub(super) id: [u8; 16],
    pub(super) changes: Vec<(u64, Deferred)>,
    files: Vec<PathBuf>,
    /// Where a mark says how often the space had changed.
    marks: Vec<(i64, Place)>,
    /// Changes with content that may be lost, by how many changes are before each.
    contents: BTreeMap<usize, Place>,
    /// The first number that is missing, if any is.
    missing: Option<u64>,
    /// Changes that were found behind it.
    behind: u64,
    /// A sync had covered what is missing.
    damaged: bool,
}

/// Where a frame is.
#[derive(Clone, Copy)]
struct Place {
    /// How many changes are before it.
    changes: usize,
    /// In which of the files, and where in it.
    file: usize,
    offset: u64,
}

/// One file.
struct Part {
    id: [u8; 16],
    frames: Vec<(u64, Frame)>,
    /// What is behind the last frame that is whole and sound.
    rest: Vec<u8>,
}

/// What there is in a folder, oldest first.
pub(super) fn left_in(folder: &Path) -> Result<Vec<Left>> {
    let mut all: Vec<Left> = Vec::new();
    for (_, path) in files(folder)? {
        let Some(part) = read(&path)? else { continue };
        if all.last().is_none_or(|left| left.id != part.id) {
            all.push(Left::new(part.id));
        }
        if let Some(left) = all.last_mut() {
            left.take(path, part);
        }
    }
    all.iter().try_for_each(Left::tell)?;
    Ok(all)
}

impl Left {
    fn new(id: [u8; 16]) -> Self {
        let (changes, files, marks, contents) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
        Self { id, changes, files, marks, contents, missing: None, behind: 0, damaged: false }
    }

    fn take(&mut self, path: PathBuf, part: Part) {
        for (offset, frame) in part.frames {
            let place = Place { changes: self.changes.len(), file: self.files.len(), offset };
            match frame {
                Frame::Change(number, change) if self.missing.is_none() && self.is_next(number) => {
                    if content_in_blocks(&change).is_some() {
                        self.contents.insert(place.changes, place);
                    }
                    self.changes.push((number, change));
                }
                Frame::Mark(_, frame::Mark { seq: Some(seq), .. }) if self.missing.is_none() => {
                    self.marks.push((seq, place));
                }
                other => self.is_behind(&other),
            }
        }
        self.files.push(path);
        if part.rest.is_empty() {
            return;
        }
        self.missing.get_or_insert(self.changes.last().map_or(1, |(last, _)| last + 1));
        for at in 1..part.rest.len() {
            if let Some((frame, _)) = frame::read(&part.rest[at..]) {
                self.is_behind(&frame);
            }
        }
    }

    fn is_next(&self, number: u64) -> bool {
        self.changes.last().is_none_or(|(last, _)| number == last + 1)
    }

    /// A frame that is not to be used.
    fn is_behind(&mut self, frame: &Frame) {
        match frame {
            Frame::Change(number, _) => {
                let last = self.changes.last().map_or(0, |(last, _)| *last);
                // What is older was there before the file was written anew.
                if *number > last {
                    self.missing.get_or_insert(last + 1);
                    self.behind += 1;
                }
            }
            Frame::Mark(_, mark) => self.damaged |= self.missing.is_some_and(|missing| mark.synced >= missing),
        }
    }

    /// Says what is missing.
    fn tell(&self) -> Result<()> {
        let behind = self.behind;
        if self.damaged || (behind > 0 && is_of_this_boot(self.id)) {
            self.keep_aside(
                "a part of the mount's journal that was on disk is damaged: what comes after it is kept aside",
            )?;
        } else if behind > 0 {
            tracing::info!(behind, "the end of the mount's journal was not on disk when the machine went down");
        }
        Ok(())
    }

    fn keep_aside(&self, why: &str) -> Result<()> {
        for file in &self.files {
            tracing::error!(file = %file.display(), "{why}");
            let aside = file.with_extension("damaged");
            let kept = fs::copy(file, &aside).and_then(|_| File::open(&aside)?.sync_all());
            kept.map_err(|error| Error::from(error).context(format!("keep {}", aside.display())))?;
        }
        let folder = self.files.first().and_then(|file| file.parent());
        Ok(folder.map_or(Ok(()), |folder| File::open(folder)?.sync_all())?)
    }

    /// Forgets what came after something that the catalogue, whose count of the space's changes is `seq`, has lost.
    pub(super) fn cut(&mut self, seq: Option<i64>) -> Result<()> {
        let lost = self.marks.iter().find(|(at, _)| seq.is_some_and(|seq| *at > seq));
        let Some((_, place)) = lost.copied() else { return Ok(()) };
        tracing::info!(
            changes = self.changes.len() - place.changes,
            "what the catalogue had not on disk when the machine went down takes what came after it with it"
        );
        self.cut_at(place)
    }

    /// Forgets a change of which the blocks are not as they were written, and what came after it.
    pub(super) fn cut_content(&mut self, changes: usize) -> Result<()> {
        let place = self.contents.get(&changes).copied();
        let place = place.ok_or_else(|| Error::internal("a change has no content in blocks"))?;
        if is_of_this_boot(self.id) {
            self.keep_aside("content that the mount's journal names is damaged: what names it, and what comes after it, is kept aside")?;
        } else {
            tracing::info!(
                changes = self.changes.len() - changes,
                "content that was not on disk when the machine went down takes what came after it with it"
            );
        }
        self.cut_at(place)
    }

    fn cut_at(&mut self, Place { changes, file, offset }: Place) -> Result<()> {
        // Before anything is handed over: that counts.
        let path = &self.files[file];
        let written = File::options().write(true).open(path)?;
        written.set_len(offset)?;
        written.sync_all()?;
        self.files[file + 1..].iter().try_for_each(fs::remove_file)?;
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        self.changes.truncate(changes);
        self.marks.retain(|(_, place)| (place.file, place.offset) < (file, offset));
        self.contents.retain(|before, _| *before < changes);
        self.files.truncate(file + 1);
        Ok(())
    }

    /// Removes its files: everything in them is elsewhere.
    pub(super) fn remove(self) -> Result<()> {
        self.files.iter().try_for_each(fs::remove_file).map_err(Error::from)
    }
}

/// The content that a change gives, if that is in blocks.
pub(super) const fn content_in_blocks(change: &Deferred) -> Option<&NewContent> {
    match change {
        Deferred::Save { rewrite, .. } if matches!(rewrite.content, NewContent::Blocks { .. }) => {
            Some(&rewrite.content)
        }
        _ => None,
    }
}

/// Bytes of that in plain.
pub(super) const fn bytes_in_blocks(change: &Deferred) -> u64 {
    match content_in_blocks(change) {
        Some(NewContent::Blocks { size, .. }) => *size,
        _ => 0,
    }
}

/// How many of these changes go into a batch: at least one, if there are any, up to so many, and up to so many bytes of content in blocks, since what comes
/// after more than that would be long in coming.
pub(super) fn batch_of<'c>(changes: impl Iterator<Item = &'c (u64, Deferred)>, bytes_max: u64) -> usize {
    let mut bytes = 0_u64;
    let fits = |(at, (_, change)): &(usize, &(u64, Deferred))| {
        bytes = bytes.saturating_add(bytes_in_blocks(change));
        *at == 0 || bytes <= bytes_max
    };
    changes.take(BATCH_CHANGES_MAX).enumerate().take_while(fits).count()
}

/// Reads one file. One that is nothing to us is set aside.
fn read(path: &Path) -> Result<Option<Part>> {
    let mut bytes = Vec::new();
    // One frame may go beyond a file's bound; what is longer was not written here.
    File::open(path)?.take(2 * SEGMENT_BYTES).read_to_end(&mut bytes)?;
    let is_ours = bytes.starts_with(&MAGIC) || MAGICS_BEFORE.iter().any(|magic| bytes.starts_with(magic));
    let id = bytes.get(8..24).filter(|_| is_ours).and_then(|id| <[u8; 16]>::try_from(id).ok());
    let Some(id) = id else {
        if bytes.len() < 24 || bytes.iter().all(|byte| *byte == 0) {
            // The machine went down while it was begun.
            fs::remove_file(path)?;
        } else {
            tracing::error!(file = %path.display(), "this is no journal of a mount that this program can read: it is set aside");
            fs::rename(path, path.with_extension("damaged"))?;
        }
        return Ok(None);
    };
    let (mut offset, mut rest) = (HEADER_BYTES, &bytes[24..]);
    let mut frames = Vec::new();
    while let Some((frame, length)) = frame::read(rest) {
        frames.push((offset, frame));
        offset += length as u64;
        rest = &rest[length..];
    }
    Ok(Some(Part { id, frames, rest: rest.to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::super::journal::{Journal, name_of};
    use super::*;
    use holdfast_base::NodeId;
    use holdfast_drive::{NewAttributes, Posix};

    fn change(node: i64) -> Deferred {
        let change = NewAttributes { mode: Some(0o600), ..NewAttributes::default() };
        Deferred::Attributes { node: NodeId(node), change, usual: Posix::default() }
    }

    fn numbers_of(left: &[Left]) -> Vec<Vec<u64>> {
        left.iter().map(|left| left.changes.iter().map(|(number, _)| *number).collect()).collect()
    }

    fn numbers(folder: &Path) -> Vec<Vec<u64>> {
        numbers_of(&left_in(folder).expect("reads"))
    }

    fn begin(folder: &Path, id: u8) -> Journal {
        Journal::begin(folder, [id; 16]).expect("begins")
    }

    /// Changes a byte in the middle of the frames.
    fn spoil(path: &Path) {
        let mut bytes = fs::read(path).expect("reads");
        let middle = 24 + (bytes.len() - 24) / 2;
        bytes[middle] ^= 1;
        fs::write(path, &bytes).expect("writes");
    }

    #[test]
    fn what_was_appended_is_there_and_a_torn_end_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = begin(folder.path(), 7);
        for node in 1..=3 {
            assert_eq!(journal.append(&change(node)).expect("appends"), node.unsigned_abs());
        }
        assert_eq!(numbers(folder.path()), [[1, 2, 3]]);
        let whole = fs::read(journal.path()).expect("reads");
        for cut in [1, 10, whole.len() / 4] {
            fs::write(journal.path(), &whole[..whole.len() - cut]).expect("writes");
            assert_eq!(numbers(folder.path()), [[1, 2]]);
        }
        let mut torn = whole.clone();
        let last = torn.len() - 5;
        torn[last] ^= 1;
        fs::write(journal.path(), &torn).expect("writes");
        assert_eq!(numbers(folder.path()), [[1, 2]]);
        for before in MAGICS_BEFORE {
            let mut old = whole.clone();
            old[..8].copy_from_slice(&before);
            fs::write(journal.path(), &old).expect("writes");
            assert_eq!(numbers(folder.path()), [[1, 2, 3]]);
        }
    }

    #[test]
    fn what_comes_behind_a_hole_goes_with_it_and_is_kept_aside_unless_a_power_cut_leaves_such_holes() {
        for (synced, this_boot) in [(false, false), (true, false), (false, true)] {
            let folder = tempfile::tempdir().expect("a folder");
            let name = if this_boot { name_of(&(7..9)) } else { [7; 16] };
            let mut journal = Journal::begin(folder.path(), name).expect("begins");
            for node in 1..=4 {
                journal.append(&change(node)).expect("appends");
            }
            if synced {
                journal.sync().expect("syncs");
            }
            let first = journal.path().to_owned();
            journal.append(&change(5)).expect("appends");
            // And so does the file after it.
            journal.fill();
            journal.append(&change(6)).expect("appends");
            assert_eq!(numbers(folder.path()), [[1, 2, 3, 4, 5, 6]]);
            spoil(&first);
            let found = numbers(folder.path());
            assert!(found[0].len() < 4 && found[0].iter().zip(1..).all(|(it, number)| *it == number), "{found:?}");
            let is_aside = first.with_extension("damaged").exists();
            assert_eq!(is_aside, synced || this_boot, "of the rest, that is what a power cut leaves");
        }
    }

    #[test]
    fn frames_of_before_the_file_was_written_anew_are_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = begin(folder.path(), 7);
        for node in 1..=9 {
            journal.append(&change(node)).expect("appends");
        }
        let old = fs::read(journal.path()).expect("reads");
        journal.retire(9).expect("retires");
        journal.append(&change(10)).expect("appends");
        journal.append(&change(11)).expect("appends");
        let new = fs::read(journal.path()).expect("reads");
        // Its being cut off was lost.
        fs::write(journal.path(), [&new[..], &old[new.len()..]].concat()).expect("writes");
        assert_eq!(numbers(folder.path()), [[10, 11]]);
    }

    #[test]
    fn what_came_after_something_that_the_catalogue_lost_goes_for_good() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = begin(folder.path(), 7);
        journal.append(&change(1)).expect("appends");
        journal.after(100);
        journal.after(90);
        journal.append(&change(2)).expect("appends");
        journal.fill();
        journal.append(&change(3)).expect("appends");
        journal.after(200);
        journal.append(&change(4)).expect("appends");
        for (seq, expected) in [
            (None, vec![1, 2, 3, 4]),
            (Some(200), vec![1, 2, 3, 4]),
            (Some(199), vec![1, 2, 3]),
            (Some(200), vec![1, 2, 3]),
            (Some(99), vec![1]),
            (Some(100), vec![1]),
        ] {
            let mut left = left_in(folder.path()).expect("reads");
            left[0].cut(seq).expect("cuts");
            assert_eq!(numbers_of(&left).concat(), expected);
            assert_eq!(numbers(folder.path()).concat(), expected, "and on disk");
        }
        left_in(folder.path()).expect("reads").remove(0).remove().expect("removes");
        assert!(numbers(folder.path()).is_empty());
    }

    #[test]
    fn files_go_when_the_catalogue_has_what_is_in_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = begin(folder.path(), 7);
        journal.append(&change(1)).expect("appends");
        journal.fill();
        journal.append(&change(2)).expect("appends");
        journal.append(&change(3)).expect("appends");
        assert_eq!((files(folder.path()).expect("reads").len(), journal.full()), (2, 1));
        assert_eq!(numbers(folder.path()), [[1, 2, 3]]);
        journal.retire(2).expect("retires");
        assert_eq!(numbers(folder.path()), [[2, 3]], "what is not done stays");
        journal.retire(3).expect("retires");
        assert!(numbers(folder.path()).concat().is_empty());
        assert_eq!(journal.bytes(), HEADER_BYTES);
        assert_eq!(journal.append(&change(4)).expect("appends"), 4);
        drop(journal);
        let mut next = begin(folder.path(), 8);
        next.append(&change(1)).expect("appends");
        let mut left = left_in(folder.path()).expect("reads");
        assert_eq!(left.iter().map(|left| (left.id[0], left.changes.len())).collect::<Vec<_>>(), [(7, 1), (8, 1)]);
        left.remove(0).remove().expect("removes");
        assert_eq!(numbers(folder.path()), [[1]]);
        fs::write(folder.path().join("journal-0000000099"), "something else, and long enough").expect("writes");
        assert_eq!(numbers(folder.path()), [[1]]);
        assert!(folder.path().join("journal-0000000099.damaged").exists());
    }
}
