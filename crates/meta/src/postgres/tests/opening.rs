//! Databases that are used, and those that are not.

use super::{connect, new_database};
use crate::catalogue::Catalogue;
use crate::conformance::{Stage, finish, kind};
use crate::postgres::{Options, PostgresCatalogue};
use holdfast_base::ErrorKind;
use holdfast_testkit::postgres::PostgresServer;
use std::sync::Arc;
use std::time::Duration;

fn server() -> &'static PostgresServer {
    PostgresServer::shared().expect("runs")
}

fn name_of(url: &str) -> &str {
    url.rsplit_once('/').expect("a path").1
}

async fn refusal(url: &str) -> holdfast_base::Error {
    PostgresCatalogue::connect(url, &Options::default()).await.expect_err("is refused")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_is_there_when_connected_again() {
    let url = new_database().await;
    let catalogue = connect(&url, &Options::default()).await;
    let stage = Stage::new(&(Arc::clone(&catalogue) as Arc<dyn Catalogue>)).await;
    stage.write("f", 5).await;
    let (space, account) = (stage.space, stage.account.clone());
    drop(stage);
    Arc::clone(&catalogue).close().await.expect("closes");
    assert_eq!(kind(catalogue.ping().await), ErrorKind::Unavailable);
    assert_eq!(kind(catalogue.space(space).await), ErrorKind::Unavailable);
    let catalogue: Arc<dyn Catalogue> = connect(&url, &Options::default()).await;
    let stage = Stage { catalogue, account, space };
    assert_eq!(stage.tree().await, ["f"]);
    finish(&stage.catalogue).await;
}

#[tokio::test]
async fn a_catalogue_of_a_newer_program_is_refused_untouched() {
    let url = new_database().await;
    connect(&url, &Options::default()).await.close().await.expect("closes");
    let newer = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum) \
                 VALUES (99, 'later', '2030-01-01T00:00:00Z', '1')";
    server().sql(name_of(&url), newer).expect("writes");
    let error = refusal(&url).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("schema 99"), "{error}");
    assert_eq!(server().sql(name_of(&url), "SELECT max(version) FROM refinery_schema_history").expect("reads"), "99");
}

#[tokio::test]
async fn another_programs_database_is_refused_untouched() {
    let url = new_database().await;
    server().sql(name_of(&url), "CREATE TABLE somebody_elses (id BIGINT)").expect("writes");
    assert_eq!(refusal(&url).await.kind(), ErrorKind::InvalidInput);
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(server().sql(name_of(&url), tables).expect("reads"), "1");
}

#[tokio::test]
async fn a_database_that_does_not_sync_its_commits_is_refused() {
    let url = new_database().await;
    let name = name_of(&url);
    server().sql("postgres", &format!("ALTER DATABASE {name} SET synchronous_commit = off")).expect("alters");
    let error = refusal(&url).await;
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("synchronous_commit"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_the_password() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("binds").local_addr().expect("an address");
    let good = server().url("postgres");
    for url in [format!("postgres://ana:s3cret@{closed}/drive"), good.replace("/postgres", "/nowhere")] {
        let url = url.replace("holdfast@", "holdfast:s3cret@");
        let error = refusal(&url).await;
        let text = format!("{error} {error:?}");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
        assert!(text.contains("127.0.0.1") && !text.contains("s3cret"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes_may_start_at_once_on_an_empty_database() {
    let url = new_database().await;
    let options = Options::default();
    let (one, two, three) = tokio::join!(connect(&url, &options), connect(&url, &options), connect(&url, &options));
    for catalogue in [&one, &two, &three] {
        catalogue.ping().await.expect("reads and writes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_other_nodes_are_told_and_found() {
    let url = new_database().await;
    for notify in [true, false] {
        // Without notifications, only looking finds them; with, only telling is quick enough.
        let poll_every = if notify { Duration::from_hours(1) } else { Duration::from_millis(20) };
        let options = Options { poll_every, notify, ..Options::default() };
        let (here, there) = (connect(&url, &options).await, connect(&url, &options).await);
        let stage =
            Stage::account(&(Arc::clone(&here) as Arc<dyn Catalogue>), if notify { "ana" } else { "ben" }).await;
        let (account, home) = stage;
        let (mut own, mut other) = (here.changes(), there.changes());
        // Until the other node listens it cannot be told; so something changes until it hears.
        let heard = async {
            loop {
                let change = other.recv().await.expect("is told");
                if change.space == home.id {
                    return change;
                }
            }
        };
        let stage = Stage { catalogue: Arc::clone(&here) as Arc<dyn Catalogue>, account, space: home.id };
        let keep_changing = async {
            for number in 0.. {
                stage.write(&format!("f{number}"), 1).await;
            }
        };
        let change =
            tokio::select! { change = heard => change, () = keep_changing => unreachable!("it goes on for ever") };
        let seq = there.space(home.id).await.expect("reads").expect("the space").seq;
        assert!((1..=seq).contains(&change.seq), "{change:?} {seq}");
        let first = own.recv().await.expect("is told");
        assert_eq!((first.space, first.seq), (home.id, 2));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_server_is_trusted_if_its_certificate_is() {
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("makes");
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("makes");
    let settings = ["fsync=off", "ssl=on", "ssl_cert_file=../cert.pem", "ssl_key_file=../key.pem"].map(str::to_owned);
    let files = [("cert.pem", own.cert.pem()), ("key.pem", own.signing_key.serialize_pem())];
    let files = [(files[0].0, files[0].1.as_str()), (files[1].0, files[1].1.as_str())];
    let server = PostgresServer::start_with(&settings, &files).expect("starts");
    let url = server.database().expect("makes");
    let folder = tempfile::TempDir::new().expect("a folder");
    let trusting = |name: &str, pem: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).expect("writes");
        Options { ca_file: Some(path), ..Options::default() }
    };
    let catalogue = connect(&url, &trusting("own", &own.cert.pem())).await;
    catalogue.ping().await.expect("reads and writes");
    let encrypted = "SELECT count(*) > 0 AND bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'holdfast'";
    assert_eq!(server.sql(name_of(&url), encrypted).expect("reads"), "t");
    let refused = PostgresCatalogue::connect(&url, &trusting("other", &other.cert.pem())).await;
    assert_eq!(kind(refused), ErrorKind::Unavailable);
    for bad in [
        trusting("empty", ""),
        trusting("text", "no certificate"),
        Options { ca_file: Some("/nowhere".into()), ..Options::default() },
    ] {
        assert_eq!(kind(PostgresCatalogue::connect(&url, &bad).await), ErrorKind::InvalidInput);
    }
}
