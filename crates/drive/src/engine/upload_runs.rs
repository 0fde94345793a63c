//! Cutting an upload's blocks into the runs that its manifest is appended by.

use super::target::Stored;
use holdfast_base::BlockId;
use holdfast_meta::{MANIFEST_CHUNK_BLOCKS, StagedBlock, StagedRun};
use holdfast_seal::BlockKeys;

/// Where an upload's manifest stands: the chunk being filled and the ids in it.
pub(crate) struct Runs {
    nonce: [u8; 16],
    chunk: u64,
    ids: Vec<BlockId>,
}

impl Runs {
    pub(crate) const fn new(nonce: [u8; 16]) -> Self {
        Self { nonce, chunk: 0, ids: Vec::new() }
    }

    /// After `blocks` blocks, of which `ids` are in the last chunk unless that is full.
    pub(crate) fn after(nonce: [u8; 16], blocks: u64, ids: Vec<BlockId>) -> Self {
        Self { nonce, chunk: blocks / MANIFEST_CHUNK_BLOCKS as u64, ids }
    }

    /// Blocks so far.
    pub(crate) fn blocks(&self) -> u64 {
        self.chunk * MANIFEST_CHUNK_BLOCKS as u64 + self.ids.len() as u64
    }
}

/// The runs that append `stored`: one, or more where a chunk ends in between.
pub(crate) fn cut_runs(state: &mut Runs, keys: &BlockKeys, mut stored: &[Stored]) -> Vec<StagedRun> {
    let mut runs = Vec::new();
    while !stored.is_empty() {
        if state.ids.len() == MANIFEST_CHUNK_BLOCKS {
            state.chunk += 1;
            state.ids.clear();
        }
        let first = state.ids.len();
        let (run, rest) = stored.split_at(stored.len().min(MANIFEST_CHUNK_BLOCKS - first));
        state.ids.extend(run.iter().map(|block| block.id));
        let staged =
            |block: &Stored| StagedBlock { id: block.id, written: block.lease.as_ref().map(|lease| lease.place) };
        runs.push(StagedRun {
            chunk: state.chunk,
            first,
            blocks: run.iter().map(staged).collect(),
            tag: keys.chunk_tag(&state.nonce, state.chunk, state.ids.iter().copied()),
        });
        stored = rest;
    }
    runs
}
