//! A real engine for tests: SQLite in a temporary folder, packs in memory, one account.
#![allow(dead_code, reason = "each test program uses its part")]

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_auth::accounts::{NewPerson, Proof};
use holdfast_auth::{Accounts, AuthOptions, Secret, Session};
use holdfast_base::{ByteRange, DrivePath, ManualClock, Result};
use holdfast_blob::BlobStore;
use holdfast_blob::memory::MemoryStore;
use holdfast_drive::engine::{Engine, EngineOptions};
use holdfast_drive::{Changed, ContentStream, Drive, Location, WriteOptions};

use holdfast_meta::sqlite::{Options, SqliteCatalogue};
use holdfast_seal::keys::Argon2Params;
use std::sync::Arc;

pub(crate) const PASSWORD: &str = "correct horse battery staple, twice";

pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) catalogue: Arc<SqliteCatalogue>,
    pub(crate) memory: MemoryStore,
    pub(crate) accounts: Accounts,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ana: Session,
    _folder: tempfile::TempDir,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let memory = MemoryStore::new();
        Self::with_store(memory.clone(), Arc::new(memory)).await
    }

    /// A rig whose engine sees `store`, a wrapper of `memory`. Packs are small so that tests close some.
    pub(crate) async fn with_store(memory: MemoryStore, store: Arc<dyn BlobStore>) -> Self {
        Self::with_uploads(memory, store, EngineOptions::default().upload_bytes).await
    }

    /// The same with so much memory for uploads.
    pub(crate) async fn with_uploads(memory: MemoryStore, store: Arc<dyn BlobStore>, upload_bytes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("catalogue.db");
        let catalogue = Arc::new(SqliteCatalogue::open(&path, &Options::default()).expect("opens"));
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let options = EngineOptions { pack_bytes: 8 << 20, upload_bytes, ..EngineOptions::default() };
        let engine = Engine::start(catalogue.clone(), store, clock.clone(), options).await.expect("starts");
        let cheap =
            AuthOptions { argon2: Argon2Params { memory_kib: 8, passes: 1, lanes: 1 }, ..AuthOptions::default() };
        let accounts = Accounts::new(catalogue.clone(), clock.clone(), &cheap).expect("makes");
        let ana = sign_up(&accounts, "ana").await;
        Self { engine, catalogue, memory, accounts, clock, ana, _folder: folder }
    }

    /// The engine of a process that starts while this one is not there any more, or does not know it yet.
    pub(crate) async fn next_engine(&self) -> Engine {
        self.next_engine_keeping(false).await
    }

    /// The same, with journals that may name what is in the packs of the one before.
    pub(crate) async fn next_engine_keeping(&self, keep_left: bool) -> Engine {
        let options = EngineOptions { pack_bytes: 8 << 20, keep_left, ..EngineOptions::default() };
        let store = Arc::new(self.memory.clone());
        Engine::start(self.catalogue.clone(), store, self.clock.clone(), options).await.expect("starts")
    }

    pub(crate) async fn put(&self, path: &str, content: &[u8]) -> Result<Changed> {
        let options = WriteOptions { length: Some(content.len() as u64), ..WriteOptions::default() };
        self.engine.write(&self.ana, &at(path), options, body(content)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Vec<u8>> {
        let walk = self.engine.walk(&self.ana, &at(path)).await?;
        let size = walk.node().map_or(0, |node| node.size);
        self.get_range(path, ByteRange::whole(size)).await
    }

    pub(crate) async fn get_range(&self, path: &str, range: ByteRange) -> Result<Vec<u8>> {
        let walk = self.engine.walk(&self.ana, &at(path)).await?;
        drain(self.engine.read(&self.ana, &walk, range).await?).await
    }

    pub(crate) async fn open_ana(&self) -> Session {
        self.accounts.open("ana", Proof::Password(&Secret::new(PASSWORD))).await.expect("opens")
    }

    pub(crate) async fn usage(&self) -> holdfast_drive::Usage {
        self.engine.space(&self.ana, "ana").await.expect("sees its home").usage
    }

    pub(crate) async fn pack_bytes(&self) -> u64 {
        self.memory.list(None, 100_000).await.expect("lists").iter().map(|entry| entry.bytes).sum()
    }

    /// Everything that references nothing is freed, the open pack included.
    pub(crate) async fn reclaim(&self) -> holdfast_drive::care::ReclaimReport {
        holdfast_drive::care::reclaim(&self.engine, true).await.expect("reclaims")
    }

    pub(crate) async fn assert_sound(&self) {
        let options = holdfast_drive::care::CheckOptions { read_data: true, repair: false };
        let report = holdfast_drive::care::check(&*self.catalogue, &self.memory, options).await.expect("checks");
        assert_eq!(report.findings, Vec::new());
    }
}

pub(crate) async fn sign_up(accounts: &Accounts, name: &str) -> Session {
    let password = Secret::new(PASSWORD);
    let person = NewPerson { name: name.to_owned(), password: Some(password.clone()), ..NewPerson::default() };
    accounts.create(person).await.expect("makes an account");
    accounts.open(name, Proof::Password(&password)).await.expect("opens it")
}

pub(crate) fn at(path: &str) -> Location {
    at_space("ana", path)
}

pub(crate) fn at_space(space: &str, path: &str) -> Location {
    Location { space: space.to_owned(), path: DrivePath::parse(path).expect("a path") }
}

/// A body in uneven chunks.
pub(crate) fn body(content: &[u8]) -> ContentStream {
    let chunks: Vec<_> = content.chunks(77_777).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    stream::iter(chunks).boxed()
}

pub(crate) async fn drain(mut stream: ContentStream) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(piece) = stream.next().await {
        all.extend_from_slice(&piece?);
    }
    Ok(all)
}

/// `bytes` bytes that do not shrink, different for every seed.
pub(crate) fn even_bytes(seed: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

/// `bytes` bytes of text, different for every seed.
pub(crate) fn text(seed: u64, bytes: usize) -> Vec<u8> {
    (0..)
        .flat_map(|n: u64| format!("line {n} of {seed}: {}\n", n.wrapping_mul(seed | 1)).into_bytes())
        .take(bytes)
        .collect()
}
