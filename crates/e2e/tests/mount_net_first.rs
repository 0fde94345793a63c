//! A mount from a server that answers small changes first: what a file system does, and mounts and servers that are killed or away meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::closed::{check, close, content, since, write_until_it_ends};
use holdfast_e2e::filesystem::{
    behaves, errno, operations_are_the_same, operations_until_it_ends, same_but_for, same_trees,
};
use holdfast_e2e::knob::knob;
use holdfast_e2e::networked::Net;
use holdfast_e2e::rig::{HOME, NAME};
use holdfast_e2e::wait::until;
use holdfast_testkit::rng::Prng;

/// Writers beside each other.
const WRITERS: u64 = 4;
/// Longest that a test waits for what should come soon, on a machine that does other things as well.
const SOON: Duration = Duration::from_mins(1);

#[test]
fn it_behaves_as_any_file_system_and_random_operations_do_what_a_native_folder_does() -> Outcome {
    let net = Net::new()?;
    let mount = net.mount_first("mnt", &[])?;
    behaves(mount.at())?;
    let (native, at) = (tempfile::tempdir()?, mount.at().join("oracle"));
    fs::create_dir(&at)?;
    let (seed, steps) = (knob("HOLDFAST_MOUNT_SEED", 7), knob("HOLDFAST_MOUNT_NET_STEPS", 1_500));
    operations_are_the_same(&at, native.path(), seed, steps)?;
    mount.stop()?;
    // One that does not answer first sees the same.
    let mount = net.mount("mnt", &[])?;
    same_trees(&mount.at().join("oracle"), native.path())?;
    net.end([mount])
}

#[test]
fn a_small_file_is_far_less_than_a_request_and_another_mount_sees_it_soon() -> Outcome {
    let net = Net::new()?;
    let (mount, other) = (net.mount_first("mnt", &[])?, net.mount("other", &[])?);
    let files = knob("HOLDFAST_MOUNT_NET_FILES", 400_u64);
    let write_all = |folder: &Path| -> Outcome {
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    scope.spawn(move || -> std::io::Result<()> {
                        let mut bytes = [0; 4_096];
                        for number in 0..files {
                            Prng::new(number).fill(&mut bytes);
                            let mut file = File::create_new(folder.join(format!("{writer}-{number}")))?;
                            file.write_all(&bytes)?;
                            close(file)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            writers.into_iter().try_for_each(|writer| writer.join().expect("nobody panics")).map_err(Into::into)
        })
    };
    // In a folder that the mount made, and in one that was there before.
    net.client().mkcol(&format!("{HOME}/theirs"))?.expect_status(201)?;
    until("the folder is seen", SOON, || mount.at().join("theirs").is_dir())?;
    for name in ["ours", "theirs"] {
        let folder = mount.at().join(name);
        if name == "ours" {
            fs::create_dir(&folder)?;
        }
        let (before, began) = (net.calls()?, Instant::now());
        write_all(&folder)?;
        let (took, calls) = (began.elapsed(), net.calls()? - before);
        let made = WRITERS * files;
        let each = calls as f64 / made as f64;
        println!("{name}: {calls} requests for {made} files in {took:?}: {each:.3} each");
        assert!(each <= 1.2, "{calls} requests for {made} files");
    }
    let seen = until("the other mount sees all", SOON, || {
        fs::read_dir(other.at().join("ours")).is_ok_and(|all| all.count() as u64 == WRITERS * files)
    })?;
    println!("seen by another mount after {seen:?}");
    let mut took = Vec::new();
    for round in 0..20 {
        let name = format!("seen{round}");
        assert!(!other.at().join(&name).exists());
        fs::write(mount.at().join(&name), "x")?;
        took.push(until("a file is seen", SOON, || fs::read(other.at().join(&name)).is_ok_and(|found| found == b"x"))?);
    }
    took.sort();
    println!("a file is seen after {:?} at the median, {:?} at most", took[10], took[19]);
    assert!(took[10] < Duration::from_millis(250), "{took:?}");
    other.stop()?;
    net.end([mount])
}

/// `HOLDFAST_MOUNT_NET_ROUNDS` kills of the mount, at whatever moment, under four writers; each third time the server goes first.
#[test]
fn every_file_that_was_closed_is_whole_after_any_number_of_kills_of_mount_and_server() -> Outcome {
    let mut net = Net::new()?;
    let mut closed = BTreeMap::new();
    let mut random = Prng::new(knob("HOLDFAST_MOUNT_SEED", 11_u64));
    for round in 0..knob("HOLDFAST_MOUNT_NET_ROUNDS", 12_u64) {
        let mount = net.mount_first("mnt", &[])?;
        check(mount.at(), &closed, since(round))?;
        let at = mount.at().to_owned();
        // Whoever begins late finds the folder below.
        let mounted = fs::metadata(&at)?.dev();
        let written = Mutex::new(BTreeMap::new());
        let server = &mut net.rig.server;
        std::thread::scope(|scope| -> Outcome {
            for writer in 0..WRITERS {
                let (at, written) = (&at, &written);
                scope.spawn(move || {
                    let ours = write_until_it_ends(at, mounted, round, writer);
                    written.lock().expect("nobody panics").extend(ours);
                });
            }
            std::thread::sleep(Duration::from_millis(50 + random.below(250)));
            if round % 3 == 2 {
                server.kill_9()?;
                std::thread::sleep(Duration::from_millis(random.below(100)));
            }
            mount.kill_9()
        })?;
        closed.extend(written.into_inner()?);
        if round % 3 == 2 {
            net.rig.start_again()?;
        }
    }
    println!("{} files were closed", closed.len());
    assert!(closed.len() > 200, "only {} files were written", closed.len());
    let mount = net.mount_first("mnt", &[])?;
    check(mount.at(), &closed, 0)?;
    net.end([mount])
}

/// Makes small files in folders of its own until its standard input ends, and says how many; where they lag, how long. Or looks at them.
const WRITERS_WITHOUT_SYNC: &str = r#"
import json, os, random, sys, threading, time
job, at = sys.argv[1:3]
def content(writer, number):
    return random.Random(writer * 1_000_000 + number).randbytes([10, 700, 4_000][number % 3])
def write(writer):
    os.mkdir(f"{at}/{writer}")
    while not ended.is_set():
        began = time.monotonic()
        try:
            with open(f"{at}/{writer}/{counts[writer]}", "xb") as file:
                file.write(content(writer, counts[writer]))
        except OSError as error:
            errors.append(f"{writer}-{counts[writer]}: {error}")
            return
        lags[writer] = max(lags[writer], time.monotonic() - began)
        counts[writer] += 1
        with open(f"{said}-{writer}", "w") as file: file.write(str(sum(counts)))
        os.replace(f"{said}-{writer}", said)
        time.sleep(0.01)
if job == "write":
    said = sys.argv[3]
    ended, counts, lags, errors = threading.Event(), [0] * 3, [0.0] * 3, []
    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for thread in threads: thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads: thread.join()
    assert not errors, errors
    print(json.dumps({"counts": counts, "lag": max(lags)}))
else:
    for writer, count in enumerate(json.loads(sys.argv[3])["counts"]):
        names = os.listdir(f"{at}/{writer}")
        assert len(names) == count, f"{len(names)} files of {writer} instead of {count}"
        for number in range(count):
            assert open(f"{at}/{writer}/{number}", "rb").read() == content(writer, number), f"{writer}-{number} is not whole"
"#;

fn python(job: &str, at: &Path, argument: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", WRITERS_WITHOUT_SYNC, job]).arg(at).arg(argument);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(writers: Child) -> Outcome<String> {
    // Waiting closes their standard input first.
    let output = writers.wait_with_output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The server is killed, stays away longer than anybody would wait, and comes back; writers are a process of their own, see `mount_net`.
#[test]
fn writers_go_on_while_the_server_is_away_and_all_is_there_when_it_is_back() -> Outcome {
    let mut net = Net::new()?;
    let mount = net.mount_first("mnt", &["--deadline", "10"])?;
    let progress = net.rig.scratch().join("progress");
    let count = || fs::read_to_string(&progress).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let writers = python("write", mount.at(), &progress.display().to_string()).spawn()?;
    until("they write", SOON, || count() > 50)?;
    net.rig.server.kill_9()?;
    // For some seconds it is not known that it will not answer.
    std::thread::sleep(Duration::from_secs(6));
    let before = count();
    std::thread::sleep(Duration::from_secs(4));
    let meanwhile = count() - before;
    println!("{meanwhile} files in 4 s while the server was away");
    assert!(meanwhile > 50, "they went on: {meanwhile} files");
    net.rig.start_again()?;
    std::thread::sleep(Duration::from_secs(2));
    let counts = said(writers)?;
    println!("{}", counts.trim());
    let file = File::open(mount.at())?;
    until("what waits is on the server", SOON, || file.sync_all().is_ok())?;
    drop(file);
    let total: u64 = serde_json::from_str::<serde_json::Value>(&counts)?["counts"]
        .as_array()
        .ok_or("counts")?
        .iter()
        .filter_map(serde_json::Value::as_u64)
        .sum();
    assert!(total >= before + meanwhile);
    // The log says that nothing could be handed over for a while.
    let _ = mount.stop();
    let mount = net.mount("mnt", &[])?;
    said(python("look", mount.at(), counts.trim()).spawn()?)?;
    net.end([mount])
}

#[test]
fn without_its_server_a_sync_fails_in_time_and_writers_wait_when_the_journal_is_full() -> Outcome {
    let (mut net, mount, folder) = Net::with_folder("2")?;
    fs::write(folder.join("first"), "x")?;
    let file = OpenOptions::new().write(true).open(folder.join("first"))?;
    file.sync_all()?;
    net.rig.server.kill_9()?;
    (&file).write_all(b"y")?;
    let began = Instant::now();
    let refused = file.sync_all().map_err(|error| error.kind());
    println!("a sync fails with {refused:?} after {:?}", began.elapsed());
    assert!(refused.is_err() && began.elapsed() < SOON, "nothing is on any disk");
    drop(file);
    let mut closed = Vec::new();
    let mut bytes = [0; 600];
    let error = loop {
        let (number, name) = (closed.len() as u64, format!("f{}", closed.len()));
        Prng::new(number).fill(&mut bytes);
        let written = File::create_new(folder.join(&name)).and_then(|mut file| {
            file.write_all(&bytes)?;
            close(file)
        });
        match written {
            Ok(()) => closed.push(name),
            Err(error) => break error,
        }
    };
    println!("{} files were closed, then: {error}", closed.len());
    assert!((3_500..=4_200).contains(&closed.len()), "8,192 changes wait at most");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    net.rig.start_again()?;
    let healed = until("writing goes on", SOON, || fs::write(folder.join("after"), "x").is_ok())?;
    println!("healed after {healed:?}");
    let _ = mount.stop();
    let mount = net.mount("mnt", &[])?;
    for (number, name) in (0..).zip(&closed) {
        Prng::new(number).fill(&mut bytes);
        assert!(fs::read(folder.join(name))? == bytes, "{name}");
    }
    let first = fs::read(folder.join("first"))?;
    assert!(first == b"x" || first == b"y", "{first:?}");
    net.end([mount])
}

/// What was closed in the last moments is in the journal, and handed over by the next mount, whether it answers first or not.
#[test]
fn the_next_mount_hands_over_what_the_last_one_answered_and_others_are_kept_beside() -> Outcome {
    let mut net = Net::new()?;
    let mount = net.mount_first("mnt", &["--deadline", "2"])?;
    fs::create_dir(mount.at().join("d"))?;
    File::open(mount.at())?.sync_all()?;
    net.rig.server.kill_9()?;
    for number in 0..10 {
        fs::write(mount.at().join(format!("d/f{number}.txt")), content(1_000 + number))?;
    }
    mount.kill_9()?;
    net.rig.start_again()?;
    for number in 0..3 {
        net.client().put(&format!("{HOME}/d/f{number}.txt"), b"theirs")?.expect_status(201)?;
    }
    let first = net.first("mnt");
    let mount = net.mount("mnt", &[&first[1], &first[2]])?;
    for number in 0..10 {
        let name = if number < 3 { format!("d/f{number} (2).txt") } else { format!("d/f{number}.txt") };
        let found = fs::read(mount.at().join(&name));
        assert!(found.map_err(|error| format!("{name}: {error}"))? == content(1_000 + number), "{name}");
    }
    // It says which were kept beside others.
    let _ = mount.stop();
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

#[test]
fn renames_and_removals_are_far_less_than_a_request_each_and_go_on_while_the_server_is_away() -> Outcome {
    let mut net = Net::new()?;
    let (mount, other) = (net.mount_first("mnt", &["--deadline", "10"])?, net.mount("other", &[])?);
    let files = knob("HOLDFAST_MOUNT_NET_FILES", 400_u64);
    let folder = mount.at().join("d");
    fs::create_dir(&folder)?;
    for number in 0..files {
        fs::write(folder.join(format!("f{number}")), content(number))?;
    }
    File::open(&folder)?.sync_all()?;
    let before = net.calls()?;
    for number in 0..files {
        fs::rename(folder.join(format!("f{number}")), folder.join(format!("g{number}")))?;
    }
    let renamed = net.calls()? - before;
    for number in 0..files / 2 {
        fs::remove_file(folder.join(format!("g{number}")))?;
    }
    let calls = net.calls()? - before;
    println!("{renamed} requests for {files} renames, {} for {} removals", calls - renamed, files / 2);
    assert!(calls * 4 < files + files / 2, "{calls} requests");
    until("the other mount sees all", SOON, || {
        let seen = fs::read_dir(other.at().join("d")).map(|all| all.flatten().map(|entry| entry.file_name()).collect());
        seen.is_ok_and(|seen: Vec<_>| {
            seen.len() as u64 == files / 2 && seen.iter().all(|name| name.to_string_lossy().starts_with('g'))
        })
    })?;
    other.stop()?;
    // All of it is known here, so it goes on without the server.
    net.rig.server.kill_9()?;
    std::thread::sleep(Duration::from_secs(8));
    for number in files / 2..files {
        let (from, to) = (folder.join(format!("g{number}")), folder.join(format!("h{number}")));
        if number % 2 == 0 { fs::rename(from, to)? } else { fs::remove_file(from)? }
    }
    net.rig.start_again()?;
    let file = File::open(mount.at())?;
    until("what waits is on the server", SOON, || file.sync_all().is_ok())?;
    drop(file);
    let _ = mount.stop();
    let mount = net.mount("mnt", &[])?;
    let left = fs::read_dir(&folder)?.count() as u64;
    assert_eq!(left, (files / 2..files).filter(|number| number % 2 == 0).count() as u64);
    for number in (files / 2..files).filter(|number| number % 2 == 0) {
        assert!(fs::read(folder.join(format!("h{number}")))? == content(number));
    }
    net.end([mount])
}

#[test]
fn what_another_face_locks_is_busy_at_once() -> Outcome {
    let net = Net::new()?;
    let mount = net.mount_first("mnt", &[])?;
    for name in ["locked", "free", "third"] {
        fs::write(mount.at().join(name), name)?;
    }
    File::open(mount.at())?.sync_all()?;
    let mut client = net.client();
    let answer = client.lock(&format!("{HOME}/locked"), "exclusive", "0")?.expect_status(200)?.clone();
    let token = answer.header("lock-token").ok_or("no token")?.trim_matches(['<', '>']).to_owned();
    // That nothing is locked is believed for a second.
    std::thread::sleep(Duration::from_millis(1_500));
    let at = |name: &str| mount.at().join(name);
    assert_eq!(errno(fs::remove_file(at("locked"))), Some(libc::EBUSY));
    assert_eq!(errno(fs::rename(at("locked"), at("other"))), Some(libc::EBUSY));
    assert_eq!(errno(fs::rename(at("third"), at("locked"))), Some(libc::EBUSY));
    fs::remove_file(at("free"))?;
    client.unlock(&format!("{HOME}/locked"), &token)?.expect_status(204)?;
    fs::rename(at("third"), at("locked"))?;
    assert_eq!(fs::read(at("locked"))?, b"third");
    fs::remove_file(at("locked"))?;
    net.end([mount])
}

/// `HOLDFAST_MOUNT_NET_ROUNDS` kills, at whatever moment, under random operations that are done in a native folder as well.
#[test]
fn a_tree_is_as_it_was_answered_last_after_any_number_of_kills() -> Outcome {
    let mut net = Net::new()?;
    let mut random = Prng::new(knob("HOLDFAST_MOUNT_SEED", 17_u64));
    let (mut expected, mut steps) = (Vec::new(), 0);
    for round in 0..knob("HOLDFAST_MOUNT_NET_ROUNDS", 12_u64) {
        let mount = net.mount_first("mnt", &[])?;
        let (at, native) = (mount.at().join(round.to_string()), tempfile::tempdir()?);
        fs::create_dir(&at)?;
        let (seed, pause) = (random.next_u64(), Duration::from_millis(50 + random.below(250)));
        let (done, unsure) = std::thread::scope(|scope| -> Outcome<_> {
            let working =
                scope.spawn(|| operations_until_it_ends(&at, native.path(), seed).map_err(|error| error.to_string()));
            std::thread::sleep(pause);
            mount.kill_9()?;
            Ok(working.join().expect("nobody panics")?)
        })?;
        steps += done;
        expected.push((at, same_but_for(native.path(), &unsure)?, unsure));
        let mount = net.mount_first("mnt", &[])?;
        for (at, expected, unsure) in &expected {
            assert_eq!(&same_but_for(at, unsure)?, expected, "{} after {done} steps, seed {seed}", at.display());
        }
        mount.stop()?;
    }
    println!("{steps} operations");
    assert!(steps > 100, "only {steps} operations were done");
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

#[test]
fn what_is_refused_after_it_was_answered_is_told_and_made_when_it_can_be() -> Outcome {
    for size in [3_000, 300_000] {
        is_told_and_made_when_it_can_be(&vec![1; size])?;
    }
    Ok(())
}

fn is_told_and_made_when_it_can_be(content: &[u8]) -> Outcome {
    let mut net = Net::new()?;
    let mount = net.mount_first("mnt", &[])?;
    let path = mount.at().join("late");
    let set_quota =
        |net: &Net, quota: &str| net.rig.server.options().run_ok(&["space", "set", NAME, "--quota", quota], b"");
    // Nobody who counts knows of this yet.
    set_quota(&net, "1KiB")?;
    fs::write(&path, content)?;
    let file = OpenOptions::new().write(true).open(&path)?;
    assert_eq!(errno(file.sync_all()), Some(libc::ENOSPC), "told at the next sync");
    drop(file);
    assert!(fs::read(&path)? == content, "and kept");
    set_quota(&net, "1GiB")?;
    let mut client = net.client();
    until("the server has it", SOON, || {
        client.get(&format!("{HOME}/late")).is_ok_and(|got| got.status == 200 && got.body == content)
    })?;
    let _ = mount.stop();
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}
