//! Faults by plan, for tests: the third read fails, the next sync waits until it is told to go on, a bit of an answer
//! flips.
//!
//! ```
//! # use holdfast_blob::{BlobStore, layer::{Layered, Operation, fault::{Fault, Faults}}, memory::MemoryStore};
//! # use holdfast_base::{ErrorKind, PackName};
//! # use std::sync::Arc;
//! # tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(async {
//! let faults = Arc::new(Faults::default());
//! let store = Layered::sharing(Arc::new(MemoryStore::new()), Arc::clone(&faults));
//! faults.on(Operation::Len, 2, Fault::FailBefore(ErrorKind::Unavailable));
//! assert!(store.len(PackName([0; 16])).await.is_ok());
//! assert!(store.len(PackName([0; 16])).await.is_err());
//! assert!(store.len(PackName([0; 16])).await.is_ok());
//! # });
//! ```

use super::{Around, Call, Operation};
use holdfast_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What goes wrong.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The call fails and has done nothing.
    FailBefore(ErrorKind),
    /// The call has done everything and says it failed: a lost answer, or a sync whose disk was fine after all.
    FailAfter(ErrorKind),
    /// The call waits at the gate before it does anything.
    Wait(Arc<Gate>),
    /// A read's answer has this bit of it flipped, counted from its start and modulo its length.
    FlipBit(u64),
}

/// A gate where calls wait until a test lets them pass.
#[derive(Debug)]
pub struct Gate {
    arrived: Semaphore,
    opened: Semaphore,
}

impl Default for Gate {
    fn default() -> Self {
        Self { arrived: Semaphore::new(0), opened: Semaphore::new(0) }
    }
}

impl Gate {
    /// Waits until one more call has arrived.
    pub async fn wait_for_arrival(&self) {
        if let Ok(arrival) = self.arrived.acquire().await {
            arrival.forget();
        }
    }

    /// Lets every call pass, from now on.
    pub fn open(&self) {
        self.opened.close();
    }

    async fn pass(&self) {
        self.arrived.add_permits(1);
        // Nobody adds permits; it ends, with an error, when the gate is opened.
        let _ = self.opened.acquire().await;
    }
}

/// The layer, and the plan it follows.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    calls: [u64; Operation::ALL.len()],
    rules: Vec<Rule>,
    /// Bits to flip in answers of reads that are under way.
    flips: Vec<(Call, u64)>,
}

#[derive(Debug)]
struct Rule {
    operation: Operation,
    from: u64,
    until: u64,
    fault: Fault,
}

impl Faults {
    /// Plans a fault for one call: the `nth` of this operation from now, counted from 1.
    pub fn on(&self, operation: Operation, nth: u64, fault: Fault) {
        let mut plan = self.plan.lock();
        let from = plan.calls[operation as usize] + nth;
        plan.rules.push(Rule { operation, from, until: from, fault });
    }

    /// Plans a fault for every call of this operation from now on.
    pub fn always(&self, operation: Operation, fault: Fault) {
        let mut plan = self.plan.lock();
        let from = plan.calls[operation as usize] + 1;
        plan.rules.push(Rule { operation, from, until: u64::MAX, fault });
    }

    /// Drops the whole plan. Calls that wait at a gate go on waiting for it.
    pub fn clear(&self) {
        self.plan.lock().rules.clear();
    }

    /// Calls of this operation so far, those that failed included.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.plan.lock().calls[operation as usize]
    }

    /// Counts the call and answers what is planned for it, in the order of planning.
    fn planned(&self, call: Call) -> Vec<Fault> {
        let mut plan = self.plan.lock();
        let count = &mut plan.calls[call.operation as usize];
        *count += 1;
        let count = *count;
        let meets = |rule: &&Rule| rule.operation == call.operation && (rule.from..=rule.until).contains(&count);
        plan.rules.iter().filter(meets).map(|rule| rule.fault.clone()).collect()
    }
}

fn injected(call: Call, kind: ErrorKind) -> Error {
    Error::new(kind, format!("a planned fault of the operation {}", call.operation.name()))
}

impl Around for Faults {
    async fn around<T, F>(&self, call: Call, mut work: impl FnMut() -> F + Send) -> Result<T>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        let planned = self.planned(call);
        for fault in &planned {
            match fault {
                Fault::FailBefore(kind) => return Err(injected(call, *kind)),
                Fault::Wait(gate) => gate.pass().await,
                Fault::FailAfter(_) | Fault::FlipBit(_) => {}
            }
        }
        let result = work().await?;
        for fault in &planned {
            match fault {
                Fault::FailAfter(kind) => return Err(injected(call, *kind)),
                Fault::FlipBit(bit) => self.plan.lock().flips.push((call, *bit)),
                Fault::FailBefore(_) | Fault::Wait(_) => {}
            }
        }
        Ok(result)
    }

    fn after_read(&self, call: Call, bytes: &mut [u8]) {
        let mut plan = self.plan.lock();
        let Some(found) = plan.flips.iter().position(|(of, _)| of.pack == call.pack && of.bytes == call.bytes) else {
            return;
        };
        let (_, bit) = plan.flips.swap_remove(found);
        let bits = bytes.len() as u64 * 8;
        if let Some(bit) = bit.checked_rem(bits) {
            let byte = usize::try_from(bit / 8).unwrap_or_default();
            bytes[byte] ^= 1 << (bit % 8);
        }
    }
}
