//! `holdfast bench source`: report 002's second method: a tree of sources is packed, unpacked and built.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;

use super::child::{Complaints, time};
use super::{Bed, Confined, ConfinedArgs, series, with_signals};
use crate::disk;
use crate::frame::{Outcome, Stopped};
use crate::report::{Bench, Better, Report};

/// A command that takes longer is given up.
const LIMIT: Duration = Duration::from_hours(2);
/// What the packed tree is called.
const ARCHIVE: &str = "tree.tar.gz";

/// Measure packing, unpacking and building sources, natively and confined, side by side.
///
/// The tree is only read; each round packs it anew, unpacks that, and builds what was unpacked, in a new folder, bench-XXXXXX. Of Linux's sources the
/// build is `make tinyconfig`, which is report 002's, and then a small part of the kernel.
///
/// The exit status is not 0 when a command failed.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// Folder with the sources.
    #[arg(value_name = "TREE")]
    pub tree: PathBuf,

    /// What builds the tree, as a shell takes it; may be repeated. Nothing by default, unless the sources are those of Linux.
    #[arg(long, value_name = "COMMAND")]
    pub build: Vec<String>,

    /// A packed copy of the tree (.tar.gz), of which unpacking alone is measured.
    #[arg(long, value_name = "FILE", conflicts_with = "build")]
    pub archive: Option<PathBuf>,

    /// Folder to work in; the one that the tree is in by default.
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// What it is measured under, and how often.
    #[command(flatten)]
    pub confined: ConfinedArgs,
}

impl SourceArgs {
    /// Measures, and writes the files of `--output`.
    pub fn execute(&self) -> anyhow::Result<Report> {
        let tree = self.tree.canonicalize().with_context(|| format!("the tree {}", self.tree.display()))?;
        let above = tree.parent().context("the tree is the root of all")?.to_owned();
        let build = if self.build.is_empty() { steps_of(&tree) } else { self.build.clone() };
        let archive = self
            .archive
            .as_ref()
            .map(|archive| archive.canonicalize().with_context(|| format!("the archive {}", archive.display())));
        self.confined.finish(run(&SourceOptions {
            folder: self.folder.clone().unwrap_or(above),
            tree,
            archive: archive.transpose()?,
            build,
            confined: self.confined.options()?,
        })?)
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// The sources.
    pub tree: PathBuf,
    /// What they are packed in, if nothing is measured but to unpack it.
    pub archive: Option<PathBuf>,
    /// Commands that build them, as a shell takes them.
    pub build: Vec<String>,
    /// Where.
    pub folder: PathBuf,
    /// Variants and rounds.
    pub confined: Confined,
}

/// What builds these sources, if that is known.
fn steps_of(tree: &Path) -> Vec<String> {
    let is_linux = ["Kbuild", "Kconfig", "scripts/kconfig"].iter().all(|name| tree.join(name).exists());
    if !is_linux {
        return Vec::new();
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    vec!["make tinyconfig".to_owned(), format!("make -j{cores} lib/ kernel/locking/ kernel/time/")]
}

/// A command that is timed.
struct Step {
    id: String,
    title: String,
    words: Vec<String>,
    folder: PathBuf,
}

/// Measures. Fails only for what makes measuring pointless; what goes wrong with a variant is in the report.
pub fn run(options: &SourceOptions) -> anyhow::Result<Report> {
    options.confined.check()?;
    ensure!(options.tree.is_dir(), "{} is no folder", options.tree.display());
    let name = options.tree.file_name().and_then(|name| name.to_str()).context("the tree's name is not UTF-8")?;
    let bytes = disk::used_bytes(&options.tree).with_context(|| format!("cannot read {}", options.tree.display()))?;
    with_signals(|stop| {
        let mut bed = Bed::new(&options.confined, &options.folder, Arc::clone(&stop))?;
        for round in 0..options.confined.rounds {
            for target in bed.frame.order(round) {
                if bed.frame.interrupted() {
                    break;
                }
                if let Some(place) = bed.place(round, target) {
                    // After one that failed there is nothing to go on with.
                    let _ = steps(options, name, &place)
                        .iter()
                        .all(|step| measure(options, &mut bed, &stop, (round, target), &place, step, bytes));
                    bed.remove(&place, target);
                }
            }
        }
        Ok(bed.into_report(Bench::Source, format!("sources in {name}, {} MB on disk", bytes / 1_000_000)))
    })
}

/// All steps in one folder.
fn steps(options: &SourceOptions, name: &str, place: &Path) -> Vec<Step> {
    let above = options.tree.parent().unwrap_or(Path::new("/")).display().to_string();
    let step = |id: &str, title: &str, words: &[&str], folder: &Path| Step {
        id: format!("source.{id}"),
        title: title.to_owned(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        folder: folder.to_owned(),
    };
    if let Some(archive) = &options.archive {
        return vec![step("unpack", "tar -xzf", &["tar", "-xzf", &archive.display().to_string()], place)];
    }
    let mut all = vec![
        step("pack", "tar -czf", &["tar", "-czf", ARCHIVE, "-C", &above, "--", name], place),
        step("unpack", "tar -xzf", &["tar", "-xzf", ARCHIVE], place),
    ];
    for (number, command) in options.build.iter().enumerate() {
        let (id, title) = (format!("build-{}", number + 1), command.clone());
        all.push(step(&id, &title, &["sh", "-c", command], &place.join(name)));
    }
    all
}

/// Answers whether it went well.
fn measure(
    options: &SourceOptions,
    bed: &mut Bed<'_>,
    stop: &AtomicBool,
    (round, target): (u32, usize),
    place: &Path,
    task: &Step,
    bytes: u64,
) -> bool {
    let info = series(&task.id, &task.title, "s", Better::Lower);
    let mut told = None;
    bed.frame.measure(&info, target, bytes, || {
        let failed = |error: anyhow::Error| Stopped::Failed(format!("{error:#}"));
        let command = options.confined.variants[target].command(place, &task.words).map_err(failed)?;
        let mut complaints = Complaints::new().map_err(failed)?;
        let took = time(&command, Some(&task.folder), stop, LIMIT, &mut complaints)?.as_secs_f64();
        told = Some(took);
        Ok(Outcome { value: took, latencies: None, reopened: 0 })
    });
    if let Some(value) = told {
        bed.figures.set(&info, target, round, value);
    }
    told.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_of_linux_is_known_and_that_of_other_sources_is_not_guessed() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(steps_of(folder.path()).is_empty());
        std::fs::create_dir_all(folder.path().join("scripts/kconfig")).expect("a folder");
        for name in ["Kbuild", "Kconfig"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        assert_eq!(steps_of(folder.path())[0], "make tinyconfig");
    }
}
