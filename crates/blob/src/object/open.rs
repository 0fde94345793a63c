//! The packs that this process is writing: names that are taken, and bytes that are not yet an object.

use super::Keys;
use bytes::Bytes;
use holdfast_base::{Error, ErrorKind, PackName, Result};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenPacks {
    claims: Arc<Mutex<BTreeMap<PackName, Holder>>>,
}

/// Who has a name.
#[derive(Debug)]
enum Holder {
    /// A put: nothing is to be seen before it is done.
    Put,
    /// An appender.
    Growing(Arc<Growing>),
}

/// A name taken by a put or by an appender that is about to begin; given back when dropped.
#[derive(Debug)]
pub(super) struct Claim {
    open: OpenPacks,
    name: PackName,
    key: OnceLock<String>,
    kept: bool,
}

impl OpenPacks {
    /// Takes a name.
    pub(super) fn claim(&self, name: PackName) -> Result<Claim> {
        let mut claims = self.claims.lock();
        if claims.contains_key(&name) {
            let message = format!("beginning pack {name}: it is being written already");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        claims.insert(name, Holder::Put);
        Ok(Claim { open: self.clone(), name, key: OnceLock::new(), kept: false })
    }

    /// The pack, if it grows.
    pub(super) fn growing(&self, name: PackName) -> Option<Arc<Growing>> {
        match self.claims.lock().get(&name)? {
            Holder::Put => None,
            Holder::Growing(growing) => Some(Arc::clone(growing)),
        }
    }

    /// Names and lengths of the packs that grow.
    pub(super) fn list(&self) -> Vec<(PackName, u64)> {
        let claims = self.claims.lock();
        let growing = claims.values().filter_map(|holder| match holder {
            Holder::Put => None,
            Holder::Growing(growing) => Some((growing.name, growing.bytes())),
        });
        growing.collect()
    }

    /// Forgets a pack that has become an object, or never will.
    pub(super) fn forget(&self, growing: &Arc<Growing>) {
        let mut claims = self.claims.lock();
        // The name may have been given up and taken anew.
        if matches!(claims.get(&growing.name), Some(Holder::Growing(held)) if Arc::ptr_eq(held, growing)) {
            claims.remove(&growing.name);
        }
    }

    /// Takes a pack away from its appender. If it is just becoming an object, waits until it is one or has failed.
    pub(super) async fn give_up(&self, growing: &Arc<Growing>) {
        if growing.close() {
            self.forget(growing);
            growing.end(Err(Error::not_found(format!("pack {} was removed while it was written", growing.name))));
        }
        // How it ended does not matter to whoever removes it.
        let _ = growing.ended().await;
    }
}

impl Claim {
    /// The key of the pack. (Kept here so that it lives as long as a request for it.)
    pub(super) fn key(&self, keys: &Keys) -> &str {
        self.key.get_or_init(|| keys.of(self.name))
    }

    /// Lets everyone see the pack, from now on until its appender is done with it.
    pub(super) fn grow(mut self) -> Arc<Growing> {
        self.kept = true;
        let growing = Arc::new(Growing { name: self.name, held: Mutex::default(), outcome: watch::Sender::new(None) });
        self.open.claims.lock().insert(self.name, Holder::Growing(Arc::clone(&growing)));
        growing
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.kept {
            self.open.claims.lock().remove(&self.name);
        }
    }
}

/// How a pack ended: as an object, or with this error. (Errors cannot be cloned; several may ask.)
type Outcome = Result<(), (ErrorKind, String)>;

/// A pack that grows.
#[derive(Debug)]
pub(super) struct Growing {
    pub(super) name: PackName,
    held: Mutex<Held>,
    outcome: watch::Sender<Option<Outcome>>,
}

#[derive(Debug, Default)]
struct Held {
    /// Where the bytes held here begin.
    start: u64,
    parts: VecDeque<Bytes>,
    /// Length of the pack.
    bytes: u64,
    /// It takes no more bytes.
    closed: bool,
    /// It is an object.
    stored: bool,
}

/// Where a read's bytes are.
pub(super) enum Found {
    /// Here they are.
    Here(Vec<u8>),
    /// To be asked for, into this buffer: the pack has just become an object.
    InObject(Vec<u8>),
}

impl Growing {
    /// The length so far.
    pub(super) fn bytes(&self) -> u64 {
        self.held.lock().bytes
    }

    /// How many of them are held here.
    pub(super) fn held_bytes(&self) -> u64 {
        let held = self.held.lock();
        held.bytes - held.start
    }

    /// Takes more bytes and answers the offset of the first.
    pub(super) fn push(&self, parts: Vec<Bytes>) -> Result<u64> {
        let mut held = self.held.lock();
        if held.closed {
            return Err(Error::unavailable("it takes no more bytes: it was synced, was removed, or failed"));
        }
        let offset = held.bytes;
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            held.bytes += part.len() as u64;
            held.parts.push_back(part);
        }
        Ok(offset)
    }

    /// Hands over the first `bytes` bytes held here if there are more than that.
    pub(super) fn take_part(&self, bytes: u64) -> Option<Vec<Bytes>> {
        let mut held = self.held.lock();
        if held.bytes - held.start <= bytes {
            return None;
        }
        held.start += bytes;
        Some(take(&mut held.parts, bytes))
    }

    /// What is held here, which stays readable.
    pub(super) fn rest(&self) -> Vec<Bytes> {
        self.held.lock().parts.iter().cloned().collect()
    }

    /// Takes no more bytes from now on. Answers whether it did until now.
    pub(super) fn close(&self) -> bool {
        !std::mem::replace(&mut self.held.lock().closed, true)
    }

    /// Says whether its bytes are an object's now.
    pub(super) fn note_stored(&self, stored: bool) {
        self.held.lock().stored = stored;
    }

    /// Says how it ended. The first word counts. Nothing is held here any more: whoever wrote to the pack may have the pack for as long
    /// as a client takes, and the bytes' memory is what others wait for.
    pub(super) fn end(&self, result: Result<()>) {
        let parts = {
            let mut held = self.held.lock();
            held.closed = true;
            held.start = held.bytes;
            std::mem::take(&mut held.parts)
        };
        drop(parts);
        let outcome = result.map_err(|error| (error.kind(), error.message().to_owned()));
        self.outcome.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                *known = Some(outcome);
            }
            first
        });
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) -> Result<()> {
        let mut outcome = self.outcome.subscribe();
        let outcome = outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        match outcome {
            Ok(Some(Ok(()))) => Ok(()),
            Ok(Some(Err((kind, message)))) => Err(Error::new(kind, message)),
            _ => Err(Error::internal("the writer of a pack has gone")),
        }
    }

    /// Reads what is held here.
    pub(super) fn read(&self, offset: u64, len: usize, mut buffer: Vec<u8>) -> Result<Found> {
        let held = self.held.lock();
        if len > 0 && offset.saturating_add(len as u64) > held.bytes {
            return Err(Error::damaged(format!("it has no {len} bytes at offset {offset}")));
        }
        if len > 0 && offset < held.start {
            return if held.stored {
                Ok(Found::InObject(buffer))
            } else {
                Err(Error::unavailable("these bytes are on their way and can be read when the pack is synced"))
            };
        }
        buffer.clear();
        let mut skip = usize::try_from(offset.saturating_sub(held.start)).unwrap_or(usize::MAX);
        for part in &held.parts {
            let found = part.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(part.len());
            buffer.extend_from_slice(&found[..found.len().min(len - buffer.len())]);
        }
        Ok(Found::Here(buffer))
    }
}

/// Takes exactly `bytes` bytes from the front.
pub(super) fn take(parts: &mut VecDeque<Bytes>, bytes: u64) -> Vec<Bytes> {
    let mut missing = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut taken = Vec::new();
    while missing > 0 {
        let Some(mut part) = parts.pop_front() else { break };
        if part.len() > missing {
            parts.push_front(part.split_off(missing));
        }
        missing -= part.len();
        taken.push(part);
    }
    taken
}
