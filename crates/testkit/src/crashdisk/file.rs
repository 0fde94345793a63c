//! One file's content: current pages, durable pages, and what lies between.
//!
//! A page that was written since the last sync carries the versions it went through, oldest first;
//! the last one is the current page. `None` stands for a hole. A page cache may write a page back
//! at any moment, so after a power cut the platter holds one of them, or the durable page, or
//! sectors of two of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::crash::Weather;
use crate::rng::Prng;

/// Bytes a page cache handles at once.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Bytes a disk writes without tearing.
const SECTOR_BYTES: usize = 512;
/// Versions of one page (and of a file's size) that are remembered between two syncs. Eight lets a
/// page be caught at many moments and bounds memory.
pub const MAX_VERSIONS: usize = 8;

type Page = [u8; PAGE_BYTES as usize];
type Version = Option<Arc<Page>>;

/// Content and size of a regular file, as seen and as stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileData {
    size: u64,
    pages: BTreeMap<u64, Arc<Page>>,
    durable_size: u64,
    durable: BTreeMap<u64, Arc<Page>>,
    dirty: BTreeMap<u64, Vec<Version>>,
    sizes: Vec<u64>,
}

/// The part of page `page` that a range covers, as offsets in the page.
fn span(page: u64, start: u64, end: u64) -> (usize, usize) {
    let base = page * PAGE_BYTES;
    let from = start.max(base) - base;
    let to = end.min(base + PAGE_BYTES) - base;
    (from as usize, to as usize)
}

fn page_range(start: u64, end: u64) -> std::ops::Range<u64> {
    start / PAGE_BYTES..end.div_ceil(PAGE_BYTES)
}

impl FileData {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Pages held by the current content: what counts against the capacity.
    pub(crate) fn page_count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Pages a write of this range would add.
    pub(crate) fn pages_missing(&self, offset: u64, len: u64) -> u64 {
        let range = page_range(offset, offset + len);
        let present = self.pages.range(range.clone()).count() as u64;
        (range.end - range.start) - present
    }

    /// Whether the size changed since the last sync (such a sync must write metadata).
    pub(crate) fn size_is_dirty(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// Current bytes of a range, cut at the end of the file.
    pub(crate) fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = offset.saturating_add(len).min(self.size);
        if offset >= end {
            return Vec::new();
        }
        let mut out = vec![0; (end - offset) as usize];
        for (&number, page) in self.pages.range(page_range(offset, end)) {
            let (from, to) = span(number, offset, end);
            let at = (number * PAGE_BYTES + from as u64 - offset) as usize;
            out[at..at + (to - from)].copy_from_slice(&page[from..to]);
        }
        out
    }

    /// Writes `data`, growing the file where needed.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        for number in page_range(offset, end) {
            let (from, to) = span(number, offset, end);
            let at = (number * PAGE_BYTES + from as u64 - offset) as usize;
            self.edit(number, |page| {
                page[from..to].copy_from_slice(&data[at..at + (to - from)]);
            });
        }
        if end > self.size {
            self.note_size(end);
        }
    }

    /// Cuts or grows the file; what a cut removes reads as zeros if the file grows again.
    pub(crate) fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.zero(size, self.size);
        }
        if size != self.size {
            self.note_size(size);
        }
    }

    /// Makes the range `start..end` read as zeros; whole pages become holes.
    pub(crate) fn zero(&mut self, start: u64, end: u64) {
        let numbers: Vec<u64> = self.pages.range(page_range(start, end)).map(|(&n, _)| n).collect();
        for number in numbers {
            let (from, to) = span(number, start, end);
            if (from, to) == (0, PAGE_BYTES as usize) || (from == 0 && end >= self.size) {
                self.pages.remove(&number);
                self.note_page(number);
            } else {
                self.edit(number, |page| page[from..to].fill(0));
            }
        }
    }

    /// Gives holes in the range real pages, and grows the file to its end unless `keep_size`.
    pub(crate) fn allocate(&mut self, start: u64, end: u64, keep_size: bool) {
        let blank = Arc::new([0; PAGE_BYTES as usize]);
        for number in page_range(start, end) {
            if let Entry::Vacant(hole) = self.pages.entry(number) {
                hole.insert(Arc::clone(&blank));
                self.note_page(number);
            }
        }
        if end > self.size && !keep_size {
            self.note_size(end);
        }
    }

    /// Everything current becomes durable, except pages a failed sync gave up.
    pub(crate) fn sync(&mut self) {
        for (number, _) in std::mem::take(&mut self.dirty) {
            match self.pages.get(&number) {
                Some(page) => self.durable.insert(number, Arc::clone(page)),
                None => self.durable.remove(&number),
            };
        }
        self.durable_size = self.size;
        self.sizes.clear();
    }

    /// A clean stop: even pages that a failed sync gave up are on the disk.
    pub(crate) fn sync_current(&mut self) {
        self.durable = self.pages.clone();
        self.sync();
    }

    /// A failed sync: readers still see the pages, but nothing will write them to the disk.
    pub(crate) fn drop_dirty(&mut self) {
        self.dirty.clear();
    }

    /// Flips bits of one byte, both in what readers see and in what the disk holds. False past the end.
    pub(crate) fn flip(&mut self, offset: u64, mask: u8) -> bool {
        if offset >= self.size {
            return false;
        }
        let (number, at) = (offset / PAGE_BYTES, (offset % PAGE_BYTES) as usize);
        for map in [&mut self.pages, &mut self.durable] {
            let page = map.entry(number).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
            Arc::make_mut(page)[at] ^= mask;
        }
        true
    }

    /// The file as one power cut may leave it: all durable, nothing pending.
    pub(crate) fn crash(&self, rng: &mut Prng, weather: &Weather) -> Self {
        let size = *weather.choose(rng, &self.durable_size, &self.sizes);
        let mut pages = self.durable.clone();
        for (&number, versions) in &self.dirty {
            let old = self.durable.get(&number).cloned();
            let grown = number * PAGE_BYTES >= self.durable_size;
            let survivor = if grown && weather.ordered_data {
                versions.last().cloned().flatten()
            } else {
                survivor(rng, weather, &old, versions, grown)
            };
            match survivor {
                Some(page) => pages.insert(number, page),
                None => pages.remove(&number),
            };
        }
        Self::settled(size, pages)
    }

    /// A file without anything pending.
    fn settled(size: u64, mut pages: BTreeMap<u64, Arc<Page>>) -> Self {
        pages.split_off(&size.div_ceil(PAGE_BYTES));
        let tail = (size % PAGE_BYTES) as usize;
        if let Some(page) = pages.get_mut(&(size / PAGE_BYTES)) {
            // A page past the end holds what was written before a cut; growing again must show zeros.
            if tail != 0 && page[tail..].iter().any(|&b| b != 0) {
                Arc::make_mut(page)[tail..].fill(0);
            }
        }
        Self { size, durable_size: size, durable: pages.clone(), pages, dirty: BTreeMap::new(), sizes: Vec::new() }
    }

    fn edit(&mut self, number: u64, change: impl FnOnce(&mut Page)) {
        let page = self.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
        change(Arc::make_mut(page));
        self.note_page(number);
    }

    fn note_page(&mut self, number: u64) {
        let versions = self.dirty.entry(number).or_default();
        if versions.len() == MAX_VERSIONS {
            versions.remove(0);
        }
        versions.push(self.pages.get(&number).cloned());
    }

    fn note_size(&mut self, size: u64) {
        self.size = size;
        if self.sizes.len() == MAX_VERSIONS {
            self.sizes.remove(0);
        }
        self.sizes.push(size);
    }
}

/// What the disk holds of a page that was written since the last sync.
fn survivor(rng: &mut Prng, weather: &Weather, durable: &Version, versions: &[Version], grown: bool) -> Version {
    let one = weather.choose(rng, durable, versions);
    if weather.tears(rng) {
        let other = match rng.index(versions.len() + 1) {
            0 => durable,
            n => &versions[n - 1],
        };
        return Some(tear(rng, one, other));
    }
    if one.is_none() && grown && weather.leaves_garbage() {
        return Some(garbage(rng));
    }
    one.clone()
}

/// Mixes two versions of a page sector by sector.
fn tear(rng: &mut Prng, one: &Version, other: &Version) -> Arc<Page> {
    let blank = [0; PAGE_BYTES as usize];
    let mut mixed = one.as_deref().unwrap_or(&blank).to_owned();
    let other = other.as_deref().unwrap_or(&blank);
    let sectors = mixed.chunks_mut(SECTOR_BYTES).zip(other.chunks(SECTOR_BYTES));
    for (mine, theirs) in sectors {
        if rng.chance(0.5) {
            mine.copy_from_slice(theirs);
        }
    }
    Arc::new(mixed)
}

/// A page of bytes that an earlier owner of the block left behind.
fn garbage(rng: &mut Prng) -> Arc<Page> {
    let mut page = [0; PAGE_BYTES as usize];
    rng.fill(&mut page);
    Arc::new(page)
}
