//! Two mounts of a space that work on the same files in turn: a file system exerciser, and a producer with its consumer.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::filesystem::same_trees;
use holdfast_e2e::knob::knob;
use holdfast_e2e::mounted::run;
use holdfast_e2e::networked::Net;
use holdfast_e2e::others::Fsx;
use holdfast_e2e::wait::{Over, until};
use holdfast_testkit::rng::Prng;

/// How long each mount has its turn: time for some operations between two times that the exerciser closes its file and opens it.
const TURN: Duration = Duration::from_millis(15);
/// Longest that a test waits for what should come soon, on a machine that does other things as well.
const SOON: Duration = Duration::from_secs(20);

/// The file system exerciser on files that it closes again and again and opens by the other mount, as the link by which it finds them leads to each in turn: what it
/// reads, and how long the file is, has to be what it left by the one before. `HOLDFAST_FSX_TURNS` operations with each of `HOLDFAST_FSX_SEEDS` seeds.
#[test]
fn fsx_finds_no_fault_by_two_mounts_in_turn() -> Outcome {
    let (operations, seeds): (u64, u64) = (knob("HOLDFAST_FSX_TURNS", 1_000), knob("HOLDFAST_FSX_SEEDS", 2));
    let net = Net::new()?;
    let (one, two) = (net.mount("one", &[])?, net.mount("two", &[])?);
    let scratch = net.rig.scratch();
    let settings = scratch.join("fsx.toml");
    let weights = "close_open = 3\nfsync = 0.5\npunch_hole = 1\ncopy_file_range = 1\nsendfile = 1\n";
    fs::write(&settings, format!("flen = 1500000\n[opsize]\nmax = 65536\n[weights]\n{weights}"))?;
    let (link, other) = (scratch.join("turn"), scratch.join("other"));
    symlink(one.at(), &link)?;
    let fsx = Fsx { settings: &settings, scratch };
    let over = AtomicBool::new(false);
    let turns = thread::scope(|scope| -> Outcome<usize> {
        let turning = scope.spawn(|| -> std::io::Result<usize> {
            let mut turns = 0;
            while !over.load(Ordering::Acquire) {
                thread::sleep(TURN);
                symlink([two.at(), one.at()][turns % 2], &other)?;
                fs::rename(&other, &link)?;
                turns += 1;
            }
            Ok(turns)
        });
        let ends = Over(&over);
        let begin = |seed| {
            let file = link.join(format!("fsx{seed}"));
            scope.spawn(move || fsx.exercise(&file, seed, operations))
        };
        let all: Vec<_> = (1..=seeds).map(begin).collect();
        all.into_iter().try_for_each(|seed| seed.join().expect("no exerciser panics"))?;
        drop(ends);
        Ok(turning.join().expect("it does not panic")?)
    })?;
    println!("{turns} turns");
    assert!(turns > 10, "{turns} turns are none");
    net.end([one, two])
}

/// Sixty files and six links, other ones each time under the same names.
fn make_tree(at: &Path, round: u64) -> Outcome {
    let mut random = Prng::new(round);
    for folder in 0..6 {
        let folder = at.join(format!("folder {folder}"));
        fs::create_dir_all(&folder)?;
        for file in 0..10 {
            let words = random.below(5_000);
            let content: Vec<u8> = (0..words).flat_map(|_| random.next_u64().to_le_bytes()).collect();
            fs::write(folder.join(format!("file {file}")), content)?;
        }
        symlink(format!("file {}", random.below(10)), folder.join("link"))?;
    }
    Ok(())
}

/// One unpacks an archive and says so by a file; the other waits for that, and has to find what was unpacked, whole and nothing older, at once. Then they change places; what is
/// there from the time before is unpacked over, or was removed by who consumed it. `HOLDFAST_MOUNT_UNTARS` is how often.
#[test]
fn what_one_mount_unpacks_another_finds_when_it_is_told_so() -> Outcome {
    let net = Net::new()?;
    let (one, two) = (net.mount("one", &[])?, net.mount("two", &[])?);
    let archive = net.rig.scratch().join("archive.tar");
    let mut took = Vec::new();
    for round in 0..knob("HOLDFAST_MOUNT_UNTARS", 6_u64) {
        let native = tempfile::tempdir()?;
        make_tree(native.path(), round + 1)?;
        run(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(native.path()).arg("."))?;
        let [producer, consumer] = if round.is_multiple_of(2) { [one.at(), two.at()] } else { [two.at(), one.at()] };
        let (here, there) = (producer.join("tree"), consumer.join("tree"));
        let is_told = consumer.join(format!("ready {round}"));
        let over = AtomicBool::new(false);
        let told = thread::scope(|scope| -> Outcome<Duration> {
            // It asks all the time, so that what it knows of names that are not there is put to the test as well.
            let consuming = scope.spawn(|| {
                while !is_told.exists() && !over.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(1));
                }
                Instant::now()
            });
            let ends = Over(&over);
            fs::create_dir_all(&here)?;
            run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&here))?;
            fs::write(producer.join(format!("ready {round}")), "")?;
            let said = Instant::now();
            until("it is seen that all is there", SOON, || consuming.is_finished())?;
            drop(ends);
            let seen = consuming.join().expect("it does not panic");
            Ok(seen.saturating_duration_since(said))
        })?;
        took.push(told);
        same_trees(&there, native.path())?;
        if !round.is_multiple_of(3) {
            fs::remove_dir_all(&there)?;
            assert!(!here.exists(), "it is removed in round {round}");
        }
    }
    took.sort();
    let at = |part: usize| took[(took.len() - 1) * part / 100];
    println!("seen after {:?} at the median, {:?} in 95 of 100, {:?} at most", at(50), at(95), at(100));
    assert!(at(50) < Duration::from_millis(250), "{took:?}");
    net.end([one, two])
}
