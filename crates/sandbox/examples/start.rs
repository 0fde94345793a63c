//! Prints what it takes to run `true` confined, beside a native one: `start [ROUNDS [RULES [MIB]]]`. The two are run by turns, by a process with so many hidden
//! paths in its view, and so much memory of its own.

use holdfast_sandbox::{Access, Device, Sandbox, Stream};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

fn native() -> Result<Duration, String> {
    let began = Instant::now();
    let status =
        Command::new("/bin/true").env_clear().stdin(Stdio::null()).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(began.elapsed()) } else { Err(status.to_string()) }
}

/// The same, seeing the system's programs and libraries, and as many hidden paths as are asked for.
fn confined(hidden: &[std::path::PathBuf]) -> Result<Duration, String> {
    let began = Instant::now();
    let mut sandbox = Sandbox::new(["/bin/true"]);
    for folder in ["/usr", "/bin", "/lib", "/lib64", "/etc"] {
        sandbox.view.push(holdfast_sandbox::Mount::new(folder, Access::ReadExec).optional());
    }
    for path in hidden {
        sandbox.view.push(holdfast_sandbox::Mount::new(path, Access::Hidden));
    }
    sandbox.devices = Device::ALL.to_vec();
    sandbox.proc = true;
    sandbox.tmp_bytes = Some(1 << 20);
    sandbox.stdin = Stream::Null;
    let running = sandbox.start().map_err(|error| error.to_string())?;
    let outcome = running.wait().map_err(|error| error.to_string())?;
    if outcome.success() { Ok(began.elapsed()) } else { Err(outcome.status.to_string()) }
}

fn main() -> ExitCode {
    let number = |at, default| std::env::args().nth(at).and_then(|word| word.parse().ok()).unwrap_or(default);
    let (rounds, rules) = (number(1, 200), number(2, 0));
    // Never looked at, and yet there to be copied: each page is written once.
    let ballast = vec![1_u8; number(3, 0) << 20];
    let names = std::fs::read_dir("/usr/bin").into_iter().flatten().flatten();
    let plain = names.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()) && entry.file_name() != "true");
    let hidden: Vec<_> = plain.map(|entry| entry.path()).take(rules).collect();
    let (mut natively, mut confinedly) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        match (native(), confined(&hidden)) {
            (Ok(one), Ok(other)) => {
                natively.push(one);
                confinedly.push(other);
            }
            (Err(why), _) | (_, Err(why)) => {
                eprintln!("true did not run: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    for (what, times) in [("native", &mut natively), ("confined", &mut confinedly)] {
        times.sort_unstable();
        let at = |of: usize| times.get(times.len() * of / 100).copied().unwrap_or_default();
        println!("{what:8} median {:?}, of {} from {:?} (5 %) to {:?} (95 %)", at(50), times.len(), at(5), at(95));
    }
    println!("rules    {}, memory {} MiB", hidden.len(), ballast.len() >> 20);
    ExitCode::SUCCESS
}
