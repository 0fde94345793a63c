//! A drive mounted from its server: what file systems do, what one mount sees of another, and servers that die, freeze or refuse.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::filesystem::{behaves, errno, operations_are_the_same, same_trees};
use holdfast_e2e::knob::knob;
use holdfast_e2e::mounted::Mount;
use holdfast_e2e::networked::Net;
use holdfast_e2e::rig::{HOME, NAME};
use holdfast_e2e::wait::until;
use holdfast_testkit::rng::Prng;
use rustix::process::Signal;

/// Longest that a test waits for what should come soon, on a machine that does other things as well.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_mount_from_a_server_behaves_as_any_file_system() -> Outcome {
    let net = Net::new()?;
    let mount = net.mount("mnt", &[])?;
    behaves(mount.at())?;
    net.end([mount])
}

/// `HOLDFAST_MOUNT_NET_STEPS` operations.
#[test]
fn random_operations_over_the_network_do_what_a_native_folder_does() -> Outcome {
    let net = Net::new()?;
    let mount = net.mount("mnt", &[])?;
    let native = tempfile::tempdir()?;
    let (seed, steps) = (knob("HOLDFAST_MOUNT_SEED", 7), knob("HOLDFAST_MOUNT_NET_STEPS", 1_500));
    operations_are_the_same(mount.at(), native.path(), seed, steps)?;
    mount.stop()?;
    let mount = net.mount("mnt", &[])?;
    same_trees(mount.at(), native.path())?;
    net.end([mount])
}

#[test]
fn what_one_mount_changes_another_sees_soon() -> Outcome {
    let net = Net::new()?;
    let (one, two) = (net.mount("one", &[])?, net.mount("two", &[])?);
    let (here, there) = (one.at(), two.at());
    let mut took = Vec::new();
    let mut see = |what: &str, so: &dyn Fn() -> bool| -> Outcome {
        took.push(until(what, SOON, so)?);
        Ok(())
    };
    let is = |path: &Path, content: &str| fs::read_to_string(path).is_ok_and(|found| found == content);
    for round in 0..knob("HOLDFAST_MOUNT_NET_ROUNDS", 8) {
        let (file, other) = (format!("f{round}"), format!("g{round}"));
        let (seen, seen_other) = (there.join(&file), there.join(&other));
        // That it is not there is known there, too.
        assert!(!seen.exists() && !seen_other.exists());
        fs::write(here.join(&file), "one")?;
        see("it was made", &|| is(&seen, "one"))?;
        let open = File::open(&seen)?;
        fs::write(here.join(&file), "two and longer")?;
        see("it was overwritten", &|| is(&seen, "two and longer"))?;
        // Who had it open sees that as well, without opening it again.
        let mut content = [0; 14];
        see("an open file is followed", &|| open.metadata().is_ok_and(|found| found.len() == 14))?;
        open.read_exact_at(&mut content, 0)?;
        assert_eq!(&content, b"two and longer");
        fs::write(here.join("new"), "three")?;
        fs::rename(here.join("new"), here.join(&file))?;
        see("it was replaced", &|| is(&seen, "three"))?;
        fs::rename(here.join(&file), here.join(&other))?;
        see("it was renamed", &|| !seen.exists() && is(&seen_other, "three"))?;
        fs::remove_file(here.join(&other))?;
        see("it was removed", &|| !seen_other.exists())?;
        let folder = there.join(format!("d{round}"));
        fs::create_dir(here.join(format!("d{round}")))?;
        see("a folder is in the listing", &|| {
            fs::read_dir(there).is_ok_and(|mut all| all.any(|it| it.is_ok_and(|it| it.path() == folder)))
        })?;
    }
    // Another face, too.
    let mut client = net.client();
    client.put(&format!("{HOME}/dav"), b"by WebDAV")?.expect_status(201)?;
    see("WebDAV made it", &|| is(&there.join("dav"), "by WebDAV"))?;
    took.sort();
    let at = |part: usize| took[(took.len() - 1) * part / 100];
    println!(
        "seen after {:?} at the median, {:?} in 95 of 100, {:?} at most, {} changes",
        at(50),
        at(95),
        at(100),
        took.len()
    );
    assert!(at(50) < Duration::from_millis(250), "{took:?}");
    net.end([one, two])
}

/// Writes from three threads until its standard input ends, as careful programs do: beside, synced, and put in place. Or looks at it all.
const WRITERS: &str = r#"
import json, os, random, sys, threading
job, at = sys.argv[1:3]
def content(writer, number):
    return random.Random(writer * 100_000 + number).randbytes([10, 4_000, 70_000, 1_500_000][number % 4])
def write(writer):
    try:
        while not ended.is_set():
            file = os.open(f"{at}/new{writer}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            rest = memoryview(content(writer, counts[writer]))
            while rest:
                rest = rest[os.write(file, rest):]
            os.fsync(file)
            os.close(file)
            os.rename(f"{at}/new{writer}", f"{at}/{writer}-{counts[writer]}")
            counts[writer] += 1
    except OSError as error:
        errors.append(f"{writer}-{counts[writer]}: {error}")
if job == "write":
    ended, counts, errors = threading.Event(), [0] * 3, []
    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for thread in threads: thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads: thread.join()
    assert not errors, errors
    print(json.dumps(counts))
else:
    counts = json.loads(sys.argv[3])
    for writer, count in enumerate(counts):
        for number in range(count):
            assert open(f"{at}/{writer}-{number}", "rb").read() == content(writer, number), f"{writer}-{number} is not whole"
    assert len(os.listdir(at)) == sum(counts), "something else is there"
"#;

/// Writers go on while their server is killed and started again; what was synced is there, whole, and nobody was told of an error. They are
/// a process of their own: a server started beside files that are open on its mount would have them closed first, which waits for it.
#[test]
fn a_server_that_is_killed_and_comes_back_loses_nothing() -> Outcome {
    let mut net = Net::new()?;
    let mount = net.mount("mnt", &[])?;
    let python = |job: &str, at: &Path| {
        let mut command = Command::new("python3");
        command.args(["-c", WRITERS, job]).arg(at).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let writers = python("write", mount.at()).spawn()?;
    for _ in 0..knob("HOLDFAST_MOUNT_NET_KILLS", 5) {
        std::thread::sleep(Duration::from_millis(700));
        net.rig.server.kill_9()?;
        std::thread::sleep(Duration::from_millis(300));
        net.rig.start_again()?;
    }
    std::thread::sleep(Duration::from_millis(700));
    // Waiting closes their standard input first.
    let written = writers.wait_with_output()?;
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let counts = String::from_utf8(written.stdout)?;
    println!("files of each writer: {counts}");
    mount.stop()?;
    let mount = net.mount("mnt", &[])?;
    let looked = python("look", mount.at()).arg(counts.trim()).output()?;
    assert!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stderr));
    net.end([mount])
}

#[test]
fn a_frozen_server_ends_operations_with_an_error_and_leaves_what_is_here() -> Outcome {
    let net = Net::new()?;
    let mount = net.mount("mnt", &["--deadline", "3"])?;
    let mut content = vec![0; 3 << 20];
    Prng::new(9).fill(&mut content);
    fs::write(mount.at().join("large"), &content)?;
    assert!(fs::read(mount.at().join("large"))? == content);
    let open = File::open(mount.at().join("large"))?;
    let mut again = vec![0; content.len()];
    open.read_exact_at(&mut again, 0)?;
    net.rig.server.signal(Signal::STOP)?;
    let began = Instant::now();
    let refused = errno(fs::write(mount.at().join("new"), "x"));
    let took = began.elapsed();
    again.fill(0);
    let read = open.read_exact_at(&mut again, 0);
    // It is known to be away by now, so nothing waits for it any more that need not.
    let began = Instant::now();
    let (by_path, not_there) = (fs::read(mount.at().join("large")), errno(fs::read(mount.at().join("new")).map(drop)));
    let waited = began.elapsed();
    net.rig.server.signal(Signal::CONT)?;
    println!("an error after {took:?}; a file that was read is found and read again within {waited:?}");
    assert!(by_path? == content, "what was read is read by its path");
    assert!(not_there.is_some(), "what was not made is not there");
    assert_eq!(refused, Some(libc::ETIMEDOUT));
    assert!(took < SOON, "{took:?}");
    read?;
    assert!(again == content, "what is read is what was written");
    let healed = until("it heals", SOON, || fs::write(mount.at().join("after"), "x").is_ok())?;
    println!("healed after {healed:?}");
    drop(open);
    // It says that operations failed, so it does not end in silence.
    let _ = mount.stop();
    net.end([])
}

#[test]
fn a_token_that_is_revoked_ends_what_a_mount_may_do() -> Outcome {
    let net = Net::new()?;
    let mount = net.mount("mnt", &[])?;
    fs::write(mount.at().join("f"), "x")?;
    let listed = net.rig.server.options().run_ok(&["token", "list", NAME, "--json"], b"")?;
    let listed: serde_json::Value = serde_json::from_str(&listed)?;
    let id = listed[0]["id"].as_i64().ok_or("a number")?.to_string();
    net.rig.server.options().run_ok(&["token", "revoke", NAME, &id], b"")?;
    let refused = |result: std::io::Result<()>| result.is_err_and(|error| error.raw_os_error() == Some(libc::EACCES));
    let writing = until("writing is refused", SOON, || refused(fs::write(mount.at().join("g"), "x")))?;
    let reading = until("looking is refused", SOON, || refused(fs::metadata(mount.at().join("f")).map(drop)))?;
    println!("refused after {writing:?} and {reading:?}");
    let said = mount.stop().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("no longer accepts the app token"), "{said}");
    net.end([])
}

#[test]
fn what_cannot_be_mounted_says_why() -> Outcome {
    let net = Net::new()?;
    let at = net.rig.scratch().join("mnt");
    fs::create_dir(&at)?;
    let refused = |command: std::process::Command, token: &str| {
        Mount::begin(command, token, at.clone()).expect_err("it is not mounted").to_string()
    };
    let began = Instant::now();
    let said = refused(net.command(&at, &[])?, "no-token");
    assert!(said.contains("app token"), "{said}");
    let said = refused(net.command(&at, &["--space", "nobody"])?, &net.token);
    assert!(said.contains("nobody"), "{said}");
    let options = net.rig.server.options();
    let mount = |url: &str, arguments: &[&str]| -> Outcome<std::process::Command> {
        let mut command = options.command()?;
        command.arg("mount").arg(url).arg(&at).args(["--token-file", "-"]).args(arguments);
        Ok(command)
    };
    let said = refused(mount(&net.url(), &[])?, &net.token);
    assert!(said.contains("certificate") && said.contains("--ca"), "{said}");
    let said = refused(mount("https://127.0.0.1:1", &[])?, &net.token);
    assert!(said.contains("cannot be reached"), "{said}");
    let said = refused(mount("http://drive.example", &[])?, &net.token);
    assert!(said.contains("https"), "{said}");
    let said = refused(mount(&net.url(), &["--user", NAME])?, &net.token);
    assert!(said.contains("--token-file"), "{said}");
    assert!(began.elapsed() < SOON, "each is said at once: {:?}", began.elapsed());
    net.end([])
}

#[test]
fn a_mount_for_reading_and_a_token_for_reading_change_nothing() -> Outcome {
    let mut net = Net::new()?;
    let mount = net.mount("mnt", &[])?;
    fs::write(mount.at().join("f"), "x")?;
    mount.stop()?;
    let mount = net.mount("mnt", &["--read-only"])?;
    assert_eq!(errno(fs::write(mount.at().join("f"), "y")), Some(libc::EROFS));
    mount.stop()?;
    let arguments = ["token", "create", "reading", "--user", NAME, "--password-file", "-", "--read-only", "--json"];
    let made = net.rig.server.options().run_ok(&arguments, holdfast_e2e::rig::PASSWORD.as_bytes())?;
    let made: serde_json::Value = serde_json::from_str(&made)?;
    made["token"].as_str().ok_or("a token")?.clone_into(&mut net.token);
    let mount = net.mount("mnt", &[])?;
    assert_eq!(errno(fs::write(mount.at().join("g"), "y")), Some(libc::EACCES));
    assert_eq!(errno(OpenOptions::new().create(true).append(true).open(mount.at().join("g"))), Some(libc::EACCES));
    assert_eq!(fs::read(mount.at().join("f"))?, b"x");
    net.end([mount])
}

/// Every program that is started has copies of what its parent has open until it begins, and their end saves what was written so far.
#[test]
fn what_the_close_of_a_copy_was_told_the_next_sync_is_told_again() -> Outcome {
    let net = Net::new()?;
    let mut client = net.client();
    for (name, is_first) in [("plain", false), ("first", true)] {
        let mount = if is_first { net.mount_first(name, &[])? } else { net.mount(name, &[])? };
        let path = mount.at().join(name);
        let mut put =
            |content: &str, status| client.put(&format!("{HOME}/{name}"), content.as_bytes())?.expect_status(status);
        put("before", 201)?;
        until("it is there", SOON, || path.exists())?;
        let file = OpenOptions::new().write(true).open(&path)?;
        file.write_all_at(b"own", 0)?;
        put("theirs", 204)?;
        assert!(Command::new("true").status()?.success());
        assert_eq!(errno(file.sync_all()), Some(libc::ESTALE), "{name}");
        file.sync_all()?;
        assert_eq!(fs::read(&path)?, b"theirs");
        assert_eq!(fs::read(mount.at().join(format!("{name} (2)")))?, b"ownore");
        drop(file);
        let said = mount.stop().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains("both are kept"), "{said}");
    }
    net.end([])
}
