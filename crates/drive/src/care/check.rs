//! Proves a drive: every sum and reference of the catalogue, every pack, every block; with `read_data`, every stored byte.
//!
//! It works on a drive in use: a block that is moved or freed while it is looked at is looked up again before anything is
//! said about it.

use super::PAGE_ROWS;
use super::frame::{self, Frame};
use holdfast_base::{BlockId, ErrorKind, PackName, Result, SpaceId, Uid};
use holdfast_blob::BlobStore;
use holdfast_meta::{BlockPlace, Catalogue, Content, Finding, MANIFEST_CHUNK_BLOCKS, Pack, PackState};
use holdfast_seal::block::record_is_intact;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Findings listed at most; beyond that only their number is told.
const FINDINGS_MAX: usize = 10_000;

/// What to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// Read every stored block and check its sum.
    pub read_data: bool,
    /// Set right what can be.
    pub repair: bool,
}

/// What a check saw.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// What is wrong. Empty for a sound drive.
    pub findings: Vec<Finding>,
    /// Findings not listed because there were too many.
    pub findings_left_out: u64,
    /// Packs looked at.
    pub packs: u64,
    /// Blocks looked at.
    pub blocks: u64,
    /// Contents whose manifests were followed.
    pub contents: u64,
    /// Stored bytes read and summed.
    pub bytes_read: u64,
}

impl CheckReport {
    /// Whether nothing is wrong, or everything that was has been set right.
    pub fn is_clean(&self) -> bool {
        self.findings_left_out == 0 && self.findings.iter().all(|finding| finding.repaired.is_some())
    }

    /// Whether content is lost or unreadable.
    pub fn has_loss(&self) -> bool {
        self.findings.iter().any(|finding| finding.loss)
    }

    fn add(&mut self, code: &str, loss: bool, message: String, repaired: Option<String>) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { code: code.to_owned(), message, loss, repaired });
        } else {
            self.findings_left_out += 1;
        }
    }
}

struct Check<'a> {
    catalogue: &'a dyn Catalogue,
    store: &'a dyn BlobStore,
    options: CheckOptions,
    report: CheckReport,
    /// Lengths of the packs in the store.
    packs: HashMap<PackName, u64>,
    spaces: HashMap<SpaceId, Uid>,
}

/// Checks a drive.
pub async fn check(catalogue: &dyn Catalogue, store: &dyn BlobStore, options: CheckOptions) -> Result<CheckReport> {
    let report = CheckReport { findings: catalogue.check(options.repair).await?, ..CheckReport::default() };
    let spaces = catalogue.all_spaces().await?.into_iter().map(|space| (space.id, space.uid)).collect();
    let mut check = Check { catalogue, store, options, report, packs: HashMap::new(), spaces };
    check.packs().await?;
    check.blocks().await?;
    check.contents().await?;
    Ok(check.report)
}

impl Check<'_> {
    /// Packs of the catalogue against objects of the store, both ways.
    async fn packs(&mut self) -> Result<()> {
        let mut known: HashMap<PackName, Pack> = HashMap::new();
        let mut after = None;
        loop {
            let page = self.catalogue.packs(after, PAGE_ROWS).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            known.extend(page.into_iter().map(|pack| (pack.name, pack)));
        }
        self.report.packs = known.len() as u64;
        let mut after = None;
        loop {
            let page = self.store.list(after, PAGE_ROWS).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.name);
            self.packs.extend(page.into_iter().map(|entry| (entry.name, entry.bytes)));
        }
        let orphans: Vec<_> = self.packs.keys().filter(|name| !known.contains_key(name)).copied().collect();
        for name in orphans {
            self.orphan(name).await?;
        }
        for pack in known.values() {
            self.length_of(pack);
            // One that nobody needs may never have been synced.
            if self.options.read_data && pack.state == PackState::Sealed && pack.live_bytes > 0 {
                self.frame_of(pack).await?;
            }
        }
        Ok(())
    }

    /// A pack's header and index, which reads do not need and a rebuild of the catalogue does.
    async fn frame_of(&mut self, pack: &Pack) -> Result<()> {
        let Some(bytes) = self.packs.get(&pack.name).copied() else { return Ok(()) };
        let wrong = match frame::look(self.store, pack.name, bytes).await {
            Ok(Frame::Closed) => return Ok(()),
            Ok(Frame::Headless(error)) => error.message().to_owned(),
            // It was left open, by a crash or after an error, and what follows its records counts for nothing.
            Ok(Frame::Open { records_end }) if records_end >= pack.total_bytes || bytes != pack.total_bytes => {
                return Ok(());
            }
            Ok(Frame::Open { .. }) => format!("pack {}: its index is not what was written", pack.name),
            // Reclaimed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        self.report.add("pack-frame", false, wrong, None);
        Ok(())
    }

    /// An object the catalogue does not know. One that was begun since the catalogue was read is known by now.
    async fn orphan(&mut self, name: PackName) -> Result<()> {
        let mut after = None;
        loop {
            let page = self.catalogue.packs(after, PAGE_ROWS).await?;
            if page.iter().any(|pack| pack.name == name) {
                return Ok(());
            }
            let Some(last) = page.last() else { break };
            after = Some(last.id);
        }
        let bytes = self.packs.get(&name).copied().unwrap_or(0);
        let repaired = if self.options.repair {
            self.store.delete(name).await?;
            Some("removed it".to_owned())
        } else {
            None
        };
        self.report.add("pack-orphan", false, format!("pack {name} ({bytes} bytes) is not in the catalogue"), repaired);
        Ok(())
    }

    fn length_of(&mut self, pack: &Pack) {
        let loss = pack.live_bytes > 0;
        match self.packs.get(&pack.name) {
            // One that nobody needs is missing after a stop between noting and making it, or between removing and forgetting
            // it; reclaim forgets it.
            None if pack.state == PackState::Sealed && loss => {
                self.report.add("pack-missing", loss, format!("pack {} is not in the store", pack.name), None);
            }
            Some(bytes) if pack.state == PackState::Sealed && *bytes < pack.total_bytes => {
                let message = format!("pack {} has {bytes} of {} bytes", pack.name, pack.total_bytes);
                self.report.add("pack-short", loss, message, None);
            }
            _ => {}
        }
    }

    async fn blocks(&mut self) -> Result<()> {
        let mut after = None;
        loop {
            let page = self.catalogue.all_blocks(after, PAGE_ROWS).await?;
            let Some((space, last, _)) = page.last() else { return Ok(()) };
            after = Some((*space, last.id));
            for (space, place, _) in page {
                self.block(space, place).await?;
            }
        }
    }

    async fn block(&mut self, space: SpaceId, at: BlockPlace) -> Result<()> {
        self.report.blocks += 1;
        let Some(reason) = self.what_is_wrong(space, &at).await? else { return Ok(()) };
        // It may have been moved or freed since the page was read.
        let now = self.catalogue.block_places(space, &[at.id]).await?.into_iter().next().flatten();
        let reason = match now {
            None => return Ok(()),
            Some(moved) if moved.place != at.place => self.what_is_wrong(space, &moved).await?,
            Some(_) => Some(reason),
        };
        if let Some(reason) = reason {
            self.report.add(
                "block-unreadable",
                true,
                format!("block {} in pack {}: {reason}", at.id, at.pack_name),
                None,
            );
        }
        Ok(())
    }

    async fn what_is_wrong(&mut self, space: SpaceId, at: &BlockPlace) -> Result<Option<String>> {
        let end = at.place.offset + u64::from(at.place.sealed_bytes);
        let length = match self.packs.get(&at.pack_name) {
            Some(bytes) if *bytes >= end => *bytes,
            // Not seen when the packs were listed, or grown since then.
            _ => match self.store.len(at.pack_name).await? {
                Some(bytes) => bytes,
                None => return Ok(Some("its pack is missing".to_owned())),
            },
        };
        if end > length {
            return Ok(Some(format!("it would end at byte {end} of {length}")));
        }
        if !self.options.read_data {
            return Ok(None);
        }
        let bytes = at.place.sealed_bytes as usize;
        let record = match self.store.read(at.pack_name, at.place.offset, bytes, Vec::new()).await {
            Ok(record) => record,
            Err(error) => return Ok(Some(format!("it cannot be read: {error}"))),
        };
        self.report.bytes_read += record.len() as u64;
        let intact = self.spaces.get(&space).is_some_and(|uid| record_is_intact(*uid, at.id, &record));
        Ok((!intact).then(|| "its bytes are not those that were written".to_owned()))
    }

    async fn contents(&mut self) -> Result<()> {
        let mut after = None;
        loop {
            let page = self.catalogue.all_contents(after, PAGE_ROWS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id);
            for content in page {
                self.content(&content).await?;
            }
        }
    }

    /// Follows a content's manifest: it has all its chunks, and the catalogue knows every block in them.
    async fn content(&mut self, content: &Content) -> Result<()> {
        self.report.contents += 1;
        if content.inline.is_some() {
            return Ok(());
        }
        let mut missing = HashSet::new();
        let mut blocks = 0;
        for index in 0..content.blocks.div_ceil(MANIFEST_CHUNK_BLOCKS as u64) {
            let Some(chunk) = self.catalogue.manifest_chunk(content.id, index).await? else { break };
            blocks += chunk.blocks.len() as u64;
            let places = self.catalogue.block_places(content.space, &chunk.blocks).await?;
            let unknown = chunk.blocks.iter().zip(places).filter(|(_, place)| place.is_none());
            missing.extend(unknown.map(|(id, _): (&BlockId, _)| *id));
        }
        let short = blocks != content.blocks;
        if (missing.is_empty() && !short) || self.catalogue.content(content.id).await?.is_none() {
            return Ok(());
        }
        let id = content.id;
        if short {
            let message = format!("content {id} has {blocks} of {} blocks in its manifest", content.blocks);
            self.report.add("manifest-short", true, message, None);
        }
        for block in missing {
            self.report.add("block-missing", true, format!("content {id} needs block {block}, which is nowhere"), None);
        }
        Ok(())
    }
}
