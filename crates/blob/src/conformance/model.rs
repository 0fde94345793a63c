//! Random operations, each checked against the simplest store there is: a map from names to bytes.

use super::{content, name, parts};
use crate::{Appender, BlobStore, PackEntry};
use holdfast_base::{ErrorKind, PackName};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Few names, so that operations meet; several folders, so that lists cross them.
const NAMES: u64 = 12;
const SEEDS: u64 = 4;
const OPERATIONS: usize = 400;

/// The store, the model of it, and the packs being written.
struct Run<'a> {
    store: &'a dyn BlobStore,
    model: BTreeMap<PackName, Vec<u8>>,
    appenders: BTreeMap<PackName, Box<dyn Appender>>,
    random: StdRng,
}

/// Whatever is done in whatever order, store and model answer the same. A failure names its seed.
pub async fn random_operations_match_a_model(store: &dyn BlobStore) {
    for seed in 0..SEEDS {
        let random = StdRng::seed_from_u64(seed);
        let mut run = Run { store, model: BTreeMap::new(), appenders: BTreeMap::new(), random };
        for step in 0..OPERATIONS {
            let at = format!("seed {seed}, step {step}");
            run.step(&at).await;
        }
        for name in run.model.into_keys() {
            store.delete(name).await.expect("removes");
        }
    }
}

impl Run<'_> {
    fn any_name(&mut self) -> PackName {
        let number = self.random.random_range(0..NAMES);
        name([0x00, 0x7f, 0xff][usize::try_from(number % 3).expect("small")], number)
    }

    fn any_content(&mut self) -> Vec<u8> {
        let len = match self.random.random_range(0..10) {
            0 => 0,
            1 => self.random.random_range(60_000..140_000),
            _ => self.random.random_range(0..5_000),
        };
        content(self.random.random_range(0..u64::MAX), len)
    }

    async fn step(&mut self, at: &str) {
        let name = self.any_name();
        match self.random.random_range(0..10) {
            0 => self.put(name, at).await,
            1 => self.begin(name, at).await,
            2..=4 => self.append(name, at).await,
            5 => self.sync(name, at).await,
            6 if self.random.random_range(0..2) == 0 => self.delete(name, at).await,
            7 => self.list(at).await,
            _ => self.read(name, at).await,
        }
        let len = self.model.get(&name).map(|bytes| bytes.len() as u64);
        assert_eq!(self.store.len(name).await.expect("answers"), len, "length of {name}, {at}");
    }

    async fn put(&mut self, name: PackName, at: &str) {
        let bytes = self.any_content();
        let part_len = self.random.random_range(1..9_000);
        match self.store.put(name, parts(&bytes, part_len)).await {
            Ok(()) => assert!(self.model.insert(name, bytes).is_none(), "put over {name}, {at}"),
            Err(error) => self.assert_taken(name, error.kind(), at),
        }
    }

    async fn begin(&mut self, name: PackName, at: &str) {
        match self.store.append(name).await {
            Ok(appender) => {
                assert!(self.model.insert(name, Vec::new()).is_none(), "begun over {name}, {at}");
                self.appenders.insert(name, appender);
            }
            Err(error) => self.assert_taken(name, error.kind(), at),
        }
    }

    fn assert_taken(&self, name: PackName, kind: ErrorKind, at: &str) {
        assert_eq!(kind, ErrorKind::AlreadyExists, "{at}");
        assert!(self.model.contains_key(&name), "{name} is free, {at}");
    }

    async fn append(&mut self, name: PackName, at: &str) {
        let bytes = self.any_content();
        let (Some(appender), Some(whole)) = (self.appenders.get_mut(&name), self.model.get_mut(&name)) else {
            return;
        };
        let offset = appender.append(parts(&bytes, 1_000)).await.expect("appends");
        assert_eq!(offset, whole.len() as u64, "offset in {name}, {at}");
        whole.extend_from_slice(&bytes);
    }

    async fn sync(&mut self, name: PackName, at: &str) {
        let Some(mut appender) = self.appenders.remove(&name) else { return };
        appender.sync().await.unwrap_or_else(|error| panic!("sync of {name}, {at}: {error}"));
        if !appender.sync_ends_pack() {
            self.appenders.insert(name, appender);
        }
    }

    async fn delete(&mut self, name: PackName, at: &str) {
        self.appenders.remove(&name);
        self.store.delete(name).await.unwrap_or_else(|error| panic!("removal of {name}, {at}: {error}"));
        self.model.remove(&name);
    }

    async fn list(&mut self, at: &str) {
        let after = (self.random.random_range(0..2) == 0).then(|| self.any_name());
        let limit = self.random.random_range(0..15);
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let expected: Vec<_> = self
            .model
            .range((start, Bound::Unbounded))
            .take(limit)
            .map(|(name, bytes)| PackEntry { name: *name, bytes: bytes.len() as u64 })
            .collect();
        assert_eq!(self.store.list(after, limit).await.expect("lists"), expected, "{at}");
    }

    async fn read(&mut self, name: PackName, at: &str) {
        let whole_len = self.model.get(&name).map_or(0, Vec::len);
        let offset = self.random.random_range(0..=whole_len);
        // Now and then one byte more than there is.
        let len = self.random.random_range(0..=whole_len - offset + 1);
        let result = self.store.read(name, offset as u64, len, vec![7; 20]).await;
        match (self.model.get(&name), result) {
            (None, result) => assert_eq!(result.expect_err("no such pack").kind(), ErrorKind::NotFound, "{at}"),
            (Some(whole), Ok(bytes)) => {
                assert!(Some(&bytes[..]) == whole.get(offset..offset + len), "{len} bytes at {offset} of {name}, {at}");
            }
            (Some(whole), Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{at}");
                assert!(offset + len > whole.len(), "{len} bytes at {offset} of {name} are there, {at}");
            }
        }
    }
}
