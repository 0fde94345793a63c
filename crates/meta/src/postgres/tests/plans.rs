//! What the database reads for an operation.

use super::{connect, new_database};
use crate::catalogue::Catalogue;
use crate::conformance::Stage;
use crate::postgres::Options;
use holdfast_testkit::postgres::PostgresServer;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Files of the drive, and operations of each kind.
const FILES: usize = 300;

/// The database counts its rows now and then, and has not yet: it takes every table for small, and would read the whole of some for
/// each file that is looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drive_that_grew_is_read_by_index() {
    let server = PostgresServer::shared().expect("runs");
    let url = new_database().await;
    let database = url.rsplit_once('/').expect("a path").1;
    let never =
        "ALTER TABLE node SET (autovacuum_enabled = false); ALTER TABLE content SET (autovacuum_enabled = false)";
    let postgres = connect(&url, &Options::default()).await;
    server.sql(database, never).expect("is set");
    let catalogue: Arc<dyn Catalogue> = Arc::clone(&postgres) as Arc<dyn Catalogue>;
    let stage = Stage::new(&catalogue).await;
    stage.folder("d").await;
    for file in 0..FILES {
        stage.write(&format!("d/f{file}"), 5).await;
    }
    for file in 0..FILES {
        assert!(stage.node(&format!("d/f{file}")).await.is_some());
        stage.relocate(&format!("d/f{file}"), &format!("d/moved{file}"), false).await.expect("moves");
        stage.remove(&format!("d/moved{file}")).await.expect("removes");
    }
    drop((stage, catalogue));
    // Sessions tell what they read when they end.
    postgres.close().await.expect("closes");
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let began = Instant::now();
    while server.sql(database, others).expect("reads") != "0" {
        assert!(began.elapsed() < Duration::from_secs(30), "the catalogue is closed and has sessions still");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let read =
        "SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN ('node', 'content', 'version', 'trash')";
    let read: usize = server.sql(database, read).expect("reads").parse().expect("a number");
    assert!(read < 3 * FILES, "{read} rows were read by reading whole tables, for {FILES} files");
}
