//! The cache of a mount from a server: what it has is read without asking, whatever becomes of its files is noticed, and what is pinned is there while the server is away.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::filesystem::errno;
use holdfast_e2e::knob::knob;
use holdfast_e2e::mounted::Mount;
use holdfast_e2e::networked::Net;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::scan::Needles;
use serde_json::Value;

/// Longest that a test waits for what should come soon, on a machine that does other things as well.
const SOON: Duration = Duration::from_mins(1);

/// Waits until something is so.
fn until(what: &str, so: impl Fn() -> Outcome<bool>) -> Outcome {
    let began = Instant::now();
    while !so()? {
        if began.elapsed() > SOON {
            return Err(format!("within {SOON:?} it is not so that {what}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Bytes that do not shrink.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Prng::new(seed).fill(&mut content);
    content
}

/// Runs `holdfast mount`.
fn run(net: &Net, arguments: &[&str]) -> Outcome<String> {
    let output = net.rig.server.options().command()?.arg("mount").args(arguments).output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

fn status(net: &Net, mount: &Mount) -> Outcome<Value> {
    let said = run(net, &["status", &mount.at().display().to_string(), "--json"])?;
    let said: Value = serde_json::from_str(&said)?;
    Ok(said[0].clone())
}

fn cache(net: &Net, mount: &Mount) -> Outcome<Value> {
    Ok(status(net, mount)?["disk_cache"].clone())
}

fn figure(net: &Net, mount: &Mount, name: &str) -> Outcome<u64> {
    Ok(cache(net, mount)?[name].as_u64().ok_or_else(|| format!("there is no {name}"))?)
}

/// Waits until nothing more is written to the cache.
fn settled(net: &Net, mount: &Mount) -> Outcome {
    let things = || figure(net, mount, "things");
    let mut before = things()?;
    let mut same = 0;
    while same < 5 {
        std::thread::sleep(Duration::from_millis(50));
        let now = things()?;
        same = if now == before { same + 1 } else { 0 };
        before = now;
    }
    Ok(())
}

/// Calls of a kind that the server had since it started.
fn calls(net: &Net, kinds: &[&str]) -> Outcome<u64> {
    kinds.iter().map(|kind| net.metric(&format!("holdfast_wire_calls_total{{operation=\"{kind}\""))).sum()
}

/// Calls by which content comes.
const CONTENT: [&str; 5] = ["Read", "Record", "Open", "Layouts", "Manifest"];

struct Tree {
    files: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    /// Files of all sorts: empty, in the catalogue's row, of a block, of several.
    fn make(at: &Path, seed: u64) -> Outcome<Self> {
        let sizes = [0, 10, 4_000, 70_000, 1 << 20, 3_500_000];
        let mut files = BTreeMap::new();
        for folder in ["", "a/", "a/b/"] {
            fs::create_dir_all(at.join(folder))?;
            for (number, size) in sizes.into_iter().enumerate() {
                let (name, content) =
                    (format!("{folder}f{number}"), noise(seed + number as u64 + folder.len() as u64 * 100, size));
                fs::write(at.join(&name), &content)?;
                files.insert(name, content);
            }
        }
        Ok(Self { files })
    }

    fn is_at(&self, at: &Path) -> Outcome {
        for (name, content) in &self.files {
            let found = fs::read(at.join(name)).map_err(|error| format!("{name}: {error}"))?;
            if found != *content {
                return Err(format!("{name} is not what was written").into());
            }
        }
        Ok(())
    }
}

/// A folder for caches of a mount, as arguments.
fn arguments<'a>(folder: &'a str, size: &'a str) -> [&'a str; 6] {
    ["--cache", folder, "--cache-size", size, "--deadline", "4"]
}

fn folder(net: &Net) -> String {
    net.rig.scratch().join("cache").display().to_string()
}

/// Every file of the caches below a folder that holds something.
fn things(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let (mut found, mut waiting) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(at) = waiting.pop() {
        let entries = match fs::read_dir(&at) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let Ok(kind) = fs::symlink_metadata(&path) else { continue };
            if kind.is_dir() {
                waiting.push(path);
            } else if path.components().any(|part| matches!(part.as_os_str().to_str(), Some("kept" | "pinned"))) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn taken(folder: &Path) -> Outcome<u64> {
    let sizes = things(folder)?.into_iter().filter_map(|path| fs::metadata(path).ok());
    Ok(sizes.map(|found| found.blocks() * 512).sum())
}

#[test]
fn what_was_read_is_read_again_without_asking_and_a_changed_file_is_never_the_old_one() -> Outcome {
    let net = Net::new()?;
    let folder = folder(&net);
    let mount = net.mount("mnt", &arguments(&folder, "1G"))?;
    let tree = Tree::make(mount.at(), 1)?;
    tree.is_at(mount.at())?;
    settled(&net, &mount)?;
    mount.stop()?;
    let mut needles = Needles::new();
    for (path, plain) in tree.files.iter().filter(|(_, plain)| plain.len() >= 4_000) {
        needles.add(&format!("{path:?}"), &plain[1_000..1_032]);
    }
    assert_eq!(needles.scan(Path::new(&folder))?, Vec::new(), "content is in clear");
    // Another process, whose memory and kernel know nothing.
    let mount = net.mount("mnt", &arguments(&folder, "1G"))?;
    let before = calls(&net, &CONTENT)?;
    tree.is_at(mount.at())?;
    assert_eq!(calls(&net, &CONTENT)?, before, "content was asked for");
    assert!(figure(&net, &mount, "hits")? >= 15, "{}", cache(&net, &mount)?);
    assert_eq!(figure(&net, &mount, "misses")?, 0);
    // A byte in the middle of the largest is another: one block of four is fetched, and the rest is shared.
    let other = net.mount("other", &[])?;
    let mut changed = tree.files["f5"].clone();
    changed[1_500_000] ^= 1;
    let file = fs::File::options().write(true).open(other.at().join("f5"))?;
    std::os::unix::fs::FileExt::write_all_at(&file, &changed[1_500_000..1_500_001], 1_500_000)?;
    file.sync_all()?;
    drop(file);
    let records = calls(&net, &["Record"])?;
    until("the change is seen", || Ok(fs::read(mount.at().join("f5"))? == changed))?;
    assert_eq!(calls(&net, &["Record"])?, records + 1);
    // Evicted, it is fetched.
    run(&net, &["evict", &mount.at().display().to_string(), "f4"])?;
    assert_eq!(fs::read(mount.at().join("f4"))?, tree.files["f4"]);
    assert_eq!(calls(&net, &["Record"])?, records + 2);
    other.stop()?;
    mount.stop()?;
    net.end([])
}

#[test]
fn a_cache_keeps_its_bound_while_more_is_read_than_it_takes() -> Outcome {
    let net = Net::new()?;
    let folder = folder(&net);
    let mut mount = net.mount("mnt", &arguments(&folder, "64M"))?;
    let files: Vec<Vec<u8>> = (0..6).map(|number| noise(number, 24 << 20)).collect();
    for (number, content) in files.iter().enumerate() {
        fs::write(mount.at().join(number.to_string()), content)?;
    }
    for round in 0..2 {
        for (number, content) in files.iter().enumerate() {
            assert!(fs::read(mount.at().join(number.to_string()))? == *content, "{round} {number}");
            assert!(taken(Path::new(&folder))? <= 64 << 20, "{round} {number}");
        }
        settled(&net, &mount)?;
        // Neither memory nor the kernel is to answer the next round.
        if round == 0 {
            mount.stop()?;
            mount = net.mount("mnt", &arguments(&folder, "64M"))?;
        }
    }
    let told = cache(&net, &mount)?;
    println!("{told}");
    assert!(told["bytes"].as_u64() <= Some(64 << 20) && told["evicted"].as_u64() > Some(0), "{told}");
    assert_eq!((&told["bytes_max"], &told["damaged"]), (&(64 << 20).into(), &0.into()), "{told}");
    mount.stop()?;
    net.end([])
}

/// What is done to a file.
fn harm(path: &Path, how: usize, random: &mut Prng) -> Outcome {
    let mut bytes = fs::read(path)?;
    match how {
        0 => {
            let at = usize::try_from(random.below(bytes.len() as u64 - 8))?;
            bytes[at] ^= 1 << random.below(8);
        }
        1 => bytes.truncate(usize::try_from(random.below(bytes.len() as u64))?),
        2 => bytes.clear(),
        3 => bytes.fill(0),
        _ => bytes.extend_from_slice(b"behind its end"),
    }
    Ok(fs::write(path, bytes)?)
}

#[test]
fn files_of_a_cache_that_are_flipped_torn_emptied_swapped_or_gone_are_noticed_and_fetched_again() -> Outcome {
    let net = Net::new()?;
    let folder = folder(&net);
    let arguments = arguments(&folder, "1G");
    let mut mount = net.mount("mnt", &arguments)?;
    let tree = Tree::make(mount.at(), 5)?;
    tree.is_at(mount.at())?;
    settled(&net, &mount)?;
    let mut random = Prng::new(knob("HOLDFAST_MOUNT_SEED", 3));
    for how in 0..7 {
        // It says that something was damaged.
        let _ = mount.stop();
        let all = things(Path::new(&folder))?;
        assert!(all.len() > 20, "{all:?}");
        match how {
            5 => {
                // Each has the bytes of the next.
                let first = fs::read(&all[0])?;
                for pair in all.windows(2) {
                    fs::copy(&pair[1], &pair[0])?;
                }
                fs::write(&all[all.len() - 1], first)?;
            }
            6 => all.iter().step_by(2).try_for_each(fs::remove_file)?,
            how => all.iter().try_for_each(|path| harm(path, how, &mut random))?,
        }
        mount = net.mount("mnt", &arguments)?;
        tree.is_at(mount.at()).map_err(|error| format!("harm {how}: {error}"))?;
        let damaged = figure(&net, &mount, "damaged")?;
        assert!(how == 6 || damaged > 10, "harm {how}: {damaged} were noticed");
        settled(&net, &mount)?;
    }
    let _ = mount.stop();
    // Healed: nothing is asked for any more.
    let mount = net.mount("mnt", &arguments)?;
    let before = calls(&net, &CONTENT)?;
    tree.is_at(mount.at())?;
    assert_eq!((calls(&net, &CONTENT)?, figure(&net, &mount, "damaged")?), (before, 0));
    mount.stop()?;
    net.end([])
}

#[test]
fn a_mount_that_is_killed_while_it_fills_its_cache_leaves_one_that_is_good() -> Outcome {
    let net = Net::new()?;
    let folder = folder(&net);
    let writer = net.mount("writer", &[])?;
    let tree = Tree::make(writer.at(), 9)?;
    let mut random = Prng::new(knob("HOLDFAST_MOUNT_SEED", 4));
    for round in 0..knob("HOLDFAST_MOUNT_CACHE_KILLS", 8) {
        let mount = net.mount("mnt", &arguments(&folder, "64M"))?;
        let reading = Command::new("tar")
            .args(["-C"])
            .arg(mount.at())
            .args(["-cf", "/dev/null", "."])
            .stderr(Stdio::null())
            .spawn();
        std::thread::sleep(Duration::from_millis(random.below(400)));
        if round % 2 == 1 {
            let _ = run(&net, &["pin", &mount.at().join("a").display().to_string()]);
            std::thread::sleep(Duration::from_millis(random.below(300)));
        }
        mount.kill_9()?;
        reading?.wait()?;
    }
    let mount = net.mount("mnt", &arguments(&folder, "64M"))?;
    tree.is_at(mount.at())?;
    let told = cache(&net, &mount)?;
    assert_eq!(told["damaged"], 0, "what is put in place is whole: {told}");
    assert_eq!(told["pins"].as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(told["pins"][0]["path"], "/a");
    mount.stop()?;
    writer.stop()?;
    net.end([])
}

#[test]
fn a_full_disk_ends_keeping_and_no_reading() -> Outcome {
    let net = Net::new()?;
    let small = net.rig.scratch().join("small");
    fs::create_dir(&small)?;
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "none"]).arg(&small).status()?;
    if !mounted.success() {
        println!("left out: a small disk needs root");
        return Ok(());
    }
    let work = || -> Outcome {
        let folder = small.display().to_string();
        let mount = net.mount("mnt", &arguments(&folder, "1G"))?;
        let tree = Tree::make(mount.at(), 11)?;
        tree.is_at(mount.at())?;
        settled(&net, &mount)?;
        let told = cache(&net, &mount)?;
        assert!(told["trouble"].is_string() && told["skipped"].as_u64() > Some(0), "{told}");
        let words = run(&net, &["status", &mount.at().display().to_string()])?;
        assert!(words.contains("keeps nothing at present"), "{words}");
        let said = mount.stop().err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(said.matches("cannot keep what is read").count(), 1, "it is said once: {said}");
        Ok(())
    };
    let outcome = work();
    Command::new("umount").arg("-l").arg(&small).status()?;
    outcome?;
    net.end([])
}

#[test]
fn while_the_server_is_away_what_is_here_is_read_also_by_a_mount_that_begins_then() -> Outcome {
    let mut net = Net::new()?;
    let folder = folder(&net);
    let other = net.mount("other", &[])?;
    fs::create_dir(other.at().join("unseen"))?;
    fs::write(other.at().join("unseen/f"), noise(77, 100_000))?;
    let mount = net.mount("mnt", &arguments(&folder, "1G"))?;
    let tree = Tree::make(mount.at(), 21)?;
    let list = |at: &Path| -> std::io::Result<Vec<String>> {
        let mut names: Vec<String> = fs::read_dir(at)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<std::io::Result<_>>()?;
        names.sort();
        Ok(names)
    };
    let look =
        |at: &Path| -> Outcome<Vec<Vec<String>>> { Ok(vec![list(at)?, list(&at.join("a"))?, list(&at.join("a/b"))?]) };
    let names = look(mount.at())?;
    tree.is_at(mount.at())?;
    let modes = |at: &Path| -> Outcome<Vec<(u32, u64, i64)>> {
        tree.files
            .keys()
            .map(|name| Ok(fs::metadata(at.join(name))?))
            .map(|found: Outcome<fs::Metadata>| found.map(|it| (it.mode(), it.size(), it.mtime_nsec())))
            .collect()
    };
    let seen = modes(mount.at())?;
    settled(&net, &mount)?;
    other.stop()?;
    net.rig.server.kill_9()?;
    // The mount that was there, and one that begins now.
    assert_eq!(look(mount.at())?, names);
    tree.is_at(mount.at())?;
    assert_eq!(modes(mount.at())?, seen);
    let _ = mount.stop();
    let mount = net.mount("mnt", &arguments(&folder, "1G"))?;
    let began = Instant::now();
    assert_eq!(look(mount.at())?, names);
    tree.is_at(mount.at())?;
    assert_eq!(modes(mount.at())?, seen);
    assert_eq!(errno(fs::metadata(mount.at().join("a/nothing"))), Some(libc::ENOENT), "the folder is known whole");
    println!("a tree of {} files is read from the cache within {:?}", tree.files.len(), began.elapsed());
    let began = Instant::now();
    assert_eq!(errno(list(&mount.at().join("unseen"))), Some(libc::ETIMEDOUT));
    assert_eq!(errno(fs::write(mount.at().join("new"), "x")), Some(libc::ETIMEDOUT));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(status(&net, &mount)?["away_ms"].is_u64());
    net.rig.start_again()?;
    until("it heals", || Ok(fs::write(mount.at().join("after"), "x").is_ok()))?;
    assert_eq!(fs::read(mount.at().join("unseen/f"))?, noise(77, 100_000));
    tree.is_at(mount.at())?;
    let _ = mount.stop();
    // What a mount begins with when the server is away is damaged: it says that nobody is there. With the server, it begins.
    net.rig.server.kill_9()?;
    let caches = fs::read_dir(Path::new(&folder).join("read"))?.map(|entry| Ok(entry?.path()));
    let identity = caches.collect::<std::io::Result<Vec<PathBuf>>>()?[0].join("identity");
    let whole = fs::read(&identity)?;
    // The sum at its end is for those without a key.
    for at in (0..whole.len() - 8).step_by(whole.len() / 6) {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        fs::write(&identity, flipped)?;
        let said = net.mount("mnt", &arguments(&folder, "1G")).expect_err("it is damaged").to_string();
        assert!(said.contains("cannot be reached"), "{said}");
    }
    net.rig.start_again()?;
    let mount = net.mount("mnt", &arguments(&folder, "1G"))?;
    tree.is_at(mount.at())?;
    mount.stop()?;
    assert_eq!(fs::read(&identity)?.len(), whole.len(), "it was written anew");
    // Another token of nobody's opens nothing of it.
    net.rig.server.kill_9()?;
    let token = std::mem::replace(&mut net.token, "hf_nobody".into());
    let said = net.mount("mnt", &arguments(&folder, "1G")).expect_err("it is not opened").to_string();
    assert!(said.contains("cannot be reached") && !said.contains("panic"), "{said}");
    net.token = token;
    net.rig.start_again()?;
    net.end([])
}

/// How far the first pin is.
fn pin(net: &Net, mount: &Mount, at: usize) -> Outcome<Value> {
    Ok(cache(net, mount)?["pins"][at].clone())
}

#[test]
fn what_is_pinned_is_fetched_stays_and_is_read_while_the_server_is_away() -> Outcome {
    let mut net = Net::new()?;
    let folder = folder(&net);
    let other = net.mount("other", &[])?;
    let tree = Tree::make(other.at(), 31)?;
    let mount = net.mount("mnt", &arguments(&folder, "64M"))?;
    let at = |name: &str| mount.at().join(name).display().to_string();
    let said = run(&net, &["pin", &at("a")])?;
    assert!(said.contains("is pinned"), "{said}");
    until("it is here", || Ok(pin(&net, &mount, 0)?["state"] == "here"))?;
    let told = pin(&net, &mount, 0)?;
    assert_eq!((&told["path"], &told["files"], &told["files_here"]), (&"/a".into(), &12.into(), &12.into()), "{told}");
    assert_eq!(told["bytes"], told["bytes_here"]);
    // What others make in it comes, too, and what is removed goes.
    let new = noise(99, 2_000_000);
    fs::write(other.at().join("a/b/new"), &new)?;
    fs::remove_file(other.at().join("a/f4"))?;
    until("the new file is here", || {
        Ok(pin(&net, &mount, 0)?["bytes_here"].as_u64() == Some(2 * 4_622_586 - (1 << 20) + 2_000_000))
    })?;
    // Whatever is read beside it, and whatever is let go of, it stays.
    for number in 0..3 {
        fs::write(other.at().join(format!("large{number}")), noise(number, 40 << 20))?;
        assert!(fs::read(mount.at().join(format!("large{number}")))? == noise(number, 40 << 20));
    }
    run(&net, &["evict", &mount.at().display().to_string()])?;
    assert_eq!(pin(&net, &mount, 0)?["state"], "here");
    // What does not fit is told.
    run(&net, &["pin", &mount.at().display().to_string()])?;
    until("it is told", || Ok(pin(&net, &mount, 1)?["state"] == "no-room"))?;
    let words = run(&net, &["status", &mount.at().display().to_string()])?;
    assert!(words.contains("does not fit"), "{words}");
    run(&net, &["unpin", &mount.at().display().to_string()])?;
    let refused = run(&net, &["unpin", &at("f1")]).expect_err("it is not pinned").to_string();
    assert!(refused.contains("not pinned"), "{refused}");
    assert!(run(&net, &["pin", &at("nothing")]).is_err());
    assert!(run(&net, &["pin", "/nowhere/a"]).is_err());
    until("only one is pinned", || Ok(cache(&net, &mount)?["pins"].as_array().map(Vec::len) == Some(1)))?;
    until("the rest is let go", || Ok(figure(&net, &mount, "pinned_bytes")? < 12 << 20))?;

    other.stop()?;
    let records = calls(&net, &["Record"])?;
    assert!(fs::read(mount.at().join("a/b/new"))? == new);
    assert_eq!(calls(&net, &["Record"])?, records, "it was here");
    net.rig.server.kill_9()?;
    let _ = mount.stop();
    let mount = net.mount("mnt", &arguments(&folder, "64M"))?;
    let mut names: Vec<String> = Vec::new();
    for folder in ["a", "a/b"] {
        for entry in fs::read_dir(mount.at().join(folder))? {
            let entry = entry?;
            if entry.metadata()?.is_file() {
                names.push(format!("{folder}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    names.sort();
    let mut expected: Vec<String> =
        tree.files.keys().filter(|name| name.starts_with("a/") && *name != "a/f4").cloned().collect();
    expected.push("a/b/new".into());
    expected.sort();
    assert_eq!(names, expected);
    for name in names {
        let content = if name == "a/b/new" { &new } else { &tree.files[&name] };
        assert!(fs::read(mount.at().join(&name))? == *content, "{name}");
    }
    let told = pin(&net, &mount, 0)?;
    assert_eq!((&told["path"], &told["why"]), (&"/a".into(), &"the server is away".into()), "{told}");
    let _ = mount.stop();
    net.rig.start_again()?;
    net.end([])
}

#[test]
fn a_cache_in_use_is_refused_in_words_and_those_of_two_drives_live_side_by_side() -> Outcome {
    let (net, theirs) = (Net::new()?, Net::new()?);
    let folder = folder(&net);
    let first = net.mount("mnt", &arguments(&folder, "64M"))?;
    let refused = net.mount("second", &arguments(&folder, "64M")).expect_err("it is in use").to_string();
    assert!(refused.contains("another mount uses the cache") && refused.contains("--cache"), "{refused}");
    let without = net.mount("second", &["--cache", &folder, "--cache-size", "0"])?;
    assert!(cache(&net, &without)?.is_null());
    without.stop()?;
    let refused =
        net.mount("second", &["--cache", &folder, "--cache-size", "1M"]).expect_err("it is too small").to_string();
    assert!(refused.contains("64.0 MiB at least") || refused.contains("64 MiB"), "{refused}");
    let second = theirs.mount("mnt", &arguments(&folder, "64M"))?;
    let (tree, other) = (Tree::make(first.at(), 41)?, Tree::make(second.at(), 51)?);
    tree.is_at(first.at())?;
    other.is_at(second.at())?;
    settled(&net, &first)?;
    first.stop()?;
    second.stop()?;
    // One drive's cache where the other's is looked for.
    let caches: Vec<PathBuf> = fs::read_dir(Path::new(&folder).join("read"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    assert_eq!(caches.len(), 2, "{caches:?}");
    let aside = Path::new(&folder).join("aside");
    fs::rename(&caches[0], &aside)?;
    fs::rename(&caches[1], &caches[0])?;
    fs::rename(&aside, &caches[1])?;
    let (first, second) =
        (net.mount("mnt", &arguments(&folder, "64M"))?, theirs.mount("mnt", &arguments(&folder, "64M"))?);
    tree.is_at(first.at())?;
    other.is_at(second.at())?;
    let _ = (first.stop(), second.stop());
    net.end([])?;
    theirs.end([])
}

#[test]
fn a_drive_that_is_put_back_and_gives_numbers_away_again_is_not_read_from_before() -> Outcome {
    let mut net = Net::new()?;
    let folder = folder(&net);
    let mount = net.mount("mnt", &arguments(&folder, "1G"))?;
    fs::write(mount.at().join("old"), noise(1, 50_000))?;
    mount.stop()?;
    net.rig.stop()?;
    let (data, copy) = (net.rig.data(), net.rig.scratch().join("copy"));
    let copy_of = |from: &Path, to: &Path| -> Outcome {
        if Command::new("cp").arg("-a").arg(from).arg(to).status()?.success() { Ok(()) } else { Err("no copy".into()) }
    };
    copy_of(&data, &copy)?;
    net.rig.start_again()?;
    let mount = net.mount("mnt", &arguments(&folder, "1G"))?;
    for number in 0..5 {
        fs::write(mount.at().join(format!("n{number}")), noise(10 + number, 50_000))?;
        assert!(fs::read(mount.at().join(format!("n{number}")))? == noise(10 + number, 50_000));
    }
    settled(&net, &mount)?;
    mount.stop()?;
    net.rig.stop()?;
    fs::remove_dir_all(&data)?;
    copy_of(&copy, &data)?;
    net.rig.start_again()?;
    let writer = net.mount("writer", &[])?;
    for number in 0..5 {
        fs::write(writer.at().join(format!("n{number}")), noise(90 + number, 50_000))?;
    }
    let mount = net.mount("mnt", &arguments(&folder, "1G"))?;
    for number in 0..5 {
        assert!(
            fs::read(mount.at().join(format!("n{number}")))? == noise(90 + number, 50_000),
            "n{number} is what was there before"
        );
    }
    assert!(fs::read(mount.at().join("old"))? == noise(1, 50_000));
    mount.stop()?;
    writer.stop()?;
    net.end([])
}
