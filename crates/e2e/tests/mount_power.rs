//! A drive on a disk that forgets, tears and reorders what was not synced, mounted as a folder: what a power cut leaves of it, and a disk that is full.
//!
//! Each writer works in a folder of its own, one operation after the other, and knows what the folder looks like after each. What a power cut leaves must
//! be what the folder looked like at one of those moments, and none before the last sync: all of the drive is one log. With `--write-behind` there are two,
//! the journal and the catalogue's, and a power cut may take more of one than of the other: then this holds for each file by itself, and one
//! whose name an older file has again lies beside it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::closed::close;
use holdfast_e2e::disk::{MountedDisk, Template, mount, run_chains};
use holdfast_e2e::knob::knob;
use holdfast_e2e::mounted::Mount;
use holdfast_testkit::crashdisk::{Action, Config, Fault, OpKind};
use holdfast_testkit::rng::Prng;

/// Power cuts one after the other on one drive.
const LINKS: u64 = 8;
/// Changes of the disk after which the power goes: up to 2 to the power of a number in this range.
const CHANGES_LOG2: std::ops::Range<u64> = 4..13;
/// Folders that are written to at once.
const WRITERS: usize = 3;
/// Files of a folder: few, so that they are overwritten and replaced.
const FILES: u64 = 12;

/// Files of a folder by name: what was drawn for each, 0 for nothing.
type State = BTreeMap<String, u64>;

fn content(seed: u64) -> Vec<u8> {
    if seed == 0 {
        return Vec::new();
    }
    let mut random = Prng::new(seed);
    // Long enough that no two are the same.
    let lengths = [8, 700, 4_096, 4_096, 9_000, 100_000, 1_300_000];
    let mut bytes = vec![0; lengths[usize::try_from(random.below(lengths.len() as u64)).unwrap_or(0)]];
    random.fill(&mut bytes);
    bytes
}

/// One folder and whoever writes there.
struct Writer {
    folder: String,
    random: Prng,
    /// What it looked like before each operation, and at the end what it is to look like after the last.
    history: Vec<State>,
    /// The first of those that a power cut may leave.
    floor: usize,
    answers: u64,
}

impl Writer {
    fn new(number: usize, seed: u64) -> Self {
        let (folder, random) = (format!("w{number}"), Prng::new(seed));
        Self { folder, random, history: vec![State::new()], floor: 0, answers: 0 }
    }

    fn now(&self) -> State {
        self.history.last().cloned().unwrap_or_default()
    }

    /// Does something of which this is the outcome.
    fn step<T>(&mut self, after: State, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.history.push(after);
        let done = work()?;
        self.answers += 1;
        Ok(done)
    }

    /// Everything so far outlives a power cut.
    fn synced(&mut self) {
        self.floor = self.history.len() - 1;
    }

    fn draw_name(&mut self) -> String {
        format!("f{}", self.random.below(FILES))
    }

    /// One operation, of one or more steps.
    fn work(&mut self, at: &Path) -> io::Result<()> {
        let folder = at.join(&self.folder);
        let (name, other) = (self.draw_name(), self.draw_name());
        let (path, mut after) = (folder.join(&name), self.now());
        match self.random.below(10) {
            0 if after.contains_key(&name) => {
                after.remove(&name);
                self.step(after, || fs::remove_file(path))
            }
            1 | 2 if after.contains_key(&name) && name != other => {
                let seed = after.remove(&name).unwrap_or(0);
                after.insert(other.clone(), seed);
                self.step(after, || fs::rename(path, folder.join(other)))
            }
            3 => {
                File::open(folder)?.sync_all()?;
                self.synced();
                Ok(())
            }
            _ => self.write(&path, name),
        }
    }

    /// Makes a file or replaces its content.
    fn write(&mut self, path: &Path, name: String) -> io::Result<()> {
        let mut after = self.now();
        let seed = self.random.next_u64() | 1;
        let mut file = if after.contains_key(&name) {
            OpenOptions::new().write(true).truncate(true).open(path)?
        } else {
            after.insert(name.clone(), 0);
            self.step(after.clone(), || OpenOptions::new().write(true).create_new(true).open(path))?
        };
        file.write_all(&content(seed))?;
        after.insert(name, seed);
        if self.random.chance(0.3) {
            self.step(after, || file.sync_all())?;
            self.synced();
            return close(file);
        }
        self.step(after, || close(file))
    }

    /// Compares what is there with what may be; from now on that is what is.
    fn judge(&mut self, at: &Path, one_log: bool) -> Outcome {
        let mut found = State::new();
        for entry in fs::read_dir(at.join(&self.folder))? {
            let entry = entry?;
            let (name, bytes) = (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
            let drawn = self.history.iter().flat_map(BTreeMap::values).copied().find(|seed| content(*seed) == bytes);
            let length = bytes.len();
            let seed = drawn.ok_or_else(|| format!("{} bytes of {}/{name} were never written", length, self.folder))?;
            found.insert(name, seed);
        }
        let states = &self.history[self.floor..];
        let had = |name: &str, seed: Option<&u64>| states.iter().any(|state| state.get(name) == seed);
        let fits = if one_log {
            states.contains(&found)
        } else {
            let beside = |name: &str| name.ends_with(')');
            let names = states.iter().flat_map(BTreeMap::keys).filter(|name| !found.contains_key(*name));
            found.iter().all(|(name, seed)| had(name, Some(seed)) || beside(name)) && { names }
                .all(|name| had(name, None))
        };
        if !fits {
            return Err(format!("{} is as it never was: {found:?}, of {states:?}", self.folder).into());
        }
        (self.history, self.floor) = (vec![found], 0);
        Ok(())
    }
}

/// Runs a chain; answers the number of operations that were acknowledged in it.
fn run_chain(template: &Template, seed: u64) -> Outcome<u64> {
    // Every other chain answers first.
    let one_log = seed.is_multiple_of(2);
    let arguments: &[&str] = if one_log { &["--write-behind=no"] } else { &["--write-behind"] };
    let mut random = Prng::new(seed);
    let config = if seed % 4 < 2 { Config::default() } else { Config::ext4_like() };
    let place = template.place.copy()?;
    let mut image = template.image(config);
    let mut writers: Vec<_> = (0..WRITERS).map(|number| Writer::new(number, random.next_u64())).collect();
    let mountpoint = tempfile::tempdir()?;
    for link in 0..=LINKS {
        let disk = mount(image, &place)?;
        let drive = Mount::of_drive(&disk.options()?, mountpoint.path().into(), arguments);
        let drive = drive.map_err(|error| format!("link {link}: {error}"))?;
        for writer in &mut writers {
            if link == 0 {
                fs::create_dir(drive.at().join(&writer.folder))?;
                File::open(drive.at())?.sync_all()?;
            }
            writer.judge(drive.at(), one_log).map_err(|error| format!("link {link}: {error}"))?;
        }
        if link == LINKS {
            if one_log {
                drive.stop()?;
            } else {
                // The log may say that a part of the journal is missing.
                drive.unmount()?;
            }
            expect_clean(&disk.options()?)?;
            break;
        }
        image = cut(&disk, drive, &mut writers, &mut random)?;
    }
    Ok(writers.iter().map(|writer| writer.answers).sum())
}

/// Writes until the power goes.
fn cut(
    disk: &MountedDisk,
    drive: Mount,
    writers: &mut [Writer],
    random: &mut Prng,
) -> Outcome<holdfast_testkit::crashdisk::Image> {
    let changes = 1 << (CHANGES_LOG2.start + random.below(CHANGES_LOG2.end - CHANGES_LOG2.start));
    disk.disk.inject(Fault::any_of(&OpKind::CHANGES, Action::CutPower).after(random.below(changes)));
    std::thread::scope(|scope| {
        for writer in writers {
            let (at, disk) = (drive.at(), &disk.disk);
            scope.spawn(move || while !disk.is_powered_off() && writer.work(at).is_ok() {});
        }
    });
    if !disk.disk.is_powered_off() {
        return Err("a writer was told of an error before the power went".into());
    }
    let image = disk.disk.power_cut(random.next_u64());
    drive.kill_9()?;
    Ok(image)
}

/// `HOLDFAST_MOUNT_CHAINS` chains, `HOLDFAST_SEED` the first; every other one without `--write-behind`.
#[test]
fn a_power_cut_takes_nothing_that_was_synced_and_leaves_no_mixture() -> Outcome {
    let (chains, first) = (knob("HOLDFAST_MOUNT_CHAINS", 4_u64), knob("HOLDFAST_SEED", 1_u64));
    let template = Template::make()?;
    let answers = run_chains(first..first + chains, |seed| run_chain(&template, seed))?;
    println!("{} power cuts, {answers} operations acknowledged before them, none lost that was synced", chains * LINKS);
    assert!(answers > chains * LINKS, "{answers} operations are too few to lose any");
    Ok(())
}

/// Whoever closes a file on a full disk is told, what was closed before is kept, and with room again everything goes on.
fn fill_the_disk(arguments: &[&str]) -> Outcome {
    let template = Template::make()?;
    let disk = template.mount()?;
    let mountpoint = tempfile::tempdir()?;
    let drive = Mount::of_drive(&disk.options()?, mountpoint.path().into(), arguments)?;
    let write = |number: u64| -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(drive.at().join(number.to_string()))?;
        file.write_all(&content(number))?;
        close(file)
    };
    for number in 1..20 {
        write(number)?;
    }
    disk.disk.set_capacity(disk.disk.used_bytes() + (20 << 20));
    let mut closed: Vec<u64> = (1..20).collect();
    let mut told = 0;
    for number in 20..2_000 {
        match write(number) {
            Ok(()) => closed.push(number),
            Err(error) => {
                let code = error.raw_os_error();
                assert!(code == Some(libc::ENOSPC), "{number}: {error}");
                told += 1;
            }
        }
        if told == 20 {
            break;
        }
    }
    assert!(told == 20, "the disk was never full: {} files", closed.len());
    disk.disk.set_capacity(1 << 30);
    write(2_000)?;
    closed.push(2_000);
    File::open(drive.at())?.sync_all()?;
    drive.kill_9()?;
    let drive = Mount::of_drive(&disk.options()?, mountpoint.path().into(), arguments)?;
    for number in closed {
        let path: PathBuf = drive.at().join(number.to_string());
        assert!(fs::read(&path)? == content(number), "{} is not whole", path.display());
    }
    drive.stop()?;
    expect_clean(&disk.options()?)
}

#[test]
fn a_full_disk_is_told_at_close_and_takes_nothing() -> Outcome {
    fill_the_disk(&["--write-behind=no"])
}

#[test]
fn a_full_disk_is_told_at_close_by_a_mount_that_answers_first() -> Outcome {
    fill_the_disk(&["--write-behind"])
}
