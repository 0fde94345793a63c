//! A drive of this program on the far host, with the files in it: one for rows of one file, all for rows of many.
//!
//! It is made once a run, on loopback and before anything is measured.

use std::fs;
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::files::name;
use crate::shared::quote;

/// Its account, and so its space.
const ACCOUNT: &str = "bench";
/// Until it answers.
const READY_LIMIT: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(20);

/// Makes it in `folder`, unless that was done.
pub(super) fn make(
    program: &str,
    folder: &Path,
    files: &Path,
    counts: [usize; 2],
    host: Ipv4Addr,
) -> anyhow::Result<()> {
    let done = folder.join("done");
    if done.exists() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let (data, password, token) = (folder.join("data"), folder.join("password"), folder.join("token"));
    let mut random = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    secret(&password, &blake3::hash(&random).to_hex())?;
    let words = |words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).arg("--data").arg(&data).arg("--password-file").arg(&password);
        command
    };
    run(&mut words(&["account", "add", ACCOUNT]))?;
    let told = run(&mut words(&["token", "create", "wan", "--user", ACCOUNT, "--json"]))?;
    let told: serde_json::Value = serde_json::from_slice(&told)?;
    secret(&token, told["token"].as_str().context("no token was told")?)?;
    let address = folder.join("address");
    let mut serve = Command::new(program);
    serve.args(["serve", "--listen", "https://127.0.0.1:0", "--tls-self-signed", "--tls-name"]).arg(host.to_string());
    serve.arg("--data").arg(&data).arg("--address-file").arg(&address).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = serve.spawn().with_context(|| format!("cannot run {program}"))?;
    let filled = fill(program, folder, files, counts, (&mut server, &address));
    let stopped = stop(&mut server);
    filled?;
    stopped?;
    Ok(fs::write(done, "")?)
}

fn fill(
    program: &str,
    folder: &Path,
    files: &Path,
    counts: [usize; 2],
    (server, address): (&mut Child, &Path),
) -> anyhow::Result<()> {
    let began = Instant::now();
    let url = loop {
        if let Some(url) = fs::read_to_string(address).ok().as_deref().and_then(|text| text.lines().next()) {
            break url.trim_end_matches('/').to_owned();
        }
        ensure!(server.try_wait()?.is_none(), "the drive ended at once");
        ensure!(began.elapsed() < READY_LIMIT, "the drive does not answer");
        std::thread::sleep(LOOK);
    };
    for count in counts {
        let mut push = Command::new(program);
        push.arg("push").args((0..count).map(|index| files.join(name(index))));
        push.arg(format!("{url}/{ACCOUNT}/{count}")).args(["--quiet", "--plane", "tcp", "--token-file"]);
        run(push.arg(folder.join("token")).arg("--ca").arg(certificate(folder)))?;
    }
    Ok(())
}

fn certificate(folder: &Path) -> std::path::PathBuf {
    folder.join("data/tls/self-signed.pem")
}

/// The command that serves it.
pub(super) fn server(program: &str, folder: &Path, host: Ipv4Addr, port: u16) -> String {
    let (program, data) = (quote(program), quote(&folder.join("data").display().to_string()));
    format!("exec {program} serve --data {data} --listen https://{host}:{port} --tls-self-signed --tls-name {host}")
}

fn stop(server: &mut Child) -> anyhow::Result<()> {
    if let Some(id) = i32::try_from(server.id()).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(id, Signal::TERM);
    }
    server.wait().context("waiting for the drive")?;
    Ok(())
}

fn secret(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o600))?)
}

fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.stderr(Stdio::piped()).output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}
