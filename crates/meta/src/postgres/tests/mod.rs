//! The suite on PostgreSQL, and what is PostgreSQL's alone: two nodes on one database, a server that goes away, a URL that is wrong.

use super::{Options, PostgresCatalogue};
use crate::catalogue::Catalogue;
use holdfast_testkit::postgres::PostgresServer;
use std::sync::Arc;

/// A catalogue in a database of its own on the server all tests share.
async fn fresh() -> (Arc<dyn Catalogue>, ()) {
    let url = new_database().await;
    (connect(&url, &Options::default()).await, ())
}

crate::catalogue_conformance!(crate::postgres::tests::fresh);

async fn new_database() -> String {
    let made = tokio::task::spawn_blocking(|| PostgresServer::shared().and_then(PostgresServer::database)).await;
    made.expect("runs").expect("a database")
}

async fn connect(url: &str, options: &Options) -> Arc<PostgresCatalogue> {
    Arc::new(PostgresCatalogue::connect(url, options).await.expect("connects"))
}

mod faults;
mod nodes;
mod opening;
mod plans;
mod proxy;
mod trips;
