//! A mount answers small changes before the catalogue has them: what becomes of them when it is killed, refused, or somebody else was quicker.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::{expect_clean, reclaim};
use holdfast_e2e::closed::{check, close, since, write_until_it_ends};
use holdfast_e2e::filesystem::{errno, operations_until_it_ends, same_but_for};
use holdfast_e2e::knob::knob;
use holdfast_e2e::mounted::{Ground, Mount};
use holdfast_e2e::rig::{HOME, NAME, PASSWORD};
use holdfast_testkit::rng::Prng;

/// Writers beside each other.
const WRITERS: u64 = 4;

/// `HOLDFAST_MOUNT_ROUNDS` kills, at whatever moment, under four writers.
#[test]
fn every_file_that_was_closed_is_whole_after_any_number_of_kills() -> Outcome {
    let ground = Ground::new()?;
    let mut closed = BTreeMap::new();
    let mut random = Prng::new(knob("HOLDFAST_MOUNT_SEED", 11_u64));
    for round in 0..knob("HOLDFAST_MOUNT_ROUNDS", 30_u64) {
        let mount = ground.mount(&["--write-behind"])?;
        check(mount.at(), &closed, since(round))?;
        let at = mount.at().to_owned();
        // Whoever begins late finds the folder below.
        let mounted = fs::metadata(&at)?.dev();
        let written = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| -> Outcome {
            for writer in 0..WRITERS {
                let (at, written) = (&at, &written);
                scope.spawn(move || {
                    let ours = write_until_it_ends(at, mounted, round, writer);
                    written.lock().expect("nobody panics").extend(ours);
                });
            }
            std::thread::sleep(Duration::from_millis(20 + random.below(180)));
            mount.kill_9()
        })?;
        closed.extend(written.into_inner()?);
    }
    assert!(closed.len() > 1_000, "only {} files were written", closed.len());
    ground.with(|at| check(at, &closed, 0))
}

/// `HOLDFAST_MOUNT_ROUNDS` kills, at whatever moment, under random operations that are done in a native folder as well.
#[test]
fn a_tree_is_as_it_was_answered_last_after_any_number_of_kills() -> Outcome {
    let ground = Ground::new()?;
    let mut random = Prng::new(knob("HOLDFAST_MOUNT_SEED", 13_u64));
    let (mut expected, mut steps) = (Vec::new(), 0);
    for round in 0..knob("HOLDFAST_MOUNT_ROUNDS", 30_u64) {
        let mount = ground.mount(&["--write-behind"])?;
        let (at, native) = (mount.at().join(round.to_string()), tempfile::tempdir()?);
        fs::create_dir(&at)?;
        let (seed, pause) = (random.next_u64(), Duration::from_millis(20 + random.below(180)));
        let (done, unsure) = std::thread::scope(|scope| -> Outcome<_> {
            let working =
                scope.spawn(|| operations_until_it_ends(&at, native.path(), seed).map_err(|error| error.to_string()));
            std::thread::sleep(pause);
            mount.kill_9()?;
            Ok(working.join().expect("nobody panics")?)
        })?;
        steps += done;
        expected.push((at, same_but_for(native.path(), &unsure)?, unsure));
        // Some with one that answers first, some with one that does not.
        let mount = ground.mount(&[if round % 2 == 0 { "--write-behind" } else { "--write-behind=no" }])?;
        for (at, expected, unsure) in &expected {
            assert_eq!(&same_but_for(at, unsure)?, expected, "{} after {done} steps, seed {seed}", at.display());
        }
        mount.stop()?;
    }
    println!("{steps} operations");
    assert!(steps > 300, "only {steps} operations were done");
    expect_clean(&ground.options())
}

/// Content that is in packs, of which nothing was synced and the catalogue knows nothing: whoever opens the drive before the next mount leaves it alone.
#[test]
fn files_of_any_size_outlive_a_kill_and_others_who_reclaim_before_the_next_mount() -> Outcome {
    let ground = Ground::new()?;
    let (mut random, mut waited, mut expected) = (Prng::new(17), 0, BTreeMap::new());
    for round in 0..8 {
        let (mount, waited_before) = (ground.mount(&["--write-behind"])?, waited);
        for number in 0..6 {
            let mut bytes = vec![0; [10_000, 70_000, 1 << 20, 3_000_000][usize::try_from(random.below(4))?]];
            random.fill(&mut bytes);
            let name = format!("{round}-{number}");
            fs::write(mount.at().join(&name), &bytes)?;
            expected.insert(name, bytes);
        }
        mount.kill_9()?;
        let mounts = ground.options().data().join("mounts");
        for folder in fs::read_dir(mounts)? {
            for journal in fs::read_dir(folder?.path())? {
                let journal = journal?;
                let is_journal = journal.file_name().to_string_lossy().starts_with("journal-");
                // Its header has 24 bytes.
                waited += u64::from(is_journal && journal.metadata()?.len() > 24);
            }
        }
        for _ in 0..2 {
            reclaim(&ground.options())?;
            expect_clean(&ground.options())?;
        }
        if waited > waited_before {
            let said =
                ground.options().run(&["migrate-catalogue", "--to", "postgres://nobody@127.0.0.1:9/none"], b"")?;
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            assert!(said.contains("mount its space once"), "other nodes would not know of it: {said}");
        }
        if round % 2 == 0 {
            let mut server = ground.options().start()?;
            let mut client = server.client_of(NAME, PASSWORD);
            for (name, bytes) in &expected {
                assert!(client.get(&format!("{HOME}/{name}"))?.body == *bytes, "{name}, by the server");
            }
            assert!(server.terminate()?.success());
        }
        ground.with(|at| {
            for (name, bytes) in &expected {
                assert!(fs::read(at.join(name))? == *bytes, "{name}, by the next mount");
            }
            Ok(())
        })?;
    }
    assert!(waited > 0, "something waits when it is killed, in some of the rounds");
    expect_clean(&ground.options())
}

/// Removes and renames many files and kills the mount at once; then others change some of them before anybody knows.
#[test]
fn what_others_changed_or_made_before_a_removal_was_handed_over_stays() -> Outcome {
    for _ in 0..10 {
        let ground = Ground::new()?;
        let files = 40;
        ground.with(|at| {
            for number in 0..files {
                fs::write(at.join(format!("f{number}")), "ours")?;
                fs::write(at.join(format!("g{number}")), format!("moved {number}"))?;
            }
            Ok(())
        })?;
        let mount = ground.mount(&["--write-behind"])?;
        for number in 0..files {
            fs::remove_file(mount.at().join(format!("f{number}")))?;
            fs::rename(mount.at().join(format!("g{number}")), mount.at().join(format!("h{number}")))?;
        }
        mount.kill_9()?;
        let (mounts, aside) = (ground.options().data().join("mounts"), ground.scratch().join("aside"));
        fs::rename(&mounts, &aside)?;
        let mut server = ground.options().start()?;
        let mut client = server.client_of(NAME, PASSWORD);
        let (mut changed, mut taken) = (Vec::new(), Vec::new());
        for number in 0..files {
            // Whether it was handed over.
            if client.get(&format!("{HOME}/f{number}"))?.status == 200 {
                client.put(&format!("{HOME}/f{number}"), b"theirs")?.expect_status(204)?;
                changed.push(number);
            }
            if client.get(&format!("{HOME}/h{number}"))?.status == 404 {
                client.put(&format!("{HOME}/h{number}"), b"theirs")?.expect_status(201)?;
                taken.push(number);
            }
        }
        assert!(server.terminate()?.success());
        fs::rename(&aside, &mounts)?;
        if changed.is_empty() || taken.is_empty() {
            // It was quicker than we were.
            continue;
        }
        let mount = ground.mount(&["--write-behind"])?;
        for number in 0..files {
            let read = |name: String| fs::read_to_string(mount.at().join(name)).ok();
            let theirs = |is_theirs: bool| is_theirs.then(|| "theirs".to_owned());
            assert_eq!(read(format!("f{number}")), theirs(changed.contains(&number)));
            assert_eq!(read(format!("g{number}")), None);
            let ours = if taken.contains(&number) { format!("h{number} (2)") } else { format!("h{number}") };
            assert_eq!(read(ours), Some(format!("moved {number}")));
            if taken.contains(&number) {
                assert_eq!(read(format!("h{number}")), Some("theirs".to_owned()));
            }
        }
        let said = mount.stop().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains("stays as others have it") && said.contains("kept beside"), "the log says so: {said}");
        return expect_clean(&ground.options());
    }
    Err("the journal was always empty".into())
}

/// What a program makes and removes again leaves nothing behind, and what it removes while it has it open is there for it.
#[test]
fn what_is_made_and_removed_within_a_moment_leaves_nothing_and_what_is_open_stays_for_whoever_has_it() -> Outcome {
    let ground = Ground::new()?;
    ground.with_mount(&["--write-behind"], |at| {
        for round in 0..200 {
            let folder = at.join(format!("d{round}"));
            fs::create_dir(&folder)?;
            for number in 0..5 {
                write(&folder.join(number.to_string()), &[round; 700])?;
            }
            assert_eq!(errno(fs::remove_dir(&folder)), Some(libc::ENOTEMPTY));
            let mut open = OpenOptions::new().read(true).write(true).open(folder.join("0"))?;
            fs::remove_dir_all(&folder)?;
            assert!(!folder.exists());
            let mut found = Vec::new();
            std::io::Read::read_to_end(&mut open, &mut found)?;
            assert_eq!(found, [round; 700], "it was removed, and is open");
            open.write_all(b"more")?;
            drop(open);
            // The name is free, for whatever.
            fs::write(&folder, "a file")?;
            fs::rename(&folder, at.join("last"))?;
        }
        assert_eq!(fs::read_dir(at)?.count(), 1);
        assert_eq!(fs::read(at.join("last"))?, b"a file");
        Ok(())
    })?;
    let mut server = ground.options().start()?;
    let trash =
        server.client_of(NAME, PASSWORD).get(&format!("/api/v1/spaces/{NAME}/trash"))?.expect_status(200)?.clone();
    assert!(!String::from_utf8_lossy(&trash.body).contains("\"d1"), "{}", String::from_utf8_lossy(&trash.body));
    assert!(server.terminate()?.success());
    Ok(())
}

/// Pages of a listing while names come and go.
#[test]
fn a_folder_is_listed_whole_while_much_of_it_waits() -> Outcome {
    let ground = Ground::new()?;
    ground.with_mount(&["--write-behind"], |at| {
        let names = |number: u64| format!("f{number:05}");
        for number in 0..3_000 {
            File::create(at.join(names(number)))?;
        }
        for round in 0..20_u64 {
            let mut expected: Vec<String> = Vec::new();
            for number in 0..3_000 {
                match (number + round) % 7 {
                    0 => fs::remove_file(at.join(names(number)))?,
                    1 => {
                        fs::rename(at.join(names(number)), at.join(format!("g{number:05}")))?;
                        expected.push(format!("g{number:05}"));
                    }
                    _ => expected.push(names(number)),
                }
            }
            let listed: Result<Vec<String>, std::io::Error> =
                fs::read_dir(at)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect();
            let mut listed = listed?;
            listed.sort();
            expected.sort();
            assert_eq!(listed, expected, "round {round}");
            for number in 0..3_000 {
                match (number + round) % 7 {
                    0 => drop(File::create(at.join(names(number)))?),
                    1 => fs::rename(at.join(format!("g{number:05}")), at.join(names(number)))?,
                    _ => {}
                }
            }
        }
        Ok(())
    })
}

/// Closes many files and kills the mount at once: the last of them are in its journal only.
fn leave_some_in_the_journal(mount: Mount, files: u64) -> Outcome {
    for number in 0..files {
        fs::write(mount.at().join(format!("f{number}.txt")), format!("ours {number}"))?;
    }
    mount.kill_9()
}

#[test]
fn what_somebody_else_made_before_the_journal_was_gone_through_is_kept_beside() -> Outcome {
    for _ in 0..10 {
        let ground = Ground::new()?;
        let files = 40;
        leave_some_in_the_journal(ground.mount(&["--write-behind"])?, files)?;
        // As if the journal were on another machine: the server does not find it.
        let (mounts, aside) = (ground.options().data().join("mounts"), ground.scratch().join("aside"));
        fs::rename(&mounts, &aside)?;
        let mut server = ground.options().start()?;
        let mut client = server.client_of(NAME, PASSWORD);
        let mut taken = Vec::new();
        for number in 0..files {
            let status = client.put(&format!("{HOME}/f{number}.txt"), b"theirs")?.status;
            if status == 201 {
                taken.push(number);
            }
        }
        assert!(server.terminate()?.success());
        fs::rename(&aside, &mounts)?;
        if taken.is_empty() {
            // It was quicker than we were.
            continue;
        }
        let mount = ground.mount(&["--write-behind"])?;
        for number in taken {
            assert_eq!(fs::read(mount.at().join(format!("f{number}.txt")))?, b"theirs");
            let ours = fs::read_to_string(mount.at().join(format!("f{number} (2).txt")))?;
            assert_eq!(ours, format!("ours {number}"));
        }
        let said = mount.stop();
        assert!(said.is_err_and(|error| error.to_string().contains("kept beside")), "and the log says so");
        return expect_clean(&ground.options());
    }
    Err("the journal was always empty".into())
}

/// Bytes of changes in the journals of a drive.
fn journal_bytes(ground: &Ground) -> Outcome<u64> {
    let mut bytes = 0;
    for folder in fs::read_dir(ground.options().data().join("mounts"))? {
        for file in fs::read_dir(folder?.path())? {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with("journal-") {
                // Without what each begins with.
                bytes += file.metadata()?.len().saturating_sub(24);
            }
        }
    }
    Ok(bytes)
}

#[test]
fn a_server_shows_what_was_closed_before_the_mount_was_killed() -> Outcome {
    let (files, mut left) = (60, 0);
    for _ in 0..10 {
        let ground = Ground::new()?;
        leave_some_in_the_journal(ground.mount(&["--write-behind"])?, files)?;
        let waits = journal_bytes(&ground)?;
        left += waits;
        let mut server = ground.options().start()?;
        let mut client = server.client_of(NAME, PASSWORD);
        for number in 0..files {
            let got = client.get(&format!("{HOME}/f{number}.txt"))?.expect_status(200)?.body.clone();
            assert_eq!(String::from_utf8(got)?, format!("ours {number}"));
        }
        assert_eq!(journal_bytes(&ground)?, 0, "nothing waits any more");
        // What is done from now on is not undone by going through it again.
        client.put(&format!("{HOME}/f0.txt"), b"theirs")?.expect_status(204)?;
        server.kill_9()?;
        let mount = ground.mount(&["--write-behind"])?;
        assert_eq!(fs::read(mount.at().join("f0.txt"))?, b"theirs");
        assert_eq!(fs::read_dir(mount.at())?.count() as u64, files);
        mount.stop()?;
        expect_clean(&ground.options())?;
        if left > 0 {
            return Ok(());
        }
    }
    Err("the journal was always empty".into())
}

#[test]
fn a_server_leaves_a_journal_alone_that_is_in_use_and_keeps_what_it_cannot_hand_over() -> Outcome {
    for _ in 0..10 {
        let ground = Ground::new()?;
        leave_some_in_the_journal(ground.mount(&["--write-behind"])?, 40)?;
        let waits = journal_bytes(&ground)?;
        if waits == 0 {
            continue;
        }
        let folder = fs::read_dir(ground.options().data().join("mounts"))?.next().ok_or("no folder")??.path();
        let lock = File::open(folder.join("lock"))?;
        lock.lock()?;
        let mut server = ground.options().start()?;
        assert_eq!(journal_bytes(&ground)?, waits, "somebody has it");
        assert!(server.terminate()?.success());
        drop(lock);
        set_quota(&ground, "16B")?;
        let mut server = ground.options().start()?;
        assert_eq!(journal_bytes(&ground)?, waits, "it could not be handed over");
        assert!(server.log().contains("stay in its journal"), "{}", server.log());
        assert!(server.terminate()?.success());
        set_quota(&ground, "1GiB")?;
        fs::remove_file(folder.join("owner"))?;
        let mut server = ground.options().start()?;
        assert!(server.log().contains("not known whose"), "{}", server.log());
        assert!(server.terminate()?.success());
        return ground.with(|at| {
            for number in 0..40 {
                assert_eq!(fs::read_to_string(at.join(format!("f{number}.txt")))?, format!("ours {number}"));
            }
            Ok(())
        });
    }
    Err("the journal was always empty".into())
}

fn set_quota(ground: &Ground, quota: &str) -> Outcome {
    ground.options().run_ok(&["space", "set", NAME, "--quota", quota], b"")?;
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    close(file)
}

#[test]
fn a_quota_is_told_when_a_file_is_closed_and_nothing_is_lost() -> Outcome {
    let ground = Ground::new()?;
    set_quota(&ground, "24MiB")?;
    let mount = ground.mount(&["--write-behind"])?;
    let at = mount.at().to_owned();
    let mut bytes = [0; 4_096];
    let mut kept = 0_u64;
    let error = loop {
        Prng::new(kept).fill(&mut bytes);
        match write(&at.join(kept.to_string()), &bytes) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert!(kept * 4_096 > 23 << 20 && kept * 4_096 <= 24 << 20, "{kept} files");
    for number in 0..kept {
        Prng::new(number).fill(&mut bytes);
        assert!(fs::read(at.join(number.to_string()))? == bytes, "{number}");
    }
    fs::remove_file(at.join(kept.to_string()))?;
    for number in 0..10 {
        fs::remove_file(at.join(number.to_string()))?;
    }
    // What was made a moment ago leaves no trace, so there is room again.
    write(&at.join("more"), &bytes)?;
    assert!(
        mount.stop().is_err_and(|error| error.to_string().contains("could not be saved")),
        "and the log says which"
    );
    expect_clean(&ground.options())
}

#[test]
fn what_is_refused_after_it_was_answered_is_told_kept_and_made_when_it_can_be() -> Outcome {
    let ground = Ground::new()?;
    let mount = ground.mount(&["--write-behind"])?;
    let path = mount.at().join("late");
    // Nobody who counts knows of this yet.
    set_quota(&ground, "1KiB")?;
    write(&path, &vec![1; 3_000])?;
    let file = OpenOptions::new().write(true).open(&path)?;
    assert_eq!(file.sync_all().map_err(|error| error.raw_os_error()), Err(Some(libc::ENOSPC)), "told at the next sync");
    drop(file);
    assert_eq!(fs::read(&path)?, vec![1; 3_000], "and kept");
    assert_eq!(fs::read_dir(mount.at())?.count(), 1);
    mount.kill_9()?;
    let mount = ground.mount(&["--write-behind"])?;
    assert_eq!(fs::read(&path)?, vec![1; 3_000], "after a kill as well");
    set_quota(&ground, "1GiB")?;
    let said = mount.stop();
    assert!(said.is_err_and(|error| error.to_string().contains("is tried again")), "the log says what waits");
    ground.with(|at| {
        assert_eq!(fs::read(at.join("late"))?, vec![1; 3_000]);
        Ok(())
    })?;
    let mut server = ground.options().start()?;
    let got = server.client_of(NAME, PASSWORD).get(&format!("{HOME}/late"))?.expect_status(200)?.body.clone();
    assert_eq!(got, vec![1; 3_000], "and now the catalogue has it");
    assert!(server.terminate()?.success());
    Ok(())
}
