//! Data directories that are not as they should be: a missing pack, a newer version, another server, somebody else's files.

use std::fs;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::{check, expect_clean};
use holdfast_e2e::corpus::store;
use holdfast_e2e::rig::{HOME, Rig};
use holdfast_testkit::postgres::{PostgresServer, name_of};
use holdfast_testkit::server::ServerOptions;

/// What a start that must fail says.
fn refusal(options: ServerOptions) -> Outcome<String> {
    match options.start() {
        Ok(_) => Err("it started".into()),
        Err(error) => Ok(error.to_string()),
    }
}

#[test]
fn a_missing_pack_is_told_and_everything_else_works() -> Outcome {
    let mut rig = Rig::new()?;
    let corpus = store(&mut rig.client(), &format!("{HOME}/corpus"))?;
    rig.stop()?;
    let objects = rig.objects()?;
    let pack = objects.names()?.into_iter().next().ok_or("no pack")?;
    let away = objects.read(&pack)?;
    objects.remove(&pack)?;
    rig.start_again()?;
    let mut client = rig.client();
    let (mut whole, mut lost) = (0, 0);
    for file in &corpus {
        let answer = client.get(&file.path)?;
        match answer.status {
            200 => {
                assert!(answer.body == file.content, "{}", file.path);
                whole += 1;
            }
            500 => {
                assert!(answer.text().contains("holdfast check"), "{}", answer.text());
                lost += 1;
            }
            status => return Err(format!("{}: {status}", file.path).into()),
        }
    }
    println!("{whole} files whole, {lost} refused");
    assert!(whole >= 6 && lost >= 1);
    let (report, code) = check(rig.server.options())?;
    assert_eq!(code, Some(65));
    assert!(report["findings"].to_string().contains("pack-missing"), "{report}");
    client.put(&format!("{HOME}/new"), vec![1; 2_000_000])?.expect_status(201)?;
    client.delete(&format!("{HOME}/corpus/blocks-random"))?.expect_status(204)?;
    rig.stop()?;
    objects.write(&pack, &away)?;
    rig.start_again()?;
    expect_clean(rig.server.options())
}

#[test]
fn a_data_directory_of_a_newer_version_is_left_alone() -> Outcome {
    let mut rig = Rig::new()?;
    rig.client().put(&format!("{HOME}/file"), "content")?.expect_status(201)?;
    rig.stop()?;
    let format = rig.data().join("format");
    let old = fs::read_to_string(&format)?;
    let newer = old.replace("\"format\": 1", "\"format\": 2");
    assert_ne!(old, newer);
    fs::write(&format, &newer)?;
    // A database elsewhere has a version of its own: crates/meta tests that.
    let catalogue = || fs::read(rig.data().join("catalogue.db")).ok();
    let before = catalogue();
    let said = refusal(rig.server.options().clone())?;
    assert!(said.contains("newer") && said.contains("Upgrade"), "{said}");
    assert!(catalogue() == before);
    for command in [&["check"][..], &["reclaim"], &["account", "list"]] {
        let output = rig.run(command, b"")?;
        assert!(!output.status.success(), "{command:?}");
    }
    fs::write(&format, &old)?;
    rig.start_again()?;
    assert_eq!(rig.client().get(&format!("{HOME}/file"))?.text(), "content");
    Ok(())
}

#[test]
fn a_second_server_on_one_data_directory_is_refused_and_the_first_goes_on() -> Outcome {
    let mut rig = Rig::new()?;
    let said = refusal(rig.server.options().clone())?;
    assert!(said.contains(&rig.server.pid().to_string()), "which process has it? {said}");
    rig.client().put(&format!("{HOME}/file"), "content")?.expect_status(201)?;
    // Killed, it leaves no lock behind.
    rig.server.kill_9()?;
    rig.start_again()?;
    assert_eq!(rig.client().get(&format!("{HOME}/file"))?.text(), "content");
    rig.stop()
}

#[test]
fn somebody_else_s_folder_and_a_broken_catalogue_are_refused_with_a_reason() -> Outcome {
    let foreign = tempfile::tempdir()?;
    fs::write(foreign.path().join("thesis.txt"), "years of work")?;
    let said = refusal(ServerOptions::new(foreign.path()))?;
    assert!(said.contains("thesis.txt") || said.contains("other files"), "{said}");
    assert_eq!(fs::read_dir(foreign.path())?.count(), 1, "something was made there");

    let mut rig = Rig::new()?;
    rig.stop()?;
    let named = match &rig.place.database {
        None => {
            fs::write(rig.data().join("catalogue.db"), vec![0x42; 100_000])?;
            "catalogue.db"
        }
        Some(url) => {
            let theirs = "DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE thesis (chapter TEXT)";
            PostgresServer::shared()?.sql(name_of(url)?, theirs)?;
            "another program"
        }
    };
    let said = refusal(rig.server.options().clone())?;
    assert!(said.contains(named) && !said.contains("panicked"), "{said}");
    Ok(())
}
