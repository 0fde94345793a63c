//! What the kernel believes of a mount from a server: for long while nobody else changes the space, and never longer than it takes to hear of a change.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::mounted::Mount;
use holdfast_e2e::networked::Net;
use holdfast_e2e::rig::HOME;
use holdfast_e2e::wait::until;
use serde_json::Value;

/// Longest that a test waits for what should come soon, on a machine that does other things as well.
const SOON: Duration = Duration::from_secs(20);
/// So long after the last change by somebody else the kernel believes for long again.
const QUIET: Duration = Duration::from_millis(2_300);
/// Longer than the kernel believes what cannot be taken back, by far.
const A_WHILE: Duration = Duration::from_millis(700);

/// How often the kernel asked for names, listings and attributes.
fn asked(net: &Net, at: &Path) -> Outcome<Vec<(String, u64)>> {
    let output = net.rig.server.options().command()?.args(["mount", "status", "--json"]).arg(at).output()?;
    let status: Value = serde_json::from_slice(&output.stdout)?;
    let operations = status[0]["operations"].as_array().ok_or("no operations")?.iter();
    let about = |one: &&Value| ["lookup", "getattr", "readdir"].iter().any(|kind| one["operation"] == *kind);
    let count = |one: &Value| Some((one["operation"].as_str()?.to_owned(), one["count"].as_u64()?));
    Ok(operations.filter(about).filter_map(count).collect())
}

/// Looks at everything below a folder.
fn look(at: &Path) -> Outcome<usize> {
    let mut seen = 0;
    for entry in fs::read_dir(at)? {
        let entry = entry?;
        seen += 1;
        if fs::symlink_metadata(entry.path())?.is_dir() {
            seen += look(&entry.path())?;
        }
    }
    Ok(seen)
}

/// What the kernel asked about these names before a while, and after it.
fn asked_for_long(net: &Net, mount: &Mount, names: &[&str]) -> Outcome<[Vec<(String, u64)>; 2]> {
    let stat = |name: &&str| fs::symlink_metadata(mount.at().join(name)).is_ok();
    assert!(names.iter().all(stat));
    std::thread::sleep(A_WHILE);
    let before = asked(net, mount.at())?;
    assert!(names.iter().all(stat));
    Ok([before, asked(net, mount.at())?])
}

/// What is changed, how, and how it is seen.
type Change<'c> = (&'c str, &'c dyn Fn() -> Outcome, &'c dyn Fn() -> bool);

/// Whether the kernel says that it can be told to ask again about names, and no more.
fn kernel_can() -> Outcome<bool> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    Ok(numbers.next().zip(numbers.next()) >= Some((6, 3)))
}

#[test]
fn what_is_believed_for_long_is_taken_back_when_another_changes_it() -> Outcome {
    let net = Net::new()?;
    let (one, two) = (net.mount("one", &[])?, net.mount("two", &[])?);
    let (here, there) = (one.at().to_owned(), two.at().to_owned());
    fs::create_dir_all(here.join("d/e"))?;
    for name in ["over", "mode", "time", "gone", "old", "put", "d/in", "d/e/deep", "swap1", "swap2", "dav", "linked"] {
        fs::write(here.join(name), name)?;
    }
    fs::create_dir(here.join("full"))?;
    symlink("over", here.join("link"))?;
    until("all of it is there", SOON, || look(&there).is_ok_and(|seen| seen == 16))?;
    // Whoever stands in a folder still does after all that follows.
    let mut standing = Command::new("sh");
    let script = "while read line; do test \"$(/bin/pwd)\" = \"$PWD\" && echo yes || echo no; done";
    let standing = standing.args(["-c", script]).current_dir(there.join("d/e")).env("PWD", there.join("d/e"));
    let mut standing = standing.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let open = File::open(there.join("over"))?;

    // Of what is open nothing is believed for long.
    let names = ["mode", "time", "gone", "old", "put", "d", "d/in", "d/e/deep", "swap1", "dav", "link", "full"];
    let mut took = Vec::new();
    let is = |path: &str, content: &str| fs::read_to_string(there.join(path)).is_ok_and(|found| found == content);
    let meta = |path: &str| fs::symlink_metadata(there.join(path));
    let changes: [Change<'_>; 12] = [
        ("it was overwritten", &|| Ok(fs::write(here.join("over"), "over and over")?), &|| {
            meta("over").is_ok_and(|found| found.len() == 13) && open.metadata().is_ok_and(|found| found.len() == 13)
        }),
        (
            "its mode was changed",
            &|| Ok(fs::set_permissions(here.join("mode"), Permissions::from_mode(0o600))?),
            &|| meta("mode").is_ok_and(|found| found.mode() & 0o777 == 0o600),
        ),
        ("its time was changed", &|| Ok(File::open(here.join("time"))?.set_modified(std::time::UNIX_EPOCH)?), &|| {
            meta("time").is_ok_and(|found| found.mtime() == 0)
        }),
        ("it was removed", &|| Ok(fs::remove_file(here.join("gone"))?), &|| meta("gone").is_err()),
        ("it was renamed", &|| Ok(fs::rename(here.join("old"), here.join("new"))?), &|| {
            meta("old").is_err() && is("new", "old")
        }),
        (
            "another was put in its place",
            &|| {
                fs::write(here.join("beside"), "another")?;
                Ok(fs::rename(here.join("beside"), here.join("put"))?)
            },
            &|| is("put", "another"),
        ),
        (
            "a file became a folder",
            &|| {
                fs::remove_file(here.join("d/in"))?;
                Ok(fs::create_dir(here.join("d/in"))?)
            },
            &|| meta("d/in").is_ok_and(|found| found.is_dir()),
        ),
        (
            "two were swapped",
            &|| {
                let folder = File::open(&here)?;
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                Ok(rustix::fs::renameat_with(&folder, "swap1", &folder, "swap2", flags)?)
            },
            &|| is("swap1", "swap2") && is("swap2", "swap1"),
        ),
        ("it has another name", &|| Ok(fs::hard_link(here.join("linked"), here.join("d/linked"))?), &|| {
            meta("linked").is_ok_and(|found| found.nlink() == 2)
        }),
        (
            "WebDAV wrote it",
            &|| {
                net.client().put(&format!("{HOME}/dav"), b"by WebDAV")?.expect_status(204).map(drop).map_err(Into::into)
            },
            &|| is("dav", "by WebDAV"),
        ),
        ("a folder has a member", &|| Ok(fs::write(here.join("full/one"), "")?), &|| {
            look(&there.join("full")).is_ok_and(|seen| seen == 1)
        }),
        ("a folder was moved with what is in it", &|| Ok(fs::rename(here.join("full"), here.join("d/full"))?), &|| {
            meta("full").is_err() && meta("d/full/one").is_ok()
        }),
    ];
    let mut there_yet: Vec<&str> = names.to_vec();
    for (what, change, seen) in changes {
        there_yet.retain(|name| meta(name).is_ok());
        // On a machine that does other things as well it is quiet later.
        let believes = (0..5).any(|_| {
            std::thread::sleep(QUIET);
            asked_for_long(&net, &two, &there_yet).is_ok_and(|[before, after]| before == after)
        });
        assert_eq!(believes, kernel_can()?, "before {what}");
        change()?;
        took.push(until(what, SOON, seen)?);
    }
    took.sort();
    println!("seen after {:?} at the median, {:?} at most", took[took.len() / 2], took[took.len() - 1]);
    assert!(took[took.len() / 2] < Duration::from_millis(250), "{took:?}");
    drop(standing.stdin.take().map(|mut input| std::io::Write::write_all(&mut input, b"\n")));
    let said = standing.wait_with_output()?;
    assert_eq!(String::from_utf8(said.stdout)?.trim(), "yes", "whoever stands in a folder still does");
    drop(open);
    net.end([one, two])
}

/// A mount knows what it knows for longer than a stream of changes lasts, and nothing of it when changes may have been missed.
#[test]
fn what_is_known_outlives_a_stream_of_changes_and_not_a_server() -> Outcome {
    let mut net = Net::new()?;
    let (one, two) = (net.mount("one", &[])?, net.mount("two", &[])?);
    let names: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
    for name in &names {
        fs::write(one.at().join(name), name)?;
    }
    let stat = |mount: &Mount| names.iter().all(|name| fs::metadata(mount.at().join(name)).is_ok());
    until("all of it is there", SOON, || stat(&two))?;
    std::thread::sleep(QUIET);
    assert!(look(two.at())? == names.len() && stat(&two));
    // Two streams later nobody has to ask: not the kernel, where it can be told to, and not the mount.
    let outlives = || -> Outcome<bool> {
        let (before, calls) = (asked(&net, two.at())?, net.calls()?);
        std::thread::sleep(Duration::from_secs(22));
        assert!(stat(&two));
        let is_asked = asked(&net, two.at())? != before && kernel_can()?;
        Ok(!is_asked && net.calls()? - calls < 10)
    };
    // A stream that is silent for three seconds, on a machine that does other things as well, ends what is known.
    assert!(outlives()? || outlives()? || outlives()?, "what was known was asked for");

    // What others change while nobody is told.
    one.stop()?;
    net.rig.server.kill_9()?;
    net.rig.start_again()?;
    let mut client = net.client();
    client.put(&format!("{HOME}/f7"), b"changed while it was away")?.expect_status(204)?;
    let seen = || fs::read(two.at().join("f7")).is_ok_and(|found| found == b"changed while it was away");
    until("it is seen", SOON, seen)?;
    net.end([two])
}

/// Who is answered about one folder is not disturbed by what others do in another.
#[test]
fn what_others_change_elsewhere_has_nobody_ask_again() -> Outcome {
    let net = Net::new()?;
    let mount = net.mount("mnt", &[])?;
    let mut client = net.client();
    for folder in ["here", "elsewhere"] {
        client.mkcol(&format!("{HOME}/{folder}"))?.expect_status(201)?;
    }
    for number in 0..100 {
        client.put(&format!("{HOME}/here/f{number}"), b"x")?.expect_status(201)?;
    }
    let stat = || (0..100).all(|number| fs::metadata(mount.at().join(format!("here/f{number}"))).is_ok());
    std::thread::sleep(QUIET);
    assert!(stat());
    std::thread::sleep(A_WHILE);
    let before = (asked(&net, mount.at())?, net.calls()?);
    for number in 0..20 {
        client.put(&format!("{HOME}/elsewhere/f{number}"), b"x")?.expect_status(201)?;
        assert!(stat());
    }
    let now = (asked(&net, mount.at())?, net.calls()?);
    assert!(now.1 - before.1 < 5 && (now.0 == before.0 || !kernel_can()?), "{before:?}, {now:?}");
    // In a folder that it has looked at: of that one alone it asks again.
    for number in 20..40 {
        assert_eq!(fs::read_dir(mount.at().join("elsewhere"))?.count(), number);
        let before = net.calls()?;
        client.put(&format!("{HOME}/elsewhere/f{number}"), b"x")?.expect_status(201)?;
        assert!(stat());
        let now = net.calls()?;
        assert!(now - before < 5, "{before}, {now}");
    }
    client.put(&format!("{HOME}/here/f7"), b"longer")?.expect_status(204)?;
    assert_eq!(fs::read(mount.at().join("here/f7"))?, b"longer");
    net.end([mount])
}

/// A mount in the server's process is told of what others change there as well.
#[test]
fn the_servers_own_mount_believes_until_somebody_changes_something() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (net, within) = Net::with_own_mount(folder.path())?;
    let mut client = net.client();
    client.mkcol(&format!("{HOME}/d"))?.expect_status(201)?;
    for number in 0..200 {
        client.put(&format!("{HOME}/d/f{number}"), b"here")?.expect_status(201)?;
    }
    std::thread::sleep(QUIET);
    assert_eq!(look(&within)?, 201);
    std::thread::sleep(A_WHILE);
    let before = asked(&net, &within)?;
    let stat = || (0..200).all(|number| fs::metadata(within.join(format!("d/f{number}"))).is_ok());
    assert!(stat());
    assert!(!kernel_can()? || asked(&net, &within)? == before, "{before:?}, {:?}", asked(&net, &within)?);
    client.put(&format!("{HOME}/d/f7"), b"somebody changed it")?.expect_status(204)?;
    assert_eq!(fs::metadata(within.join("d/f7"))?.len(), 19, "its size");
    client.delete(&format!("{HOME}/d/f8"))?.expect_status(204)?;
    assert!(!stat(), "one is gone");
    net.end([])
}

/// By what a file is written, and how.
type Writer<'w> = (&'w str, &'w mut dyn FnMut(&str, &[u8]) -> Outcome);

/// What a file is in a round: longer than before, mostly.
fn content(round: usize) -> Vec<u8> {
    let mut content = format!("{round:04}").into_bytes();
    content.resize(50 + round * 7_919 % 5_000, b'a' + u8::try_from(round % 26).unwrap_or(0));
    content
}

/// Whoever opens a file finds all of what it is, though the kernel was told a moment before how long it was then.
#[test]
fn what_another_wrote_is_never_read_cut_off() -> Outcome {
    const ROUNDS: usize = 100;
    let folder = tempfile::tempdir()?;
    let (net, within) = Net::with_own_mount(folder.path())?;
    let (one, two) = (net.mount("one", &[])?, net.mount("two", &[])?);
    let mut client = net.client();
    let by_mount = |name: &str, content: &[u8]| -> Outcome { Ok(fs::write(one.at().join(name), content)?) };
    let mut by_dav = |name: &str, content: &[u8]| -> Outcome {
        let answer = client.put(&format!("{HOME}/{name}"), content)?;
        if answer.is_success() { Ok(()) } else { Err(answer.text().into()) }
    };
    let mut write: [Writer<'_>; 2] = [("mount", &mut { by_mount }), ("dav", &mut by_dav)];
    for (by, write) in &mut write {
        for (at, is_within) in [(two.at(), false), (within.as_path(), true)] {
            for round in 0..ROUNDS {
                // Ten files in turn: of each the kernel was told anew.
                let name = format!("{by}-{is_within}-{}", round % 10);
                let path = at.join(&name);
                if round >= 10 {
                    fs::metadata(&path)?;
                }
                write(&name, &content(round))?;
                let found = fs::read(&path)?;
                let of: usize = std::str::from_utf8(found.get(..4).unwrap_or_default())?.parse()?;
                let is_whole = found == content(of);
                assert!(of == round && is_whole, "{name} has {} bytes of round {of} in round {round}", found.len());
            }
        }
    }
    net.end([one, two])
}
