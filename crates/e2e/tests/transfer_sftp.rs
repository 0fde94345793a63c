//! `holdfast push`, `pull` and `sync` with a server of OpenSSH: there and back, kills of either end, a full disk, power cuts of the server, and servers that
//! can less. Who is believed and let in is in `transfer_ssh.rs`.

use holdfast_e2e::Outcome;
use holdfast_e2e::knob::knob;
use holdfast_e2e::sftp::{MIB, PARTIAL, Rig, end_of, parts, random, wait_for};
use holdfast_testkit::crashdisk::{Action, Config, CrashDisk, Fault, Image, OpKind};
use holdfast_testkit::rng::Prng;
use holdfast_testkit::services::process::is_root;
use holdfast_testkit::services::sshd::user;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What may be sent again after one kill: what was not marked yet, and what was on its way.
const AGAIN_MAX: u64 = 32 * MIB;

/// What is moved of something: content, time to the second and permissions of a file, text of a link.
#[derive(Debug, PartialEq, Eq)]
enum Moved {
    Folder,
    File(Vec<u8>, i64, u32),
    Link(PathBuf),
}

fn tree(folder: &Path) -> Outcome<BTreeMap<PathBuf, Moved>> {
    let (mut all, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            let about = path.symlink_metadata()?;
            let moved = if about.is_dir() {
                folders.push(path.clone());
                Moved::Folder
            } else if about.is_symlink() {
                Moved::Link(fs::read_link(&path)?)
            } else {
                Moved::File(fs::read(&path)?, about.mtime(), about.mode() & 0o777)
            };
            all.insert(path.strip_prefix(folder)?.to_owned(), moved);
        }
    }
    Ok(all)
}

fn assert_same(a: &Path, b: &Path) -> Outcome {
    let (a, b) = (tree(a)?, tree(b)?);
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (path, moved) in &a {
        assert!(b[path] == *moved, "{} is not the same", path.display());
    }
    Ok(())
}

/// Files around the sizes of requests and blocks, strange names, links, folders.
fn plant(folder: &Path) -> Outcome {
    fs::create_dir_all(folder.join("deep/er/still"))?;
    let sizes = [0, 1, 32 << 10, (128 << 10) + 1, MIB - 1, MIB, MIB + 1, 5 * MIB + 123];
    for (seed, size) in (0..).zip(sizes) {
        fs::write(folder.join(format!("deep/size {size}")), random(size, seed)?)?;
    }
    for (number, name) in ["é ü", "100%25+&'\"<>", " leading", "*?[x]", "💾", "~", "-r"].iter().enumerate() {
        fs::write(folder.join("deep/er").join(name), format!("{number}"))?;
    }
    for number in 0..300 {
        fs::write(folder.join(format!("deep/er/still/{number:04}")), format!("content {number}"))?;
    }
    fs::set_permissions(folder.join("deep/size 1"), fs::Permissions::from_mode(0o750))?;
    let old = fs::File::open(folder.join("deep/size 0"))?;
    old.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_007))?;
    symlink("er/still", folder.join("deep/to a folder"))?;
    symlink("nowhere/at all", folder.join("deep/to nothing"))?;
    Ok(())
}

#[test]
fn a_tree_goes_there_and_back_and_sync_follows_it_in_both_directions() -> Outcome {
    let rig = Rig::start("")?;
    plant(&rig.at("here/a"))?;
    let end = rig.run(&["push", &rig.here("/a"), &rig.there("/new/one")])?;
    assert_eq!(end["failed"], 0, "{end}");
    assert_same(&rig.at("here/a"), &rig.at("there/new/one/a"))?;
    let end = rig.run(&["push", &rig.here("/a"), &rig.there("/new/one")])?;
    assert_eq!((end["moved_bytes"].as_u64(), end["files"].as_u64()), (Some(0), Some(0)), "{end}");
    rig.run(&["pull", &rig.there("/new/one/a/."), &rig.here("/back")])?;
    assert_same(&rig.at("here/a"), &rig.at("here/back"))?;
    // What is gone, changed and new, and what is of another kind now.
    let change = |at: PathBuf| -> Outcome {
        fs::remove_dir_all(at.join("deep/er/still"))?;
        fs::write(at.join("deep/er/still"), "a file now")?;
        fs::remove_file(at.join("deep/to nothing"))?;
        fs::create_dir(at.join("deep/to nothing"))?;
        fs::write(at.join("deep/to nothing/new"), "new")?;
        fs::write(at.join("deep/size 1"), "other")?;
        fs::remove_file(at.join("deep/er/~"))?;
        fs::remove_file(at.join("deep/to a folder"))?;
        Ok(symlink("elsewhere", at.join("deep/to a folder"))?)
    };
    change(rig.at("here/a"))?;
    rig.run(&["sync", &rig.here("/a"), &rig.there("/new/one/a"), "--delete", "--checksum"])?;
    assert_same(&rig.at("here/a"), &rig.at("there/new/one/a"))?;
    rig.run(&["sync", &rig.there("/new/one/a"), &rig.here("/back"), "--delete"])?;
    assert_same(&rig.at("here/a"), &rig.at("here/back"))?;
    // From one folder of the server to another, and what arrived goes from the source.
    rig.run(&["push", &rig.there("/new/one/a/."), &rig.there("/second"), "--delete-source"])?;
    let left = tree(&rig.at("there/new/one/a"))?;
    assert!(left.values().all(|moved| *moved == Moved::Folder), "{:?}", left.keys());
    rig.run(&["pull", &rig.there("/second/."), &rig.here("/again")])?;
    assert_same(&rig.at("here/a/deep"), &rig.at("here/again/deep"))
}

#[test]
fn paths_begin_at_the_servers_root_or_at_the_home_folder() -> Outcome {
    let rig = Rig::start("")?;
    fs::write(rig.at("here/x"), "x")?;
    let home = format!("sftp://{}@127.0.0.1:{}/~/.", user(), rig.sshd.port());
    let listed = rig.run(&["pull", &home, &rig.here("/home"), "--dry-run", "--exclude", "*"])?;
    assert_eq!(listed["failed"], 0, "{listed}");
    let missing = rig.command(&["pull", &rig.there("/none"), &rig.here("")])?.output()?;
    assert_eq!(missing.status.code(), Some(66), "{missing:?}");
    let itself = rig.command(&["push", &rig.there(""), &rig.there("/deeper")])?.output()?;
    assert_eq!(itself.status.code(), Some(64), "{itself:?}");
    Ok(())
}

/// Kills come while content is on its way; `HOLDFAST_TRANSFER_SFTP_KILLS` sets how many.
#[test]
fn a_server_that_is_killed_again_and_again_costs_little_and_the_transfer_goes_on() -> Outcome {
    let kills = knob("HOLDFAST_TRANSFER_SFTP_KILLS", 6_u64);
    let size = (kills + 1) * 12 * MIB + 4_321;
    for pushes in [true, false] {
        let mut rig = Rig::start("")?;
        let (source, folder) = if pushes { ("here/large", "there") } else { ("there/large", "here") };
        fs::write(rig.at(source), random(size, 3)?)?;
        let [from, to] = if pushes { [rig.here("/large"), rig.there("")] } else { [rig.there("/large"), rig.here("")] };
        let arguments = [if pushes { "push" } else { "pull" }, &from, &to, "--json", "--limit-rate", "40M"];
        let mut child = rig.command(&arguments)?.spawn()?;
        let mut killed = 0;
        for _ in 0..kills {
            let more = parts(&rig.at(folder)) + 6 * MIB;
            if !wait_for(&mut child, &rig.at(folder), more.min(size))? {
                break;
            }
            rig.sshd.kill()?;
            killed += 1;
            rig.sshd.start_again()?;
        }
        let output = child.wait_with_output()?;
        assert!(output.status.success(), "{output:?}");
        assert!(fs::read(rig.at(source))? == fs::read(rig.at(folder).join("large"))?);
        let end = end_of(&output)?;
        let moved = end["moved_bytes"].as_u64().ok_or("a count")?;
        let again = moved.saturating_sub(size);
        println!(
            "{arguments:?}: {killed} kills of the server, {} tries more, {again} bytes moved again",
            end["retries"]
        );
        assert!(killed >= kills / 2 && end["retries"].as_u64() >= Some(killed), "{killed} kills: {end}");
        assert!(again <= killed * AGAIN_MAX, "{again} bytes were moved again");
        assert_eq!(fs::read_dir(rig.at(folder))?.count(), 1, "nothing is beside it");
    }
    Ok(())
}

#[test]
fn a_push_that_is_killed_again_and_again_goes_on_where_the_server_has_it() -> Outcome {
    let size = 80 * MIB;
    // A server that can sync, and one that cannot.
    for more in ["", "Subsystem sftp internal-sftp -P fsync,posix-rename,limits,statvfs"] {
        let rig = Rig::start(more)?;
        fs::write(rig.at("here/large"), random(size, 5)?)?;
        let (from, to) = (rig.here("/large"), rig.there(""));
        let mut sent = 0;
        for _ in 0..3 {
            let mut child = rig.command(&["push", &from, &to, "--quiet", "--limit-rate", "60M"])?.spawn()?;
            let before = parts(&rig.at("there"));
            if !wait_for(&mut child, &rig.at("there"), before + 10 * MIB)? {
                break;
            }
            child.kill()?;
            child.wait()?;
            sent += parts(&rig.at("there")).saturating_sub(before);
            assert!(!rig.at("there/large").exists(), "nothing is seen before it is whole");
        }
        let end = rig.run(&["push", &from, &to])?;
        let stood = end["stood_bytes"].as_u64().ok_or("a count")?;
        println!("{more:?}: {sent} bytes were in the part after the kills, and {stood} of them stood");
        assert!(stood + AGAIN_MAX >= sent && stood > 0, "{end}");
        assert_same(&rig.at("here"), &rig.at("there"))?;
    }
    Ok(())
}

#[test]
fn a_server_that_cannot_do_more_than_the_draft_gets_whole_files_as_well() -> Outcome {
    let rig = Rig::start("Subsystem sftp internal-sftp -P fsync,posix-rename,limits,statvfs")?;
    plant(&rig.at("here/a"))?;
    rig.run(&["push", &rig.here("/a"), &rig.there("")])?;
    assert_same(&rig.at("here"), &rig.at("there"))?;
    fs::write(rig.at("here/a/deep/size 1"), "another content")?;
    fs::write(rig.at(&format!("here/a/deep/size {MIB}")), random(3 * MIB, 77)?)?;
    rig.run(&["sync", &rig.here("/a"), &rig.there("/a"), "--delete"])?;
    assert_same(&rig.at("here"), &rig.at("there"))
}

#[test]
fn a_file_that_changes_while_it_is_read_arrives_in_its_new_version() -> Outcome {
    let rig = Rig::start("")?;
    let source = rig.at("there/changing");
    fs::write(&source, random(16 * MIB, 9)?)?;
    // Before the program starts: it takes as long as a transfer where processors are slow.
    let new = random(9 * MIB + 7, 10)?;
    let mut child =
        rig.command(&["pull", &rig.there("/changing"), &rig.here(""), "--json", "--limit-rate", "4M"])?.spawn()?;
    assert!(wait_for(&mut child, &rig.at("here"), 2 * MIB)?, "it was done too soon");
    fs::write(&source, &new)?;
    let output = child.wait_with_output()?;
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read(rig.at("here/changing"))? == new);
    assert_eq!(fs::read_dir(rig.at("here"))?.count(), 1, "nothing is left of the old version");
    Ok(())
}

#[test]
fn what_cannot_be_moved_is_told_and_links_lead_nobody_out() -> Outcome {
    use std::os::unix::ffi::OsStrExt;
    let rig = Rig::start("")?;
    fs::create_dir_all(rig.at("outside"))?;
    fs::create_dir_all(rig.at("here/a/d"))?;
    fs::write(rig.at("here/a/d/f"), "f")?;
    fs::write(rig.at("here/a/g"), "g")?;
    fs::create_dir(rig.at("there/a"))?;
    symlink(rig.at("outside"), rig.at("there/a/d"))?;
    let refused = rig.command(&["push", &rig.here("/a"), &rig.there(""), "--json"])?.output()?;
    assert_eq!(refused.status.code(), Some(PARTIAL), "{refused:?}");
    assert!(fs::read_dir(rig.at("outside"))?.next().is_none(), "a link was followed");
    assert!(rig.at("there/a/g").exists() && rig.at("there/a/d").is_symlink());
    let out = rig.command(&["push", &rig.here("/a/g"), &rig.there("/a/d/../a"), "--json"])?.output()?;
    assert_eq!(out.status.code(), Some(64), "{out:?}");
    // What a server may have and nobody can move.
    let odd = rig.at("there/odd");
    fs::create_dir(&odd)?;
    fs::write(odd.join("good"), "good")?;
    fs::write(odd.join("line\nbreak"), "")?;
    fs::write(odd.join(std::ffi::OsStr::from_bytes(b"\xff\xfe")), "")?;
    let fifo = Command::new("mkfifo").arg(odd.join("fifo")).status()?;
    assert!(fifo.success());
    let output = rig.command(&["pull", &rig.there("/odd"), &rig.here(""), "--json"])?.output()?;
    assert_eq!(output.status.code(), Some(PARTIAL), "{output:?}");
    assert_eq!(end_of(&output)?["failed"], 3, "{output:?}");
    let arrived = tree(&rig.at("here/odd"))?;
    assert_eq!(arrived.keys().collect::<Vec<_>>(), [Path::new("good")]);
    Ok(())
}

/// Needs root, for a file system of its own.
#[test]
fn a_full_disk_of_the_server_is_said_and_what_arrived_stays_for_the_next_time() -> Outcome {
    if !is_root() {
        println!("not root: no small disk can be mounted");
        return Ok(());
    }
    let small = tempfile::tempdir()?;
    let mount =
        |options: &str| Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(small.path()).status();
    assert!(mount("size=24m")?.success());
    let done = (|| -> Outcome {
        let rig = Rig::start("")?;
        fs::write(rig.at("here/large"), random(40 * MIB, 6)?)?;
        fs::write(rig.at("here/small"), random(1_000, 7)?)?;
        let (from, to) = (rig.here("/."), rig.sshd.url(small.path()));
        // So slowly that the small one, which has a connection of its own, finds room.
        let output = rig.command(&["push", &from, &to, "--json", "--limit-rate", "8M"])?.output()?;
        assert_eq!(output.status.code(), Some(PARTIAL), "{output:?}");
        let told = std::str::from_utf8(&output.stdout)?;
        assert!(told.contains("disk is full") && told.contains("\"exit_code\":73"), "{told}");
        assert!(small.path().join("small").exists() && !small.path().join("large").exists());
        assert!(mount("remount,size=64m")?.success());
        let end = rig.run(&["push", &from, &to])?;
        assert!(end["stood_bytes"].as_u64() >= Some(8 * MIB), "{end}");
        assert_same(&rig.at("here"), small.path())
    })();
    assert!(Command::new("umount").arg(small.path()).status()?.success());
    done
}

/// The power of the server's disk goes at a random change of it; then the same command runs on what is left. `HOLDFAST_TRANSFER_SFTP_SEEDS` sets how often.
#[test]
fn what_arrived_before_a_power_cut_of_the_server_is_there_and_the_rest_goes_on() -> Outcome {
    let seeds = knob("HOLDFAST_TRANSFER_SFTP_SEEDS", 6_u64);
    let folder = tempfile::tempdir()?;
    let from = folder.path().join("from");
    fs::create_dir_all(from.join("a/b"))?;
    fs::write(from.join("large"), random(3 * MIB + 5, 5)?)?;
    for number in 0..6 {
        fs::write(from.join(format!("a/s{number}")), random(300 * number, number)?)?;
        fs::write(from.join(format!("a/b/s{number}")), random(5_000, 9 + number)?)?;
    }
    let source = tree(&from)?;
    let content = |path: &Path| match &source[path] {
        Moved::File(content, ..) => Some(content),
        _ => None,
    };
    let (mut told, mut cuts) = (0, 0);
    for seed in 0..seeds {
        let mut rng = Prng::new(seed);
        let config = if seed.is_multiple_of(2) { Config::default() } else { Config::ext4_like() };
        let (mut image, mut arrived) = (Image::empty(config), BTreeSet::<PathBuf>::new());
        for last in [false, false, true] {
            let at = tempfile::tempdir()?;
            let disk = CrashDisk::mount_image(at.path(), image)?;
            for path in source.keys() {
                match (fs::read(disk.path().join(path)), content(path)) {
                    (Ok(there), Some(content)) => assert!(there == *content, "seed {seed}: {} is torn", path.display()),
                    (Err(_), Some(_)) => assert!(!arrived.contains(path), "seed {seed}: {} is lost", path.display()),
                    (_, None) => {}
                }
            }
            if !last {
                disk.inject(Fault::any_of(&OpKind::CHANGES, Action::CutPower).after(rng.below(120)));
            }
            let rig = Rig::start("")?;
            let to = rig.sshd.url(disk.path());
            let from = format!("{}/.", from.display());
            let output = rig.command(&["push", &from, &to, "--json", "--retry-for", "1s"])?.output()?;
            assert!(!last || output.status.success(), "seed {seed}: {output:?}");
            cuts += u64::from(disk.is_powered_off());
            for line in std::str::from_utf8(&output.stdout)?.lines() {
                let event: Value = serde_json::from_str(line)?;
                if event["event"] == "done" && event["what"] == "file" {
                    arrived.insert(event["path"].as_str().ok_or("a path")?.trim_start_matches('/').into());
                    told += 1;
                }
            }
            drop(rig);
            image = disk.power_cut(rng.next_u64());
        }
        let at = tempfile::tempdir()?;
        let disk = CrashDisk::mount_image(at.path(), image)?;
        for path in source.keys() {
            if let Some(content) = content(path) {
                assert!(fs::read(disk.path().join(path))? == *content, "seed {seed}: {} was lost", path.display());
            }
        }
    }
    println!("{cuts} power cuts, {told} files told as done before them, none lost");
    Ok(())
}
