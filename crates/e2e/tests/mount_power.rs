//! A drive on a disk that forgets, tears and reorders what was not synced, mounted as a folder: what a power cut leaves of it, and a disk that is full.
//!
//! Each writer works in a folder of its own, one operation after the other, and knows what the folder looks like after each. What a power cut leaves must
//! be what the folder looked like at one of those moments, and none before the last sync: all of the drive is one log, and with `--write-behind` the journal
//! and the catalogue's log are one together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::closed::close;
use holdfast_e2e::disk::{Template, run_chains};
use holdfast_e2e::knob::knob;
use holdfast_e2e::mounted::Mount;
use holdfast_e2e::networked::{Cable, Net};
use holdfast_testkit::crashdisk::{Action, Config, CrashDisk, Fault, Image, OpKind};
use holdfast_testkit::rng::Prng;
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Whoever starts a program has it alone. Each copies what is open in this process and closes it at once, which saves what was written of it so far.
static STARTING: RwLock<()> = RwLock::new(());

fn starting<T>(work: impl FnOnce() -> T) -> T {
    let _alone = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// Power cuts one after the other on one drive.
const LINKS: u64 = 8;
/// Changes of the disk after which the power goes: up to 2 to the power of a number in this range.
const CHANGES_LOG2: std::ops::Range<u64> = 4..13;
/// Folders that are written to at once.
const WRITERS: usize = 3;
/// Files of a folder: few, so that they are overwritten and replaced.
const FILES: u64 = 6;
/// Folders in a writer's folder, which are made, moved and removed.
const FOLDERS: [&str; 2] = ["s/", "t/"];

/// What there is by name: for files what was drawn for each, 0 for nothing, and which file it is, names of one file having one number; folders end with a
/// slash.
type State = BTreeMap<String, (u64, u64)>;

/// The same with numbers that say nothing but which names are one file.
fn bare(state: &State) -> State {
    let mut seen: Vec<u64> = Vec::new();
    let mut number = |file: u64| {
        let known = seen.iter().position(|other| *other == file);
        known.unwrap_or_else(|| {
            seen.push(file);
            seen.len() - 1
        }) as u64
    };
    let of_folder = |name: &str| name.ends_with('/');
    state
        .iter()
        .map(|(name, (seed, file))| (name.clone(), (*seed, if of_folder(name) { 0 } else { number(*file) })))
        .collect()
}

fn content(seed: u64) -> Vec<u8> {
    drawn(seed, usize::MAX)
}

/// At most so many bytes of what was drawn.
fn drawn(seed: u64, bytes_max: usize) -> Vec<u8> {
    if seed == 0 {
        return Vec::new();
    }
    let mut random = Prng::new(seed);
    // Long enough that no two are the same; of the longest, blocks are sealed while it is written.
    let lengths = [8, 700, 4_096, 4_096, 9_000, 100_000, 1_300_000, 6_500_000];
    let mut bytes = vec![0; lengths[usize::try_from(random.below(lengths.len() as u64)).unwrap_or(0)].min(bytes_max)];
    random.fill(&mut bytes);
    bytes
}

/// The beginning of what was drawn tells it from all others.
const HEAD: usize = 8;

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

    /// A name in one of the folders there are.
    fn draw_name(&mut self) -> String {
        let above = FOLDERS.get(usize::try_from(self.random.below(4)).unwrap_or(0)).copied();
        let above = above.filter(|folder| self.now().contains_key(*folder)).unwrap_or("");
        format!("{above}f{}", self.random.below(FILES))
    }

    /// One operation, of one or more steps.
    fn work(&mut self, at: &Path) -> io::Result<()> {
        let folder = at.join(&self.folder);
        let (name, other) = (self.draw_name(), self.draw_name());
        let (path, mut after) = (folder.join(&name), self.now());
        let to = folder.join(&other);
        let is_there = after.contains_key(&name);
        match self.random.below(18) {
            0 | 1 if is_there => {
                after.remove(&name);
                self.step(after, || fs::remove_file(path))
            }
            2 | 3 if is_there && name != other => {
                // Two names of one file stay.
                if after.get(&name).map(|it| it.1) != after.get(&other).map(|it| it.1) {
                    let file = after.remove(&name).unwrap_or_default();
                    after.insert(other, file);
                }
                self.step(after, || fs::rename(path, to))
            }
            4 if is_there && !after.contains_key(&other) => {
                let file = after.remove(&name).unwrap_or_default();
                after.insert(other, file);
                self.step(after, || flagged(&path, &to, RenameFlags::NOREPLACE))
            }
            5 | 6 if is_there && name != other && after.contains_key(&other) => {
                let (one, two) = (after[&name], after[&other]);
                after.extend([(name, two), (other, one)]);
                self.step(after, || flagged(&path, &to, RenameFlags::EXCHANGE))
            }
            7 | 8 => self.work_on_folders(&folder),
            16 | 17 if is_there && !after.contains_key(&other) => {
                after.insert(other, after[&name]);
                self.step(after, || fs::hard_link(path, to))
            }
            9 => {
                File::open(folder)?.sync_all()?;
                self.synced();
                Ok(())
            }
            _ => self.write(&path, name),
        }
    }

    /// Makes a folder, removes one that is empty, or moves one with all that is in it.
    fn work_on_folders(&mut self, at: &Path) -> io::Result<()> {
        let mut after = self.now();
        let [one, two] = if self.random.chance(0.5) { FOLDERS } else { [FOLDERS[1], FOLDERS[0]] };
        let below = |folder: &str, state: &State| state.keys().filter(|name| name.starts_with(folder)).count();
        if !after.contains_key(one) {
            after.insert(one.to_owned(), (0, 0));
            return self.step(after, || fs::create_dir(at.join(one)));
        }
        if below(one, &after) == 1 && self.random.chance(0.5) {
            after.remove(one);
            return self.step(after, || fs::remove_dir(at.join(one)));
        }
        if below(two, &after) <= 1 {
            // Onto one that is empty, or to no place at all.
            let moved = |name: String| name.strip_prefix(one).map(|rest| format!("{two}{rest}")).unwrap_or(name);
            after = after.into_iter().map(|(name, seed)| (moved(name), seed)).collect();
            return self.step(after, || fs::rename(at.join(one), at.join(two)));
        }
        Ok(())
    }

    /// Makes a file or replaces its content.
    fn write(&mut self, path: &Path, name: String) -> io::Result<()> {
        let _open = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        let mut after = self.now();
        let seed = self.random.next_u64() | 1;
        let known = after.get(&name).map(|(_, number)| *number);
        let number = known.unwrap_or(seed);
        let mut file = if known.is_some() {
            OpenOptions::new().write(true).truncate(true).open(path)?
        } else {
            after.insert(name, (0, number));
            self.step(after.clone(), || OpenOptions::new().write(true).create_new(true).open(path))?
        };
        file.write_all(&content(seed))?;
        after.values_mut().filter(|(_, file)| *file == number).for_each(|(drawn, _)| *drawn = seed);
        if self.random.chance(0.3) {
            self.step(after, || file.sync_all())?;
            self.synced();
            return close(file);
        }
        self.step(after, || close(file))
    }

    /// Compares what is there with what may be; from now on that is what is.
    fn judge(&mut self, at: &Path) -> Outcome {
        let mut found = State::new();
        let seeds: BTreeSet<u64> = self.history.iter().flat_map(BTreeMap::values).map(|(seed, _)| *seed).collect();
        let heads: BTreeMap<Vec<u8>, u64> = seeds.into_iter().map(|seed| (drawn(seed, HEAD), seed)).collect();
        let own = at.join(&self.folder);
        let mut folders = vec![own.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let name = path.strip_prefix(&own)?.display().to_string();
                if path.is_dir() {
                    found.insert(format!("{name}/"), (0, 0));
                    folders.push(path);
                    continue;
                }
                let bytes = fs::read(&path)?;
                let seed = heads.get(&bytes[..HEAD.min(bytes.len())]).copied().filter(|seed| content(*seed) == bytes);
                let never = || format!("{} bytes of {}/{name} were never written", bytes.len(), self.folder);
                let seed = seed.ok_or_else(never)?;
                found.insert(name, (seed, fs::symlink_metadata(&path)?.ino()));
            }
        }
        let states: Vec<State> = self.history[self.floor..].iter().map(bare).collect();
        if !states.contains(&bare(&found)) {
            let alike =
                |state: &State| bare(&found).iter().filter(|(name, file)| state.get(*name) == Some(*file)).count();
            let nearest = states.iter().enumerate().max_by_key(|(_, state)| alike(state));
            let count = states.len();
            return Err(format!(
                "{} is as it never was: {:?}, nearest of {count} {nearest:?}",
                self.folder,
                bare(&found)
            )
            .into());
        }
        (self.history, self.floor) = (vec![found], 0);
        Ok(())
    }
}

fn flagged(from: &Path, to: &Path, flags: RenameFlags) -> io::Result<()> {
    renameat_with(CWD, from, CWD, to, flags).map_err(io::Error::from)
}

/// Runs a chain: a mount is begun on the disk, written to, and lives on after each power cut in what is left of it. Answers the number of operations that
/// were acknowledged in it, when `end` has ended the last mount.
fn run_chain(
    mut image: Image,
    random: &mut Prng,
    begin: impl Fn(&CrashDisk, &Path) -> Outcome<Mount>,
    end: impl FnOnce(Mount, &CrashDisk) -> Outcome,
) -> Outcome<u64> {
    let mut writers: Vec<_> = (0..WRITERS).map(|number| Writer::new(number, random.next_u64())).collect();
    let (place, mountpoint) = (tempfile::tempdir()?, tempfile::tempdir()?);
    for link in 0.. {
        let disk = CrashDisk::mount_image(place.path(), image)?;
        let drive = starting(|| begin(&disk, mountpoint.path())).map_err(|error| format!("link {link}: {error}"))?;
        for writer in &mut writers {
            if link == 0 {
                fs::create_dir(drive.at().join(&writer.folder))?;
                File::open(drive.at())?.sync_all()?;
            }
            writer.judge(drive.at()).map_err(|error| format!("link {link}: {error}"))?;
        }
        if link == LINKS {
            starting(|| end(drive, &disk))?;
            break;
        }
        image = cut(&disk, drive, &mut writers, random)?;
    }
    Ok(writers.iter().map(|writer| writer.answers).sum())
}

/// Every other pair of seeds has a disk that is like one with ext4.
fn disk_of(seed: u64) -> Config {
    if seed % 4 < 2 { Config::default() } else { Config::ext4_like() }
}

/// A drive on the disk; with every other seed it answers first.
fn run_drive(template: &Template, seed: u64) -> Outcome<u64> {
    let arguments: &[&str] = if seed.is_multiple_of(2) { &["--write-behind=no"] } else { &["--write-behind"] };
    let place = template.place.copy()?;
    let options = |disk: &CrashDisk| place.options(&disk.path().join("data"));
    run_chain(
        template.image(disk_of(seed)),
        &mut Prng::new(seed),
        |disk, at| Mount::of_drive(&options(disk)?, at.into(), arguments),
        |drive, disk| {
            drive.stop()?;
            expect_clean(&options(disk)?)
        },
    )
}

/// A mount from a server, whose journal and spool are on the disk; the server has another machine.
fn run_machine(seed: u64) -> Outcome<u64> {
    let net = starting(Net::new)?;
    let cable = Cable::to(net.address())?;
    let begin = |disk: &CrashDisk, at: &Path| {
        cable.power(disk.power());
        let cache = disk.path().display().to_string();
        let command = net.command_to(&cable.url(), at, &["--write-behind", "--cache", &cache])?;
        Mount::begin(command, &net.token, at.into())
    };
    // It may say that files of its cache are damaged.
    let end = |mount: Mount, _: &CrashDisk| mount.unmount();
    let answers = run_chain(Image::empty(disk_of(seed)), &mut Prng::new(seed), begin, end)?;
    starting(|| net.end([]))?;
    Ok(answers)
}

/// Writes until the power goes.
fn cut(disk: &CrashDisk, drive: Mount, writers: &mut [Writer], random: &mut Prng) -> Outcome<Image> {
    let changes = 1 << (CHANGES_LOG2.start + random.below(CHANGES_LOG2.end - CHANGES_LOG2.start));
    disk.inject(Fault::any_of(&OpKind::CHANGES, Action::CutPower).after(random.below(changes)));
    let at = drive.at().to_owned();
    std::thread::scope(|scope| {
        let work = |writer: &mut Writer| while !disk.is_powered_off() && writer.work(&at).is_ok() {};
        let writing: Vec<_> = writers.iter_mut().map(|writer| scope.spawn(move || work(writer))).collect();
        while !disk.wait_powered_off(Duration::from_millis(100)) {
            if writing.iter().all(ScopedJoinHandle::is_finished) {
                return Err("a writer was told of an error before the power went".into());
            }
        }
        // It is not to tell them of a disk that answers nothing, nor to wait for a server that it does not reach.
        drive.kill_9()
    })?;
    Ok(disk.power_cut(random.next_u64()))
}

/// Runs `HOLDFAST_MOUNT_CHAINS` chains, `HOLDFAST_SEED` the first.
fn cut_the_power(run: impl Fn(u64) -> Outcome<u64> + Sync) -> Outcome {
    let (chains, first) = (knob("HOLDFAST_MOUNT_CHAINS", 4_u64), knob("HOLDFAST_SEED", 1_u64));
    let answers = run_chains(first..first + chains, run)?;
    println!("{} power cuts, {answers} operations acknowledged before them, none lost that was synced", chains * LINKS);
    assert!(answers > chains * LINKS, "{answers} operations are too few to lose any");
    Ok(())
}

/// Every other chain is without `--write-behind`.
#[test]
fn a_power_cut_takes_nothing_that_was_synced_and_leaves_no_mixture() -> Outcome {
    let template = starting(Template::make)?;
    cut_the_power(|seed| run_drive(&template, seed))
}

#[test]
fn a_power_cut_of_a_machine_that_mounts_from_a_server_does_neither() -> Outcome {
    cut_the_power(run_machine)
}

/// Whoever closes a file on a full disk is told, what was closed before is kept, and with room again everything goes on.
fn fill_the_disk(arguments: &[&str]) -> Outcome {
    let template = starting(Template::make)?;
    let disk = template.mount()?;
    let mountpoint = tempfile::tempdir()?;
    let begin = || starting(|| Mount::of_drive(&disk.options()?, mountpoint.path().into(), arguments));
    let drive = begin()?;
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
    let drive = begin()?;
    for number in closed {
        let path: PathBuf = drive.at().join(number.to_string());
        assert!(fs::read(&path)? == content(number), "{} is not whole", path.display());
    }
    drive.stop()?;
    starting(|| expect_clean(&disk.options()?))
}

#[test]
fn a_full_disk_is_told_at_close_and_takes_nothing() -> Outcome {
    fill_the_disk(&["--write-behind=no"])
}

#[test]
fn a_full_disk_is_told_at_close_by_a_mount_that_answers_first() -> Outcome {
    fill_the_disk(&["--write-behind"])
}
