//! The worker: a process of its own, which is the file server of the [model](super::model), natively or confined by whatever it was started through.
//!
//! It is this program again. It reads its [`Work`] as a line of JSON from its standard input and says `ready`; for each line that follows it makes the
//! files, serves, and writes what came of it ([`Done`]). Its lines have a mark before them, since what it is started through may write lines of its own.
//! When its input ends it stops and ends.
//!
//! What its threads need is made once, so that it does not itself grow from one time to the next.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use super::model::{Entry, FileSet, Model};
use super::tally::{KINDS, Kind, Kit, Kits, Operations, Tally};

/// Before each line that is the worker's.
pub(super) const MARK: &str = "holdfast-worker ";
/// The first of them, with what it calls itself.
pub(super) const READY: &str = "ready ";
/// What a worker is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Work {
    /// The folder, which is there; everything is made in one below it.
    pub(super) root: PathBuf,
    pub(super) model: Model,
    pub(super) seed: u64,
    pub(super) seconds: f64,
    /// Remove what was made, each time.
    pub(super) remove: bool,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Done {
    /// From the start of all threads to the end of the last.
    pub(super) seconds: f64,
    /// What making the files took before.
    pub(super) made_s: f64,
    /// By kind.
    pub(super) operations: [Operations; 8],
    pub(super) read: u64,
    pub(super) written: u64,
    /// What went wrong first.
    pub(super) error: Option<String>,
}

impl Done {
    pub(super) fn count(&self) -> u64 {
        self.operations.iter().map(|operations| operations.count).sum()
    }

    /// What all operations took together, in ms.
    pub(super) fn sum_ms(&self) -> f64 {
        self.operations.iter().map(|operations| operations.sum_ns as f64 / 1e6).sum()
    }

    /// How many of them moved bytes: filebench divides by these.
    pub(super) fn moving(&self) -> u64 {
        [Kind::Write, Kind::Append, Kind::Read].into_iter().map(|kind| self.operations[kind as usize].count).sum()
    }
}

/// What a thread or all of them did.
struct Did {
    read: u64,
    written: u64,
    error: Option<String>,
    ended: Instant,
}

impl Did {
    fn new() -> Self {
        Self { read: 0, written: 0, error: None, ended: Instant::now() }
    }

    fn add(&mut self, other: Self) {
        self.read += other.read;
        self.written += other.written;
        self.ended = self.ended.max(other.ended);
        self.error = self.error.take().or(other.error);
    }
}

/// The worker itself: what the hidden command runs.
pub fn serve() -> anyhow::Result<()> {
    let (told, lines) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    thread::spawn(move || {
        for line in BufReader::new(std::io::stdin()).lines().map_while(Result::ok) {
            // The other side ends with the process.
            let _ = told.send(line);
        }
        raised.store(true, Ordering::Relaxed);
    });
    let work: Work = serde_json::from_str(&lines.recv().context("nothing to do")?).context("no work")?;
    let mut kits = Kits::new(&work.model);
    tell(&format!("{READY}{}", std::process::id()))?;
    while lines.recv().is_ok() {
        tell(&serde_json::to_string(&work_once(&work, &mut kits, &stop))?)?;
    }
    Ok(())
}

/// Writes a line of its own, whatever was said before.
fn tell(what: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{MARK}{what}")?;
    out.flush()
}

fn work_once(work: &Work, kits: &mut Kits, stop: &AtomicBool) -> Done {
    let root = work.root.join("files");
    let began = Instant::now();
    let mut set = FileSet::new(&work.model, work.seed);
    let mut done = match make(work, &root, &mut set, &kits.content, stop) {
        Ok(()) => {
            let made_s = began.elapsed().as_secs_f64();
            Done { made_s, ..run(work, &root, &set, kits, stop) }
        }
        Err(error) => Done { error: Some(error), ..Done::default() },
    };
    if work.remove
        && let Err(error) = std::fs::remove_dir_all(&root)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        done.error.get_or_insert(format!("remove {}: {error}", root.display()));
    }
    done
}

/// Says of what an error is.
fn of<T>(what: &str, path: &Path, result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{what} {}: {error}", path.display()))
}

/// Puts files and folders into the state of the beginning, whatever an earlier time left.
fn make(work: &Work, root: &Path, set: &mut FileSet, content: &[u8], stop: &AtomicBool) -> Result<(), String> {
    for folder in set.folders() {
        let path = root.join(folder);
        of("make", &path, std::fs::create_dir_all(&path))?;
    }
    let (files, free) = set.halves();
    let (files, free) = (files.len(), free.clone());
    for entry in &free {
        let path = root.join(set.path(entry));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return of("delete", &path, Err(error)),
            _ => {}
        }
    }
    for at in 0..files {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let entry = set.halves().0[at];
        let path = root.join(set.path(&entry));
        let mut file = of("make", &path, File::create(&path))?;
        of("fill", &path, write(&mut file, content, work.model.io_size, entry.size))?;
        of("close", &path, nix::unistd::close(file).map_err(Into::into))?;
        set.halves().0[at].length = entry.size;
    }
    Ok(())
}

/// Writes so many bytes, call by call.
fn write(file: &mut File, content: &[u8], io_size: u64, bytes: u64) -> std::io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let count = left.min(io_size);
        file.write_all(&content[..usize::try_from(count).unwrap_or(content.len())])?;
        left -= count;
    }
    Ok(())
}

/// All threads at once, for the time.
fn run(work: &Work, root: &Path, set: &FileSet, kits: &mut Kits, stop: &AtomicBool) -> Done {
    let Kits { content, sum, threads } = kits;
    let content: &[u8] = content;
    // Held while threads are started, so that they begin together.
    let gate = RwLock::new(());
    let over = AtomicBool::new(false);
    let mut all = Did::new();
    let mut began = Instant::now();
    thread::scope(|scope| {
        let closed = gate.write();
        let mut started = Vec::new();
        for (number, kit) in threads.iter_mut().enumerate() {
            let (gate, over) = (&gate, &over);
            match thread::Builder::new().spawn_scoped(scope, move || {
                let user = User::new(work, root, set, content, number, kit);
                drop(gate.read());
                user.serve(stop, over)
            }) {
                Ok(thread) => started.push(thread),
                Err(error) => {
                    all.error.get_or_insert(format!("thread {number} could not be started: {error}"));
                    over.store(true, Ordering::Relaxed);
                    break;
                }
            }
        }
        began = Instant::now();
        drop(closed);
        for thread in started {
            match thread.join() {
                Ok(did) => all.add(did),
                Err(_) => all.error = Some("a thread ended by itself".to_owned()),
            }
        }
    });
    sum.clear();
    for kit in threads.iter() {
        for (sum, more) in sum.tallies.iter_mut().zip(&kit.tallies) {
            sum.add(more);
        }
    }
    Done {
        seconds: all.ended.duration_since(began).as_secs_f64(),
        made_s: 0.0,
        operations: sum.tallies.each_ref().map(Tally::tell),
        read: all.read,
        written: all.written,
        error: all.error,
    }
}

/// A thread and what it has.
struct User<'w> {
    work: &'w Work,
    root: &'w Path,
    set: &'w FileSet,
    content: &'w [u8],
    random: StdRng,
    kit: &'w mut Kit,
    did: Did,
}

impl<'w> User<'w> {
    fn new(
        work: &'w Work,
        root: &'w Path,
        set: &'w FileSet,
        content: &'w [u8],
        number: usize,
        kit: &'w mut Kit,
    ) -> Self {
        kit.clear();
        let random = StdRng::seed_from_u64(work.seed ^ ((number as u64 + 1) << 32));
        Self { work, root, set, content, random, kit, did: Did::new() }
    }

    /// Goes on until the time is over, everything is to stop, or something went wrong, which stops the others too.
    fn serve(mut self, stop: &AtomicBool, over: &AtomicBool) -> Did {
        let until = Instant::now() + Duration::from_secs_f64(self.work.seconds);
        loop {
            if let Err(error) = self.turn() {
                self.did.error = Some(error);
                over.store(true, Ordering::Relaxed);
            }
            let now = Instant::now();
            if now >= until || stop.load(Ordering::Relaxed) || over.load(Ordering::Relaxed) {
                self.did.ended = now;
                return self.did;
            }
        }
    }

    /// The eleven operations of the model.
    fn turn(&mut self) -> Result<(), String> {
        self.create()?;
        self.append()?;
        self.read()?;
        let entry = self.file()?;
        let path = self.path(&entry);
        self.timed(Kind::Delete, &path, |_| std::fs::remove_file(&path))?;
        self.set.give(Entry { length: 0, ..entry }, false);
        let entry = self.file()?;
        let path = self.path(&entry);
        let found = self.timed(Kind::Stat, &path, |_| std::fs::metadata(&path))?;
        self.set.give(entry, true);
        same(&path, found.len(), entry.length)
    }

    fn create(&mut self) -> Result<(), String> {
        let entry = self.set.take_free(&mut self.random).ok_or("no free name is left")?;
        let path = self.path(&entry);
        let mut file =
            self.timed(Kind::Create, &path, |_| OpenOptions::new().write(true).create_new(true).open(&path))?;
        let (content, io_size) = (self.content, self.work.model.io_size);
        self.timed(Kind::Write, &path, |_| write(&mut file, content, io_size, entry.size))?;
        self.did.written += entry.size;
        self.close(&path, file)?;
        self.set.give(Entry { length: entry.size, ..entry }, true);
        Ok(())
    }

    fn append(&mut self) -> Result<(), String> {
        let entry = self.file()?;
        let path = self.path(&entry);
        let more = self.random.random_range(1..=self.work.model.append);
        let mut file = self.timed(Kind::Open, &path, |_| OpenOptions::new().append(true).open(&path))?;
        let content = self.content;
        self.timed(Kind::Append, &path, |_| write(&mut file, content, more, more))?;
        self.did.written += more;
        self.close(&path, file)?;
        self.set.give(Entry { length: entry.length + more, ..entry }, true);
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        let entry = self.file()?;
        let path = self.path(&entry);
        let mut file = self.timed(Kind::Open, &path, |_| File::open(&path))?;
        let length = self.timed(Kind::Read, &path, |user| {
            let mut length = 0;
            loop {
                match file.read(&mut user.kit.buffer)? {
                    0 => return Ok(length),
                    count => length += count as u64,
                }
            }
        })?;
        self.did.read += length;
        self.close(&path, file)?;
        self.set.give(entry, true);
        same(&path, length, entry.length)
    }

    fn close(&mut self, path: &Path, file: File) -> Result<(), String> {
        self.timed(Kind::Close, path, |_| nix::unistd::close(file).map_err(Into::into))
    }

    fn file(&mut self) -> Result<Entry, String> {
        self.set.take_file(&mut self.random).ok_or_else(|| "no file is left".to_owned())
    }

    fn path(&self, entry: &Entry) -> PathBuf {
        self.root.join(self.set.path(entry))
    }

    fn timed<T>(
        &mut self,
        kind: Kind,
        path: &Path,
        work: impl FnOnce(&mut Self) -> std::io::Result<T>,
    ) -> Result<T, String> {
        let began = Instant::now();
        let result = work(self);
        let took = began.elapsed();
        let result = of(KINDS[kind as usize], path, result)?;
        self.kit.tallies[kind as usize].record(took);
        Ok(result)
    }
}

fn same(path: &Path, found: u64, right: u64) -> Result<(), String> {
    if found == right { Ok(()) } else { Err(format!("{} has {found} bytes instead of {right}", path.display())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(root: &Path) -> Work {
        let model = Model { files: 40, width: 4, mean: 2_000, threads: 3, io_size: 512, append: 100, ..Model::REPORT };
        Work { root: root.to_owned(), model, seed: 1, seconds: 0.0, remove: false }
    }

    /// The second time: nothing of the first may be counted.
    fn work_twice(work: &Work) -> Done {
        let mut kits = Kits::new(&work.model);
        let first = work_once(work, &mut kits, &AtomicBool::new(false));
        if first.error.is_some() { first } else { work_once(work, &mut kits, &AtomicBool::new(false)) }
    }

    /// Files below a folder.
    fn count(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
        entries.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
    }

    #[test]
    fn each_turn_does_the_eleven_operations_of_the_model() {
        let folder = tempfile::tempdir().expect("a folder");
        let done = work_twice(&work(folder.path()));
        assert_eq!(done.error, None);
        let counts: Vec<u64> = done.operations.iter().map(|operations| operations.count).collect();
        // Without any time each of three threads has one turn.
        assert_eq!(counts, [3, 3, 6, 3, 3, 9, 3, 3]);
        assert_eq!((done.count(), done.moving()), (33, 9));
        assert!(done.read > 0 && done.written > 0 && done.seconds > 0.0 && done.made_s > 0.0 && done.sum_ms() > 0.0);
        let Operations { p50_ns, p99_ns, max_ns, .. } = done.operations[0];
        assert!(0 < p50_ns && p50_ns <= p99_ns && p99_ns <= max_ns);
    }

    #[test]
    fn a_second_time_begins_with_the_files_of_the_first_and_what_was_made_goes_if_it_is_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = work(folder.path());
        let files = || count(&folder.path().join("files"));
        for _ in 0..3 {
            assert_eq!(work_twice(&first).error, None);
            // 32 of 40 at the beginning, and each turn makes one and deletes one.
            assert_eq!(files(), 32);
        }
        let last = Work { remove: true, ..first };
        assert_eq!(work_twice(&last).error, None);
        assert!(!folder.path().join("files").exists());
    }

    #[test]
    fn a_folder_that_is_not_there_or_takes_nothing_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let blocked = folder.path().join("file");
        std::fs::write(&blocked, "x").expect("a file");
        let error = work_twice(&work(&blocked)).error.expect("it fails");
        assert!(error.contains("Not a directory"), "{error}");
    }

    #[test]
    fn a_length_that_is_another_is_told() {
        assert_eq!(same(Path::new("f"), 2, 3), Err("f has 2 bytes instead of 3".to_owned()));
    }
}
