//! What arrived against the sum that the source tells of it.
//!
//! Added up is what is written, in order, on a thread beside the writes. Where a later try goes on, the sum goes on from there: it is remembered as it was
//! after each of the last blocks. What stood from before this run is read back from the destination.

use crate::signs;
use crate::site::Incoming;
use crate::sum::{Adding, Sum};
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use std::collections::VecDeque;
use tokio::task::JoinHandle;

/// Blocks after which the sum is remembered: more than any destination has on its way.
const REMEMBERED: usize = 1_024;

/// A sum on its way.
pub(super) struct Check {
    told: Sum,
    /// Bytes that were added, and the sum of them, unless a thread has it.
    at: u64,
    adding: Option<Adding>,
    thread: Option<JoinHandle<Adding>>,
    /// Sums of less, each with how many bytes it is of.
    before: VecDeque<(u64, Adding)>,
}

impl Check {
    pub(super) fn new(told: Sum) -> Self {
        let adding = Some(Adding::new(told.kind()));
        Self { told, at: 0, adding, thread: None, before: VecDeque::new() }
    }

    /// What was held against until now, if the source still tells the same.
    pub(super) fn go_on(before: Option<Self>, told: Option<Sum>) -> Option<Self> {
        let told = told?;
        Some(before.filter(|before| before.told == told).unwrap_or_else(|| Self::new(told)))
    }

    /// Adds what comes next, once what came before is added.
    pub(super) async fn add(&mut self, bytes: Bytes) -> Result<()> {
        let mut adding = self.settle().await?;
        if self.before.len() == REMEMBERED {
            self.before.pop_front();
        }
        self.before.push_back((self.at, adding.clone()));
        self.at += bytes.len() as u64;
        self.thread = Some(tokio::task::spawn_blocking(move || {
            adding.add(&bytes);
            adding
        }));
        Ok(())
    }

    /// Makes it the sum of what stands at the destination; answers whether that can be had.
    pub(super) async fn be_of_what_stands(&mut self, incoming: &mut dyn Incoming) -> Result<bool> {
        let stands = incoming.stands_at();
        let now = (self.at, self.settle().await?);
        self.before.push_back(now);
        while let Some((at, adding)) = self.before.pop_back() {
            if at == stands {
                (self.at, self.adding) = (at, Some(adding));
                return Ok(true);
            }
        }
        *self = Self::new(self.told.clone());
        self.read_back(incoming, stands).await
    }

    async fn read_back(&mut self, incoming: &mut dyn Incoming, stands: u64) -> Result<bool> {
        let signs = signs::current();
        while self.at < stands {
            let range = ByteRange { start: self.at, end: stands.min(self.at + BLOCK_BYTES as u64) };
            match incoming.read_back(range).await? {
                Some(bytes) if bytes.len() as u64 == range.len() => self.add(bytes).await?,
                _ => return Ok(false),
            }
            signs.alive();
        }
        Ok(true)
    }

    /// Takes the sum from the thread that has it. Who stops waiting loses nothing.
    async fn settle(&mut self) -> Result<Adding> {
        if let Some(thread) = &mut self.thread {
            let adding = thread.await;
            self.thread = None;
            self.adding = Some(adding.map_err(|error| Error::internal("a thread was lost").with_source(error))?);
        }
        self.adding.take().ok_or_else(|| Error::internal("a sum was lost"))
    }

    /// Whether all that was added has the sum that was told.
    pub(super) async fn look(&mut self) -> Result<()> {
        let adding = self.settle().await?;
        let (sum, told) = (self.adding.insert(adding).clone().sum(), &self.told);
        if sum == *told {
            return Ok(());
        }
        let what = format!("what arrived has the {} {sum}, and the source says {told}", told.kind().name());
        Err(Error::new(ErrorKind::WrongChecksum, what))
    }
}
