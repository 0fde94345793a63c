//! `holdfast pull` from nginx: with parts and without, killed in between, and behind TLS with an authority that is believed or not.

use holdfast_e2e::Outcome;
use holdfast_e2e::encrypted::Encrypted;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::program;
use holdfast_testkit::services::process::{Kept, hand_over};
use holdfast_testkit::services::{find_program, free_port, need};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 12 * MIB + 345;
const START_LIMIT: Duration = Duration::from_secs(30);

/// nginx with one file, at several paths that treat it differently.
struct Nginx {
    _process: Kept,
    folder: tempfile::TempDir,
    port: u16,
}

impl Nginx {
    fn start() -> Outcome<Self> {
        need(&["nginx", "openssl"])?;
        let program = find_program("nginx").ok_or("there is no nginx")?;
        let (folder, port) = (tempfile::tempdir()?, free_port()?);
        let at = folder.path().display().to_string();
        for path in ["parts", "whole", "slow"] {
            fs::create_dir_all(folder.path().join("site").join(path))?;
            let mut rng = Prng::new(1);
            let content = (0..=SIZE / 8).flat_map(|_| rng.next_u64().to_le_bytes()).take(usize::try_from(SIZE)?);
            fs::write(folder.path().join("site").join(path).join("set 1.bin"), content.collect::<Vec<u8>>())?;
        }
        let configuration = format!(
            "daemon off; master_process off; pid {at}/pid; events {{ worker_connections 256; }}\n\
             http {{ access_log off; client_body_temp_path {at}/1; proxy_temp_path {at}/2; fastcgi_temp_path {at}/3;\n\
             uwsgi_temp_path {at}/4; scgi_temp_path {at}/5; server {{ listen 127.0.0.1:{port}; root {at}/site;\n\
             location /whole/ {{ max_ranges 0; }} location /slow/ {{ limit_rate 512k; }}\n\
             location /gone/ {{ return 302 /parts/set%201.bin; }} }} }}\n"
        );
        fs::write(folder.path().join("conf"), configuration)?;
        hand_over(folder.path())?;
        let arguments =
            ["-c".to_owned(), format!("{at}/conf"), "-p".into(), at.clone(), "-e".into(), format!("{at}/log")];
        let mut process = Kept::start("nginx", &program, &arguments, folder.path(), folder.path().join("out"))?;
        process.wait_until(START_LIMIT, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(Self { _process: process, folder, port })
    }

    fn url(&self, path: &str) -> String {
        format!("web:http://127.0.0.1:{}/{path}/set%201.bin", self.port)
    }

    fn content(&self) -> Outcome<Vec<u8>> {
        Ok(fs::read(self.folder.path().join("site/parts/set 1.bin"))?)
    }
}

fn pull(url: &str, to: &Path, more: &[&str]) -> Outcome<Command> {
    let mut command = Command::new(program()?);
    command.args(["pull", url]).arg(to).arg("--json").args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

fn end_of(output: &Output) -> Outcome<Value> {
    let text = std::str::from_utf8(&output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().ok_or_else(|| format!("nothing was said: {output:?}"))?)?)
}

fn part_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let parts = entries.flatten().filter(|entry| entry.path().extension().is_some_and(|ending| ending == "part"));
    parts.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

#[test]
fn a_file_of_nginx_arrives_with_parts_without_and_where_it_is_sent_on_and_the_second_time_not() -> Outcome {
    let nginx = Nginx::start()?;
    for path in ["parts", "whole", "gone"] {
        let to = tempfile::tempdir()?;
        let output = pull(&nginx.url(path), to.path(), &[])?.output()?;
        assert!(output.status.success(), "{path}: {output:?}");
        assert!(fs::read(to.path().join("set 1.bin"))? == nginx.content()?, "{path}");
        let again = pull(&nginx.url(path), to.path(), &[])?.output()?;
        let end = end_of(&again)?;
        assert_eq!((end["same"].as_u64(), end["moved_bytes"].as_u64()), (Some(1), Some(0)), "{path}");
    }
    let missing = pull(&nginx.url("nowhere"), tempfile::tempdir()?.path(), &[])?.output()?;
    assert_eq!(missing.status.code(), Some(66), "{missing:?}");
    Ok(())
}

#[test]
fn a_pull_that_was_killed_asks_only_for_what_it_has_not() -> Outcome {
    let nginx = Nginx::start()?;
    let to = tempfile::tempdir()?;
    let mut child = pull(&nginx.url("slow"), to.path(), &[])?.spawn()?;
    while part_bytes(to.path()) < 6 * MIB {
        assert!(child.try_wait()?.is_none(), "it was done too soon");
        sleep(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()?;
    let output = pull(&nginx.url("slow"), to.path(), &[])?.output()?;
    let stood = end_of(&output)?["stood_bytes"].as_u64();
    println!("{stood:?} of {SIZE} bytes stood");
    assert!(output.status.success() && stood >= Some(5 * MIB), "{output:?}");
    assert!(fs::read(to.path().join("set 1.bin"))? == nginx.content()?);
    Ok(())
}

#[test]
fn a_certificate_is_believed_only_of_the_authority_that_was_named() -> Outcome {
    let nginx = Nginx::start()?;
    let encrypted = Encrypted::start(&format!("http://127.0.0.1:{}", nginx.port))?;
    let url = format!("web:{}/parts/set%201.bin", encrypted.url());
    let to = tempfile::tempdir()?;
    let with = |authority: &Path| -> Outcome<Output> {
        Ok(pull(&url, to.path(), &["--ca", authority.to_str().ok_or("a path that is no text")?])?.output()?)
    };
    let refused = with(&encrypted.other_authority())?;
    assert_eq!(refused.status.code(), Some(77), "{refused:?}");
    assert!(String::from_utf8(refused.stderr)?.contains("is not believed"));
    assert!(fs::read_dir(to.path())?.next().is_none());
    let output = with(&encrypted.authority())?;
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read(to.path().join("set 1.bin"))? == nginx.content()?);
    Ok(())
}
