//! What was written to a file and is not saved yet, over the content it had.
//!
//! Pages of [`PAGE_BYTES`], each whole once it is there: a write to a part of a page that the old content reaches into is preceded by
//! reading that ([`Overlay::wants`], [`Overlay::fill`]). So a page never has to be put together when it is read, and a file written
//! from its beginning reads nothing. Bytes beyond a page's end, and beyond what is left of the old content, are zero.
//!
//! Pages are in memory until all files together have more than their share; then a file that is written to gives its own to the
//! scratch file, but for the one it writes to.
//!
//! A block of whole pages may be sealed before the file is saved ([`Overlay::begin_ahead`]). Once it is, its pages are gone and it is read from where it
//! was put; a write to a part of it is preceded by having it back ([`Overlay::sealed_in`], [`Overlay::put_back`]).

use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, Result};
use holdfast_drive::scratch::{PAGE_BYTES, Scratch, ScratchPage};
use holdfast_drive::{LeftOut, SealedAhead};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const PAGE: u64 = PAGE_BYTES as u64;
const BLOCK: u64 = BLOCK_BYTES as u64;
const PAGES_PER_BLOCK: u64 = BLOCK / PAGE;

/// Changes of all files so far: no two have one number.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Memory and disk for pages, shared by all files of a mount.
#[derive(Clone)]
pub(crate) struct Room {
    used: Arc<AtomicUsize>,
    bytes_max: usize,
    scratch: Scratch,
}

impl Room {
    /// So many bytes in memory, the rest in the file.
    pub(crate) fn new(bytes_max: usize, scratch: Scratch) -> Self {
        Self { used: Arc::default(), bytes_max, scratch }
    }

    fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.bytes_max
    }
}

/// A page in memory; its bytes are counted while it is there.
struct Memory {
    bytes: Vec<u8>,
    room: Room,
}

impl Memory {
    fn new(bytes: Vec<u8>, room: &Room) -> Self {
        room.used.fetch_add(PAGE_BYTES, Ordering::Relaxed);
        Self { bytes, room: room.clone() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.room.used.fetch_sub(PAGE_BYTES, Ordering::Relaxed);
    }
}

/// A page that somebody reads: who writes to it meanwhile makes a copy ([`Overlay::page`]).
struct Shared(Arc<Memory>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

#[derive(Clone)]
enum Page {
    Memory(Arc<Memory>),
    Aside(Arc<ScratchPage>),
}

/// A block that is sealed before the file is saved.
#[derive(Clone)]
enum Ahead<S> {
    /// It is being sealed, and its pages are here. The number tells it from one that was begun at this place before.
    UnderWay(u64),
    /// It is sealed, and its pages are gone.
    Sealed(S),
}

/// A part of what is read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<S = SealedAhead> {
    /// These bytes.
    Bytes(Bytes),
    /// These of the old content.
    Base(ByteRange),
    /// These of a block that was sealed ahead.
    Ahead(S, Range<usize>),
    /// So many zeros.
    Zeros(u64),
}

/// What a part of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// It was written and is not saved.
    Written,
    /// The old content.
    Base,
    /// Nobody wrote it.
    Zeros,
}

/// A file's unsaved content. A clone is what it is at that moment, and costs little.
#[derive(Clone)]
pub(crate) struct Overlay<S = SealedAhead> {
    room: Room,
    size: u64,
    /// Bytes of the old content that still count.
    base_bytes: u64,
    pages: BTreeMap<u64, Page>,
    ahead: BTreeMap<u64, Ahead<S>>,
    /// Blocks that are sealed.
    sealed_blocks: u64,
    /// Blocks that were begun to be sealed so far.
    begun: u64,
    /// The number of the last change; none if there is nothing to be saved.
    change: Option<u64>,
}

impl<S: Clone> Overlay<S> {
    /// Over a content of so many bytes.
    pub(crate) fn new(size: u64, room: Room) -> Self {
        let (pages, ahead) = (BTreeMap::new(), BTreeMap::new());
        Self { room, size, base_bytes: size, pages, ahead, sealed_blocks: 0, begun: 0, change: None }
    }

    /// Bytes of the file.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that were written, in whole pages.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE + self.sealed_blocks * BLOCK
    }

    /// Whether there is anything to be saved.
    pub(crate) const fn is_changed(&self) -> bool {
        self.change.is_some()
    }

    /// The number of the last change of what is in it: with the same number, it is the same.
    pub(crate) const fn change(&self) -> Option<u64> {
        self.change
    }

    fn changes(&mut self) {
        self.change = Some(CHANGES.fetch_add(1, Ordering::Relaxed));
    }

    /// All of it, if that is one page in memory.
    pub(crate) fn whole(&self) -> Option<impl AsRef<[u8]> + use<S>> {
        match self.pages.get(&0) {
            Some(Page::Memory(memory)) if memory.bytes.len() as u64 == self.size => Some(Shared(memory.clone())),
            _ => None,
        }
    }

    /// Pages that have to be filled before bytes `offset..offset + length` are written, each with the range of the old content that it
    /// takes.
    pub(crate) fn wants(&self, offset: u64, length: u64) -> Vec<(u64, ByteRange)> {
        let end = offset + length;
        let touched = if length == 0 { 0..0 } else { offset / PAGE..end.div_ceil(PAGE) };
        let wanted = touched.filter(|index| !self.pages.contains_key(index)).filter_map(|index| {
            let base = self.base_of(index);
            let covered = offset <= base.start && end >= base.end;
            (!base.is_empty() && !covered).then_some((index, base))
        });
        wanted.collect()
    }

    /// The old content's part of a page.
    const fn base_of(&self, index: u64) -> ByteRange {
        let start = index * PAGE;
        let end = if start + PAGE < self.base_bytes { start + PAGE } else { self.base_bytes };
        if end > start { ByteRange { start, end } } else { ByteRange { start, end: start } }
    }

    /// Fills a page with what it wanted.
    pub(crate) fn fill(&mut self, index: u64, bytes: Vec<u8>) {
        self.pages.insert(index, Page::Memory(Arc::new(Memory::new(bytes, &self.room))));
    }

    /// Writes; pages that wanted it were filled.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        if data.is_empty() {
            // Nothing, beyond the end too (POSIX, write()).
            return Ok(());
        }
        let mut at = offset;
        let mut left = data;
        while !left.is_empty() {
            let (index, start) = (at / PAGE, (at % PAGE) as usize);
            let (now, later) = left.split_at(left.len().min(PAGE_BYTES - start));
            let page = self.page(index)?;
            if page.len() < start {
                page.resize(start, 0);
            }
            let over = page.len().min(start + now.len()) - start;
            page[start..start + over].copy_from_slice(&now[..over]);
            page.extend_from_slice(&now[over..]);
            at += now.len() as u64;
            left = later;
        }
        self.size = self.size.max(at);
        self.changes();
        self.make_room(at.saturating_sub(1) / PAGE)
    }

    /// A page to be written to, in memory.
    fn page(&mut self, index: u64) -> Result<&mut Vec<u8>> {
        // What is being sealed of its block is no longer what is to be saved.
        if let Some(Ahead::Sealed(_)) = self.ahead.remove(&(index / PAGES_PER_BLOCK)) {
            return Err(holdfast_base::Error::internal("a block is written to that was sealed"));
        }
        let room = self.room.clone();
        let page = self.pages.entry(index).or_insert_with(|| Page::Memory(Arc::new(Memory::new(Vec::new(), &room))));
        let bytes = match page {
            Page::Aside(aside) => Some(aside.get()?),
            // A clone of the overlay has it, too.
            Page::Memory(memory) if Arc::strong_count(memory) > 1 => Some(memory.bytes.clone()),
            Page::Memory(_) => None,
        };
        if let Some(bytes) = bytes {
            *page = Page::Memory(Arc::new(Memory::new(bytes, &room)));
        }
        match page {
            Page::Memory(memory) => Arc::get_mut(memory).map(|memory| &mut memory.bytes),
            Page::Aside(_) => None,
        }
        .ok_or_else(|| holdfast_base::Error::internal("a page is in use"))
    }

    /// Gives pages to the scratch file if there is too much in memory, but for page `last`.
    fn make_room(&mut self, last: u64) -> Result<()> {
        if !self.room.is_full() {
            return Ok(());
        }
        let scratch = self.room.scratch.clone();
        for (_, page) in self.pages.iter_mut().filter(|(index, _)| **index != last) {
            if let Page::Memory(memory) = page {
                *page = Page::Aside(Arc::new(scratch.put(&memory.bytes)?));
            }
        }
        Ok(())
    }

    /// Cuts the file off, or lengthens it with zeros.
    pub(crate) fn truncate(&mut self, size: u64) -> Result<()> {
        if size == self.size {
            return Ok(());
        }
        if size < self.size {
            drop(self.pages.split_off(&size.div_ceil(PAGE)));
            let gone = self.ahead.split_off(&(size / BLOCK));
            self.sealed_blocks -= gone.values().filter(|ahead| matches!(ahead, Ahead::Sealed(_))).count() as u64;
            if !size.is_multiple_of(PAGE) && self.pages.contains_key(&(size / PAGE)) {
                self.page(size / PAGE)?.truncate((size % PAGE) as usize);
            }
            self.base_bytes = self.base_bytes.min(size);
        }
        self.size = size;
        self.changes();
        Ok(())
    }

    /// What of a range of the file need not be sent: whole blocks that nobody wrote to. With none that stay, unless the old content is made of blocks.
    pub(crate) fn left_out(&self, range: ByteRange, of_blocks: bool) -> LeftOut {
        let first = range.start.div_ceil(BLOCK);
        let stay_end = if of_blocks { range.end.min(self.base_bytes) / BLOCK } else { 0 };
        let zeros = self.base_bytes.div_ceil(BLOCK).max(first)..range.end / BLOCK;
        LeftOut { stay: self.untouched(first..stay_end), zeros: self.untouched(zeros) }
    }

    /// Those of these blocks that nobody wrote to, [`LeftOut::RANGES_MAX`] ranges at most.
    fn untouched(&self, Range { start: mut at, end }: Range<u64>) -> Vec<Range<u64>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        while at < end && found.len() < LeftOut::RANGES_MAX {
            let page = self.pages.range(at * PAGES_PER_BLOCK..).next().map_or(end, |(page, _)| page / PAGES_PER_BLOCK);
            let sealed = self.ahead.range(at..).next().map_or(end, |(block, _)| *block);
            let touched = page.min(sealed).min(end);
            if touched > at {
                found.push(at..touched);
            }
            at = touched + 1;
        }
        found
    }

    /// Begins to seal a block, if it is whole, in memory, and not being sealed: answers a number for it, and what is in it.
    pub(crate) fn begin_ahead(&mut self, block: u64) -> Option<(u64, Vec<Bytes>)> {
        if self.ahead.contains_key(&block) {
            return None;
        }
        let first = block * PAGES_PER_BLOCK;
        let whole = |index| match self.pages.get(&index) {
            Some(Page::Memory(memory)) if memory.bytes.len() == PAGE_BYTES => {
                Some(Bytes::from_owner(Shared(memory.clone())))
            }
            _ => None,
        };
        let pages = (first..first + PAGES_PER_BLOCK).map(whole).collect::<Option<Vec<Bytes>>>()?;
        self.begun += 1;
        self.ahead.insert(block, Ahead::UnderWay(self.begun));
        Some((self.begun, pages))
    }

    /// A block was sealed, and its pages go; or, with none, it was not. False if it was written to meanwhile: then it is as if it had never begun.
    pub(crate) fn end_ahead(&mut self, block: u64, number: u64, sealed: Option<S>) -> bool {
        if !matches!(self.ahead.get(&block), Some(Ahead::UnderWay(begun)) if *begun == number) {
            return false;
        }
        self.ahead.remove(&block);
        if let Some(sealed) = sealed {
            let first = block * PAGES_PER_BLOCK;
            for index in first..first + PAGES_PER_BLOCK {
                self.pages.remove(&index);
            }
            self.sealed_blocks += 1;
            self.ahead.insert(block, Ahead::Sealed(sealed));
        }
        true
    }

    /// Sealed blocks, by number, that a range reaches into.
    pub(crate) fn sealed_in(&self, range: ByteRange) -> BTreeMap<u64, S> {
        if range.is_empty() {
            return BTreeMap::new();
        }
        let blocks = self.ahead.range(range.start / BLOCK..range.end.div_ceil(BLOCK));
        let sealed = blocks.filter_map(|(block, ahead)| match ahead {
            Ahead::Sealed(sealed) => Some((*block, sealed.clone())),
            Ahead::UnderWay(_) => None,
        });
        sealed.collect()
    }

    /// What is in a sealed block is in pages again.
    pub(crate) fn put_back(&mut self, block: u64, plain: &[u8]) {
        let first = block * PAGES_PER_BLOCK;
        for (index, bytes) in (first..).zip(plain.chunks(PAGE_BYTES)) {
            self.fill(index, bytes.to_vec());
        }
        if let Some(Ahead::Sealed(_)) = self.ahead.remove(&block) {
            self.sealed_blocks -= 1;
        }
    }

    fn sealed_at(&self, block: u64) -> Option<&S> {
        match self.ahead.get(&block) {
            Some(Ahead::Sealed(sealed)) => Some(sealed),
            _ => None,
        }
    }

    /// What lies at an offset before the file's end, and how far at least.
    pub(crate) fn span(&self, offset: u64) -> (Span, u64) {
        let (index, block) = (offset / PAGE, offset / BLOCK);
        if self.sealed_at(block).is_some() {
            return (Span::Written, self.size.min((block + 1) * BLOCK));
        }
        if self.pages.contains_key(&index) {
            return (Span::Written, self.size.min((index + 1) * PAGE));
        }
        let next_page = self.pages.range(index..).next().map_or(u64::MAX, |(next, _)| next * PAGE);
        let next_block = self.ahead.range(block + 1..).next().map_or(u64::MAX, |(next, _)| next * BLOCK);
        let next = next_page.min(next_block).min(self.size);
        if offset < self.base_bytes { (Span::Base, next.min(self.base_bytes)) } else { (Span::Zeros, next) }
    }

    /// What lies in a range of the file, in order. Beyond its end is nothing.
    pub(crate) fn parts(&self, range: ByteRange) -> Result<Vec<Part<S>>> {
        let end = range.end.min(self.size);
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < end {
            let (index, block) = (at / PAGE, at / BLOCK);
            if let Some(sealed) = self.sealed_at(block) {
                let (start, stop) = (block * BLOCK, end.min((block + 1) * BLOCK));
                parts.push(Part::Ahead(sealed.clone(), length_of(at - start)..length_of(stop - start)));
                at = stop;
                continue;
            }
            let stop = end.min((index + 1) * PAGE);
            let start = (at % PAGE) as usize;
            let of_page = start..start + length_of(stop - at);
            match self.pages.get(&index) {
                Some(page) => Self::of_page(page, of_page, &mut parts)?,
                None => self.of_base(ByteRange { start: at, end: stop }, &mut parts),
            }
            at = stop;
        }
        Ok(parts)
    }

    fn of_page(page: &Page, range: Range<usize>, parts: &mut Vec<Part<S>>) -> Result<()> {
        let bytes = match page {
            Page::Memory(memory) => Bytes::from_owner(Shared(memory.clone())),
            Page::Aside(page) => page.get()?.into(),
        };
        let there = range.start.min(bytes.len())..range.end.min(bytes.len());
        let zeros = (range.len() - there.len()) as u64;
        if !there.is_empty() {
            parts.push(Part::Bytes(bytes.slice(there)));
        }
        if zeros > 0 {
            parts.push(Part::Zeros(zeros));
        }
        Ok(())
    }

    fn of_base(&self, range: ByteRange, parts: &mut Vec<Part<S>>) {
        let cut = self.base_bytes.clamp(range.start, range.end);
        match parts.last_mut() {
            Some(Part::Base(before)) if before.end == range.start && cut > range.start => before.end = cut,
            _ if cut > range.start => parts.push(Part::Base(ByteRange { start: range.start, end: cut })),
            _ => {}
        }
        if range.end > cut {
            parts.push(Part::Zeros(range.end - cut));
        }
    }

    /// The part of the file that is to be sent, whole blocks but for the file's end, if what is before and after it may stay as it is in an
    /// old content of `base_size` bytes made of blocks.
    pub(crate) fn body(&self, base_size: u64, of_blocks: bool) -> ByteRange {
        if !of_blocks {
            return ByteRange::whole(self.size);
        }
        let first_page = self.pages.keys().next().map_or(u64::MAX, |page| page / PAGES_PER_BLOCK);
        let first = first_page.min(self.ahead.keys().next().copied().unwrap_or(u64::MAX));
        let unchanged_length = self.base_bytes == base_size && self.size == base_size;
        // Only whole blocks of what is left of the old content can stay, or its last one where that is still the file's last.
        let whole = self.base_bytes.min(self.size) / BLOCK;
        let start = if unchanged_length { first } else { first.min(whole) };
        let start = (start.saturating_mul(BLOCK)).min(self.size);
        let start = if start == self.size { self.size / BLOCK * BLOCK } else { start };
        let last_page = self.pages.keys().next_back().map_or(0, |page| page / PAGES_PER_BLOCK + 1);
        let last = last_page.max(self.ahead.keys().next_back().map_or(0, |block| block + 1));
        let end = if unchanged_length { (last * BLOCK).clamp(start, self.size) } else { self.size };
        ByteRange { start, end }
    }
}

/// A length within a page or a block.
fn length_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(BLOCK_BYTES)
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "files of tests fit")]
mod tests;
