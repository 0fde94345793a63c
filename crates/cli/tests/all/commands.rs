//! Administration, with the server stopped and running.

use crate::common::{Drive, OTHER_PASSWORD, PASSWORD};
use holdfast_testkit::http::Request;
use serde_json::json;

#[test]
fn accounts_are_made_listed_changed_and_removed_and_the_server_notices_at_once() {
    let drive = Drive::new();
    let server = drive.start();
    let made = drive.json(&["account", "add", "eva", "--generate", "--quota", "1M"], "");
    let (password, code) =
        (made["password"].as_str().expect("made up"), made["recovery_code"].as_str().expect("shown"));
    let mut eva = server.client_of("eva", password);
    assert_eq!(eva.put("/dav/eva/a", vec![1; 1_000]).expect("answers").status, 201);
    assert_eq!(eva.put("/dav/eva/b", vec![1; 2 << 20]).expect("answers").status, 507, "over quota");

    let names: Vec<_> = drive.json(&["account", "list"], "").as_array().expect("a list").clone();
    assert_eq!(names.iter().map(|it| it["name"].as_str().expect("named")).collect::<Vec<_>>(), ["ana", "ben", "eva"]);
    assert_eq!(drive.json(&["account", "quota", "eva", "none"], "")["quota_bytes"], json!(null));
    assert_eq!(eva.put("/dav/eva/b", vec![1; 2 << 20]).expect("answers").status, 201);

    drive.ok(&["account", "disable", "eva"], "");
    assert_eq!(eva.get("/dav/eva/a").expect("answers").status, 403);
    drive.ok(&["account", "enable", "eva"], "");
    assert_eq!(eva.get("/dav/eva/a").expect("answers").status, 200);

    let file = drive.folder.path().join("code");
    std::fs::write(&file, code).expect("written");
    let reset = drive.json(&["account", "recover", "eva", "--code-file", file.to_str().expect("UTF-8")], "");
    assert_eq!(eva.get("/dav/eva/a").expect("answers").status, 401, "the old password is void");
    let mut eva = server.client_of("eva", reset["password"].as_str().expect("made up"));
    assert_eq!(eva.get("/dav/eva/a").expect("answers").status, 200, "the content is still there");

    assert_eq!(drive.fails(&["account", "remove", "eva"], "").0, 64, "must be confirmed");
    drive.ok(&["account", "remove", "eva", "--yes"], "");
    assert_eq!(eva.get("/dav/eva/a").expect("answers").status, 401);
    assert_eq!(drive.fails(&["account", "show", "eva"], "").0, 66);
}

#[test]
fn weak_passwords_and_taken_names_are_refused_with_what_to_do() {
    let drive = Drive::new();
    let add = |name: &str, password: &str| drive.fails(&["account", "add", name, "--password-file", "-"], password);
    let (code, message) = add("eva", "short");
    assert_eq!(code, 64, "{message}");
    assert_eq!(add("ana", PASSWORD).0, 75);
    assert_eq!(add("../x", PASSWORD).0, 64);
    let failed = drive.run(&["account", "add", "ana", "--password-file", "-", "--json"], PASSWORD);
    let error: serde_json::Value = serde_json::from_slice(&failed.stderr).expect("is JSON");
    assert_eq!(error["error"]["exit_code"], 75);
}

#[test]
fn a_password_is_changed_by_who_knows_it() {
    let drive = Drive::new();
    let new = drive.folder.path().join("new");
    std::fs::write(&new, "nine brass kettles sang\n").expect("written");
    let new = new.to_str().expect("UTF-8");
    let change = ["account", "passwd", "ana", "--password-file", "-", "--new-password-file", new];
    assert_eq!(drive.fails(&change, "wrong").0, 77);
    drive.ok(&change, PASSWORD);
    let server = drive.start();
    assert_eq!(server.client_of("ana", PASSWORD).get("/dav/ana/").expect("answers").status, 401);
    assert_eq!(server.client_of("ana", "nine brass kettles sang").get("/dav/ana/").expect("answers").status, 200);
}

#[test]
fn tokens_do_what_they_are_for_until_they_are_revoked() {
    let drive = Drive::new();
    let server = drive.start();
    server.client_of("ana", PASSWORD).put("/dav/ana/a", "x").expect("answers");
    let create = ["token", "create", "phone", "--user", "ana", "--password-file", "-", "--read-only"];
    let made = drive.json(&create, PASSWORD);
    let token = made["token"].as_str().expect("shown");
    let mut phone = server.client_of("ana", token);
    assert_eq!(phone.get("/dav/ana/a").expect("answers").status, 200);
    assert_eq!(phone.put("/dav/ana/a", "y").expect("answers").status, 403);
    let bearer = Request::new("GET", "/dav/ana/a").header("authorization", format!("Bearer {token}"));
    assert_eq!(server.client().send(&bearer).expect("answers").status, 200);

    let listed = drive.json(&["token", "list", "ana"], "");
    assert_eq!((&listed[0]["label"], &listed[0]["read_only"]), (&json!("phone"), &json!(true)));
    drive.ok(&["token", "revoke", "ana", &made["id"].to_string()], "");
    assert_eq!(phone.get("/dav/ana/a").expect("answers").status, 401);
    assert_eq!(drive.fails(&["token", "revoke", "ana", "999"], "").0, 66);
}

#[test]
fn spaces_have_members_policies_and_an_end() {
    let drive = Drive::new();
    let server = drive.start();
    let by_ana = ["--user", "ana", "--password-file", "-"];
    let made = drive.json(&[&["space", "create", "lab", "--quota", "1G"][..], &by_ana].concat(), PASSWORD);
    assert_eq!((&made["owner"], &made["home"]), (&json!("ana"), &json!(false)));
    let mut ben = server.client_of("ben", OTHER_PASSWORD);
    assert_eq!(ben.get("/dav/lab/").expect("answers").status, 404);
    let add = |role: &str| {
        drive.ok(&[&["space", "member", "add", "lab", "ben", "--role", role][..], &by_ana].concat(), PASSWORD)
    };
    add("reader");
    assert_eq!(ben.get("/dav/lab/").expect("answers").status, 200);
    assert_eq!(ben.put("/dav/lab/x", "x").expect("answers").status, 403);
    add("editor");
    assert_eq!(ben.put("/dav/lab/x", "x").expect("answers").status, 201);
    let members = drive.json(&["space", "member", "list", "lab"], "");
    assert_eq!(members, json!([{"account": "ana", "role": "owner"}, {"account": "ben", "role": "editor"}]));

    let set =
        drive.json(&["space", "set", "lab", "--compression", "none", "--keep-days", "7", "--keep-versions", "3"], "");
    assert_eq!((&set["compression"], &set["keep_days"], &set["keep_versions"]), (&json!("none"), &json!(7), &json!(3)));
    assert_eq!(set["thin_versions"], json!(true), "as in every new space");
    assert_eq!(drive.json(&["space", "set", "lab", "--thin-versions", "no"], "")["thin_versions"], json!(false));
    assert_eq!(drive.json(&["space", "show", "lab"], "")["thin_versions"], json!(false));
    assert_eq!(drive.fails(&["space", "set", "lab", "--thin-versions", "a bit"], "").0, 64);
    assert_eq!(drive.fails(&["space", "set", "lab"], "").0, 64);
    assert_eq!(drive.fails(&["space", "set", "lab", "--compression", "gzip"], "").0, 64);

    drive.ok(&[&["space", "member", "remove", "lab", "ben"][..], &by_ana].concat(), PASSWORD);
    assert_eq!(ben.get("/dav/lab/x").expect("answers").status, 404);
    drive.ok(&["space", "remove", "lab", "--yes"], "");
    assert_eq!(drive.fails(&["space", "show", "lab"], "").0, 66);
    assert_eq!(drive.fails(&["space", "remove", "ana", "--yes"], "").0, 75, "a home goes with its account only");
}

#[test]
fn old_versions_and_deleted_files_come_back() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    for content in ["one", "two", "three"] {
        ana.put("/dav/ana/a b.txt", content).expect("answers");
    }
    let by_ana = ["--user", "ana", "--password-file", "-"];
    let run = |arguments: &[&str]| drive.json(&[arguments, &by_ana].concat(), PASSWORD);
    let versions = run(&["version", "list", "ana", "a b.txt"]);
    assert_eq!(versions.as_array().expect("a list").len(), 2);
    let oldest = versions[1]["version"].to_string();
    run(&["version", "restore", "ana", "a b.txt", &oldest]);
    assert_eq!(ana.get("/dav/ana/a b.txt").expect("answers").text(), "one");

    ana.delete("/dav/ana/a b.txt").expect("answers");
    let trash = run(&["trash", "list", "ana"]);
    assert_eq!(trash[0]["path"], "/a b.txt");
    let entry = trash[0]["entry"].to_string();
    run(&["trash", "restore", "ana", &entry, "--to", "back.txt"]);
    assert_eq!(ana.get("/dav/ana/back.txt").expect("answers").text(), "one");
    ana.delete("/dav/ana/back.txt").expect("answers");
    assert!(run(&["trash", "empty", "ana"])["freed_bytes"].as_u64().expect("a number") > 0);
    assert_eq!(run(&["trash", "list", "ana"]), json!([]));

    let by_ben = ["--user", "ben", "--password-file", "-"];
    assert_eq!(drive.fails(&[&["trash", "list", "ana"][..], &by_ben].concat(), OTHER_PASSWORD).0, 66);
}

#[test]
fn care_works_beside_a_running_server_and_without_one() {
    let drive = Drive::new();
    let mut server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    ana.put("/dav/ana/big", vec![7; 3 << 20]).expect("answers");
    let backup = drive.folder.path().join("backup");
    let backup = backup.to_str().expect("UTF-8");
    let report = drive.json(&["check", "--read-data"], "");
    assert_eq!(report["findings"], json!([]));
    assert!(report["bytes_read"].as_u64().expect("a number") > 0);
    assert_eq!(drive.fails(&["check", "--repair"], "").0, 75, "repair wants the drive to itself");
    assert_eq!(drive.json(&["backup", backup], "")["check"]["findings"], json!([]));
    assert_eq!(drive.json(&["reclaim"], "")["asked_process"], server.pid());
    assert!(server.terminate().expect("stops").success());
    assert!(drive.json(&["reclaim"], "")["packs_deleted"].is_number());
    // The open pack was closed by the stop, so it is copied once more, and then not again.
    drive.ok(&["backup", backup], "");
    assert_eq!(drive.json(&["backup", backup], "")["packs_copied"], 0, "nothing has changed");

    let other = Drive::empty();
    assert_eq!(other.json(&["restore", backup], "")["check"]["findings"], json!([]));
    assert_eq!(other.fails(&["restore", backup], "").0, 75, "not over a drive");
    let restored = other.start();
    let back = restored.client_of("ana", PASSWORD).get("/dav/ana/big").expect("answers");
    assert_eq!(back.body, vec![7; 3 << 20]);
}

#[test]
fn a_missing_pack_is_found_and_told() {
    let drive = Drive::new();
    let mut server = drive.start();
    server
        .client_of("ana", PASSWORD)
        .put("/dav/ana/big", (0..=255).cycle().take(300_000).collect::<Vec<u8>>())
        .expect("answers");
    assert!(server.terminate().expect("stops").success());
    std::fs::remove_dir_all(drive.folder.path().join("data/packs")).expect("removed");
    let output = drive.run(&["check", "--json"], "");
    assert_eq!(output.status.code(), Some(65));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    assert!(report["findings"].as_array().expect("a list").iter().any(|finding| finding["loss"] == true), "{report}");
}

#[test]
fn configuration_mistakes_are_explained() {
    let drive = Drive::new();
    let file = drive.folder.path().join("data/holdfast.toml");
    std::fs::write(&file, "[limits]\nidle_timout_s = 5\n").expect("written");
    for command in [&["config", "show"][..], &["serve"]] {
        let (code, message) = drive.fails(command, "");
        assert_eq!(code, 64);
        assert!(message.contains("did you mean limits.idle_timeout_s?"), "{message}");
    }
    std::fs::write(&file, "[limits]\nidle_timeout_s = 5\n").expect("written");
    let shown = drive.json(&["config", "show"], "");
    assert_eq!(shown["limits.idle_timeout_s"]["value"], 5);
    assert!(shown["limits.idle_timeout_s"]["origin"].as_str().expect("text").ends_with("holdfast.toml"));
    assert_eq!(shown["limits.stall_timeout_s"]["origin"], "default");
}

#[test]
fn a_folder_that_is_no_drive_is_not_made_one_by_looking() {
    let drive = Drive::empty();
    let (code, message) = drive.fails(&["account", "list"], "");
    assert!(code == 66 && message.contains("holdfast serve --data"), "{message}");
    assert!(!drive.folder.path().join("data").exists());
}

#[test]
fn shells_and_manuals_get_what_they_need() {
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast")).args(arguments).output().expect("runs");
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(run(&["completion", "bash"]).contains("complete -F _holdfast"));
    assert!(run(&["man"]).contains(".TH holdfast 1"));
    let folder = tempfile::tempdir().expect("a folder");
    run(&["man", "--dir", folder.path().to_str().expect("UTF-8")]);
    assert!(folder.path().join("holdfast-account-add.1").is_file());
    assert!(run(&["--help"]).contains("Serve a drive"));
}

#[test]
fn the_documented_exit_codes_are_those_of_the_program() {
    use holdfast_base::ErrorKind as Kind;
    let documented = include_str!("../../../../docs/operating/exit-codes.md");
    let kinds = [
        Kind::InvalidInput,
        Kind::Damaged,
        Kind::NotFound,
        Kind::Unavailable,
        Kind::Internal,
        Kind::NoSpace,
        Kind::Conflict,
        Kind::Forbidden,
    ];
    // Of transfers alone: some files failed; stopped by a signal, as a shell tells it.
    for code in kinds.map(|kind| kind.exit_code().to_string()).into_iter().chain(["74".into(), "130, 143".into()]) {
        assert!(documented.contains(&format!("| {code} |")), "{code} is not documented");
    }
    let rows = documented.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit()).count();
    assert_eq!(rows, kinds.len() + 3, "one row for each code, and one for success");
}
