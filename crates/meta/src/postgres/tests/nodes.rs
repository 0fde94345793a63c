//! Two nodes on one database.

use super::{connect, new_database};
use crate::catalogue::{Catalogue, Relocation};
use crate::cluster::NewInstance;
use crate::conformance::{Stage, blocks, claimed, finish, guard_of, inline, kind, path, written};
use crate::postgres::Options;
use crate::types::AccountChange;
use holdfast_base::{ErrorKind, PackId, Result};
use holdfast_testkit::postgres::PostgresServer;
use std::sync::Arc;

/// Callers on each node, and what each does.
const CALLERS: u64 = 6;
const STEPS: u64 = 50;

/// A small generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 20).unwrap_or(0) % sides
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_leave_a_sound_catalogue() {
    let url = new_database().await;
    let options = Options { lanes: 3, ..Options::default() };
    let nodes: [Arc<dyn Catalogue>; 2] = [connect(&url, &options).await, connect(&url, &options).await];
    // Three spaces of one account with a quota over all of them, which every caller fills and empties.
    let ana = Stage::new(&nodes[0]).await;
    let quota = AccountChange { quota_bytes: Some(Some(20_000)), ..AccountChange::default() };
    nodes[0].change_account(ana.account.id, quota).await.expect("changes");
    let pack = ana.pack(1).await;
    let mut spaces = vec![ana.space];
    for (number, name) in ["lab", "press"].into_iter().enumerate() {
        let uid = holdfast_base::Uid([u8::try_from(number).unwrap_or(0); 16]);
        let owner = ana.account.id;
        let new = crate::types::NewSpace {
            uid,
            name: name.to_owned(),
            owner,
            wrapped_key: vec![1],
            quota_bytes: None,
            now_ms: 1,
        };
        spaces.push(nodes[1].create_space(new).await.expect("makes").id);
    }
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..2 * CALLERS {
        let catalogue = Arc::clone(&nodes[usize::try_from(caller % 2).unwrap_or(0)]);
        let (account, spaces) = (ana.account.clone(), spaces.clone());
        callers.spawn(async move {
            let mut dice = Dice((caller + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut refused = 0;
            for _ in 0..STEPS {
                let space = spaces[dice.roll(spaces.len())];
                let stage = Stage { catalogue: Arc::clone(&catalogue), account: account.clone(), space };
                match act(&stage, pack, &mut dice).await {
                    Ok(()) => {}
                    Err(error) if expected(error.kind()) => refused += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
            refused
        });
    }
    let mut refused = 0;
    while let Some(caller) = callers.join_next().await {
        refused += caller.expect("a caller ends well");
    }
    assert!(refused > 0 && refused < 2 * CALLERS * STEPS, "{refused} of {} were refused", 2 * CALLERS * STEPS);
    for node in &nodes {
        finish(node).await;
    }
    assert!(nodes[0].account_used_bytes(ana.account.id).await.expect("reads") <= 20_000);
    for &space in &spaces {
        let stage = Stage { catalogue: Arc::clone(&nodes[0]), account: ana.account.clone(), space };
        // Both nodes see the same, and the trash is listed newest first though two nodes gave out its ids.
        let other = Stage { catalogue: Arc::clone(&nodes[1]), account: ana.account.clone(), space };
        assert_eq!(stage.tree().await, other.tree().await);
        stage.set_retention(0, None, None).await;
        for node in stage.tree().await.iter().filter(|at| !at.trim_end_matches('/').contains('/')) {
            stage.remove(node).await.expect("removes");
        }
        nodes[0].purge_trash(space, None).await.expect("purges");
    }
    // Both nodes release garbage at the same time.
    let (one, two) = tokio::join!(release(&nodes[0]), release(&nodes[1]));
    assert!(one + two > 0);
    assert_eq!(nodes[0].account_used_bytes(ana.account.id).await.expect("reads"), 0);
    assert!(nodes[0].all_contents(None, 9).await.expect("reads").is_empty());
    finish(&nodes[1]).await;
}

async fn release(node: &Arc<dyn Catalogue>) -> usize {
    let mut all = 0;
    loop {
        match node.release_garbage(9).await.expect("releases") {
            0 => return all,
            some => all += some,
        }
    }
}

const fn expected(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::Conflict
            | ErrorKind::AlreadyExists
            | ErrorKind::WrongKind
            | ErrorKind::PreconditionFailed
            | ErrorKind::Forbidden
            | ErrorKind::NoSpace
            | ErrorKind::Locked
    )
}

async fn act(stage: &Stage, pack: PackId, dice: &mut Dice) -> Result<()> {
    const NAMES: [&str; 7] = ["a", "b", "a/c", "a/d", "b/c", "a/c/e", "b/c/f"];
    let catalogue = &stage.catalogue;
    let guard = guard_of(stage.account.id, 5);
    let (from, to) = (path(NAMES[dice.roll(NAMES.len())]), path(NAMES[dice.roll(NAMES.len())]));
    let relocation = Relocation { overwrite: dice.roll(2) == 0, ..stage.relocation("x", "y", true) };
    let relocation = Relocation { from: from.clone(), to, ..relocation };
    match dice.roll(14) {
        0 | 1 => drop(catalogue.make_folder(stage.space, &from, &guard).await?),
        2 | 3 => {
            let size = u64::try_from(dice.roll(3_000)).unwrap_or(0);
            drop(catalogue.commit_file(stage.space, &from, inline(size), 0, &guard).await?);
        }
        4 | 5 => {
            let name = u8::try_from(dice.roll(9)).unwrap_or(0) + 16 * u8::try_from(stage.space.0 % 8).unwrap_or(0);
            let content = blocks(vec![written(name, pack), claimed(name)]);
            drop(catalogue.commit_file(stage.space, &from, content, 0, &guard).await?);
        }
        6 => {
            catalogue.remove(stage.space, &from, &guard).await?;
        }
        7 => drop(catalogue.relocate(&relocation, &guard).await?),
        8 => drop(catalogue.copy(&relocation, &guard).await?),
        9 => {
            let token = format!("t{}", dice.0);
            let lock = crate::types::NewLock { expires_ms: 6, ..stage.new_lock(&token, true, dice.roll(2) == 0) };
            drop(catalogue.lock(stage.space, &from, lock, &guard).await?);
            catalogue.unlock(stage.space, &from, &token, &guard).await?;
        }
        10 | 11 => drop(stage.link(&from, &relocation.to, &guard).await?),
        12 => {
            drop(catalogue.trash(stage.space, None, 5).await?);
            catalogue.expire(1, 5).await?;
            catalogue.release_garbage(20).await?;
        }
        _ => {
            let entry = catalogue.trash(stage.space, None, 1).await?.first().map(|entry| entry.id);
            if dice.roll(2) == 0 {
                catalogue.purge_trash(stage.space, entry).await?;
            } else if let Some(entry) = entry {
                catalogue.restore_trash(stage.space, entry, None, &guard).await?;
            }
        }
    }
    Ok(())
}

/// While an upgrade goes on, a node of the version before would change one name of a file and not the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_linked_while_a_node_serves_that_knows_nothing_of_it() {
    let url = new_database().await;
    let nodes = [connect(&url, &Options::default()).await, connect(&url, &Options::default()).await];
    let join = |node: usize| {
        let uid = holdfast_base::Uid([u8::try_from(node).unwrap_or(0); 16]);
        nodes[node].join(NewInstance { uid, name: format!("node{node}"), version: "1".into() })
    };
    let (first, second) = (join(0).await.expect("joins").id, join(1).await.expect("joins").id);
    let stage = Stage::new(&(Arc::clone(&nodes[0]) as Arc<dyn Catalogue>)).await;
    stage.write("a", 5).await;
    let (a, b) = (path("a"), path("b"));
    // What the program before says when it joins is all but its level.
    let server = PostgresServer::shared().expect("runs");
    let sql = |sql: &str| server.sql(url.rsplit_once('/').expect("a path").1, sql);
    sql(&format!("UPDATE instance SET level = DEFAULT WHERE id = {second}", second = second.0)).expect("writes");
    let refused = stage.link(&a, &b, &stage.guard()).await.expect_err("it waits for that node");
    assert_eq!((refused.kind(), refused.message().contains("node1")), (ErrorKind::Unsupported, true));
    nodes[1].leave(second).await.expect("leaves");
    stage.link(&a, &b, &stage.guard()).await.expect("links");
    // One that slept meanwhile cannot come back, and one of this version can.
    let older = "INSERT INTO instance (id, uid, name, addresses, version, started_ms, seen_ms) \
                 SELECT 999999, '\\x00', 'old', '', '0', 0, 0";
    assert!(sql(older).is_err());
    join(1).await.expect("joins");
    assert!(nodes[0].beat(first, "").await.expect("is told"));
    assert_eq!(kind(stage.link(&a, &b, &stage.guard()).await), ErrorKind::AlreadyExists);
    finish(&stage.catalogue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trash_of_two_nodes_is_listed_newest_first() {
    let url = new_database().await;
    let options = Options::default();
    let nodes: [Arc<dyn Catalogue>; 2] = [connect(&url, &options).await, connect(&url, &options).await];
    let first = Stage::new(&nodes[0]).await;
    let second = Stage { catalogue: Arc::clone(&nodes[1]), account: first.account.clone(), space: first.space };
    let mut removed = Vec::new();
    for number in 0..12 {
        let stage = if number % 3 == 0 { &first } else { &second };
        let name = format!("f{number}");
        stage.write(&name, 1).await;
        stage.remove(&name).await.expect("removes");
        removed.insert(0, format!("/{name}"));
    }
    let listed = nodes[0].trash(first.space, None, 100).await.expect("lists");
    assert_eq!(listed.into_iter().map(|entry| entry.path).collect::<Vec<_>>(), removed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_holds_over_two_spaces_and_two_nodes() {
    let url = new_database().await;
    let options = Options::default();
    let nodes: [Arc<dyn Catalogue>; 2] = [connect(&url, &options).await, connect(&url, &options).await];
    let ana = Stage::new(&nodes[0]).await;
    let new = crate::types::NewSpace {
        uid: holdfast_base::Uid([7; 16]),
        name: "lab".to_owned(),
        owner: ana.account.id,
        wrapped_key: vec![1],
        quota_bytes: None,
        now_ms: 1,
    };
    let lab = nodes[1].create_space(new).await.expect("makes").id;
    let quota = AccountChange { quota_bytes: Some(Some(1_000)), ..AccountChange::default() };
    nodes[0].change_account(ana.account.id, quota).await.expect("changes");
    let mut writers = tokio::task::JoinSet::new();
    for (node, space) in [(0, ana.space), (1, lab)] {
        let stage = Stage { catalogue: Arc::clone(&nodes[node]), account: ana.account.clone(), space };
        writers.spawn(async move {
            let mut kept = 0;
            for number in 0..40 {
                match stage.try_write(&format!("f{number}"), 30, &stage.guard()).await {
                    Ok(_) => kept += 30,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}"),
                }
            }
            kept
        });
    }
    let mut kept = 0;
    while let Some(writer) = writers.join_next().await {
        kept += writer.expect("a writer ends well");
    }
    assert_eq!(kept, 990, "as many as fit and no more");
    assert_eq!(nodes[0].account_used_bytes(ana.account.id).await.expect("reads"), 990);
    finish(&nodes[0]).await;
}
