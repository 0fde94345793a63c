//! `holdfast push`, `pull` and `sync` with vsftpd and `ProFTPD`: with TLS and without, killed in between, and where something is wrong.

use holdfast_e2e::Outcome;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::program;
use holdfast_testkit::services::ftp::{FtpServer, Kind, PASSWORD, Tls};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

const MIB: usize = 1 << 20;
const BOTH: [Kind; 2] = [Kind::Vsftpd, Kind::Proftpd];

/// A server, and a folder of this machine.
struct Both {
    server: FtpServer,
    folder: tempfile::TempDir,
}

impl Both {
    fn start(kind: Kind, tls: Tls, more: &str) -> Outcome<Self> {
        let (server, folder) = (FtpServer::start(kind, tls, more)?, tempfile::tempdir()?);
        fs::write(folder.path().join("password"), format!("{PASSWORD}\n"))?;
        Ok(Self { server, folder })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn command(&self, words: &[&str]) -> Outcome<Command> {
        let mut command = Command::new(program()?);
        command.args(words).arg("--json").arg("--password-file").arg(self.at("password"));
        command.arg("--ca").arg(self.server.authority());
        command.args(self.plain());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Consent, where the server has no TLS.
    fn plain(&self) -> &'static [&'static str] {
        if self.server.has_tls() { &[] } else { &["--plain-ftp"] }
    }

    fn run(&self, words: &[&str]) -> Outcome<Value> {
        let output = self.command(words)?.output()?;
        assert!(output.status.success(), "{words:?}: {output:?}");
        end_of(&output)
    }
}

fn end_of(output: &Output) -> Outcome<Value> {
    let text = std::str::from_utf8(&output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().ok_or_else(|| format!("nothing was said: {output:?}"))?)?)
}

fn random(size: usize, seed: u64) -> Vec<u8> {
    let mut rng = Prng::new(seed);
    (0..=size / 8).flat_map(|_| rng.next_u64().to_le_bytes()).take(size).collect()
}

/// A tree with what names and sizes there are; all of it is older than a listing's year.
fn make_tree(at: &Path) -> Outcome {
    let names =
        ["plain.txt", ".hidden", "a b", " leading", "-dash", "é ü", "50% [x]{y}*?", "semi;colon", "empty", "->"];
    fs::create_dir_all(at.join("sub folder/deep"))?;
    fs::create_dir_all(at.join("hollow"))?;
    for (number, name) in names.iter().enumerate() {
        for folder in ["", "sub folder", "sub folder/deep"] {
            let size = if *name == "empty" { 0 } else { 1_000 * number + 1 };
            put(&at.join(folder).join(name), &random(size, number as u64))?;
        }
    }
    put(&at.join("large.bin"), &random(5 * MIB + 77, 9))
}

fn put(path: &Path, content: &[u8]) -> Outcome {
    fs::write(path, content)?;
    Ok(fs::File::open(path)?.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))?)
}

fn assert_same(a: &Path, b: &Path) -> Outcome {
    let output = Command::new("diff").arg("-r").arg(a).arg(b).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// Bytes of part files in a folder.
fn part_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let parts = entries.flatten().filter(|entry| entry.path().extension().is_some_and(|ending| ending == "part"));
    parts.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

fn trees_go_both_ways(kind: Kind, tls: Tls) -> Outcome {
    let both = Both::start(kind, tls, "")?;
    make_tree(&both.at("tree"))?;
    let (tree, there) = (both.at("tree/.").display().to_string(), both.server.url("new/tree"));
    let pushed = both.run(&["push", &tree, &there])?;
    assert_eq!((pushed["files"].as_u64(), pushed["failed"].as_u64()), (Some(31), Some(0)), "{pushed}");
    assert_same(&both.at("tree"), &both.server.root().join("new/tree"))?;
    let again = both.run(&["push", &tree, &there])?;
    assert_eq!((again["same"].as_u64(), again["moved_bytes"].as_u64()), (Some(31), Some(0)), "{again}");
    let back = both.at("back").display().to_string();
    both.run(&["pull", &format!("{there}/."), &back])?;
    assert_same(&both.at("tree"), &both.at("back"))?;
    let again = both.run(&["pull", &format!("{there}/."), &back])?;
    assert_eq!((again["same"].as_u64(), again["moved_bytes"].as_u64()), (Some(31), Some(0)), "{again}");
    fs::remove_dir_all(both.at("tree/sub folder/deep"))?;
    fs::write(both.at("tree/plain.txt"), b"other")?;
    let synced = both.run(&["sync", &both.at("tree").display().to_string(), &there, "--delete"])?;
    assert_eq!((synced["files"].as_u64(), synced["deleted"].as_u64()), (Some(1), Some(11)), "{synced}");
    assert_same(&both.at("tree"), &both.server.root().join("new/tree"))
}

#[test]
fn trees_go_both_ways_with_vsftpd() -> Outcome {
    trees_go_both_ways(Kind::Vsftpd, Tls::No)
}

#[test]
fn trees_go_both_ways_with_vsftpd_and_tls() -> Outcome {
    trees_go_both_ways(Kind::Vsftpd, Tls::Asked)?;
    trees_go_both_ways(Kind::Vsftpd, Tls::AtOnce)
}

#[test]
fn trees_go_both_ways_with_proftpd() -> Outcome {
    trees_go_both_ways(Kind::Proftpd, Tls::No)
}

#[test]
fn trees_go_both_ways_with_proftpd_and_tls() -> Outcome {
    trees_go_both_ways(Kind::Proftpd, Tls::Asked)?;
    trees_go_both_ways(Kind::Proftpd, Tls::AtOnce)
}

/// A file of 12 MiB, of which some has arrived below `watched` when the command is killed; then it goes on.
fn goes_on_after_a_kill(both: &Both, words: &[&str], watched: &Path, arrives: &Path, content: &[u8]) -> Outcome {
    let mut child = both.command(&[words, &["--limit-rate", "6M"]].concat())?.spawn()?;
    while part_bytes(watched) < 6 * MIB as u64 {
        assert!(child.try_wait()?.is_none(), "it was done too soon");
        sleep(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()?;
    let end = both.run(words)?;
    let stood = end["stood_bytes"].as_u64();
    println!("{stood:?} of {} bytes stood", content.len());
    assert!(stood >= Some(4 * MIB as u64), "{end}");
    assert!(fs::read(arrives)? == content);
    assert_eq!(part_bytes(watched), 0, "nothing is left");
    Ok(())
}

#[test]
fn a_push_that_was_killed_goes_on_where_it_was() -> Outcome {
    for kind in BOTH {
        let both = Both::start(kind, Tls::No, "")?;
        let content = random(12 * MIB + 345, 3);
        put(&both.at("large"), &content)?;
        let (from, to) = (both.at("large").display().to_string(), both.server.url("."));
        let root = both.server.root();
        goes_on_after_a_kill(&both, &["push", &from, &to], root, &root.join("large"), &content)?;
    }
    Ok(())
}

#[test]
fn a_pull_that_was_killed_goes_on_where_it_was() -> Outcome {
    for (kind, tls) in [(Kind::Vsftpd, Tls::No), (Kind::Proftpd, Tls::Asked)] {
        let both = Both::start(kind, tls, "")?;
        let content = random(12 * MIB + 345, 3);
        put(&both.server.root().join("large"), &content)?;
        let (from, to) = (both.server.url("large"), both.at("to"));
        let words = ["pull", &from, &to.display().to_string()];
        goes_on_after_a_kill(&both, &words, &to, &to.join("large"), &content)?;
    }
    Ok(())
}

#[test]
fn a_server_that_went_away_is_gone_on_with_when_it_is_back() -> Outcome {
    let mut both = Both::start(Kind::Proftpd, Tls::No, "")?;
    let content = random(12 * MIB, 4);
    put(&both.at("large"), &content)?;
    let (from, to) = (both.at("large").display().to_string(), both.server.url("."));
    let child = both.command(&["push", &from, &to, "--limit-rate", "6M"])?.spawn()?;
    while part_bytes(both.server.root()) < 6 * MIB as u64 {
        sleep(Duration::from_millis(1));
    }
    both.server.restart("")?;
    let output = child.wait_with_output()?;
    let end = end_of(&output)?;
    println!("{} bytes were moved of {}", end["moved_bytes"], content.len());
    assert!(output.status.success() && end["retries"].as_u64() >= Some(1), "{end}");
    assert!(fs::read(both.server.root().join("large"))? == content);
    Ok(())
}

#[test]
fn large_files_come_by_parts_over_several_connections() -> Outcome {
    for (kind, tls) in
        [(Kind::Vsftpd, Tls::Asked), (Kind::Proftpd, Tls::Asked), (Kind::Vsftpd, Tls::No), (Kind::Proftpd, Tls::No)]
    {
        let both = Both::start(kind, tls, "")?;
        let content = random(40 * MIB + 5, 5);
        put(&both.server.root().join("large"), &content)?;
        let to = both.at("to").display().to_string();
        let end = both.run(&["pull", &both.server.url("large"), &to, "--connections", "4"])?;
        assert_eq!((end["failed"].as_u64(), end["retries"].as_u64()), (Some(0), Some(0)), "{kind:?} {tls:?} {end}");
        assert!(fs::read(both.at("to/large"))? == content);
    }
    Ok(())
}

#[test]
fn a_wrong_password_ends_the_command() -> Outcome {
    for (kind, tls) in [(Kind::Vsftpd, Tls::No), (Kind::Proftpd, Tls::Asked)] {
        let both = Both::start(kind, tls, "")?;
        fs::write(both.at("password"), "guess\n")?;
        fs::create_dir(both.at("tree"))?;
        put(&both.at("tree/file"), b"content")?;
        for words in [
            ["push", &both.at("tree").display().to_string(), &both.server.url("x")],
            ["pull", &both.server.url("x"), &both.at("to").display().to_string()],
        ] {
            let output = both.command(&words)?.output()?;
            assert_eq!(output.status.code(), Some(77), "{kind:?} {output:?}");
        }
    }
    Ok(())
}

#[test]
fn a_password_goes_to_no_server_without_tls_and_a_certificate_must_be_believed() -> Outcome {
    let both = Both::start(Kind::Vsftpd, Tls::No, "")?;
    let mut command = Command::new(program()?);
    command.args(["pull", &both.server.url("x")]).arg(both.at("to")).arg("--password-file").arg(both.at("password"));
    let output = command.output()?;
    assert_eq!(output.status.code(), Some(77), "{output:?}");
    assert!(String::from_utf8(output.stderr)?.contains("--plain-ftp"));
    let both = Both::start(Kind::Vsftpd, Tls::Asked, "")?;
    let mut command = Command::new(program()?);
    command.args(["pull", &both.server.url("x")]).arg(both.at("to")).arg("--password-file").arg(both.at("password"));
    let output = command.output()?;
    assert_eq!(output.status.code(), Some(77), "{output:?}");
    assert!(String::from_utf8(output.stderr)?.contains("is not believed"));
    Ok(())
}

#[test]
fn what_vanishes_or_changes_on_the_server_is_noticed() -> Outcome {
    let both = Both::start(Kind::Vsftpd, Tls::No, "")?;
    let root = both.server.root();
    fs::create_dir(root.join("d"))?;
    put(&root.join("d/a"), &random(8 * MIB, 6))?;
    put(&root.join("d/b"), &random(3 * MIB, 7))?;
    let new = random(8 * MIB, 8);
    let to = both.at("to");
    let words = ["pull", &both.server.url("d/."), &to.display().to_string(), "--jobs", "1", "--limit-rate", "4M"];
    let child = both.command(&words)?.spawn()?;
    while part_bytes(&to) < 3 * MIB as u64 {
        sleep(Duration::from_millis(1));
    }
    fs::write(root.join("d/new"), &new)?;
    fs::rename(root.join("d/new"), root.join("d/a"))?;
    fs::remove_file(root.join("d/b"))?;
    let output = child.wait_with_output()?;
    let end = end_of(&output)?;
    assert_eq!((output.status.code(), end["failed"].as_u64()), (Some(74), Some(1)), "{output:?}");
    assert!(fs::read(to.join("a"))? == new && !to.join("b").exists());
    Ok(())
}

#[test]
fn a_server_that_takes_few_connections_is_not_asked_for_more() -> Outcome {
    for (kind, more) in [(Kind::Vsftpd, "max_per_ip=2"), (Kind::Proftpd, "MaxClientsPerHost 2")] {
        let both = Both::start(kind, Tls::No, more)?;
        fs::create_dir(both.at("tree"))?;
        for number in 0..40 {
            put(&both.at("tree").join(number.to_string()), &random(10_000, number))?;
        }
        let (from, to) = (both.at("tree/.").display().to_string(), both.server.url("all"));
        let end = both.run(&["push", &from, &to])?;
        assert_eq!((end["files"].as_u64(), end["failed"].as_u64()), (Some(40), Some(0)), "{kind:?} {end}");
        assert_same(&both.at("tree"), &both.server.root().join("all"))?;
    }
    Ok(())
}

#[test]
fn a_server_that_does_not_go_on_with_files_gets_them_from_the_start() -> Outcome {
    let both = Both::start(Kind::Proftpd, Tls::No, "AllowStoreRestart off\nAllowOverwrite off")?;
    let content = random(6 * MIB, 11);
    put(&both.at("large"), &content)?;
    let (from, to) = (both.at("large").display().to_string(), both.server.url("."));
    let mut child = both.command(&["push", &from, &to, "--limit-rate", "2M"])?.spawn()?;
    while part_bytes(both.server.root()) < 3 * MIB as u64 {
        assert!(child.try_wait()?.is_none(), "it was done too soon");
        sleep(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()?;
    let end = both.run(&["push", &from, &to])?;
    assert_eq!(end["stood_bytes"].as_u64(), Some(0), "{end}");
    assert!(fs::read(both.server.root().join("large"))? == content);
    Ok(())
}

/// Needs root, for a file system of its own.
#[test]
fn a_full_disk_of_the_server_is_said() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        println!("not root: no small disk can be mounted");
        return Ok(());
    }
    let both = Both::start(Kind::Proftpd, Tls::No, "")?;
    put(&both.at("large"), &random(12 * MIB, 12))?;
    let small = both.server.root().join("small");
    fs::create_dir(&small)?;
    let mount = |options: &str| Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&small).status();
    assert!(mount("size=8m,mode=777")?.success());
    let done = (|| -> Outcome {
        let (from, to) = (both.at("large").display().to_string(), both.server.url("small"));
        let output = both.command(&["push", &from, &to, "--retry-for", "3s"])?.output()?;
        assert_eq!(output.status.code(), Some(74), "{output:?}");
        println!("{}", String::from_utf8_lossy(&output.stderr));
        assert!(!small.join("large").exists());
        assert!(mount("remount,size=32m,mode=777")?.success());
        let end = both.run(&["push", &from, &to])?;
        assert!(end["stood_bytes"].as_u64() >= Some(4 * MIB as u64), "{end}");
        Ok(())
    })();
    assert!(Command::new("umount").arg(&small).status()?.success());
    done
}
