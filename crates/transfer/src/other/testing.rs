//! What the tests of these sites have in common: a tree that is hard on names and sizes, and moving it.

use crate::options::Delete;
use crate::site::Site;
use crate::{Counts, Job, Leg, LocalSite, Options, Report, run};
use holdfast_base::{DrivePath, Result};
use holdfast_testkit::rng::Prng;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::{mpsc, watch};

/// Bytes without a short period.
pub(crate) fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Prng::new(seed);
    let mut all: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    all.truncate(bytes);
    all
}

/// A folder with names, sizes and times of all kinds.
pub(crate) fn tree(at: &Path) {
    let files: [(&str, usize); 14] = [
        ("empty", 0),
        ("one", 1),
        ("a b", 10),
        ("a/in a", 10),
        ("a-b/c", 11),
        ("a.b", 12),
        ("100% + more & <less>", 13),
        ("ünï/ç☃de 日本", 14),
        ("%41%2F", 15),
        ("+", 16),
        ("deep/er/and/deeper/file", 17),
        ("block", 1 << 20),
        ("part", 8 << 20),
        ("parts", (20 << 20) + 77),
    ];
    for ((name, bytes), seed) in files.into_iter().zip(1..) {
        let path = at.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("makes");
        fs::write(&path, random(seed, bytes)).expect("writes");
        let time = UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789 + 1_000_000_007 * seed);
        fs::File::options().write(true).open(&path).expect("opens").set_modified(time).expect("sets");
    }
    fs::create_dir_all(at.join("nothing/in it")).expect("makes");
}

/// What is below a folder: time in units of `granule_ns`, and content, of files; nothing of folders.
pub(crate) fn seen(at: &Path, granule_ns: i64) -> BTreeMap<String, Option<(i64, Vec<u8>)>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![at.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("lists") {
            let path = entry.expect("an entry").path();
            let below = path.strip_prefix(at).expect("below").display().to_string();
            if path.is_dir() {
                folders.push(path);
                found.insert(below, None);
            } else {
                let about = path.metadata().expect("is there");
                let ns = about.mtime() * 1_000_000_000 + about.mtime_nsec();
                found.insert(below, Some((ns / granule_ns, fs::read(&path).expect("reads"))));
            }
        }
    }
    found
}

/// Asserts that two folders are the same, without showing all of both.
pub(crate) fn assert_same(a: &Path, b: &Path, granule_ns: i64) {
    let (a, b) = (seen(a, granule_ns), seen(b, granule_ns));
    let short = |all: &BTreeMap<String, Option<(i64, Vec<u8>)>>| -> Vec<String> {
        let of = |file: &Option<(i64, Vec<u8>)>| file.as_ref().map(|(ns, bytes)| (*ns, bytes.len()));
        all.iter().map(|(name, file)| format!("{name} {:?}", of(file))).collect()
    };
    assert_eq!(short(&a), short(&b));
    assert!(a == b, "contents differ");
}

/// Options for a service on this machine, with little patience.
pub(crate) fn options() -> Options {
    Options { retry_for: Duration::from_secs(10), stall: Duration::from_secs(20), ..Options::default() }
}

/// As `sync --delete`.
pub(crate) fn syncing() -> Options {
    Options { delete: Delete::AfterSuccess, ..options() }
}

/// A folder of this machine.
pub(crate) fn local(at: &Path) -> Arc<dyn Site> {
    Arc::new(LocalSite::open(at).expect("opens"))
}

/// Moves a folder of one site to a folder of another, until it is told to stop.
pub(crate) async fn moved_until(
    (source, from): (&Arc<dyn Site>, &str),
    (destination, to): (&Arc<dyn Site>, &str),
    options: Options,
    stop: watch::Receiver<bool>,
) -> Result<Report> {
    let path = |text: &str| DrivePath::parse(text).expect(text);
    let leg = Leg { source: Arc::clone(source), from: path(from), to: path(to) };
    let job = Job { legs: vec![leg], destination: Arc::clone(destination), options };
    let (events, mut told) = mpsc::channel(8);
    let listening = tokio::spawn(async move { while told.recv().await.is_some() {} });
    let report = run(job, events, Arc::default(), stop).await;
    listening.await.expect("listens");
    report
}

/// Moves a folder of one site to a folder of another.
pub(crate) async fn moved(
    from: (&Arc<dyn Site>, &str),
    to: (&Arc<dyn Site>, &str),
    options: Options,
) -> Result<Report> {
    let (_stop, stopping) = watch::channel(false);
    moved_until(from, to, options, stopping).await
}

/// As [`moved`], where nothing may fail.
pub(crate) async fn done(from: (&Arc<dyn Site>, &str), to: (&Arc<dyn Site>, &str), options: Options) -> Counts {
    let report = moved(from, to, options).await.expect("moves");
    assert!(report.counts.failed == 0, "{:?}", report.failures);
    report.counts
}

/// A tree goes there, is there a second time, comes back the same, follows what changed, and comes back again.
pub(crate) async fn goes_there_and_comes_back(site: &Arc<dyn Site>, at: &str, granule_ns: i64) {
    let (here, back) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    tree(here.path());
    let source = local(here.path());
    let counts = done((&source, "/"), (site, at), options()).await;
    assert_eq!(counts.files, 14);
    let counts = done((&source, "/"), (site, at), options()).await;
    assert_eq!((counts.files, counts.moved_bytes, counts.folders), (0, 0, 0), "nothing is left to do");
    let destination = local(back.path());
    done((site, at), (&destination, "/"), options()).await;
    assert_same(here.path(), back.path(), granule_ns);
    let counts = done((site, at), (&destination, "/"), options()).await;
    assert_eq!((counts.files, counts.moved_bytes), (0, 0), "nothing is left to do");

    fs::remove_file(here.path().join("a b")).expect("removes");
    fs::remove_dir_all(here.path().join("deep")).expect("removes");
    fs::write(here.path().join("one"), b"2").expect("writes");
    fs::write(here.path().join("deep"), b"a file where a folder was").expect("writes");
    done((&source, "/"), (site, at), syncing()).await;
    done((site, at), (&destination, "/"), syncing()).await;
    assert_same(here.path(), back.path(), granule_ns);
}
