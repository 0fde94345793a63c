//! Hard links on mounts: what programs make of them, other faces, two mounts that see each other's changes under different names, kills, and a server that knows nothing of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::filesystem::errno;
use holdfast_e2e::knob::knob;
use holdfast_e2e::mounted::{Ground, Mount, run};
use holdfast_e2e::networked::Net;
use holdfast_e2e::older::Older;
use holdfast_e2e::rig::{HOME, NAME, PASSWORD};
use holdfast_e2e::wait::until;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::services::need;

/// Longest that a test waits for what should come soon, on a machine that does other things as well.
const SOON: Duration = Duration::from_secs(20);
/// The operation that makes a link, and the first that a server before it does not know.
const LINK: u8 = 45;

fn number(path: &Path) -> Outcome<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.ino(), found.nlink()))
}

/// A tree of some folders with small files, and one large.
fn make_tree(at: &Path) -> Outcome {
    for folder in 0..6 {
        fs::create_dir_all(at.join(format!("d{folder}/below")))?;
        for file in 0..20 {
            fs::write(at.join(format!("d{folder}/f{file}")), format!("{folder} {file}\n").repeat(file * 9))?;
            fs::write(at.join(format!("d{folder}/below/g{file}")), "below")?;
        }
    }
    fs::write(at.join("large"), vec![7; 3 << 20])?;
    Ok(std::os::unix::fs::symlink("d0/f1", at.join("symbolic"))?)
}

/// Every file below a folder, by its path there.
fn files(at: &Path) -> Outcome<BTreeMap<String, (u64, u64)>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![at.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if fs::symlink_metadata(&path)?.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(at)?.display().to_string(), number(&path)?);
            }
        }
    }
    Ok(found)
}

/// What `cp -al`, `rsync --link-dest` and a local clone of git make.
fn programs(at: &Path) -> Outcome {
    let (source, linked) = (at.join("source"), at.join("linked"));
    fs::create_dir(&source)?;
    make_tree(&source)?;
    run(Command::new("cp").arg("-al").arg(&source).arg(&linked))?;
    let (before, after) = (files(&source)?, files(&linked)?);
    assert_eq!(before, after, "all of them are the same files");
    assert!(after.len() == 242 && after.values().all(|(_, names)| *names == 2));
    fs::write(linked.join("d3/f7"), "changed under the other name")?;
    assert_eq!(fs::read(source.join("d3/f7"))?, b"changed under the other name");
    // Each counts once.
    let sum = |paths: &[&Path]| -> Outcome<u64> {
        let said = run(Command::new("du").args(["-s", "--apparent-size", "-B1", "-c"]).args(paths))?;
        Ok(said.lines().last().and_then(|line| line.split_whitespace().next()).ok_or("no sum")?.parse()?)
    };
    let (one, both) = (sum(&[&source])?, sum(&[&source, &linked])?);
    assert!(both < one + (1 << 20), "{one} {both}");
    // A backup that links what did not change, and replaces what did.
    let (first, second) = (at.join("first"), at.join("second"));
    run(Command::new("rsync").arg("-a").arg(source.join("")).arg(&first))?;
    fs::write(source.join("d1/f1"), "new")?;
    let link_to = format!("--link-dest={}", first.display());
    run(Command::new("rsync").arg("-a").arg(&link_to).arg(source.join("")).arg(&second))?;
    let (old, new) = (files(&first)?, files(&second)?);
    let differ: Vec<_> =
        new.iter().filter(|(name, found)| old[*name] != **found).map(|(name, _)| name.as_str()).collect();
    assert_eq!(differ, ["d1/f1"], "but for what changed, they are the same files");
    assert_eq!(fs::read(second.join("d1/f1"))?, b"new");
    run(Command::new("rm").arg("-r").arg(&first))?;
    assert!(files(&second)?.values().all(|(_, names)| *names == 1));
    run(Command::new("diff").arg("-r").arg(&second).arg(&source))?;
    run(Command::new("rm").arg("-r").arg(&linked))?;
    assert_eq!(files(&source)?["d3/f7"].1, 1);
    git(at)
}

fn git(at: &Path) -> Outcome {
    let (source, clone) = (at.join("repository"), at.join("clone"));
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"];
        run(git.args(who).args(arguments).env("HOME", at))
    };
    let (from, to) = (source.display().to_string(), clone.display().to_string());
    git(&["init", "-q", &from])?;
    make_tree(&source.join("files"))?;
    git(&["-C", &from, "add", "."])?;
    git(&["-C", &from, "commit", "-q", "-m", "all"])?;
    git(&["clone", "-q", "--local", &from, &to])?;
    let objects = files(&clone.join(".git/objects"))?;
    assert!(objects.values().any(|(_, names)| *names == 2), "a local clone has the same objects: {objects:?}");
    assert_eq!(git(&["-C", &to, "fsck", "--full", "--strict"])?, "");
    run(Command::new("rm").arg("-rf").arg(&source))?;
    git(&["-C", &to, "gc", "-q"])?;
    assert_eq!(git(&["-C", &to, "fsck", "--full", "--strict"])?, "");
    assert_eq!(git(&["-C", &to, "status", "--porcelain"])?, "");
    Ok(())
}

#[test]
fn programs_that_link_work_on_it() -> Outcome {
    need(&["git", "rsync"])?;
    Ground::new()?.with(programs)
}

#[test]
fn programs_that_link_work_on_a_mount_that_asks_for_each_change() -> Outcome {
    need(&["git", "rsync"])?;
    Ground::new()?.with_mount(&["--write-behind=no"], programs)
}

#[test]
fn programs_that_link_work_on_mounts_from_a_server() -> Outcome {
    need(&["git", "rsync"])?;
    let net = Net::new()?;
    let mount = net.mount("mnt", &[])?;
    programs(mount.at())?;
    let first = net.mount_first("first", &[])?;
    fs::create_dir(first.at().join("again"))?;
    programs(&first.at().join("again"))?;
    net.end([mount, first])
}

#[test]
fn what_is_linked_is_so_when_it_is_mounted_again_and_a_file_has_so_many_names() -> Outcome {
    let ground = Ground::new()?;
    let mut numbers = BTreeMap::new();
    ground.with(|at| {
        fs::write(at.join("f"), "x")?;
        for name in 1..127 {
            fs::hard_link(at.join("f"), at.join(format!("f{name}")))?;
        }
        assert_eq!(errno(fs::hard_link(at.join("f"), at.join("too many"))), Some(libc::EMLINK));
        fs::remove_file(at.join("f"))?;
        fs::hard_link(at.join("f1"), at.join("f"))?;
        fs::write(at.join("f99"), "all of them")?;
        numbers = files(at)?;
        Ok(())
    })?;
    ground.with(|at| {
        assert_eq!(files(at)?, numbers);
        assert!(numbers.len() == 127 && numbers.values().all(|found| *found == numbers["f"]));
        assert_eq!(fs::read(at.join("f"))?, b"all of them");
        Ok(())
    })
}

#[test]
fn other_faces_see_files_and_change_them_under_all_names() -> Outcome {
    let ground = Ground::new()?;
    let mount = ground.mount(&[])?;
    let at = mount.at().to_owned();
    fs::create_dir(at.join("d"))?;
    fs::write(at.join("a"), "one")?;
    fs::hard_link(at.join("a"), at.join("d/b"))?;
    fs::hard_link(at.join("a"), at.join("c"))?;
    let before = number(&at.join("a"))?;
    mount.unmount()?;
    let mut server = ground.options().start()?;
    let mut client = server.client_of(NAME, PASSWORD);
    let get = |client: &mut holdfast_testkit::http::Client, path: &str| -> Outcome<Vec<u8>> {
        Ok(client.get(&format!("{HOME}/{path}"))?.expect_status(200)?.body.clone())
    };
    assert_eq!(get(&mut client, "d/b")?, b"one");
    client.put(&format!("{HOME}/d/b"), b"by WebDAV")?.expect_status(204)?;
    assert_eq!((get(&mut client, "a")?, get(&mut client, "c")?), (b"by WebDAV".to_vec(), b"by WebDAV".to_vec()));
    client.delete(&format!("{HOME}/d"))?.expect_status(204)?;
    client.put(&format!("{HOME}/a"), b"without it")?.expect_status(204)?;
    assert_eq!(get(&mut client, "c")?, b"without it");
    assert!(server.terminate()?.success());
    ground.with(|at| {
        assert_eq!((number(&at.join("a"))?, number(&at.join("c"))?), ((before.0, 2), (before.0, 2)));
        assert_eq!(fs::read(at.join("c"))?, b"without it");
        Ok(())
    })
}

/// Two mounts, each of which works under its own name of a file.
fn two_mounts(mounts: [Mount; 2]) -> Outcome {
    let [here, there] = mounts.each_ref().map(|mount| mount.at().to_owned());
    let is = |path: &Path, content: &str| fs::read_to_string(path).is_ok_and(|found| found == content);
    let mut took = Vec::new();
    for round in 0..knob("HOLDFAST_MOUNT_NET_ROUNDS", 8) {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        fs::write(here.join(&a), "one")?;
        took.push(until("it was made", SOON, || is(&there.join(&a), "one"))?);
        fs::hard_link(there.join(&a), there.join(&b))?;
        let has = |at: &Path, name: &str, names: u64| number(&at.join(name)).is_ok_and(|(_, found)| found == names);
        took.push(until("it has two names", SOON, || has(&here, &a, 2) && has(&here, &b, 2))?);
        assert_eq!(number(&here.join(&a))?.0, number(&here.join(&b))?.0);
        let open = File::open(here.join(&a))?;
        fs::write(there.join(&b), "under the other name")?;
        // At once by the other name of the mount that wrote, and soon there.
        assert!(is(&there.join(&a), "under the other name"));
        took.push(until("it was changed", SOON, || is(&here.join(&a), "under the other name"))?);
        let mut content = [0; 9];
        took.push(until("who has it open sees it", SOON, || open.metadata().is_ok_and(|found| found.len() == 20))?);
        open.read_exact_at(&mut content, 0)?;
        assert_eq!(&content, b"under the");
        fs::set_permissions(here.join(&a), std::os::unix::fs::PermissionsExt::from_mode(0o640))?;
        took.push(until("its mode changed", SOON, || {
            fs::metadata(there.join(&b)).is_ok_and(|found| found.mode() & 0o777 == 0o640)
        })?);
        fs::remove_file(here.join(&a))?;
        took.push(until("it lost a name", SOON, || !there.join(&a).exists() && has(&there, &b, 1))?);
        fs::write(here.join(&b), "to the end")?;
        took.push(until("it is changed by its last name", SOON, || is(&there.join(&b), "to the end"))?);
    }
    took.sort();
    let at = |part: usize| took[(took.len() - 1) * part / 100];
    println!("seen after {:?} at the median, {:?} at most, {} changes", at(50), at(100), took.len());
    assert!(at(50) < Duration::from_millis(250), "{took:?}");
    mounts.into_iter().try_for_each(Mount::stop)
}

#[test]
fn two_mounts_see_each_others_changes_under_different_names() -> Outcome {
    let mut net = Net::new()?;
    let mounts = [net.mount("one", &[])?, net.mount("two", &[])?];
    two_mounts(mounts)?;
    let mounts = [net.mount_first("three", &[])?, net.mount("four", &[])?];
    for entry in fs::read_dir(mounts[0].at())? {
        fs::remove_file(entry?.path())?;
    }
    two_mounts(mounts)?;
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

/// A removal that was answered first meets a link that another mount made meanwhile: the file has that name, and who has it open goes on under it.
#[test]
fn a_file_that_loses_its_name_here_while_it_gets_another_there_is_written_under_that() -> Outcome {
    let net = Net::new()?;
    let (first, second) = (net.mount_first("first", &[])?, net.mount("second", &[])?);
    let (here, there) = (first.at().to_owned(), second.at().to_owned());
    let (mut linked, rounds) = (0, knob("HOLDFAST_MOUNT_NET_ROUNDS", 12));
    for round in 0..rounds {
        let (f, g) = (format!("f{round}"), format!("g{round}"));
        fs::write(here.join(&f), "before")?;
        until("it was made", SOON, || fs::read(there.join(&f)).is_ok_and(|found| found == b"before"))?;
        let open = File::options().read(true).write(true).open(here.join(&f))?;
        fs::remove_file(here.join(&f))?;
        open.write_all_at(b"at once", 0)?;
        let Ok(()) = fs::hard_link(there.join(&f), there.join(&g)) else {
            // It was too late: nobody else has the file any more.
            open.sync_all()?;
            assert_eq!(open.metadata()?.nlink(), 0);
            continue;
        };
        linked += 1;
        until("it is known to have that name", SOON, || open.metadata().is_ok_and(|found| found.nlink() == 1))?;
        open.write_all_at(b"and later", 7)?;
        open.sync_all()?;
        until("that is there", SOON, || fs::read(there.join(&g)).is_ok_and(|found| found == b"at onceand later"))?;
        drop(open);
        assert_eq!(fs::read(here.join(&g))?, b"at onceand later");
        assert!(!there.join(&f).exists() && !here.join(&f).exists());
    }
    println!("{linked} of {rounds} were linked after they were removed elsewhere");
    net.end([first, second])
}

#[test]
fn a_server_that_knows_nothing_of_links_refuses_them_and_all_else_is_as_ever() -> Outcome {
    let net = Net::new()?;
    let older = Older::start(net.plain(), LINK)?;
    let at = net.rig.scratch().join("mnt");
    fs::create_dir(&at)?;
    let mut command = net.rig.server.options().command()?;
    command.arg("mount").arg(format!("http://{}", older.address())).arg(&at).args(["--token-file", "-"]);
    let mount = Mount::begin(command, &net.token, at)?;
    fs::write(mount.at().join("f"), "x")?;
    assert_eq!(errno(fs::hard_link(mount.at().join("f"), mount.at().join("g"))), Some(libc::EPERM));
    assert!(older.unknown() > 0);
    assert_eq!(number(&mount.at().join("f"))?.1, 1);
    net.end([mount])
}

/// What was closed is whole under each of its names, however the mount ends.
#[test]
fn names_are_of_one_file_after_the_mount_was_killed() -> Outcome {
    let ground = Ground::new()?;
    let mut random = Prng::new(knob("HOLDFAST_SEED", 1));
    let name = |file: u64, name: u64| format!("f{file}-{name}");
    let mut known: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for _ in 0..knob("HOLDFAST_MOUNT_KILLS", 3) {
        let mount = ground.mount(&[])?;
        for (file, content) in &known {
            let one = number(&mount.at().join(name(*file, 1)))?;
            for other in 0..3 {
                let path = mount.at().join(name(*file, other));
                if path.exists() {
                    assert_eq!(&fs::read(&path)?, content, "{}", path.display());
                    assert_eq!(number(&path)?, one);
                }
            }
        }
        for _ in 0..60 {
            let file = random.below(20);
            let mut content = vec![0; [3, 700, 5_000, 1_300_000][usize::try_from(random.below(4))?]];
            random.fill(&mut content);
            let [zero, one, two] = [0, 1, 2].map(|of| mount.at().join(name(file, of)));
            if !one.exists() {
                fs::write(&zero, "")?;
                fs::hard_link(&zero, &one)?;
            }
            match random.below(4) {
                0 if zero.exists() => fs::remove_file(&zero)?,
                1 if !two.exists() => fs::hard_link(&one, &two)?,
                2 if two.exists() => fs::rename(&two, &zero)?,
                _ => {}
            }
            let through = [&zero, &one, &two].into_iter().filter(|path| path.exists());
            let through: Vec<_> = through.collect();
            fs::write(random.pick(&through), &content)?;
            known.insert(file, content);
        }
        mount.kill_9()?;
    }
    ground.with(|_| Ok(()))
}
