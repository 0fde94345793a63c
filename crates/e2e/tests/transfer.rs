//! `holdfast push`, `pull` and `sync` between folders of this machine: killed, cut off the power, on a full disk, and with more names than
//! memory should have to hold.

use holdfast_e2e::Outcome;
use holdfast_e2e::knob::knob;
use holdfast_testkit::crashdisk::{Action, Config, CrashDisk, Fault, Image, OpKind};
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::program;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Some failed and the rest is done (docs/operating/exit-codes.md).
const PARTIAL: i32 = 74;

fn holdfast(arguments: &[&str]) -> Outcome<Command> {
    let mut command = Command::new(program()?);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

fn run(arguments: &[&str]) -> Outcome<Output> {
    Ok(holdfast(arguments)?.output()?)
}

/// The last line of `--json`.
fn end_of(output: &Output) -> Outcome<Value> {
    let text = std::str::from_utf8(&output.stdout)?;
    let last = text.lines().last().ok_or_else(|| format!("nothing was said: {output:?}"))?;
    Ok(serde_json::from_str(last)?)
}

fn text(path: &Path) -> Outcome<&str> {
    Ok(path.to_str().ok_or("a path that is no text")?)
}

fn write_random(path: &Path, bytes: u64, seed: u64) -> Outcome {
    let mut rng = Prng::new(seed);
    let content: Vec<u8> =
        (0..=bytes / 8).flat_map(|_| rng.next_u64().to_le_bytes()).take(usize::try_from(bytes)?).collect();
    Ok(fs::write(path, content)?)
}

/// All files below a folder, with their content.
fn tree(folder: &Path) -> Outcome<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(folder)?.to_owned(), fs::read(&path)?);
            }
        }
    }
    Ok(files)
}

/// Tells of progress until some bytes have arrived in this run, or it has ended.
fn wait_for(child: &mut Child, part: impl Fn() -> u64, bytes: u64) -> Outcome<bool> {
    while part() < bytes {
        if child.try_wait()?.is_some() {
            return Ok(false);
        }
        sleep(Duration::from_millis(1));
    }
    Ok(true)
}

/// Bytes of part files in a folder.
fn parts(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let parts = entries.flatten().filter(|entry| entry.path().extension().is_some_and(|ending| ending == "part"));
    parts.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// Bytes of the part in a folder that its journal has the sums of: a kill takes nothing that was written, so they are what the next run finds.
fn stands(folder: &Path) -> Outcome<u64> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "journal") {
            let journal = fs::read(path)?;
            // What it is and the length of its key; the key; 32 bytes a block.
            let Some((head, rest)) = journal.split_at_checked(20) else { return Ok(0) };
            let key = u32::from_le_bytes(head[16..].try_into()?);
            return Ok((rest.len() as u64).saturating_sub(u64::from(key)) / 32 * MIB);
        }
    }
    Ok(0)
}

/// Whoever has a timer run it wants silence, and a file that says how it went.
#[test]
fn quiet_says_what_fails_alone_and_a_file_of_counters_how_it_went() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (from, to, counters) = (folder.path().join("from"), folder.path().join("to"), folder.path().join("push.prom"));
    fs::create_dir(&from)?;
    for name in ["a", "b", "c"] {
        fs::write(from.join(name), "12345")?;
    }
    let push = ["push", text(&from)?, text(&to)?, "--quiet", "--metrics-file", text(&counters)?];
    let expect = |lines: [&str; 4]| -> Outcome {
        let said = fs::read_to_string(&counters)?;
        for line in lines {
            assert!(said.lines().any(|one| one == format!("holdfast_transfer_{line}")), "{line} in {said}");
        }
        Ok(())
    };
    let output = run(&push)?;
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    expect(["files_total 3", "moved_bytes_total 15", "success 1", "running 0"])?;
    // A folder with something in it has the place of one, and another is new.
    fs::remove_file(to.join("from/a"))?;
    fs::create_dir_all(to.join("from/a/kept"))?;
    fs::write(from.join("d"), "123")?;
    let output = run(&push)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(PARTIAL) && output.stdout.is_empty(), "{output:?}");
    assert!(errors.lines().any(|line| line.contains("/a")) && !errors.contains("/d"), "{errors}");
    assert!(to.join("from/a/kept").is_dir() && to.join("from/d").is_file());
    expect(["files_total 1", "failed_total 1", "success 0", "running 0"])
}

/// Kills come while content is on its way; `HOLDFAST_TRANSFER_KILLS` sets how many.
#[test]
fn a_transfer_that_is_killed_fifty_times_arrives_and_sends_next_to_nothing_twice() -> Outcome {
    let kills = knob("HOLDFAST_TRANSFER_KILLS", 50_u64);
    let folder = tempfile::tempdir()?;
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&from)?;
    let size = kills * 2 * MIB + 12_345;
    write_random(&from.join("large"), size, 1)?;
    // So slow that each run is killed in the middle of it; the last one goes as fast as it can.
    let slow = ["push", text(&from)?, text(&to)?, "--limit-rate", "20M", "--quiet"];
    let at = to.join("from");
    let (mut killed, mut again, mut rng) = (0, 0, Prng::new(2));
    for _ in 0..kills {
        let before = parts(&at);
        let mut child = holdfast(&slow)?.spawn()?;
        let more = before + MIB / 2 + rng.below(MIB);
        if wait_for(&mut child, || parts(&at), more)? {
            killed += 1;
        }
        child.kill()?;
        child.wait()?;
        let lost = parts(&at).saturating_sub(stands(&at)?);
        assert!(lost <= MIB, "{lost} bytes are moved again after one kill");
        again += lost;
        assert!(!at.join("large").exists() || killed < kills, "nothing is seen before it is whole");
    }
    let output = run(&["push", text(&from)?, text(&to)?, "--json"])?;
    assert!(output.status.success(), "{output:?}");
    assert!(tree(&from)? == tree(&at)?, "what arrived is what was sent, and nothing is beside it");
    let end = end_of(&output)?;
    let (moved, stood) = (end["moved_bytes"].as_u64().ok_or("a count")?, end["stood_bytes"].as_u64().ok_or("a count")?);
    println!(
        "{killed} kills of {kills} cost {again} bytes that were moved again; at the end {stood} stood and {moved} were moved"
    );
    assert_eq!(moved + stood, size);
    assert!(killed >= kills / 2, "{killed} kills met the transfer at work");
    // Each run found what the one before it had written whole: had it not, it would not have got this far.
    assert!(stood >= killed * MIB / 2, "{stood} bytes stood");
    Ok(())
}

/// What a kill costs: the block that was being written.
#[test]
fn after_a_kill_at_most_the_blocks_in_flight_are_moved_again() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    write_random(&from, 24 * MIB, 3)?;
    let mut child = holdfast(&["push", text(&from)?, text(&to)?, "--limit-rate", "20M", "--quiet"])?.spawn()?;
    assert!(wait_for(&mut child, || parts(&to), 8 * MIB)?, "it was done too soon");
    child.kill()?;
    child.wait()?;
    let written = parts(&to);
    let output = run(&["push", text(&from)?, text(&to)?, "--json"])?;
    let again = written.saturating_sub(end_of(&output)?["stood_bytes"].as_u64().ok_or("a count")?);
    println!("{written} bytes were in the part, of which {again} were moved again");
    assert!(output.status.success() && again <= MIB, "{again} bytes were moved again");
    assert_eq!(fs::read(&from)?, fs::read(to.join("from"))?);
    Ok(())
}

#[test]
fn a_signal_puts_what_is_under_way_aside_and_the_same_command_goes_on() -> Outcome {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = tempfile::tempdir()?;
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        write_random(&from, 16 * MIB, 4)?;
        let arguments = ["push", text(&from)?, text(&to)?, "--json"];
        let child = holdfast(&[&arguments[..], &["--limit-rate", "8M"]].concat())?.spawn();
        let mut child = child?;
        assert!(wait_for(&mut child, || parts(&to), 4 * MIB)?, "it was done too soon");
        kill_process(Pid::from_child(&child), signal)?;
        let output = child.wait_with_output()?;
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(end_of(&output)?["stopped"], true);
        let output = run(&arguments)?;
        assert!(output.status.success() && end_of(&output)?["stood_bytes"].as_u64() >= Some(3 * MIB), "{output:?}");
        assert_eq!(fs::read(&from)?, fs::read(to.join("from"))?);
    }
    Ok(())
}

/// The power goes at a random change of the destination's disk; then the same command runs on what is left.
/// `HOLDFAST_TRANSFER_SEEDS` sets how often.
#[test]
fn what_arrived_before_a_power_cut_is_there_and_the_rest_goes_on() -> Outcome {
    let seeds = knob("HOLDFAST_TRANSFER_SEEDS", 40_u64);
    let folder = tempfile::tempdir()?;
    let from = folder.path().join("from");
    fs::create_dir_all(from.join("a/b"))?;
    write_random(&from.join("large"), 3 * MIB + 5, 5)?;
    for number in 0..6 {
        write_random(&from.join(format!("a/s{number}")), 300 * number, number)?;
        write_random(&from.join(format!("a/b/s{number}")), 5_000, 9 + number)?;
    }
    let source = tree(&from)?;
    let (mut told, mut cuts) = (0, 0);
    for seed in 0..seeds {
        let mut rng = Prng::new(seed);
        let config = if seed.is_multiple_of(2) { Config::default() } else { Config::ext4_like() };
        let mut image = Image::empty(config);
        let mut arrived: BTreeSet<PathBuf> = BTreeSet::new();
        for _ in 0..3 {
            let at = tempfile::tempdir()?;
            let disk = CrashDisk::mount_image(at.path(), image)?;
            for path in &arrived {
                let there = fs::read(disk.path().join(path))
                    .map_err(|error| format!("seed {seed}: {}: {error}", path.display()))?;
                assert!(there == source[path], "seed {seed}: {} is not what arrived", path.display());
            }
            check_whole(disk.path(), &source).map_err(|error| format!("seed {seed}: {error}"))?;
            disk.inject(Fault::any_of(&OpKind::CHANGES, Action::CutPower).after(rng.below(120)));
            let output = run(&["push", &format!("{}/.", text(&from)?), text(disk.path())?, "--json"])?;
            cuts += u64::from(disk.is_powered_off());
            for line in std::str::from_utf8(&output.stdout)?.lines() {
                let event: Value = serde_json::from_str(line)?;
                if event["event"] == "done" && event["what"] == "file" {
                    let path = event["path"].as_str().ok_or("a path")?.trim_start_matches('/');
                    arrived.insert(path.into());
                    told += 1;
                }
            }
            image = disk.power_cut(rng.next_u64());
        }
        let at = tempfile::tempdir()?;
        let disk = CrashDisk::mount_image(at.path(), image)?;
        let output = run(&["push", &format!("{}/.", text(&from)?), text(disk.path())?, "--json"])?;
        assert!(output.status.success(), "seed {seed}: {output:?}");
        let image = disk.power_cut(seed);
        let at = tempfile::tempdir()?;
        let disk = CrashDisk::mount_image(at.path(), image)?;
        for (path, content) in &source {
            assert!(fs::read(disk.path().join(path))? == *content, "seed {seed}: {} was lost", path.display());
        }
    }
    println!("{cuts} power cuts, {told} files told as done before them, none lost");
    Ok(())
}

/// Whatever is under its own name is whole.
fn check_whole(folder: &Path, source: &BTreeMap<PathBuf, Vec<u8>>) -> Outcome {
    for (path, content) in source {
        match fs::read(folder.join(path)) {
            Ok(there) if there != *content => return Err(format!("{} is torn", path.display()).into()),
            _ => {}
        }
    }
    Ok(())
}

/// Needs root, for a file system of its own.
#[test]
fn a_full_disk_is_said_and_what_arrived_stays_for_the_next_time() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        println!("not root: no small disk can be mounted");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&from)?;
    fs::create_dir(&to)?;
    write_random(&from.join("large"), 12 * MIB, 6)?;
    write_random(&from.join("small"), 1_000, 7)?;
    let mount = |options: &str| Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&to).status();
    assert!(mount("size=8m")?.success());
    let _small = Unmounted(&to);
    let arguments = ["push", &format!("{}/.", text(&from)?), text(&to)?, "--json"];
    // Both go at a time: the large one is to take a second until the disk is full.
    let output = run(&[&arguments[..], &["--limit-rate", "8MiB"]].concat())?;
    assert_eq!(output.status.code(), Some(PARTIAL), "{output:?}");
    let said = std::str::from_utf8(&output.stdout)?;
    assert!(said.contains("the disk is full") && to.join("small").exists() && !to.join("large").exists(), "{said}");
    assert!(mount("remount,size=32m")?.success());
    let output = run(&arguments)?;
    assert!(output.status.success(), "{output:?}");
    assert!(end_of(&output)?["stood_bytes"].as_u64() >= Some(6 * MIB), "{output:?}");
    assert!(tree(&from)? == tree(&to)?);
    Ok(())
}

/// Takes a mount away, whatever happens.
struct Unmounted<'a>(&'a Path);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(self.0).status();
        assert!(
            std::thread::panicking() || done.is_ok_and(|status| status.success()),
            "{} stays mounted",
            self.0.display()
        );
    }
}

#[test]
fn a_failed_file_does_not_stop_the_others_and_the_exit_code_says_so() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir_all(to.join("from/b"))?;
    fs::create_dir(&from)?;
    for name in ["a", "b", "c"] {
        fs::write(from.join(name), name)?;
    }
    let output = run(&["push", text(&from)?, text(&to)?])?;
    assert_eq!(output.status.code(), Some(PARTIAL), "{output:?}");
    assert!(String::from_utf8(output.stderr)?.contains("there is a folder of that name"));
    assert_eq!((fs::read(to.join("from/a"))?, fs::read(to.join("from/c"))?), (b"a".to_vec(), b"c".to_vec()));
    // What the source has not is not removed either, until somebody says so.
    fs::write(to.join("from/extra"), "")?;
    let sync = |more: &[&str]| run(&[&["sync", text(&from)?, text(&to.join("from"))?, "--delete"][..], more].concat());
    let plan = sync(&["--dry-run"])?;
    assert!(to.join("from/extra").exists() && to.join("from/b").is_dir());
    let plan = String::from_utf8(plan.stdout)?;
    let says = |doing: &str, name: &str| plan.contains(&format!("{doing:15}{}", to.join("from").join(name).display()));
    assert!(says("delete", "extra") && says("delete", "b") && says("copy", "b") && !says("copy", "a"), "{plan}");
    assert_eq!(sync(&[])?.status.code(), Some(0));
    assert!(tree(&from)? == tree(&to.join("from"))?);
    Ok(())
}

/// `HOLDFAST_TRANSFER_NAMES` sets how many; a million take some 256 MiB of memory for the file system itself.
#[test]
fn memory_does_not_grow_with_the_number_of_names() -> Outcome {
    let names = knob("HOLDFAST_TRANSFER_NAMES", 60_000_u64);
    let folder = tempfile::tempdir()?;
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    // Half of them in one folder.
    for number in 0..names {
        let at = if number.is_multiple_of(2) { from.join("one") } else { from.join(format!("{:03}", number % 999)) };
        if number < 2_000 {
            fs::create_dir_all(&at)?;
        }
        fs::write(at.join(format!("a-name-of-usual-length-{number:08}.txt")), "")?;
    }
    for arguments in [&["push", "--dry-run"][..], &["push"], &["sync", "--delete", "--dry-run"]] {
        let (from, to) = (format!("{}/.", text(&from)?), text(&to)?);
        let mut child = holdfast(&[arguments, &[&from, to, "--json"]].concat())?.spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("its output")?).lines();
        let last = std::thread::spawn(move || lines.map_while(Result::ok).last());
        let mut peak = 0;
        let status = loop {
            peak = peak.max(peak_of(child.id()));
            if let Some(status) = child.try_wait()? {
                break status;
            }
            sleep(Duration::from_millis(2));
        };
        let last = last.join().map_err(|_| "its output was not read")?.ok_or("nothing was said")?;
        assert!(status.success(), "{last}");
        let end: Value = serde_json::from_str(&last)?;
        println!("{arguments:?}: {names} names, at most {} MiB, {} s", peak / MIB, end["took_s"]);
        assert_eq!(end["found"], names);
        assert!(peak > 0 && peak <= 256 * MIB, "{peak} bytes");
    }
    Ok(())
}

/// The most memory a process has had; 0 when it is gone.
fn peak_of(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
