//! Looking after mounts: how they do, having them save, forget and end, also when they hang.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::filesystem::errno;
use holdfast_e2e::mounted::{Ground, Holder, is_mounted};
use holdfast_e2e::networked::Net;
use holdfast_e2e::rig::{HOME, NAME, PASSWORD};
use holdfast_testkit::server::ServerOptions;
use holdfast_testkit::services::free_port;
use rustix::process::Signal;
use serde_json::Value;

/// Longest that a question about a mount may take, whatever the mount waits for.
const SOON: Duration = Duration::from_secs(10);

/// What a command says: its exit code, and its JSON, or its errors if it fails.
fn run(options: &ServerOptions, arguments: &[&str], at: &Path, more: &[&str]) -> Outcome<(i32, Value)> {
    let mut command = options.command()?;
    let output = command.args(arguments).arg(at).args(more).arg("--json").output()?;
    let code = output.status.code().ok_or("it was killed")?;
    let said = if code == 0 { &output.stdout } else { &output.stderr };
    let said = serde_json::from_slice(said).map_err(|error| format!("{error}: {}", String::from_utf8_lossy(said)))?;
    Ok((code, said))
}

/// How the mount on a folder does.
fn status(options: &ServerOptions, at: &Path) -> Outcome<Value> {
    let (code, said) = run(options, &["mount", "status"], at, &[])?;
    if code != 0 || said.as_array().is_none_or(|all| all.len() != 1) {
        return Err(format!("{code}: {said}").into());
    }
    Ok(said[0].clone())
}

fn operation<'a>(status: &'a Value, name: &str) -> Outcome<&'a Value> {
    let all = status["operations"].as_array().ok_or("no operations")?;
    Ok(all.iter().find(|it| it["operation"] == name).ok_or_else(|| format!("no {name} in {all:?}"))?)
}

#[test]
fn a_mount_says_how_it_does_and_saves_forgets_and_ends_when_it_is_told() -> Outcome {
    for (how, answers_first) in [("--write-behind=no", false), ("--write-behind", true)] {
        let ground = Ground::new()?;
        let options = ground.options();
        let mount = ground.mount(&[how])?;
        let at = mount.at().to_owned();
        for number in 0..20 {
            fs::write(at.join(number.to_string()), format!("{number}"))?;
        }
        assert!(fs::metadata(at.join("nothing")).is_err());
        let holder = Holder::start(&at.join("open"), 200_000)?;
        let said = status(&options, &at)?;
        assert_eq!(said["at"], at.to_string_lossy().as_ref());
        assert_eq!(said["target"], options.data().canonicalize()?.to_string_lossy().as_ref());
        assert_eq!((&said["space"], &said["read_only"]), (&NAME.into(), &false.into()));
        assert_eq!((&said["open_files"], &said["unsaved_files"]), (&1.into(), &1.into()));
        assert!(said["unsaved_bytes"].as_u64().is_some_and(|bytes| (200_000..400_000).contains(&bytes)), "{said}");
        assert!(operation(&said, "create")?["count"].as_u64() >= Some(21), "{said}");
        assert!(operation(&said, "lookup")?["errors"]["ENOENT"].as_u64() >= Some(1), "{said}");
        let write = operation(&said, "write")?;
        assert!(write["p99_us"].as_u64() >= write["half_within_us"].as_u64());
        assert!(write["per_second"]["last_minute"].as_f64() > Some(0.0), "{said}");
        assert_eq!(said["journal"].is_null(), !answers_first);
        // People see the same.
        let words = options.command()?.args(["mount", "status"]).arg(&at).output()?;
        let words = String::from_utf8(words.stdout)?;
        assert!(words.contains("1 with unsaved content") && words.contains("OPERATION"), "{words}");
        let all = options.command()?.args(["mount", "status", "--json"]).output()?;
        let all: Vec<Value> = serde_json::from_slice(&all.stdout)?;
        assert!(all.iter().any(|it| it["at"] == said["at"]), "it is among all of this account's");
        // Another way to write where it is.
        let (code, _) = run(&options, &["mount", "status"], &at.join("../mnt/"), &[])?;
        assert_eq!(code, 0);

        assert_eq!(run(&options, &["mount", "flush"], &at, &[])?, (0, serde_json::json!({"saved_files": 1})));
        let said = status(&options, &at)?;
        assert_eq!((&said["unsaved_files"], &said["unsaved_bytes"]), (&0.into(), &0.into()));
        if answers_first {
            assert_eq!((&said["journal"]["changes"], &said["journal"]["refused"]), (&0.into(), &0.into()));
        }
        assert_eq!(fs::read(at.join("open"))?.len(), 200_000);
        let reads = |said: &Value| operation(said, "read").ok().and_then(|it| it["count"].as_u64()).unwrap_or(0);
        let before = reads(&status(&options, &at)?);
        fs::read(at.join("open"))?;
        assert_eq!(reads(&status(&options, &at)?), before, "the kernel has it");
        assert_eq!(run(&options, &["mount", "evict"], &at, &["open"])?.1["evicted_files"], 1);
        assert_eq!(fs::read(at.join("open"))?.len(), 200_000);
        assert!(reads(&status(&options, &at)?) > before, "it was forgotten and is read anew");
        assert!(run(&options, &["mount", "evict"], &at, &[])?.1["evicted_files"].as_u64() >= Some(1));
        let (code, said) = run(&options, &["mount", "evict"], &at, &["not/there"])?;
        assert!(code != 0 && said["error"]["message"].as_str().is_some_and(|it| it.contains("not/there")), "{said}");

        let (code, said) = run(&options, &["umount"], &at, &[])?;
        let message = said["error"]["message"].as_str().unwrap_or_default();
        assert!(code != 0 && message.contains("in use") && message.contains("--force"), "{said}");
        assert!(is_mounted(&at)?, "and nothing happened");
        holder.end()?;
        let (code, said) = run(&options, &["umount"], &at, &[])?;
        assert_eq!((code, &said["unsaved"]), (0, &Value::Null), "{said}");
        assert!(!is_mounted(&at)?);
        // It is over, and the drive is free: nobody has to wait.
        expect_clean(&options)?;
        mount.wait()?;
        let (code, said) = run(&options, &["mount", "status"], &at, &[])?;
        assert!(code != 0 && said["error"]["message"].as_str().is_some_and(|it| it.contains("no mount")), "{said}");
    }
    Ok(())
}

#[test]
fn by_force_a_mount_in_use_ends_and_keeps_what_was_written() -> Outcome {
    let ground = Ground::new()?;
    let options = ground.options();
    let mount = ground.mount(&[])?;
    let holder = Holder::start(&mount.at().join("open"), 100_000)?;
    let (code, said) = run(&options, &["umount", "--force"], mount.at(), &[])?;
    assert_eq!((code, &said["unsaved"]), (0, &Value::Null), "{said}");
    assert!(!is_mounted(mount.at())?);
    mount.wait()?;
    drop(holder);
    ground.with(|at| {
        assert_eq!(fs::read(at.join("open"))?.len(), 100_000);
        Ok(())
    })
}

#[test]
fn a_mount_that_was_killed_is_no_mount_and_its_socket_goes() -> Outcome {
    let ground = Ground::new()?;
    let mount = ground.mount(&[])?;
    let at = mount.at().to_owned();
    status(&ground.options(), &at)?;
    mount.kill_9()?;
    let (code, _) = run(&ground.options(), &["mount", "status"], &at, &[])?;
    assert!(code != 0);
    let all = ground.options().command()?.args(["mount", "status", "--json"]).output()?;
    assert!(all.status.success(), "{}", String::from_utf8_lossy(&all.stderr));
    // And the next one is found.
    let mount = ground.mount(&[])?;
    status(&ground.options(), &at)?;
    // What the kernel keeps of a mount that was killed is in nobody's way: neither a person's nor the next mount's.
    fs::write(at.join("closed"), "and whole")?;
    mount.crash()?;
    assert_eq!(errno(fs::read(at.join("closed"))), Some(libc::ENOTCONN));
    assert_eq!(run(&ground.options(), &["umount"], &at, &[])?.0, 0);
    assert!(run(&ground.options(), &["umount"], &at, &[])?.0 != 0, "there is none any more");
    ground.mount(&[])?.crash()?;
    let mount = ground.mount(&[])?;
    assert_eq!(fs::read(at.join("closed"))?, b"and whole");
    mount.unmount()
}

#[test]
fn a_mount_whose_server_is_frozen_says_what_hangs_and_why_and_can_be_taken_away() -> Outcome {
    let mut net = Net::new()?;
    let mount = net.mount("mnt", &["--deadline", "60"])?;
    let (at, options) = (mount.at().to_owned(), net.rig.server.options().clone());
    fs::write(at.join("f"), "x")?;
    let said = status(&options, &at)?;
    assert_eq!((&said["away_ms"], &said["operations_under_way"]), (&Value::Null, &0.into()), "{said}");
    assert_eq!(said["target"], net.url());
    net.rig.server.signal(Signal::STOP)?;
    let mut listing = Command::new("ls").arg(at.join("not-known")).spawn()?;
    let began = Instant::now();
    let said = loop {
        let asked = Instant::now();
        let said = status(&options, &at)?;
        assert!(asked.elapsed() < SOON, "a status takes {:?}", asked.elapsed());
        if said["away_ms"].is_u64() && said["operations_under_way"].as_u64() > Some(0) {
            break said;
        }
        assert!(began.elapsed() < 3 * SOON, "{said}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let hung = &said["under_way"][0];
    // Looking at the folder before the name may be what hangs.
    assert!(hung["operation"] == "getattr" || hung["name"] == "not-known", "{said}");
    assert_eq!(hung["process"], listing.id(), "{said}");
    assert!(hung["ms"].as_u64() > Some(0));
    let asked = Instant::now();
    let (code, said) = run(&options, &["umount", "--force"], &at, &[])?;
    assert_eq!(code, 0, "{said}");
    assert!(asked.elapsed() < 3 * SOON && !is_mounted(&at)?, "{:?}", asked.elapsed());
    assert!(!listing.wait()?.success(), "what hung ended in an error");
    net.rig.server.signal(Signal::CONT)?;
    // It says that it did not end in good order.
    let _ = mount.wait();
    net.rig.stop()?;
    expect_clean(&options)
}

#[test]
fn what_is_refused_after_it_was_answered_is_told_with_its_reason() -> Outcome {
    let ground = Ground::new()?;
    let options = ground.options();
    let mount = ground.mount(&["--write-behind"])?;
    options.run_ok(&["space", "set", NAME, "--quota", "1KiB"], b"")?;
    fs::write(mount.at().join("late"), vec![1; 3_000])?;
    let began = Instant::now();
    let journal = loop {
        let journal = status(&options, mount.at())?["journal"].clone();
        if journal["refused"].as_u64() > Some(0) {
            break journal;
        }
        assert!(began.elapsed() < SOON, "{journal}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(journal["changes"].as_u64() >= Some(1) && journal["bytes"].as_u64() > Some(200), "{journal}");
    assert!(journal["oldest_ms"].is_u64(), "{journal}");
    let reason = &journal["reasons"][0];
    assert_eq!(reason["name"], "late");
    assert!(reason["reason"].as_str().is_some_and(|why| why.contains("quota")), "{journal}");
    options.run_ok(&["space", "set", NAME, "--quota", "1GiB"], b"")?;
    let began = Instant::now();
    while status(&options, mount.at())?["journal"]["changes"] != 0 {
        assert!(began.elapsed() < 2 * SOON, "it is tried again");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(status(&options, mount.at())?["journal"]["refused"], 0);
    assert!(mount.stop().is_err_and(|error| error.to_string().contains("is tried again")));
    expect_clean(&options)
}

#[test]
fn metrics_count_what_a_mount_does() -> Outcome {
    let ground = Ground::new()?;
    let address = format!("127.0.0.1:{}", free_port()?);
    let mount = ground.mount(&["--metrics-listen", &address])?;
    for number in 0..10 {
        fs::write(mount.at().join(number.to_string()), "x")?;
    }
    assert!(fs::metadata(mount.at().join("nothing")).is_err());
    let metrics = || -> Outcome<String> {
        let mut stream = TcpStream::connect(&address)?;
        std::io::Write::write_all(&mut stream, b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    };
    // The last operation is counted a moment after it is answered.
    let begun = Instant::now();
    let mut said = metrics()?;
    while !said.contains("holdfast_mount_operations_under_way 0") && begun.elapsed() < SOON {
        said = metrics()?;
    }
    let value = |line: &str| -> Outcome<u64> {
        let found = said.lines().find_map(|it| it.strip_prefix(line)).ok_or_else(|| format!("no {line} in {said}"))?;
        Ok(found.trim().parse()?)
    };
    assert_eq!(value("holdfast_mount_operation_seconds_count{operation=\"create\"}")?, 10);
    assert!(value("holdfast_mount_errors_total{operation=\"lookup\",error=\"ENOENT\"}")? >= 1);
    assert_eq!(value("holdfast_mount_operations_under_way")?, 0);
    mount.stop()?;
    let refused = ground.mount(&["--metrics-listen", "nowhere"]).err().map(|error| error.to_string());
    assert!(refused.as_ref().is_some_and(|why| why.contains("nowhere")), "{refused:?}");
    expect_clean(&ground.options())
}

#[test]
fn others_and_nonsense_are_not_answered() -> Outcome {
    let ground = Ground::new()?;
    let mount = ground.mount(&[])?;
    let said = status(&ground.options(), mount.at())?;
    let folder = if rustix::process::geteuid().is_root() {
        "/run/holdfast/mounts".into()
    } else {
        format!("{}/holdfast/mounts", std::env::var("XDG_RUNTIME_DIR")?)
    };
    let process = said["process"].as_u64().ok_or("a number")?;
    let ending = format!("-{process}.sock");
    let mut sockets = fs::read_dir(&folder)?.filter_map(Result::ok).map(|entry| entry.path());
    let socket = sockets.find(|path| path.to_string_lossy().ends_with(&ending)).ok_or("no socket")?;
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&socket)?.permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&folder)?.permissions()) & 0o777, 0o700);
    // Half a question, a long one, and many at once: none keeps others from theirs.
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(std::os::unix::net::UnixStream::connect(&socket)?);
    }
    for nonsense in ["{\"do\":\"format\"}\n".to_owned(), " ".repeat(100_000) + "\n", "\0\n".into()] {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket)?;
        // It may be refused before all of it was sent.
        let _ = std::io::Write::write_all(&mut stream, nonsense.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.contains("\"refused\""), "{answer}");
    }
    status(&ground.options(), mount.at())?;
    if rustix::process::geteuid().is_root() {
        let asking = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])";
        let mut other = Command::new("setpriv");
        other.args(["--reuid", "65534", "--clear-groups", "python3", "-c", asking]).arg(&socket);
        assert!(!other.output()?.status.success(), "the folder keeps others out");
    }
    drop(silent);
    mount.stop()
}

#[test]
fn a_server_mounts_spaces_itself_and_they_end_with_it() -> Outcome {
    let ground = Ground::new()?;
    let (at, password) = (ground.scratch().join("mnt"), ground.scratch().join("password"));
    fs::write(&password, format!("{PASSWORD}\n"))?;
    let start = |arguments: &[&str]| {
        let options = arguments.iter().fold(ground.options(), |options, argument| options.argument(argument));
        options.start()
    };
    let mount = format!("{NAME}={}", at.display());
    let who = ["--mount-user", NAME, "--mount-password-file", password.to_str().ok_or("UTF-8")?];
    let mut server = start(&[&["--mount", &mount], who.as_slice()].concat())?;
    assert!(is_mounted(&at)?);
    let mut client = server.client_of(NAME, PASSWORD);
    client.put(&format!("{HOME}/by-webdav"), b"x")?.expect_status(201)?;
    assert_eq!(fs::read(at.join("by-webdav"))?, b"x");
    fs::write(at.join("here"), "from the folder")?;
    assert_eq!(client.get(&format!("{HOME}/here"))?.expect_status(200)?.body, b"from the folder");
    let said = status(&ground.options(), &at)?;
    assert_eq!((&said["process"], &said["space"]), (&server.pid().into(), &NAME.into()));
    // Without the mount, the server goes on.
    assert_eq!(run(&ground.options(), &["umount"], &at, &[])?.0, 0);
    assert!(!is_mounted(&at)? && server.is_running());
    client.get(&format!("{HOME}/here"))?.expect_status(200)?;
    assert!(server.terminate()?.success());
    // The configuration file says the same, and what is open when the server ends is saved.
    let toml = format!(
        "[mounts]\nspaces = [{mount:?}]\nuser = {NAME:?}\npassword_file = {:?}\n",
        password.to_str().ok_or("UTF-8")?
    );
    fs::write(ground.options().data().join("holdfast.toml"), toml)?;
    let mut server = start(&[])?;
    let holder = Holder::start(&at.join("open"), 100_000)?;
    assert!(server.terminate()?.success(), "{}", server.log());
    assert!(!is_mounted(&at)?);
    drop(holder);
    fs::remove_file(ground.options().data().join("holdfast.toml"))?;
    // What cannot be mounted is said, and there is no server.
    for (arguments, why) in [
        (&["--mount", mount.as_str()] as &[&str], "--mount-user"),
        (&["--mount", "team"], "SPACE=/FOLDER"),
        (&[&["--mount", "nobody=/tmp"], who.as_slice()].concat(), "nobody"),
        (&[&["--mount", &format!("{NAME}=/does/not/exist")], who.as_slice()].concat(), "/does/not/exist"),
    ] {
        let output = ground.options().run(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat(), b"")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{arguments:?}: {said}");
    }
    ground.with(|at| {
        assert_eq!(fs::read(at.join("open"))?.len(), 100_000);
        Ok(())
    })
}
