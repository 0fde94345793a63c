//! Operations and commits that fail.

use super::Place;
use crate::catalogue::Catalogue;
use crate::conformance::{Stage, finish, kind, path};
use crate::sql::engine::{Engine, Scope};
use crate::sql::fault::{Done, refuse};
use crate::sql::query as sql;
use crate::sql::tx::Tx;
use crate::sqlite::{Options, SqliteCatalogue};
use crate::types::NewContent;
use holdfast_base::{ErrorKind, Result};
use std::sync::Arc;

/// Counts sign-in failures under a key, and then ends as told.
async fn half_done(catalogue: &SqliteCatalogue, key: &'static str, end: fn() -> Done<()>) -> Result<()> {
    let work = move |tx: &Tx<'_>| {
        sql::run(tx, "INSERT INTO attempt (key, failures, last_ms) VALUES (?1, 1, 1)", [key])?;
        end()
    };
    catalogue.write("half_done", Scope::Alone, work).await
}

#[tokio::test]
async fn an_operation_that_fails_in_the_middle_leaves_nothing_and_harms_nobody() {
    let place = Place::new();
    let catalogue = place.open();
    let (good, refused, broken, last) = tokio::join!(
        half_done(&catalogue, "good", || Ok(())),
        half_done(&catalogue, "refused", || refuse(ErrorKind::Conflict, "no")),
        half_done(&catalogue, "broken", || panic!("a defect, for the test")),
        half_done(&catalogue, "last", || Ok(())),
    );
    good.expect("is kept");
    last.expect("is kept");
    assert_eq!((kind(refused), kind(broken)), (ErrorKind::Conflict, ErrorKind::Internal));
    for (key, failures) in [("good", 1), ("refused", 0), ("broken", 0), ("last", 1)] {
        assert_eq!(catalogue.attempts(key).await.expect("reads").failures, failures, "{key}");
    }
}

#[tokio::test]
async fn a_broken_rule_is_taken_back() {
    let place = Place::new();
    let catalogue = place.open();
    let stage = Stage::new(&(Arc::clone(&catalogue) as Arc<dyn Catalogue>)).await;
    stage.write("f", 5).await;
    let space = stage.space.0;
    let work = move |tx: &Tx<'_>| {
        sql::run(tx, "DELETE FROM node WHERE name = 'f'", ())?;
        sql::run(tx, "UPDATE space_sum SET used_bytes = used_bytes - 6 WHERE space_id = ?1", [space])?;
        Ok(())
    };
    assert_eq!(kind(catalogue.write("negative", Scope::Alone, work).await), ErrorKind::Internal);
    assert_eq!((stage.tree().await.len(), stage.used().await), (1, (5, 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_fails_what_does_not_fit_and_loses_nothing() {
    let place = Place::new();
    let options = Options { page_limit: Some(400), ..Options::default() };
    let small = Arc::new(SqliteCatalogue::open(&place.path(), &options).expect("opens"));
    let stage = Arc::new(Stage::new(&(Arc::clone(&small) as Arc<dyn Catalogue>)).await);
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..8 {
        let stage = Arc::clone(&stage);
        callers.spawn(async move {
            let mut kept = Vec::new();
            loop {
                let at = format!("f{caller}-{}", kept.len());
                let content = NewContent::Inline { size: 9_000, nonce: [1; 16], tag: [2; 16], sealed: vec![3; 9_000] };
                match stage.catalogue.commit_file(stage.space, &path(&at), content, 0, &stage.guard()).await {
                    Ok(done) => drop(done.map(|_| kept.push(at))),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}");
                        return kept;
                    }
                }
            }
        });
    }
    let mut kept = Vec::new();
    while let Some(caller) = callers.join_next().await {
        kept.extend(caller.expect("a caller ends well"));
    }
    kept.sort();
    assert!(kept.len() > 50, "{}", kept.len());
    assert_eq!(stage.tree().await, kept);
    finish(&stage.catalogue).await;
    small.close().await.expect("closes");
    let stage = Stage { catalogue: place.open(), account: stage.account.clone(), space: stage.space };
    assert_eq!(stage.tree().await, kept);
    stage.write("more", 5).await;
    finish(&stage.catalogue).await;
}
