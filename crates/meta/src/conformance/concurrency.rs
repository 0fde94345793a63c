//! Many callers at once.

use super::stage::{Stage, blocks, claimed, guard_of, inline, path, written};
use crate::catalogue::{Catalogue, Expect, Guard, Relocation};
use holdfast_base::{ErrorKind, PackId, Result};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

const CALLERS: u64 = 8;
const STEPS: u64 = 60;

/// Each caller does what a small generator of its own says, all on the same few names; whatever is refused, the sums and
/// references must hold at the end.
pub async fn eight_callers_leave_a_sound_catalogue(catalogue: &Place) {
    let stage = Arc::new(Stage::new(catalogue).await);
    stage.set_retention(30, Some(2), Some(50_000)).await;
    stage.set_quota(Some(100_000)).await;
    let pack = stage.pack(1).await;
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let stage = Arc::clone(&stage);
        callers.spawn(async move {
            let mut random = caller.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            for step in 0..STEPS {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                match act(&stage, pack, random, step).await {
                    Ok(()) => {}
                    Err(error) => assert!(expected(error.kind()), "{error:?}"),
                }
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.expect("a caller ends well");
    }
    super::finish(catalogue).await;
    stage.set_retention(0, None, None).await;
    for node in stage.tree().await.iter().filter(|at| at.trim_end_matches('/').split('/').count() == 1) {
        stage.remove(node).await.expect("removes");
    }
    catalogue.purge_trash(stage.space, None).await.expect("purges");
    stage.release_all().await;
    let usage = stage.usage().await;
    assert_eq!((usage.used_bytes, usage.version_bytes, usage.stored_raw_bytes), (0, 0, 0));
    assert!(catalogue.all_contents(None, 9).await.expect("reads").is_empty());
}

/// Refusals that follow from what the others do.
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
    )
}

async fn act(stage: &Stage, pack: PackId, random: u64, step: u64) -> Result<()> {
    let catalogue = &stage.catalogue;
    let names = ["a", "b", "a/c", "a/d", "b/c", "a/c/e", "b/c/f"];
    let some_path = |shift: u64| path(names[usize::try_from(random >> shift).unwrap_or(0) % names.len()]);
    let guard = guard_of(stage.account.id, i64::try_from(step).unwrap_or(0));
    let relocation = Relocation {
        space: stage.space,
        from: some_path(20),
        to: some_path(40),
        overwrite: random & 64 == 0,
        deep: true,
        source_expect: Expect::Any,
        tags: Vec::new(),
    };
    match random % 12 {
        0 | 1 => drop(catalogue.make_folder(stage.space, &some_path(20), &guard).await?),
        2 | 3 => {
            let content = inline(random % 100);
            drop(catalogue.commit_file(stage.space, &some_path(20), content, 0, &guard).await?);
        }
        4 => {
            let name = u8::try_from(random >> 50 & 15).unwrap_or(0);
            let content = blocks(vec![written(name, pack), claimed(name)]);
            drop(catalogue.commit_file(stage.space, &some_path(20), content, 0, &guard).await?);
        }
        5 => {
            catalogue.remove(stage.space, &some_path(20), &guard).await?;
        }
        6 => drop(catalogue.relocate(&relocation, &guard).await?),
        7 => drop(catalogue.copy(&relocation, &guard).await?),
        10 | 11 => drop(stage.link(&relocation.from, &relocation.to, &guard).await?),
        8 => {
            drop(catalogue.trash(stage.space, None, 5).await?);
            catalogue.expire(1, 5).await?;
            catalogue.release_garbage(20).await?;
        }
        _ => {
            let entry = catalogue.trash(stage.space, None, 1).await?.first().map(|entry| entry.id);
            if random & 32 == 0 {
                catalogue.purge_trash(stage.space, entry).await?;
            } else if let Some(entry) = entry {
                catalogue.restore_trash(stage.space, entry, None, &guard).await?;
            }
        }
    }
    Ok(())
}

pub async fn one_of_many_makers_wins(catalogue: &Place) {
    let stage = Arc::new(Stage::new(catalogue).await);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let stage = Arc::clone(&stage);
        callers.spawn(async move {
            let guard = Guard { expect: Expect::Absent, ..stage.guard() };
            stage.try_write("f", 5, &guard).await.map(drop).map_err(|error| error.kind())
        });
    }
    let mut outcomes = Vec::new();
    while let Some(outcome) = callers.join_next().await {
        outcomes.push(outcome.expect("a caller ends well"));
    }
    outcomes.sort_by_key(Result::is_err);
    assert_eq!(outcomes[0], Ok(()));
    assert!(outcomes[1..].iter().all(|outcome| *outcome == Err(ErrorKind::PreconditionFailed)));
    assert_eq!(stage.used().await, (5, 0));
}
