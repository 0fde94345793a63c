//! A drive that moves: its catalogue to PostgreSQL and back, its packs to another store while it is in use.

use std::fs;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::corpus::store;
use holdfast_e2e::rig::{HOME, Rig};
use holdfast_testkit::http::Client;
use holdfast_testkit::postgres::PostgresServer;

#[test]
fn a_drive_moves_to_another_database_and_store_and_back() -> Outcome {
    let mut rig = Rig::new()?;
    let corpus = store(&mut rig.client(), &format!("{HOME}/corpus"))?;
    let read_all = |client: &mut Client| -> Outcome {
        for file in &corpus {
            assert!(client.get(&file.path)?.body == file.content, "{}", file.path);
        }
        Ok(())
    };
    let url = PostgresServer::shared()?.database()?;
    let configure = |rig: &Rig, text: &str| fs::write(rig.data().join("holdfast.toml"), text);
    let (old, new) = (rig.data().join("packs"), rig.scratch().join("packs"));

    // A catalogue that is in use does not move.
    let refused = rig.run(&["migrate-catalogue", "--to", &url], b"")?;
    assert_eq!(refused.status.code(), Some(75), "{}", String::from_utf8_lossy(&refused.stderr));
    rig.stop()?;
    let said = rig.server.options().run_ok(&["migrate-catalogue", "--to", &url], b"")?;
    assert!(said.contains("both catalogues are the same") && said.contains("catalogue.url"), "{said}");

    let [catalogue, to, from] = [
        format!("[catalogue]\nurl = \"{url}\"\n"),
        format!("[store]\nurl = \"fs:{}\"\n", new.display()),
        format!("from = \"fs:{}\"\n", old.display()),
    ];
    configure(&rig, &format!("{catalogue}{to}{from}"))?;
    rig.start_again()?;
    let mut client = rig.client();
    read_all(&mut client)?;
    let again = store(&mut client, &format!("{HOME}/meanwhile"))?;
    let said = rig.server.options().run_ok(&["migrate-store"], b"")?;
    assert!(said.contains("copied and proved"), "{said}");
    rig.stop()?;

    configure(&rig, &format!("{catalogue}{to}"))?;
    fs::remove_dir_all(&old)?;
    rig.start_again()?;
    let mut client = rig.client();
    read_all(&mut client)?;
    assert!(again.iter().all(|file| client.get(&file.path).is_ok_and(|answer| answer.body == file.content)));
    expect_clean(rig.server.options())?;
    rig.stop()?;

    rig.server.options().run_ok(&["migrate-catalogue", "--to", "sqlite:back.db"], b"")?;
    configure(&rig, &format!("[catalogue]\nurl = \"sqlite:back.db\"\n{to}"))?;
    rig.start_again()?;
    read_all(&mut rig.client())?;
    expect_clean(rig.server.options())
}
