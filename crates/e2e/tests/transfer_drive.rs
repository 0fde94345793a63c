//! Files pushed to a drive and pulled from it, by both planes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::knob::knob;
use holdfast_e2e::networked::Net;
use holdfast_e2e::older::Older;
use holdfast_e2e::relay::{Says, relay};
use holdfast_e2e::rig::{HOME, NAME};
use holdfast_testkit::datagrams::{Harm, Relay};
use holdfast_testkit::rng::Prng;

const MIB: usize = 1 << 20;

/// A command of this kind to the drive at `url`, the token in a file.
fn command(net: &Net, url: &str, words: &[&str]) -> Outcome<Command> {
    let token = net.rig.scratch().join("token");
    fs::write(&token, &net.token)?;
    let mut command = net.rig.server.options().command()?;
    for word in words {
        command.arg(word.replace("DRIVE", url));
    }
    command.arg("--token-file").arg(token).arg("--ca").arg(net.certificate()).arg("--json");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

fn run(net: &Net, words: &[&str]) -> Outcome<Output> {
    Ok(command(net, &net.url(), words)?.output()?)
}

/// Runs it, which must succeed; answers the last line of what it says.
fn done(net: &Net, words: &[&str]) -> Outcome<serde_json::Value> {
    let output = run(net, words)?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{words:?}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_str(said.lines().last().unwrap_or("null"))?)
}

fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Prng::new(seed).fill(&mut content);
    content
}

/// Of everything that there may be in a folder, some.
fn tree(at: &Path) -> Outcome {
    fs::create_dir_all(at.join("deep/er/and deeper"))?;
    fs::create_dir(at.join("empty folder"))?;
    for (seed, (name, bytes)) in (1..).zip([
        ("empty", 0),
        ("tiny", 11),
        ("page", 4_096),
        ("small", 300_000),
        ("block", MIB),
        ("more than a block", MIB + 1),
        ("large", 9 * MIB + 77_777),
        ("deep/er/and deeper/ünïcode ☃ %41 #?", 5_000),
    ]) {
        fs::write(at.join(name), random(seed, bytes))?;
    }
    fs::write(at.join("zeros"), vec![0; 5 * MIB])?;
    fs::write(at.join("program"), "#!/bin/sh\n")?;
    fs::set_permissions(at.join("program"), fs::Permissions::from_mode(0o755))?;
    symlink("../elsewhere", at.join("deep/link"))?;
    let old = std::time::UNIX_EPOCH + Duration::from_millis(1_234_567_890_123);
    fs::File::options().write(true).open(at.join("tiny"))?.set_modified(old)?;
    Ok(())
}

/// Everything below a folder: what it is, its content, and its time to the millisecond.
fn seen(at: &Path) -> Outcome<Vec<(PathBuf, String, Vec<u8>)>> {
    let (mut found, mut folders) = (Vec::new(), vec![at.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let about = path.symlink_metadata()?;
            let below = path.strip_prefix(at)?.to_owned();
            let run = about.mode() & 0o100;
            if about.is_dir() {
                folders.push(path);
                found.push((below, "folder".into(), Vec::new()));
            } else if about.is_symlink() {
                found.push((below, "link".into(), fs::read_link(path)?.into_os_string().into_encoded_bytes()));
            } else {
                let ms = about.mtime() * 1_000 + about.mtime_nsec() / 1_000_000;
                found.push((below, format!("file {run:o} {ms}"), fs::read(path)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn expect_same(a: &Path, b: &Path) -> Outcome {
    let (a, b) = (seen(a)?, seen(b)?);
    let names = |all: &[(PathBuf, String, Vec<u8>)]| {
        all.iter()
            .map(|(path, what, content)| format!("{} {what} {}", path.display(), content.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&a), names(&b));
    assert!(a == b, "contents differ");
    Ok(())
}

#[test]
fn a_tree_goes_to_a_drive_and_back_by_both_planes() -> Outcome {
    let mut net = Net::new()?;
    let from = net.rig.scratch().join("from");
    tree(&from)?;
    let source = from.display().to_string();
    for plane in ["tcp", "quic", "auto"] {
        let there = format!("DRIVE/{NAME}/by {plane}").replace(' ', "%20");
        done(&net, &["push", &source, &there, "--plane", plane])?;
        let again = done(&net, &["push", &source, &there, "--plane", plane])?;
        assert_eq!(again["files"], 0, "nothing is left to do: {again}");
        let back = net.rig.scratch().join(format!("back by {plane}"));
        done(&net, &["pull", &format!("{there}/from"), &back.display().to_string(), "--plane", plane])?;
        expect_same(&from, &back.join("from"))?;
    }
    // What changed goes, and what is gone goes with --delete.
    let mut large = fs::read(from.join("large"))?;
    large[5 * MIB] ^= 1;
    fs::write(from.join("large"), &large)?;
    fs::remove_file(from.join("page"))?;
    let there = format!("DRIVE/{NAME}/by%20tcp/from");
    let planned = done(&net, &["sync", &source, &there, "--delete", "--dry-run"])?;
    let counter = Counter::start(net.address())?;
    let through = there.replace("DRIVE", &format!("https://{}", counter.address));
    let moved = done(&net, &["sync", &source, &through, "--delete", "--plane", "tcp"])?;
    let sent = counter.up.load(Ordering::Relaxed);
    assert!(sent < (MIB + MIB / 4) as u64, "one block of ten was changed, and {sent} bytes were sent");
    assert_eq!((&moved["files"], &moved["deleted"]), (&1.into(), &1.into()), "{moved} planned as {planned}");
    let back = net.rig.scratch().join("back again");
    done(&net, &["pull", &format!("{there}/."), &back.display().to_string()])?;
    expect_same(&from, &back)?;
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

#[test]
fn tags_come_with_the_files_that_arrive_and_stay_with_those_that_were_there() -> Outcome {
    let mut net = Net::new()?;
    let from = net.rig.scratch().join("from");
    tree(&from)?;
    let source = from.display().to_string();
    let name = NAME;
    let there = format!("DRIVE/{name}");
    done(&net, &["push", &source, &there, "--tag", "To Look At", "--tag", "2026"])?;
    // One of one block and one of several change, and come with another tag.
    for (name, bytes) in [("small", 300_000), ("large", 9 * MIB)] {
        fs::write(from.join(name), random(77, bytes))?;
    }
    let again = done(&net, &["push", &source, &there, "--tag", "second look"])?;
    assert_eq!(again["files"], 2, "{again}");
    let refused = run(&net, &["pull", &format!("{there}/from"), &source, "--tag", "x"])?;
    assert_eq!(refused.status.code(), Some(64), "{}", String::from_utf8_lossy(&refused.stderr));
    let bad = run(&net, &["push", &source, &there, "--tag", "two\nlines"])?;
    assert_eq!(bad.status.code(), Some(64), "{}", String::from_utf8_lossy(&bad.stderr));
    net.rig.stop()?;
    let options = net.rig.server.options();
    let found = |tag: &str| -> Outcome<Vec<String>> {
        let words = ["search", "--user", name, "--tag", tag, "--limit", "200", "--json", "--password-file", "-"];
        let answer: serde_json::Value =
            serde_json::from_str(&options.run_ok(&words, holdfast_e2e::rig::PASSWORD.as_bytes())?)?;
        let hits = answer["hits"].as_array().ok_or("no hits")?;
        let mut paths: Vec<String> = hits.iter().map(|hit| hit["path"].as_str().unwrap_or_default().into()).collect();
        paths.sort();
        Ok(paths)
    };
    let files = seen(&from)?.iter().filter(|(_, what, _)| what.starts_with("file")).count();
    assert_eq!(found("to look at")?.len(), files, "every file, and neither folders nor links");
    assert_eq!(found("2026")?, found("to look at")?);
    assert_eq!(found("second look")?, ["/from/large", "/from/small"]);
    expect_clean(options)
}

#[test]
fn a_server_that_is_too_old_for_tags_says_so_and_nothing_is_lost() -> Outcome {
    let mut net = Net::new()?;
    let older = Older::start(net.plain(), 41)?;
    let url = format!("http://{}", older.address());
    let from = net.rig.scratch().join("from");
    tree(&from)?;
    let before = seen(&from)?;
    let (source, there) = (from.display().to_string(), format!("DRIVE/{NAME}"));
    let words = ["push", &source, &there, "--tag", "kept", "--delete-source"];
    let refused = command(&net, &url, &words)?.output()?;
    let said = String::from_utf8_lossy(&refused.stdout);
    assert_eq!(refused.status.code(), Some(74), "{said}");
    let failed: Vec<serde_json::Value> = said
        .lines()
        .map(serde_json::from_str)
        .filter(|event| event.as_ref().is_ok_and(|event: &serde_json::Value| event["event"] == "failed"))
        .collect::<Result<_, _>>()?;
    let with_content =
        |(_, what, content): &&(PathBuf, String, Vec<u8>)| what.starts_with("file") && !content.is_empty();
    assert!(failed.len() >= before.iter().filter(with_content).count(), "{said}");
    for event in &failed {
        let message = event["message"].as_str().unwrap_or_default();
        assert!(message.contains("--tag") && message.contains("older") && event["exit_code"] == 64, "{event}");
    }
    assert!(older.unknown() > 0);
    // No file is gone, and none came without its tags.
    let kept: Vec<_> = seen(&from)?.into_iter().filter(|(_, what, _)| what.starts_with("file")).collect();
    assert!(kept == before.iter().filter(|(_, what, _)| what.starts_with("file")).cloned().collect::<Vec<_>>());
    let back = net.rig.scratch().join("back");
    done(&net, &["pull", &format!("{there}/from"), &back.display().to_string()])?;
    assert!(seen(&back)?.iter().all(|(_, what, _)| !what.starts_with("file")), "{:?}", seen(&back)?);

    // Without tags all of it goes, also over several connections, which such a server does not join either.
    let again = command(&net, &url, &["push", &source, &there, "--connections", "3"])?.output()?;
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
    done(&net, &["pull", &format!("{there}/from"), &back.display().to_string()])?;
    for (path, what, content) in before.iter().filter(|(_, what, _)| what.starts_with("file")) {
        assert!(fs::read(back.join("from").join(path))? == *content, "{} {what}", path.display());
    }
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

/// Connections that break off, and bytes that come of a server by each of them: of several blocks that were asked for side by side, most are pieces then.
const BROKEN: (usize, u64) = (4, 5 << 20);

#[test]
fn a_server_that_is_too_old_to_send_the_rest_of_a_block_sends_all_of_it() -> Outcome {
    let mut net = Net::new()?;
    let older = Older::start(net.plain(), 46)?;
    let (broken, bytes) = BROKEN;
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let address = relay(older.address(), move |who, mut from, mut to| {
        let is_whole = who == Says::Client || counted.fetch_add(1, Ordering::Relaxed) >= broken;
        std::io::copy(&mut (&mut from).take(if is_whole { u64::MAX } else { bytes }), &mut to).map(drop)
    })?;
    let content = random(3, 32 * MIB);
    net.client().put(&format!("{HOME}/file"), content.clone())?.expect_status(201)?;
    let back = net.rig.scratch().join("back");
    let words = ["pull", &format!("DRIVE/{NAME}/file"), &back.display().to_string()];
    let pulled = command(&net, &format!("http://{address}"), &words)?.output()?;
    assert!(pulled.status.success(), "{}", String::from_utf8_lossy(&pulled.stdout));
    assert!(fs::read(back.join("file"))? == content);
    assert!(connections.load(Ordering::Relaxed) > broken, "each of them broke off");
    assert!(older.unknown() > 0, "it was asked");
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

#[test]
fn a_file_that_changes_while_it_is_pushed_arrives_as_it_is_in_the_end() -> Outcome {
    let mut net = Net::new()?;
    let from = net.rig.scratch().join("changing");
    let mut content = random(1, 12 * MIB);
    fs::write(&from, &content)?;
    let there = format!("DRIVE/{NAME}/there");
    let words = ["push", &from.display().to_string(), &there, "--limit-rate", "3M"];
    let mut push = command(&net, &net.url(), &words)?.spawn()?;
    let mut lines = BufReader::new(push.stdout.take().ok_or("no output")?).lines();
    let (mut changed, mut moved, mut last) = (false, None, None);
    while let Some(line) = lines.next().transpose()? {
        let event: serde_json::Value = serde_json::from_str(&line)?;
        let arrives = event["under_way"][0]["arrived"].as_u64().is_some_and(|arrived| arrived > 0);
        if arrives && !std::mem::replace(&mut changed, true) {
            // At the beginning, which was read; and at once: who writes all of it anew shows several versions.
            content[7] ^= 1;
            fs::File::options().write(true).open(&from)?.write_all_at(&content[7..8], 7)?;
        }
        moved = event["moved_bytes"].as_u64();
        last = Some(event);
    }
    assert!(push.wait()?.success() && changed, "{changed}, {last:?}");
    assert!(moved > Some(content.len() as u64), "it was begun anew: {moved:?} bytes were moved");
    let back = net.rig.scratch().join("back");
    done(&net, &["pull", &format!("{there}/changing"), &back.display().to_string()])?;
    assert!(fs::read(back.join("changing"))? == content);
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

#[test]
fn a_pull_over_a_slow_network_holds_up_no_other() -> Outcome {
    let mut net = Net::new()?;
    let came = Arc::<AtomicU64>::default();
    let counted = came.clone();
    // 160 kB a second: what the server reads for it at once lasts for minutes.
    let slow = relay(net.address(), move |who, mut from, mut to| {
        let mut buffer = [0; 16 << 10];
        while let length @ 1.. = from.read(&mut buffer)? {
            to.write_all(&buffer[..length])?;
            if who == Says::Service {
                counted.fetch_add(length as u64, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    })?;
    let content = random(3, 24 * MIB);
    net.client().put(&format!("{HOME}/long"), random(4, 64 * MIB))?.expect_status(201)?;
    net.client().put(&format!("{HOME}/file"), content.clone())?.expect_status(201)?;
    let [far, near] = ["far", "near"].map(|name| net.rig.scratch().join(name).display().to_string());
    let words = ["pull", &format!("DRIVE/{NAME}/long"), &far, "--plane", "tcp"];
    let mut pull = command(&net, &format!("https://{slow}"), &words)?.spawn()?;
    while came.load(Ordering::Relaxed) < MIB as u64 {
        assert!(pull.try_wait()?.is_none());
        std::thread::sleep(Duration::from_millis(50));
    }
    let before = came.load(Ordering::Relaxed);
    let ended = done(&net, &["pull", &format!("DRIVE/{NAME}/file"), &near, "--plane", "tcp"])?;
    let meanwhile = came.load(Ordering::Relaxed) - before;
    println!("{meanwhile} bytes came over the slow network meanwhile");
    assert!(meanwhile < 4 * MIB as u64, "it waits for what that takes: {meanwhile}, {ended}");
    assert_eq!(ended["retries"], 0, "{ended}");
    assert!(fs::read(Path::new(&near).join("file"))? == content);
    assert!(pull.try_wait()?.is_none(), "the slow one goes on");
    pull.kill()?;
    pull.wait()?;
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

/// Hands connections on to the server, and counts the bytes of content in both directions.
struct Counter {
    address: SocketAddr,
    up: Arc<AtomicU64>,
    down: Arc<AtomicU64>,
}

impl Counter {
    fn start(server: SocketAddr) -> Outcome<Self> {
        let (up, down) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let counts = (up.clone(), down.clone());
        let address = relay(server, move |who, mut from, mut to| {
            let count = if who == Says::Client { &counts.0 } else { &counts.1 };
            let mut buffer = [0; 16 << 10];
            while let length @ 1.. = from.read(&mut buffer)? {
                count.fetch_add(length as u64, Ordering::Relaxed);
                to.write_all(&buffer[..length])?;
            }
            Ok(())
        })?;
        Ok(Self { address, up, down })
    }
}

/// Runs a command to its end, and kills it or the server on the way: `HOLDFAST_TRANSFER_DRIVE_KILLS` times.
fn kills(net: &mut Net, url: &str, words: &[&str], kills: u32, moved: &AtomicU64) -> Outcome {
    let mut chance = Prng::new(11);
    let mut running = command(net, url, words)?.spawn()?;
    for kill in 0..kills {
        // In the middle of something: each time some more went over the line.
        let until = moved.load(Ordering::Relaxed) + (300 << 10) + chance.below(MIB as u64);
        while moved.load(Ordering::Relaxed) < until {
            assert!(running.try_wait()?.is_none(), "it ended after {kill} kills: make the file larger");
            std::thread::sleep(Duration::from_millis(5));
        }
        if kill % 2 == 0 {
            running.kill()?;
            running.wait()?;
            running = command(net, url, words)?.spawn()?;
        } else {
            net.rig.server.kill_9()?;
            net.rig.start_again()?;
        }
    }
    let output = running.wait_with_output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[test]
fn either_end_can_be_killed_and_little_is_sent_again() -> Outcome {
    let mut net = Net::new()?;
    let number: u32 = knob("HOLDFAST_TRANSFER_DRIVE_KILLS", 6);
    let counter = Counter::start(net.address())?;
    let url = format!("https://{}", counter.address);
    let from = net.rig.scratch().join("file");
    let bytes = (number as usize * 2 + 12) * MIB + 5;
    fs::write(&from, random(7, bytes))?;
    let (source, there) = (from.display().to_string(), format!("DRIVE/{NAME}"));
    let usual = ["--plane", "tcp", "--limit-rate", "10M"];
    // A block a kill for each stream, of which a push has one here; of a pull the blocks whose turn had come. And what was on its way in buffers
    // of the kernel, and what a server had not yet synced: a few kills may all find more of that than is usual, fifty may not.
    let again_max = |blocks: u64| u64::from(number) * blocks * MIB as u64 + bytes as u64 / 100;

    kills(&mut net, &url, &[&["push", &source, &there][..], &usual].concat(), number, &counter.up)?;
    let up = counter.up.swap(0, Ordering::Relaxed);
    let again = up.saturating_sub(bytes as u64);
    println!("pushed {bytes} bytes with {number} kills: {again} sent again, {} a kill", again / u64::from(number));
    assert!(again < again_max(if number < 50 { 2 } else { 1 }), "{again}");

    counter.down.store(0, Ordering::Relaxed);
    let back = net.rig.scratch().join("back");
    let whole = format!("{there}/file");
    kills(
        &mut net,
        &url,
        &[&["pull", &whole, &back.display().to_string()][..], &usual].concat(),
        number,
        &counter.down,
    )?;
    let again = counter.down.load(Ordering::Relaxed).saturating_sub(bytes as u64);
    println!("pulled {bytes} bytes with {number} kills: {again} sent again, {} a kill", again / u64::from(number));
    assert!(again < again_max(if number < 50 { 2 } else { 1 }), "{again}");
    assert!(fs::read(&from)? == fs::read(back.join("file"))?, "the content is not what it was");
    assert_eq!(fs::read_dir(&back)?.count(), 1, "nothing is left beside it");
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

#[test]
fn files_arrive_by_quic_where_a_third_is_lost_and_the_network_goes_away() -> Outcome {
    let mut net = Net::new()?;
    let harm = Harm { lost: 0.33, late: 0.1, doubled: 0.05, corrupted: 0.02, delay: Duration::from_millis(2) };
    let relay = Relay::start(net.address(), harm)?;
    let (from, back) = (net.rig.scratch().join("from"), net.rig.scratch().join("back"));
    tree(&from)?;
    let url = format!("https://{}", relay.address());
    let (source, there) = (from.display().to_string(), format!("DRIVE/{NAME}"));
    let push = command(&net, &url, &["push", &source, &there, "--plane", "quic"])?.spawn()?;
    std::thread::sleep(Duration::from_millis(700));
    relay.set_down(true);
    std::thread::sleep(Duration::from_millis(1_500));
    relay.move_clients()?;
    relay.set_down(false);
    let output = push.wait_with_output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let whole = format!("{there}/from");
    let pull = command(&net, &url, &["pull", &whole, &back.display().to_string(), "--plane", "quic"])?.output()?;
    assert!(pull.status.success(), "{}", String::from_utf8_lossy(&pull.stderr));
    expect_same(&from, &back.join("from"))?;
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

#[test]
fn what_cannot_be_is_said_with_its_exit_code() -> Outcome {
    let mut net = Net::new()?;
    let from = net.rig.scratch().join("from");
    fs::create_dir(&from)?;
    fs::write(from.join("a"), random(1, 3 * MIB))?;
    fs::write(from.join("b"), "b")?;
    let (source, name) = (from.display().to_string(), NAME);
    let there = format!("DRIVE/{name}");
    let expect = |words: &[&str], code: i32, says: &str| -> Outcome {
        let output = run(&net, words)?;
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(says), "{words:?}: {said}");
        Ok(())
    };
    expect(&["push", &source, "DRIVE/nobody's"], 66, "no space")?;
    expect(&["pull", &format!("{there}/nothing"), &source], 66, "there is no /nothing")?;
    expect(&["push", &source, "https://127.0.0.1:1/x", "--plane", "tcp"], 69, "127.0.0.1:1")?;
    net.rig.server.options().run_ok(&["space", "set", name, "--quota", "2M"], b"")?;
    // One file is too much, the other arrives.
    expect(&["push", &source, &there], 74, "quota")?;
    expect(&["pull", &format!("{there}/from/b"), &net.rig.scratch().join("back").display().to_string()], 0, "")?;
    assert_eq!(fs::read_to_string(net.rig.scratch().join("back/b"))?, "b");
    net.token = "hf_wrong".into();
    let refused = run(&net, &["push", &source, &there])?;
    assert_eq!(refused.status.code(), Some(77), "{}", String::from_utf8_lossy(&refused.stderr));
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}
