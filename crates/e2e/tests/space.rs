//! Space comes back: a tree that is made and deleted again and again leaves disk and memory flat.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::thread;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{HOME, NAME, Rig};
use holdfast_testkit::data::{Kind, TreeFile, TreeSpec};
use holdfast_testkit::http::Client;

/// Times that the tree is made and deleted; `HOLDFAST_ROUNDS` sets another number.
const ROUNDS: usize = 10;
/// Clients that put it in.
const CLIENTS: usize = 8;
/// What disk use after the last round may differ from that after the first.
const DISK_SHARE: f64 = 0.05;
/// The same of the resident set.
const MEMORY_SHARE: f64 = 0.10;

/// A difference on the disk that is none, whatever its share: of a small tree not much is left, and some pages more are a large
/// share.
const DISK_SLACK_BYTES: u64 = 1 << 20;
/// The same in memory: what caches hold is filled in the first rounds, some 5 MiB above 50; forty rounds stay there.
const MEMORY_SLACK_BYTES: u64 = 8 << 20;
/// What the disk may grow by beyond the bytes of files that do not compress: heads of records, and the catalogue.
const GROWTH_SHARE: f64 = 0.05;
/// What the catalogue's log may hold on the disk. It is copied from 16 MiB on, while writers go on.
const LOG_BYTES_MAX: u64 = 32 << 20;
/// The tree of a round: 131,072 bytes on average. `HOLDFAST_TREE_FILES` sets how many files; 10,000 are the full size.
fn tree(round: usize) -> TreeSpec {
    TreeSpec { seed: round as u64, files: knob("HOLDFAST_TREE_FILES", 2000), ..TreeSpec::default() }
}

/// Puts a tree below `base`.
fn put_tree(client: &Client, base: &str, spec: &TreeSpec) -> Outcome {
    let files = spec.list();
    let mut maker = client.clone();
    let mut made = std::collections::BTreeSet::from([base.to_owned()]);
    maker.mkcol(base)?.expect_status(201)?;
    for file in &files {
        let folders = file.path.match_indices('/').map(|(at, _)| format!("{base}/{}", &file.path[..at]));
        for folder in folders.collect::<Vec<_>>() {
            if made.insert(folder.clone()) {
                maker.mkcol(&folder)?.expect_status(201)?;
            }
        }
    }
    let files = Mutex::new(files.into_iter());
    let take = || -> Option<TreeFile> { files.lock().expect("no thread panics with it").next() };
    thread::scope(|scope| {
        let work = || -> Outcome {
            let mut client = client.clone();
            while let Some(file) = take() {
                client.put(&format!("{base}/{}", file.path), file.content())?.expect_status(201)?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a client panicked")?)
    })
}

fn flat(name: &str, first: u64, last: u64, share: f64, slack_bytes: u64) -> Result<(), String> {
    let change = (last as f64 - first as f64) / first as f64;
    println!("{name}: {first} bytes after the first round, {last} after the last: {:+.1} %", change * 100.0);
    if change <= share || last.saturating_sub(first) <= slack_bytes {
        Ok(())
    } else {
        Err(format!("{name} changed by {:.1} %", change * 100.0))
    }
}

/// What the drive holds on the disk without the catalogue's log: that is of one length in the end, grows in the rounds before, and the
/// faster so the fewer changes a commit has.
fn kept(rig: &Rig) -> Outcome<u64> {
    let log = fs::metadata(rig.data().join("catalogue.db-wal")).map_or(0, |log| log.blocks() * 512);
    assert!(log <= LOG_BYTES_MAX, "the catalogue's log has {log} bytes");
    // The log is not there on other engines, and may go before it is counted with the rest.
    Ok(rig.place.disk_use(&rig.data())?.saturating_sub(log))
}

/// Empties the trash and has the space given back.
fn give_back(rig: &Rig, client: &mut Client) -> Outcome {
    let purged = client.delete(&format!("/api/v1/spaces/{NAME}/trash"))?;
    assert!(purged.is_success(), "{}", purged.text());
    rig.reclaim()?;
    let left = rig.objects()?.names()?;
    if left.is_empty() { Ok(()) } else { Err(format!("packs are left: {left:?}\n{}", rig.server.log()).into()) }
}

/// Makes the tree, deletes it for good, and has the space given back. The names are the same each time and the content is other: the
/// worst case for what remembers content.
fn make_and_delete(rig: &Rig, client: &mut Client, round: usize) -> Outcome {
    put_tree(client, &format!("{HOME}/tree"), &tree(round))?;
    client.delete(&format!("{HOME}/tree"))?.expect_status(204)?;
    give_back(rig, client)
}

/// The catalogue's log is bounded and empty after a stop, so the disk is looked at then; memory while the server runs.
#[test]
fn a_tree_made_and_deleted_ten_times_leaves_disk_and_memory_flat() -> Outcome {
    let mut rig = Rig::new()?;
    let mut client = rig.client();
    make_and_delete(&rig, &mut client, 0)?;
    rig.stop()?;
    let disk = rig.place.disk_use(&rig.data())?;
    rig.start_again()?;
    let mut client = rig.client();
    let mut memory = Vec::new();
    for round in 1..=knob("HOLDFAST_ROUNDS", ROUNDS) {
        make_and_delete(&rig, &mut client, round)?;
        memory.push(rig.server.rss()?);
    }
    rig.stop()?;
    println!("MiB in memory after each round: {:?}", memory.iter().map(|bytes| bytes >> 20).collect::<Vec<_>>());
    let (first, last) = (memory[0], memory[memory.len() - 1]);
    flat("disk", disk, rig.place.disk_use(&rig.data())?, DISK_SHARE, DISK_SLACK_BYTES)?;
    flat("memory", first, last, MEMORY_SHARE, MEMORY_SLACK_BYTES)?;
    expect_clean(rig.server.options())
}

#[test]
fn a_tree_made_ten_times_grows_the_disk_by_what_was_stored() -> Outcome {
    let mut rig = Rig::new()?;
    let client = rig.client();
    let spec = TreeSpec { kind: Kind::Incompressible, files: tree(0).files / 10, ..tree(0) };
    let stored = spec.files as u64 * spec.mean_bytes;
    let mut before = kept(&rig)?;
    for round in 0..ROUNDS {
        put_tree(&client, &format!("{HOME}/tree{round}"), &TreeSpec { seed: round as u64, ..spec })?;
        rig.reclaim()?;
        let now = kept(&rig)?;
        let share = (now - before) as f64 / stored as f64;
        println!("round {round}: {} MiB stored, {share:.3} of it on the disk", stored >> 20);
        assert!((1.0 - GROWTH_SHARE..=1.0 + GROWTH_SHARE).contains(&share), "{share}");
        before = now;
    }
    // The same bytes again are kept once.
    put_tree(&client, &format!("{HOME}/again"), &TreeSpec { seed: 0, ..spec })?;
    rig.reclaim()?;
    // A database that cleaned up meanwhile has less.
    let share = kept(&rig)?.saturating_sub(before) as f64 / stored as f64;
    println!("the first tree again: {share:.3} of it on the disk");
    assert!(share < GROWTH_SHARE, "{share}");
    rig.stop()
}
