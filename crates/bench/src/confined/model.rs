//! Report 002's file server: how many files there are, how large, in which folders, and whose turn each is.
//!
//! As in filebench's model of that name: entries are names with a size, most of which are files at the beginning. Creating takes an entry that is no
//! file, deleting one that is; opening and looking take a file. An entry belongs to one thread at a time, so lengths are known and compared.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::ensure;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

/// More entries are more than the memory of a small machine should hold the names of.
pub(super) const FILES_MAX: u32 = 10_000_000;
/// More threads only measure the scheduler.
pub(super) const THREADS_MAX: u32 = 1_000;
/// A drawn size or width is at most so many times the mean: one in ten million is above that.
const DRAWN_MAX: f64 = 12.0;

/// The load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Entries: names of files, whether there is a file or not.
    pub files: u32,
    /// Mean of files in a folder, and folders in a folder.
    pub width: u32,
    /// Mean size of a file.
    pub mean: u64,
    /// Shape of the distribution of sizes and widths.
    pub gamma: f64,
    /// Percentage of entries that are files at the beginning.
    pub prealloc: u32,
    /// Threads.
    pub threads: u32,
    /// Bytes of one call that reads or writes.
    pub io_size: u64,
    /// The most that is appended at once; how much is drawn evenly from 1 to that, as filebench does, whose model calls it the mean.
    pub append: u64,
}

impl Model {
    /// That of the report.
    pub const REPORT: Self = Self {
        files: 10_000,
        width: 20,
        mean: 131_072,
        gamma: 1.5,
        prealloc: 80,
        threads: 50,
        io_size: 1 << 20,
        append: 16 << 10,
    };

    /// Entries that are files at the beginning.
    pub(super) fn existing(&self) -> u32 {
        u32::try_from(u64::from(self.files) * u64::from(self.prealloc) / 100).unwrap_or(u32::MAX)
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!((1..=FILES_MAX).contains(&self.files), "--files must be 1 to {FILES_MAX}");
        ensure!((1..=THREADS_MAX).contains(&self.threads), "--threads must be 1 to {THREADS_MAX}");
        ensure!(self.width >= 2, "--width must be at least 2");
        ensure!((1..=1 << 30).contains(&self.mean), "--mean must be 1 to 1 GiB");
        ensure!((1..=1 << 30).contains(&self.io_size), "--io-size must be 1 to 1 GiB");
        ensure!((1..=1 << 30).contains(&self.append), "--append must be 1 to 1 GiB");
        ensure!(self.gamma.is_finite() && (0.1..=100.0).contains(&self.gamma), "--gamma must be 0.1 to 100");
        ensure!(self.prealloc <= 100, "--prealloc must be 0 to 100");
        // Each thread may hold a file, or a name for one, while another looks for the same.
        let (existing, missing) = (self.existing(), self.files - self.existing());
        ensure!(
            existing >= self.threads && missing >= self.threads,
            "{existing} files and {missing} free names are too few for {} threads: more --files, fewer --threads, or another --prealloc",
            self.threads
        );
        Ok(())
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        let Self { files, width, mean, gamma, prealloc, threads, io_size, append } = self;
        format!(
            "{files} files of {mean} bytes in the mean (gamma {gamma}), {prealloc} % of them there at the beginning, about {width} in a folder; \
             {threads} threads that create and write, open and append up to {append} bytes, open and read, delete, look; {io_size} bytes a call"
        )
    }
}

/// A draw from the gamma distribution of this mean and shape, by Marsaglia's and Tsang's method.
pub(super) fn gamma(random: &mut impl Rng, mean: f64, shape: f64) -> f64 {
    // Below 1 the method draws with one more and scales.
    let (drawn_shape, scale) = if shape < 1.0 {
        (shape + 1.0, random.random::<f64>().max(f64::MIN_POSITIVE).powf(1.0 / shape))
    } else {
        (shape, 1.0)
    };
    let d = drawn_shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    let drawn = loop {
        let normal = normal(random);
        let v = (1.0 + c * normal).powi(3);
        let uniform: f64 = random.random::<f64>().max(f64::MIN_POSITIVE);
        if v > 0.0 && uniform.ln() < normal * normal / 2.0 + d - d * v + d * v.ln() {
            break d * v;
        }
    };
    (drawn * scale * mean / shape).min(mean * DRAWN_MAX)
}

/// The whole number next to a drawn one, and 1 at least.
fn whole(drawn: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 1, and at most a few times a mean that was checked"
    )]
    let whole = drawn.round().max(1.0) as u64;
    whole
}

/// A draw from the normal distribution, by Box's and Muller's method.
fn normal(random: &mut impl Rng) -> f64 {
    let (first, second): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos()
}

/// A file that is or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) number: u32,
    /// What it has when it is created.
    pub(super) size: u64,
    /// What it has now.
    pub(super) length: u64,
}

/// All entries.
pub(super) struct FileSet {
    /// Of each folder, the number of its first file.
    firsts: Vec<u32>,
    width: u32,
    /// Folders above each other, so that all have a place.
    levels: u32,
    turns: Mutex<Turns>,
}

struct Turns {
    files: Vec<Entry>,
    free: Vec<Entry>,
}

impl FileSet {
    /// Draws sizes and folders: the same for the same seed.
    pub(super) fn new(model: &Model, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut firsts = Vec::new();
        let mut next = 0_u32;
        while next < model.files {
            firsts.push(next);
            let files = whole(gamma(&mut random, f64::from(model.width), model.gamma));
            next = next.saturating_add(u32::try_from(files).unwrap_or(u32::MAX));
        }
        let mut entries: Vec<Entry> = (0..model.files)
            .map(|number| {
                let size = whole(gamma(&mut random, model.mean as f64, model.gamma));
                Entry { number, size, length: 0 }
            })
            .collect();
        // Which of them are there is drawn too: files stand in all folders.
        for at in (1..entries.len()).rev() {
            entries.swap(at, random.random_range(0..=at));
        }
        let free = entries.split_off(model.existing() as usize);
        let (mut levels, mut room) = (1, u64::from(model.width));
        while room < firsts.len() as u64 {
            (levels, room) = (levels + 1, room * u64::from(model.width));
        }
        Self { firsts, width: model.width, levels, turns: Mutex::new(Turns { files: entries, free }) }
    }

    /// Where folders are, below the root.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> + '_ {
        (0..self.firsts.len()).map(|folder| self.folder(folder as u64))
    }

    fn folder(&self, number: u64) -> PathBuf {
        let digit = |level: u32| format!("{:02}", number / u64::from(self.width).pow(level) % u64::from(self.width));
        (0..self.levels).rev().map(digit).collect()
    }

    /// Where an entry is, below the root.
    pub(super) fn path(&self, entry: &Entry) -> PathBuf {
        let folder = self.firsts.partition_point(|first| *first <= entry.number) - 1;
        self.folder(folder as u64).join(format!("f{:08}", entry.number))
    }

    fn take(&self, of: fn(&mut Turns) -> &mut Vec<Entry>, random: &mut impl Rng) -> Option<Entry> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let from = of(&mut turns);
        let at = (!from.is_empty()).then(|| random.random_range(0..from.len()))?;
        Some(from.swap_remove(at))
    }

    /// Takes a file; nobody else has it until it is given back.
    pub(super) fn take_file(&self, random: &mut impl Rng) -> Option<Entry> {
        self.take(|turns| &mut turns.files, random)
    }

    /// Takes a name that is no file.
    pub(super) fn take_free(&self, random: &mut impl Rng) -> Option<Entry> {
        self.take(|turns| &mut turns.free, random)
    }

    /// Gives an entry back as a file, or as a free name.
    pub(super) fn give(&self, entry: Entry, is_file: bool) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if is_file { turns.files.push(entry) } else { turns.free.push(entry) }
    }

    /// All entries of which there is a file, and all of which there is none, while nobody else takes any.
    pub(super) fn halves(&mut self) -> (&mut Vec<Entry>, &mut Vec<Entry>) {
        let turns = self.turns.get_mut().unwrap_or_else(PoisonError::into_inner);
        (&mut turns.files, &mut turns.free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_mean_and_the_spread_of_their_distribution() {
        let mut random = StdRng::seed_from_u64(7);
        for shape in [0.5, 1.5, 8.0] {
            let drawn: Vec<f64> = (0..200_000).map(|_| gamma(&mut random, 1000.0, shape)).collect();
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            let variance = drawn.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
            assert!((mean / 1000.0 - 1.0).abs() < 0.02, "{shape}: {mean}");
            assert!((variance / (1000.0_f64.powi(2) / shape) - 1.0).abs() < 0.05, "{shape}: {variance}");
        }
    }

    #[test]
    fn the_reports_files_are_in_folders_of_about_twenty_and_four_fifths_are_there() {
        let mut set = FileSet::new(&Model::REPORT, 1);
        let folders = set.folders().count();
        assert!((450..550).contains(&folders), "{folders}");
        let (files, free) = set.halves();
        let all: Vec<Entry> = files.iter().chain(free.iter()).copied().collect();
        assert_eq!((files.len(), free.len()), (8_000, 2_000));
        let mean = all.iter().map(|entry| entry.size).sum::<u64>() / 10_000;
        assert!((125_000..137_000).contains(&mean), "{mean}");
        let paths: std::collections::HashSet<PathBuf> = all.iter().map(|entry| set.path(entry)).collect();
        let folders: std::collections::HashSet<PathBuf> = set.folders().collect();
        assert!(paths.len() == 10_000 && paths.iter().all(|path| folders.contains(path.parent().expect("a folder"))));
    }

    #[test]
    fn the_same_seed_draws_the_same_and_another_seed_does_not() {
        let drawn = |seed| FileSet::new(&Model::REPORT, seed).halves().0.clone();
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn an_entry_is_one_threads_until_it_is_given_back() {
        let model = Model { files: 4, prealloc: 50, threads: 2, ..Model::REPORT };
        let (set, mut random) = (FileSet::new(&model, 1), StdRng::seed_from_u64(1));
        let taken = [set.take_file(&mut random), set.take_file(&mut random)].map(|entry| entry.expect("there are two"));
        assert_ne!(taken[0], taken[1]);
        assert_eq!(set.take_file(&mut random), None);
        set.give(taken[0], false);
        assert_eq!(set.take_file(&mut random), None);
        set.give(taken[1], true);
        assert_eq!(set.take_file(&mut random), Some(taken[1]));
        assert!((0..3).all(|_| set.take_free(&mut random).is_some()) && set.take_free(&mut random).is_none());
    }

    #[test]
    fn loads_that_cannot_go_on_are_refused() {
        let with = |change: fn(&mut Model)| {
            let mut model = Model::REPORT;
            change(&mut model);
            model.check().map_err(|error| error.to_string())
        };
        assert_eq!(with(|_| ()), Ok(()));
        for (change, why) in [
            (with(|model| model.files = 0), "--files"),
            (with(|model| model.files = 60), "too few"),
            (with(|model| model.prealloc = 100), "too few"),
            (with(|model| model.prealloc = 101), "--prealloc"),
            (with(|model| model.threads = 0), "--threads"),
            (with(|model| model.gamma = f64::NAN), "--gamma"),
            (with(|model| model.width = 1), "--width"),
            (with(|model| model.mean = 0), "--mean"),
            (with(|model| model.io_size = 0), "--io-size"),
            (with(|model| model.append = 0), "--append"),
        ] {
            assert!(change.as_ref().is_err_and(|error| error.contains(why)), "{why}: {change:?}");
        }
    }
}
