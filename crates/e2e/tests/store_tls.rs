//! Object stores that are spoken to by TLS, with a certificate of an authority of one's own: what is stored goes through it and comes back, and
//! without the authority's file, or with another's, nothing is sent there.

use std::path::Path;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::encrypted::Encrypted;
use holdfast_e2e::rig::{HOME, NAME, PASSWORD};
use holdfast_testkit::data::incompressible;
use holdfast_testkit::server::ServerOptions;
use holdfast_testkit::services::seaweed::Seaweed;
use holdfast_testkit::services::swift::{Swift, SwiftOptions};

/// What is stored: some blocks.
const BYTES: usize = 5_000_000;

/// Serves a drive on a store whose address depends on the authority's file.
fn serves(proxy: &Encrypted, url: impl Fn(&Path) -> String, secrets: &[(&str, &str)]) -> Outcome {
    let folder = tempfile::tempdir()?;
    let with = |authority: &Path| {
        let options =
            ServerOptions::new(folder.path().join("data")).environment("HOLDFAST_STORE__URL", &url(authority));
        secrets.iter().fold(options, |options, (name, value)| options.environment(name, value))
    };
    let options = with(&proxy.authority());
    options.add_account(NAME, PASSWORD)?;
    let content = incompressible(1, BYTES);
    let mut server = options.clone().start()?;
    let mut client = server.client_of(NAME, PASSWORD);
    client.put(&format!("{HOME}/f"), content.clone())?.expect_status(201)?;
    assert!(server.terminate()?.success());
    let mut server = server.start_again()?;
    assert!(server.client_of(NAME, PASSWORD).get(&format!("{HOME}/f"))?.body == content);
    expect_clean(server.options())?;
    assert!(server.terminate()?.success());
    let seen = proxy.requests();
    assert!(seen > 3, "{seen} requests went through it");

    // Somebody who pretends to be the store is told nothing.
    let output = with(&proxy.other_authority()).run(&["check", "--read-data"], b"")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("certificate") && said.contains("ca_file"), "{said}");
    assert_eq!(proxy.requests(), seen, "no request was sent");
    Ok(())
}

#[test]
fn an_s3_service_behind_tls_of_a_private_authority_keeps_a_drive() -> Outcome {
    let seaweed = Seaweed::start()?;
    let proxy = Encrypted::start(&seaweed.endpoint())?;
    let url = |authority: &Path| {
        let (bucket, endpoint) = (Seaweed::BUCKET, proxy.url());
        format!("s3://{bucket}/tls?endpoint={endpoint}&path_style=true&ca_file={}", authority.display())
    };
    let secrets =
        [("AWS_ACCESS_KEY_ID", Seaweed::ACCESS_KEY_ID), ("AWS_SECRET_ACCESS_KEY", Seaweed::SECRET_ACCESS_KEY)];
    serves(&proxy, url, &secrets)
}

#[test]
fn a_swift_service_behind_tls_of_a_private_authority_keeps_a_drive() -> Outcome {
    let swift = Swift::start(SwiftOptions::default())?;
    let auth = swift.auth_url();
    let (service, path) = auth.rsplit_once("/auth").ok_or("no path")?;
    let proxy = Encrypted::start(service)?;
    let url = |authority: &Path| {
        let (container, user, url) = (Swift::CONTAINER, Swift::USER, proxy.url());
        format!("swift://{container}/tls?auth={url}/auth{path}&user={user}&ca_file={}", authority.display())
    };
    serves(&proxy, url, &[("ST_KEY", Swift::KEY)])
}
