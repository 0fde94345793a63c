//! Runs targets over the committed inputs; included by the replay tests.
//!
//! `corpus/TARGET/` holds what fuzzing found worth keeping, `reproducers/TARGET/` inputs that once broke a promise and must not
//! again, `reproducers/open/TARGET/` those that still do.

use std::fs;
use std::path::{Path, PathBuf};

/// A target by name.
pub type Target = (&'static str, fn(&[u8]));

/// Runs every target over its corpus and its reproducers. The name of each file is printed before it runs, so that
/// the last one shown is the culprit.
pub fn replay(targets: &[Target]) {
    for (name, run) in targets {
        let corpus = files(&folder().join("corpus").join(name));
        assert!(!corpus.is_empty(), "the target {name} has no corpus");
        for file in corpus.iter().chain(&files(&folder().join("reproducers").join(name))) {
            run_file(*run, file);
        }
    }
}

/// Runs the targets over the inputs that are known to break a promise, and answers those that still do.
pub fn still_open(targets: &[Target]) -> Vec<PathBuf> {
    let open = |(name, run): &Target| {
        let files = files(&folder().join("reproducers/open").join(name));
        files.into_iter().filter(|file| std::panic::catch_unwind(|| run_file(*run, file)).is_err()).collect::<Vec<_>>()
    };
    targets.iter().flat_map(open).collect()
}

fn run_file(run: fn(&[u8]), file: &Path) {
    println!("{}", file.display());
    run(&fs::read(file).expect("a readable input"));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files of a folder, in order; none if there is no such folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    files
}
