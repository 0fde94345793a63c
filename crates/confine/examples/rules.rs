//! Prints what it takes to start `true` under policies with more and more rules, beside a native one: `rules [ROUNDS [RULES…]]`. Rules are lines for single files
//! of one folder, once inside of a tree that may be written (`inside`), and once where nothing else is (`alone`). All are run by turns; each run reads its policy anew.

use holdfast_confine::{Command, Confined, Watch};
use holdfast_policy::Policy;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

fn native() -> Result<Duration, Failure> {
    let began = Instant::now();
    let status = std::process::Command::new("/bin/true").env_clear().stdin(Stdio::null()).status()?;
    if status.success() { Ok(began.elapsed()) } else { Err(status.to_string().into()) }
}

fn confined(text: &str) -> Result<Duration, Failure> {
    let began = Instant::now();
    let policy =
        Policy::from_toml("start", Path::new("/"), text.as_bytes()).map_err(|mistakes| mistakes.to_string())?;
    let command = Command { words: vec!["/bin/true".into()], folder: PathBuf::from("/usr"), ..Command::default() };
    let outcome = Confined::start(policy, &command, Watch::default())?.wait()?;
    if outcome.success() { Ok(began.elapsed()) } else { Err(outcome.status.to_string().into()) }
}

/// A policy with so many lines for files of a folder, in which there are that many.
fn text(folder: &Path, rules: usize, inside: bool) -> String {
    let mut text = String::from("devices = [\"null\"]\n[files]\n");
    for tree in ["/usr", "/bin", "/lib", "/lib64"] {
        let _ = writeln!(text, "{tree:?} = \"read+exec\"");
    }
    if inside {
        let _ = writeln!(text, "\"{}\" = \"all\"", folder.display());
    }
    for number in 0..rules {
        let _ = writeln!(text, "\"{}/{number}\" = \"read\"", folder.display());
    }
    text
}

fn measure(rounds: usize, rules: &[usize]) -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("holdfast-start-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let most = rules.iter().copied().max().unwrap_or(0);
    let done = (0..most).try_for_each(|number| std::fs::write(folder.join(number.to_string()), "")).map_err(Into::into);
    let done = done.and_then(|()| rounds_of(rounds, rules, &folder));
    std::fs::remove_dir_all(&folder)?;
    done
}

fn rounds_of(rounds: usize, rules: &[usize], folder: &Path) -> Result<(), Failure> {
    let both = rules.iter().flat_map(|rules| [(*rules, false), (*rules, true)]);
    let policies: Vec<_> = both
        .map(|(rules, inside)| {
            (format!("{rules} {}", if inside { "inside" } else { "alone" }), text(folder, rules, inside))
        })
        .collect();
    let mut times = vec![Vec::new(); policies.len() + 1];
    for _ in 0..rounds {
        times[0].push(native()?);
        for ((_, text), times) in policies.iter().zip(&mut times[1..]) {
            times.push(confined(text)?);
        }
    }
    let names = std::iter::once("native").chain(policies.iter().map(|(name, _)| name.as_str()));
    for (name, times) in names.zip(&mut times) {
        times.sort_unstable();
        let at = |of: usize| times.get(times.len() * of / 100).copied().unwrap_or_default();
        println!("{name:12} median {:?}, of {rounds} from {:?} (5 %) to {:?} (95 %)", at(50), at(5), at(95));
    }
    Ok(())
}

fn main() -> ExitCode {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let (rounds, rules) = numbers.split_first().map_or((40, [].as_slice()), |(rounds, rules)| (*rounds, rules));
    let rules = if rules.is_empty() { &[0, 32, 128, 1024] } else { rules };
    match measure(rounds, rules) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("it did not run: {why}");
            ExitCode::FAILURE
        }
    }
}
