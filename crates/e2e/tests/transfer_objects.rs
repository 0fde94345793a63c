//! `holdfast push`, `pull` and `sync` with a bucket, a WebDAV server and a container of others: the addresses and options, and `kill -9` in between.

use holdfast_e2e::Outcome;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::program;
use holdfast_testkit::services::apache::Apache;
use holdfast_testkit::services::proxy::Proxy;
use holdfast_testkit::services::seaweed::Seaweed;
use holdfast_testkit::services::swift::{Swift, SwiftOptions};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

const MIB: usize = 1 << 20;

fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Prng::new(seed);
    (0..bytes.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).take(bytes).collect()
}

/// A folder with what the program is told, and what it keeps.
struct Rig {
    folder: tempfile::TempDir,
}

impl Rig {
    fn new(password: &str) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("password"), password)?;
        fs::create_dir_all(folder.path().join("from/deep/er"))?;
        fs::write(folder.path().join("from/large"), random(1, 60 * MIB))?;
        fs::write(folder.path().join("from/deep/er/a b+%41"), b"small")?;
        fs::write(folder.path().join("from/empty"), b"")?;
        Ok(Self { folder })
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Outcome<Command> {
        let mut command = Command::new(program()?);
        command.args(arguments).args(["--json", "--password-file", &self.path("password")]);
        command.env("XDG_STATE_HOME", self.path("state")).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    fn done(&self, arguments: &[&str]) -> Outcome<Value> {
        let output = self.command(arguments)?.output()?;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        end_of(&output)
    }
}

fn end_of(output: &Output) -> Outcome<Value> {
    let text = std::str::from_utf8(&output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().ok_or_else(|| format!("nothing was said: {output:?}"))?)?)
}

fn same(a: &Path, b: &Path) -> Outcome<bool> {
    Ok(Command::new("diff").arg("-r").args([a, b]).status()?.success())
}

/// There, again, back, and what is gone goes.
fn there_and_back(rig: &Rig, address: &str, more: &[&str]) -> Outcome {
    let with = |arguments: &[&str]| rig.done(&[arguments, more].concat());
    let (from, back) = (rig.path("from"), rig.path("back"));
    assert_eq!(with(&["push", &from, address])?["files"], 3);
    let again = with(&["push", &from, address])?;
    assert_eq!((&again["files"], &again["moved_bytes"]), (&Value::from(0), &Value::from(0)));
    with(&["pull", &format!("{address}/from"), &back])?;
    assert!(same(Path::new(&from), &Path::new(&back).join("from"))?);
    fs::remove_dir_all(rig.folder.path().join("from/deep"))?;
    assert_eq!(with(&["sync", &from, &format!("{address}/from"), "--delete"])?["deleted"], 3);
    with(&["sync", &format!("{address}/from"), &format!("{back}/from"), "--delete"])?;
    assert!(same(Path::new(&from), &Path::new(&back).join("from"))?);
    Ok(())
}

fn refused(rig: &Rig, arguments: &[&str], code: i32) -> Outcome {
    fs::write(rig.folder.path().join("password"), "wrong")?;
    let output = rig.command(arguments)?.output()?;
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    Ok(())
}

#[test]
fn a_bucket_is_pushed_to_killed_gone_on_with_and_pulled_from() -> Outcome {
    let (seaweed, rig) = (Seaweed::start()?, Rig::new(Seaweed::SECRET_ACCESS_KEY)?);
    let proxy = Proxy::start(seaweed.s3_port)?;
    let endpoint = proxy.url();
    let options = ["--endpoint", &endpoint, "--user", Seaweed::ACCESS_KEY_ID];
    let address = format!("s3://{}/some%20where", Seaweed::BUCKET);
    let parts = || proxy.seen().iter().filter(|request| request.path.contains("partNumber")).count();
    let from = rig.path("from");
    let mut child = rig.command(&[&["push", &from, &address][..], &options].concat())?.spawn()?;
    // Four of eight parts are sent side by side, so one has arrived.
    while parts() < 5 {
        assert!(child.try_wait()?.is_none(), "it was done too soon");
        sleep(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()?;
    let before = parts();
    let end = rig.done(&[&["push", &from, &address][..], &options].concat())?;
    let stood = end["stood_bytes"].as_u64();
    println!("{before} parts were begun before the kill and {} after it; {stood:?} bytes stood", parts() - before);
    assert!(stood >= Some(8 * MIB as u64) && parts() <= 8 + 4, "{end}");
    there_and_back(&rig, &format!("{address}/again"), &options)?;
    refused(&rig, &[&["push", &from, &address][..], &options].concat(), 77)
}

#[test]
fn a_webdav_server_is_pushed_to_and_pulled_from() -> Outcome {
    let (apache, rig) = (Apache::start()?, Rig::new(Apache::PASSWORD)?);
    let address = format!("dav:http://{}@127.0.0.1:{}/some%20where", Apache::USER, apache.port);
    there_and_back(&rig, &address, &[])?;
    refused(&rig, &["push", &rig.path("from"), &address], 77)
}

#[test]
fn a_container_is_pushed_to_and_pulled_from() -> Outcome {
    let (swift, rig) = (Swift::start(SwiftOptions::default())?, Rig::new(Swift::KEY)?);
    let options = ["--endpoint", &swift.auth_url(), "--user", Swift::USER];
    let address = format!("swift://{}/some%20where", Swift::CONTAINER);
    there_and_back(&rig, &address, &options)?;
    refused(&rig, &[&["push", &rig.path("from"), &address][..], &options].concat(), 77)
}
