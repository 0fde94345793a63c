//! Credentials that were right a moment ago, so that a request costs one keyed hash instead of an Argon2id computation.
//!
//! The map's key is BLAKE3, keyed with random bytes of this process, of the name and secret: the secret itself is not
//! kept, and a dump of the map cannot be compared with guesses without that key. An entry holds the account's unlocked key and lives
//! until it is idle too long, too old, or displaced (the one idle for longest goes). Whether it is still *valid* is decided
//! at each hit against the catalogue: see [`crate::Authenticator`].

use crate::{AuthOptions, Credential, Session};
use holdfast_base::Result;
use holdfast_meta::SlotKind;
use holdfast_seal::keys::random_bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use zeroize::Zeroizing;

/// A credential, hashed.
pub(crate) type CredentialHash = [u8; 32];

/// A credential that was right.
pub(crate) struct Entry {
    pub(crate) session: Arc<Session>,
    /// The slot it opened: as long as the account still has exactly this slot, the credential is still right.
    pub(crate) slot: i64,
    pub(crate) kind: SlotKind,
    pub(crate) sealed: Vec<u8>,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) checked_ms: i64,
    used_ms: AtomicI64,
    /// The time of use that the slot's row has.
    touched_ms: AtomicI64,
}

impl Entry {
    pub(crate) fn new(session: Arc<Session>, slot: holdfast_meta::Slot, now_ms: i64) -> Self {
        Self {
            session,
            slot: slot.id,
            kind: slot.kind,
            sealed: slot.sealed,
            expires_ms: slot.expires_ms,
            checked_ms: now_ms,
            used_ms: AtomicI64::new(now_ms),
            touched_ms: AtomicI64::new(slot.used_ms.unwrap_or(i64::MIN)),
        }
    }

    /// Whether the row's time of use is older than `every_ms` and is now to be written, by this caller alone.
    pub(crate) fn is_to_be_touched(&self, now_ms: i64, every_ms: i64) -> bool {
        let touched_ms = self.touched_ms.load(Ordering::Relaxed);
        now_ms.saturating_sub(touched_ms) >= every_ms
            && self.touched_ms.compare_exchange(touched_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

pub(crate) struct Cache {
    hash_key: Zeroizing<[u8; 32]>,
    entries: Mutex<HashMap<CredentialHash, Arc<Entry>>>,
    entries_max: usize,
    idle_ms: i64,
    lifetime_ms: i64,
    hits: AtomicU64,
}

impl Cache {
    pub(crate) fn new(options: &AuthOptions) -> Result<Self> {
        Ok(Self {
            hash_key: Zeroizing::new(random_bytes()?),
            entries: Mutex::default(),
            entries_max: options.cache_entries_max.max(1),
            idle_ms: options.cache_idle_ms,
            lifetime_ms: options.cache_lifetime_ms,
            hits: AtomicU64::new(0),
        })
    }

    /// Hashes a credential. The name's length, or what there is instead of a name, goes in first: no two credentials run together,
    /// and what is good in a cookie is not good elsewhere.
    pub(crate) fn hash(&self, credential: &Credential) -> CredentialHash {
        let mut hasher = blake3::Hasher::new_keyed(&self.hash_key);
        match credential {
            Credential::Basic { name, .. } => {
                hasher.update(&(name.len() as u64 + 2).to_le_bytes()).update(name.as_bytes())
            }
            Credential::Bearer(_) => hasher.update(&0u64.to_le_bytes()),
            Credential::Cookie(_) => hasher.update(&1u64.to_le_bytes()),
        };
        hasher.update(credential.secret().expose().as_bytes());
        *hasher.finalize().as_bytes()
    }

    /// A live entry, marked as used.
    pub(crate) fn get(&self, hash: &CredentialHash, now_ms: i64) -> Option<Arc<Entry>> {
        let entry = self.entries.lock().get(hash).filter(|entry| self.is_live(entry, now_ms)).cloned()?;
        entry.used_ms.store(now_ms, Ordering::Relaxed);
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(entry)
    }

    /// The sessions of live entries.
    pub(crate) fn sessions(&self, now_ms: i64) -> Vec<Arc<Session>> {
        let entries = self.entries.lock();
        entries.values().filter(|entry| self.is_live(entry, now_ms)).map(|entry| entry.session.clone()).collect()
    }

    /// Keeps an entry; with no room left, the one that was idle for longest goes.
    pub(crate) fn put(&self, hash: CredentialHash, entry: Arc<Entry>) {
        let mut entries = self.entries.lock();
        if entries.len() >= self.entries_max && !entries.contains_key(&hash) {
            // Linear, but only after a full check of a new credential, beside which it is cheap.
            let idlest =
                entries.iter().min_by_key(|(_, entry)| entry.used_ms.load(Ordering::Relaxed)).map(|(hash, _)| *hash);
            idlest.and_then(|idlest| entries.remove(&idlest));
        }
        entries.insert(hash, entry);
    }

    /// Forgets `entry` (unless another took its place meanwhile).
    pub(crate) fn remove(&self, hash: &CredentialHash, entry: &Arc<Entry>) {
        let mut entries = self.entries.lock();
        if entries.get(hash).is_some_and(|present| Arc::ptr_eq(present, entry)) {
            entries.remove(hash);
        }
    }

    /// Forgets what is idle or old, and with it the keys.
    pub(crate) fn sweep(&self, now_ms: i64) {
        self.entries.lock().retain(|_, entry| self.is_live(entry, now_ms));
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.lock().len()
    }

    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    fn is_live(&self, entry: &Entry, now_ms: i64) -> bool {
        now_ms.saturating_sub(entry.used_ms.load(Ordering::Relaxed)) < self.idle_ms
            && now_ms.saturating_sub(entry.checked_ms) < self.lifetime_ms
            && entry.expires_ms.is_none_or(|expires_ms| now_ms < expires_ms)
    }
}
