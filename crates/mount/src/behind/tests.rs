//! Content in blocks that is answered before the disk has it, over a real engine whose store does what a test tells it to.

use super::Behind;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_auth::accounts::{NewPerson, Proof};
use holdfast_auth::{Accounts, AuthOptions, Secret, Session};
use holdfast_base::{ByteRange, ErrorKind, ManualClock, NodeId, NodeName, Result};
use holdfast_blob::layer::fault::{Fault, Faults, Gate};
use holdfast_blob::layer::{Layered, Operation};
use holdfast_blob::memory::MemoryStore;
use holdfast_drive::engine::{Engine, EngineOptions};
use holdfast_drive::{Durable, Entry, Leave, NewNode, NodeKind, Posix, Save, SaveBody, Tree, Unlink};
use holdfast_meta::sqlite::{Options, SqliteCatalogue};
use holdfast_seal::keys::Argon2Params;
use holdfast_testkit::rng::Prng;
use std::sync::Arc;
use std::time::Duration;

const PASSWORD: &str = "correct horse battery staple, twice";
const MIB: usize = 1 << 20;

pub(crate) struct Rig {
    engine: Engine,
    faults: Arc<Faults>,
    ana: Arc<Session>,
    pub(crate) folder: tempfile::TempDir,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("catalogue.db");
        let catalogue = Arc::new(SqliteCatalogue::open(&path, &Options::default()).expect("opens"));
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let faults = Arc::new(Faults::default());
        let store = Arc::new(Layered::sharing(Arc::new(MemoryStore::new()), faults.clone()));
        let options = EngineOptions::default();
        let engine = Engine::start(catalogue.clone(), store, clock.clone(), options).await.expect("starts");
        let cheap =
            AuthOptions { argon2: Argon2Params { memory_kib: 8, passes: 1, lanes: 1 }, ..AuthOptions::default() };
        let accounts = Accounts::new(catalogue, clock, &cheap).expect("makes");
        let password = Secret::new(PASSWORD);
        let person = NewPerson { name: "ana".into(), password: Some(password.clone()), ..NewPerson::default() };
        accounts.create(person).await.expect("makes an account");
        let ana = Arc::new(accounts.open("ana", Proof::Password(&password)).await.expect("opens it"));
        Self { engine, faults, ana, folder }
    }

    /// The tree of a mount that answers nothing first.
    pub(crate) async fn tree(&self) -> Arc<dyn Tree> {
        self.engine.tree(self.ana.clone(), "ana").await.expect("a tree")
    }

    /// A mount's tree, whose journal is where the one before had its own.
    pub(crate) async fn behind(&self) -> Behind {
        let inner = self.engine.tree(self.ana.clone(), "ana").await.expect("a tree");
        let folder = self.folder.path().join("mount");
        for _ in 0..100 {
            match Behind::start(inner.clone(), &folder).await {
                // The task of the one before has not ended.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                started => return started.expect("starts"),
            }
        }
        panic!("the mount before this one goes on");
    }

    /// Files as the catalogue has them, with their bytes.
    async fn catalogue_has(&self, name: &str) -> Option<Vec<u8>> {
        let tree = self.tree().await;
        let found = tree.lookup(tree.root(), &node_name(name)).await.expect("looks")?;
        Some(read(&*tree, &found).await.expect("reads"))
    }
}

fn node_name(name: &str) -> NodeName {
    NodeName::new(name).expect("a name")
}

pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Prng::new(seed).fill(&mut bytes);
    bytes
}

fn body(content: &[u8]) -> SaveBody {
    let pieces: Vec<_> = content.chunks(65_536).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    stream::iter(pieces).boxed().into()
}

pub(crate) async fn make(tree: &dyn Tree, name: &str) -> Entry {
    let posix = Posix { mode: 0o644, ..Posix::default() };
    let new = NewNode { parent: tree.root(), name: node_name(name), kind: NodeKind::File, posix };
    tree.create(new, Bytes::new(), Durable::Soon).await.expect("made")
}

/// Saves all of a file, as closing it does.
pub(crate) async fn save(tree: &dyn Tree, file: &Entry, content: &[u8]) -> Result<Entry> {
    let (node, base, size) = (file.node.id, file.node.content, content.len() as u64);
    let body_range = ByteRange::whole(size);
    let posix = Posix { mode: 0o644, ..Posix::default() };
    let save = Save { node, base, body: body_range, size, posix, keep: false, durable: Durable::Soon };
    tree.save(save, body(content)).await
}

pub(crate) async fn read(tree: &dyn Tree, entry: &Entry) -> Result<Vec<u8>> {
    let Some(content) = entry.node.content else { return Ok(Vec::new()) };
    tree.open(content).await?.read(ByteRange::whole(entry.node.size)).await
}

pub(crate) async fn look(tree: &dyn Tree, name: &str) -> Entry {
    tree.lookup(tree.root(), &node_name(name)).await.expect("looks").expect("is there")
}

async fn unlink(tree: &dyn Tree, name: &str) -> NodeId {
    let leave = Leave { now_ns: 1, held_until_ms: None, forget_after_ms: 0 };
    let unlink = Unlink { parent: tree.root(), name: node_name(name), folder: false, leave };
    tree.unlink(unlink).await.expect("removes")
}

/// Whether something is still waited for after a while.
async fn waits<T>(work: impl Future<Output = T>) -> bool {
    tokio::time::timeout(Duration::from_millis(300), work).await.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_is_answered_and_read_while_the_store_has_not_synced_and_a_sync_waits_for_that() {
    let rig = Rig::new().await;
    let behind = rig.behind().await;
    let gate = Arc::new(Gate::default());
    rig.faults.always(Operation::Sync, Fault::Wait(gate.clone()));
    let mut files = Vec::new();
    for (seed, length) in (1..).zip([5_000, 70_000, MIB, 5 * MIB + 3, 3]) {
        let (name, content) = (format!("f{seed}"), bytes(seed, length));
        let file = make(&behind, &name).await;
        let saved = save(&behind, &file, &content).await.expect("answered");
        assert_eq!(saved.node.size, length as u64);
        files.push((name, content));
    }
    gate.wait_for_arrival().await;
    for (name, content) in &files {
        let entry = look(&behind, name).await;
        assert!(read(&behind, &entry).await.expect("reads") == *content, "{name}");
    }
    assert_eq!(behind.condition().deferred.map(|waiting| waiting.changes > 0), Some(true));
    assert_ne!(rig.catalogue_has("f2").await, Some(files[1].1.clone()), "it is told of nothing that is not synced");
    assert!(waits(behind.settle()).await);
    gate.open();
    behind.settle().await.expect("settles");
    for (name, content) in &files {
        assert!(rig.catalogue_has(name).await.as_ref() == Some(content), "{name}");
    }
    assert_eq!(behind.shared.state.lock().unsynced_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_what_waits_is_saved_when_the_catalogue_knows_the_rest() {
    let rig = Rig::new().await;
    let behind = rig.behind().await;
    let gate = Arc::new(Gate::default());
    rig.faults.on(Operation::Sync, 1, Fault::Wait(gate.clone()));
    let mut content = bytes(1, 3 * MIB + 5);
    let file = make(&behind, "file").await;
    let saved = save(&behind, &file, &content).await.expect("answered");
    content[MIB..2 * MIB].copy_from_slice(&bytes(2, MIB));
    let (node, base, size) = (saved.node.id, saved.node.content, content.len() as u64);
    let range = ByteRange { start: MIB as u64, end: 2 * MIB as u64 };
    let posix = Posix { mode: 0o600, ..Posix::default() };
    let part = Save { node, base, body: range, size, posix, keep: false, durable: Durable::Soon };
    let saving = behind.save(part, body(&content[MIB..2 * MIB]));
    let mut saving = std::pin::pin!(saving);
    assert!(waits(&mut saving).await);
    gate.open();
    saving.await.expect("saves");
    let entry = look(&behind, "file").await;
    assert!(read(&behind, &entry).await.expect("reads") == content);
    assert!(rig.catalogue_has("file").await == Some(content));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_what_is_made_and_removed_again_nothing_is_synced() {
    let rig = Rig::new().await;
    let behind = rig.behind().await;
    let (calls, gate) = (rig.faults.calls(Operation::Sync), Arc::new(Gate::default()));
    // Nothing is handed over before the sync of the first.
    rig.faults.on(Operation::Sync, 1, Fault::Wait(gate.clone()));
    let first = make(&behind, "first").await;
    save(&behind, &first, &bytes(1, 70_000)).await.expect("answered");
    gate.wait_for_arrival().await;
    for round in 2..10 {
        let file = make(&behind, "scratch").await;
        save(&behind, &file, &bytes(round, 70_000)).await.expect("answered");
        unlink(&behind, "scratch").await;
    }
    gate.open();
    behind.settle().await.expect("settles");
    assert_eq!(rig.faults.calls(Operation::Sync) - calls, 1);
    assert_eq!(behind.shared.state.lock().unsynced_bytes(), 0);
    assert!(rig.catalogue_has("first").await == Some(bytes(1, 70_000)));
    assert_eq!(rig.catalogue_has("scratch").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_failed_sync_leaves_in_doubt_is_written_once_more() {
    let rig = Rig::new().await;
    let behind = rig.behind().await;
    rig.faults.on(Operation::Sync, 1, Fault::FailBefore(ErrorKind::Unavailable));
    let content = bytes(1, 2 * MIB);
    let file = make(&behind, "file").await;
    save(&behind, &file, &content).await.expect("answered");
    // The sync that fails may be told to whoever waits; the next attempt goes well.
    let _ = behind.settle().await;
    behind.settle().await.expect("settles");
    assert!(rig.catalogue_has("file").await == Some(content));
    assert_eq!(behind.trouble(file.node.id).map(|error| error.to_string()), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_lost_is_told_and_holds_up_nothing_else() {
    one_is_not_there(Fault::FlipBit(99), ErrorKind::Damaged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_cannot_read_is_told_and_holds_up_nothing_else() {
    one_is_not_there(Fault::FailBefore(ErrorKind::Unavailable), ErrorKind::Unavailable).await;
}

/// A sync fails, and then not all that it was about can be written once more.
async fn one_is_not_there(fault: Fault, kind: ErrorKind) {
    let rig = Rig::new().await;
    let behind = rig.behind().await;
    let (content, other_content) = (bytes(1, 2 * MIB), bytes(2, 70_000));
    rig.faults.on(Operation::Sync, 1, Fault::FailBefore(ErrorKind::Unavailable));
    rig.faults.always(Operation::Read, fault);
    let file = make(&behind, "lost").await;
    save(&behind, &file, &content).await.expect("answered");
    let _ = behind.settle().await;
    let other = make(&behind, "other").await;
    save(&behind, &other, &other_content).await.expect("answered");
    let _ = behind.settle().await;
    behind.settle().await.expect("settles");
    rig.faults.clear();
    assert!(rig.catalogue_has("other").await == Some(other_content));
    let trouble = behind.trouble(file.node.id).expect("whoever closes or syncs it is told");
    assert_eq!(trouble.kind(), kind);
    // The store has it after all: it is tried again.
    for _ in 0..100 {
        if rig.catalogue_has("lost").await.as_ref() == Some(&content) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("it was not tried again: {:?}", behind.condition().deferred);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_mount_hands_over_what_one_before_it_answered_up_to_what_is_damaged() {
    for damaged in [false, true] {
        let rig = Rig::new().await;
        let behind = rig.behind().await;
        let gate = Arc::new(Gate::default());
        rig.faults.always(Operation::Sync, Fault::Wait(gate.clone()));
        for seed in 1..=4 {
            let file = make(&behind, &format!("f{seed}")).await;
            save(&behind, &file, &bytes(seed, 2 * MIB)).await.expect("answered");
        }
        gate.wait_for_arrival().await;
        // As if the process had ended here.
        drop(behind);
        rig.faults.clear();
        gate.open();
        if damaged {
            // Of the third file, the second block.
            rig.faults.on(Operation::Read, 6, Fault::FlipBit(99));
        }
        let next = rig.behind().await;
        for seed in 1..=4 {
            let expected = match (damaged, seed) {
                (false, _) | (true, 1 | 2) => Some(bytes(seed, 2 * MIB)),
                // It was made before, and what came later was never there.
                (true, 3) => Some(Vec::new()),
                _ => None,
            };
            assert!(rig.catalogue_has(&format!("f{seed}")).await == expected, "f{seed}, damaged: {damaged}");
        }
        let aside = rig.folder.path().join("mount").read_dir().expect("lists").filter_map(Result::ok);
        let aside = aside.filter(|entry| entry.path().extension().is_some_and(|is| is == "damaged")).count();
        assert_eq!(aside, usize::from(damaged), "the machine has not gone down, so it is no power cut");
        let file = make(&next, "after").await;
        save(&next, &file, &bytes(9, 70_000)).await.expect("answered");
        next.settle().await.expect("settles");
        drop(next);
        let last = rig.behind().await;
        assert!(read(&last, &look(&last, "after").await).await.expect("reads") == bytes(9, 70_000));
    }
}
