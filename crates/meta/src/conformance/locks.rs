//! Locks.

use super::stage::{Stage, guard_of, kind, path};
use crate::catalogue::{Catalogue, Guard};
use crate::types::{Lock, PropertyChange, Role};
use holdfast_base::{ErrorKind, Result};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

async fn lock(stage: &Stage, at: &str, token: &str, exclusive: bool, deep: bool) -> Result<Lock> {
    let new = stage.new_lock(token, exclusive, deep);
    stage.catalogue.lock(stage.space, &path(at), new, &stage.guard()).await.map(|(lock, _)| lock)
}

async fn other(stage: &Stage, tokens: &[&str]) -> Guard {
    let known = stage.catalogue.account_by_name("bo").await.expect("reads");
    let account = if let Some(account) = known {
        account
    } else {
        let bo = Stage::account(&stage.catalogue, "bo").await.0;
        stage.catalogue.put_member(stage.space, bo.id, Role::Editor, vec![6; 60]).await.expect("adds");
        bo
    };
    Guard { account: account.id, ..stage.holding(tokens) }
}

pub async fn a_locked_file_is_written_by_its_holder_only(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let node = stage.write("f", 1).await.node;
    let taken = lock(&stage, "f", "t", true, false).await.expect("locks");
    assert_eq!(catalogue.locks_on(stage.space, &[node.id], 2_000).await.expect("reads"), [taken]);
    assert_eq!(kind(stage.try_write("f", 2, &stage.guard()).await), ErrorKind::Locked);
    assert_eq!(kind(stage.try_write("f", 2, &stage.holding(&["x"])).await), ErrorKind::Locked);
    assert_eq!(kind(stage.try_write("f", 2, &other(&stage, &["t"]).await).await), ErrorKind::Locked);
    let dated = [PropertyChange::Modified(1)];
    let refused = catalogue.change_properties(stage.space, &path("f"), &dated, &stage.guard()).await;
    assert_eq!(kind(refused), ErrorKind::Locked);
    assert_eq!(kind(stage.remove("f").await), ErrorKind::Locked);
    assert_eq!(kind(stage.relocate("f", "g", false).await), ErrorKind::Locked);
    stage.copy("f", "g", false).await.expect("reading is free");
    assert_eq!(kind(stage.copy("g", "f", true).await), ErrorKind::Locked);
    stage.try_write("f", 2, &stage.holding(&["x", "t"])).await.expect("holds the lock");
}

pub async fn a_lock_on_a_folder_protects_its_members(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    stage.folder("d/sub").await;
    stage.write("d/f", 1).await;
    stage.write("g", 1).await;
    lock(&stage, "d", "t", true, false).await.expect("locks");
    stage.write("d/f", 2).await;
    stage.write("d/sub/x", 2).await;
    assert_eq!(kind(stage.try_write("d/new", 1, &stage.guard()).await), ErrorKind::Locked);
    let made = catalogue.make_folder(stage.space, &path("d/new"), &stage.guard()).await;
    assert_eq!(kind(made), ErrorKind::Locked);
    for at in ["d/f", "d/sub", "d"] {
        assert_eq!(kind(stage.remove(at).await), ErrorKind::Locked, "{at}");
        assert_eq!(kind(stage.relocate(at, "elsewhere", false).await), ErrorKind::Locked, "{at}");
    }
    assert_eq!(kind(stage.relocate("g", "d/g", false).await), ErrorKind::Locked);
    assert_eq!(kind(stage.copy("g", "d/f", true).await), ErrorKind::Locked);
    stage.try_write("d/new", 1, &stage.holding(&["t"])).await.expect("holds the lock");
}

pub async fn a_deep_lock_covers_what_is_below(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    stage.folder("d/sub").await;
    stage.write("d/sub/f", 1).await;
    lock(&stage, "d", "t", true, true).await.expect("locks");
    for at in ["d/sub/f", "d/sub/new", "d/new"] {
        assert_eq!(kind(stage.try_write(at, 1, &stage.guard()).await), ErrorKind::Locked, "{at}");
        stage.try_write(at, 1, &stage.holding(&["t"])).await.expect("holds the lock");
    }
    assert_eq!(kind(stage.remove("d/sub").await), ErrorKind::Locked);
    catalogue.remove(stage.space, &path("d/sub"), &stage.holding(&["t"])).await.expect("holds the lock");
    stage.write("beside", 1).await;
}

pub async fn a_folder_with_a_lock_inside_stays(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    stage.folder("d/sub").await;
    let file = stage.write("d/sub/f", 1).await.node;
    stage.folder("e").await;
    lock(&stage, "d/sub/f", "t", true, false).await.expect("locks");
    assert_eq!(kind(stage.remove("d").await), ErrorKind::Locked);
    assert_eq!(kind(stage.relocate("d", "x", false).await), ErrorKind::Locked);
    assert_eq!(kind(stage.relocate("e", "d", true).await), ErrorKind::Locked);
    assert_eq!(kind(stage.copy("e", "d", true).await), ErrorKind::Locked);
    let guard = stage.holding(&["t"]);
    catalogue.relocate(&stage.relocation("d", "x", false), &guard).await.expect("holds the lock");
    assert!(catalogue.locks_on(stage.space, &[file.id], 2_000).await.expect("reads").is_empty());
    stage.write("x/sub/f", 2).await;
}

pub async fn shared_locks_share(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.write("f", 1).await;
    lock(&stage, "f", "mine", false, false).await.expect("locks");
    let guard = other(&stage, &[]).await;
    catalogue.lock(stage.space, &path("f"), stage.new_lock("theirs", false, false), &guard).await.expect("shares");
    assert_eq!(kind(stage.try_write("f", 2, &stage.guard()).await), ErrorKind::Locked);
    stage.try_write("f", 2, &stage.holding(&["mine"])).await.expect("holds one of the locks");
    stage.try_write("f", 2, &other(&stage, &["theirs"]).await).await.expect("holds one of the locks");
    assert_eq!(kind(stage.try_write("f", 2, &stage.holding(&["theirs"])).await), ErrorKind::Locked);
    let node = stage.node("f").await.expect("is there");
    assert_eq!(catalogue.locks_on(stage.space, &[node.id], 2_000).await.expect("reads").len(), 2);
}

pub async fn locks_that_conflict_are_refused(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    stage.write("d/f", 1).await;
    lock(&stage, "d/f", "t", true, false).await.expect("locks");
    assert_eq!(kind(lock(&stage, "d/f", "u", false, false).await), ErrorKind::Locked);
    assert_eq!(kind(lock(&stage, "d/f", "u", true, false).await), ErrorKind::Locked);
    assert_eq!(kind(lock(&stage, "d", "u", false, true).await), ErrorKind::Locked);
    lock(&stage, "d", "shallow", true, false).await.expect("covers other things");
    catalogue.unlock(stage.space, &path("d"), "shallow", &stage.guard()).await.expect("unlocks");
    catalogue.unlock(stage.space, &path("d/f"), "t", &stage.guard()).await.expect("unlocks");
    lock(&stage, "d", "deep", false, true).await.expect("locks");
    assert_eq!(kind(lock(&stage, "d/f", "v", true, false).await), ErrorKind::Locked);
    lock(&stage, "d/f", "v", false, false).await.expect("shares");
    assert_eq!(kind(lock(&stage, "d/x/y", "w", false, false).await), ErrorKind::Conflict);
}

pub async fn a_lapsed_lock_is_nothing(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let node = stage.write("f", 1).await.node;
    lock(&stage, "f", "t", true, false).await.expect("locks");
    let late = stage.guard_at(100_000);
    assert!(catalogue.locks_on(stage.space, &[node.id], 100_000).await.expect("reads").is_empty());
    let refreshed = catalogue.refresh_lock(stage.space, &path("f"), "t", 200_000, &late).await;
    assert_eq!(kind(refreshed), ErrorKind::PreconditionFailed);
    assert_eq!(kind(catalogue.unlock(stage.space, &path("f"), "t", &late).await), ErrorKind::Conflict);
    stage.try_write("f", 2, &late).await.expect("nothing is locked any more");
    let again = catalogue.lock(stage.space, &path("f"), stage.new_lock("t", true, false), &stage.guard()).await;
    again.expect("the token was swept away");
}

pub async fn a_lock_makes_an_empty_file(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    let new = stage.new_lock("t", true, false);
    let (lock, changed) = catalogue.lock(stage.space, &path("d/new"), new, &stage.guard()).await.expect("locks");
    assert!(changed.created && changed.node.size == 0 && lock.node == changed.node.id);
    assert_eq!(lock.path, path("d/new"));
    assert_eq!(stage.tree().await, ["d/", "d/new"]);
    assert_eq!(kind(stage.try_write("d/new", 2, &stage.guard()).await), ErrorKind::Locked);
    let nowhere = catalogue.lock(stage.space, &path("no/new"), stage.new_lock("u", true, false), &stage.guard()).await;
    assert_eq!(kind(nowhere), ErrorKind::Conflict);
    let (_, changed) = catalogue
        .lock(stage.space, &path("d"), stage.new_lock("v", true, false), &stage.guard())
        .await
        .expect("locks the folder alone");
    assert!(!changed.created);
    let blocked = catalogue.lock(stage.space, &path("d/x"), stage.new_lock("w", true, false), &stage.guard()).await;
    assert_eq!(kind(blocked), ErrorKind::Locked);
}

pub async fn locks_are_refreshed_and_released_by_their_holder(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    stage.write("d/f", 1).await;
    lock(&stage, "d", "t", true, true).await.expect("locks");
    let stranger = other(&stage, &["t"]).await;
    let at = path("d/f");
    let refreshed = catalogue.refresh_lock(stage.space, &at, "t", 300_000, &stage.guard()).await.expect("refreshes");
    assert_eq!((refreshed.expires_ms, refreshed.path), (300_000, path("d")));
    let failed = ErrorKind::PreconditionFailed;
    assert_eq!(kind(catalogue.refresh_lock(stage.space, &at, "t", 1, &stranger).await), failed);
    assert_eq!(kind(catalogue.refresh_lock(stage.space, &at, "no", 1, &stage.guard()).await), failed);
    assert_eq!(kind(catalogue.refresh_lock(stage.space, &path(""), "t", 1, &stage.guard()).await), failed);
    assert_eq!(kind(catalogue.unlock(stage.space, &at, "t", &stranger).await), ErrorKind::Forbidden);
    assert_eq!(kind(catalogue.unlock(stage.space, &at, "no", &stage.guard()).await), ErrorKind::Conflict);
    catalogue.unlock(stage.space, &at, "t", &stage.guard_at(250_000)).await.expect("was refreshed");
    stage.write("d/new", 1).await;
}

pub async fn locks_do_not_move(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    let file = stage.write("d/f", 1).await.node;
    lock(&stage, "d/f", "t", true, false).await.expect("locks");
    let guard = stage.holding(&["t"]);
    catalogue.relocate(&stage.relocation("d/f", "d/g", false), &guard).await.expect("moves");
    assert!(catalogue.locks_on(stage.space, &[file.id], 2_000).await.expect("reads").is_empty());
    lock(&stage, "d/g", "u", true, false).await.expect("locks");
    catalogue.remove(stage.space, &path("d"), &stage.holding(&["u"])).await.expect("removes");
    let entry = catalogue.trash(stage.space, None, 1).await.expect("reads").remove(0);
    catalogue.restore_trash(stage.space, entry.id, None, &stage.guard()).await.expect("puts back");
    stage.write("d/g", 2).await;
}

pub async fn a_place_between_locks_is_free(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    stage.folder("d/sub").await;
    stage.write("d/sub/f", 1).await;
    lock(&stage, "d/sub/f", "t", true, false).await.expect("locks");
    lock(&stage, "", "root", true, false).await.expect("locks the root alone");
    stage.write("d/other", 1).await;
    stage.write("d/sub/other", 1).await;
    assert_eq!(kind(stage.try_write("new", 1, &stage.guard()).await), ErrorKind::Locked);
    let (bo, home) = Stage::account(catalogue, "bo").await;
    let written = catalogue
        .commit_file(home.id, &path("f"), super::stage::inline(1), 0, &guard_of(bo.id, 1))
        .await
        .expect("another space has no locks");
    assert!(written.is_ok());
}

pub async fn a_refusal_names_the_lock(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    for folder in ["a", "a/b", "a/b/c"] {
        stage.folder(folder).await;
    }
    lock(&stage, "a/b", "t", true, true).await.expect("locks");
    let message = |result: Result<()>| result.expect_err("is locked").to_string();
    let write = stage.try_write("a/b/c/f", 1, &stage.guard()).await.map(drop);
    assert_eq!(message(write), "/a/b/c/f is locked by a lock on /a/b");
    assert_eq!(message(stage.remove("a").await), "/a is locked by a lock on /a/b");
    assert_eq!(message(stage.remove("a/b").await), "/a/b is locked");
    let second = |at: &'static str, deep| lock(&stage, at, "u", true, deep);
    assert_eq!(message(second("a/b/c", false).await.map(drop)), "/a/b/c is locked by a lock on /a/b");
    assert_eq!(message(second("a", true).await.map(drop)), "/a is locked by a lock on /a/b");
}

pub async fn locks_are_listed_with_their_paths(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    stage.folder("a/b").await;
    let mut nodes = vec![stage.node("").await.expect("the root").id, stage.node("a").await.expect("is there").id];
    // More nodes than one list holds.
    for number in 0..600 {
        nodes.push(stage.write(&format!("a/b/f{number}"), 1).await.node.id);
    }
    let mut taken = Vec::new();
    for (at, token) in [("a", "t1"), ("a/b/f0", "t2"), ("a/b/f0", "t3"), ("a/b/f599", "t4")] {
        taken.push(lock(&stage, at, token, false, false).await.expect("locks"));
    }
    lock(&stage, "a/b", "unlisted", false, false).await.expect("locks");
    let mut listed = catalogue.locks_on(stage.space, &nodes, 2_000).await.expect("reads");
    listed.sort_by(|left, right| left.token.cmp(&right.token));
    assert_eq!(listed, taken);
    assert!(catalogue.locks_on(stage.space, &nodes, 100_000).await.expect("reads").is_empty(), "they have lapsed");
}

pub async fn locks_of_an_account_end_with_it(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.write("f", 1).await;
    let guard = other(&stage, &[]).await;
    let at = path("f");
    let lock_it = || catalogue.lock(stage.space, &at, stage.new_lock("t", true, false), &guard);
    lock_it().await.expect("locks");
    assert_eq!(kind(stage.remove("f").await), ErrorKind::Locked);
    catalogue.remove_member(stage.space, guard.account).await.expect("removes");
    stage.write("f", 2).await;
    catalogue.put_member(stage.space, guard.account, Role::Editor, vec![1]).await.expect("adds");
    lock_it().await.expect("locks");
    catalogue.remove_account(guard.account, 9).await.expect("removes");
    stage.write("f", 3).await;
}
