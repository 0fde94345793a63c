//! Prints what calls take under a broker, beside the same natively: `cost [CALLS]`. The two are made by turns, by this program itself, which the broker is asked about
//! in every call that it can be asked about.

use holdfast_broker::{Broker, Options, calls};
use holdfast_policy::{Judge, Request, Verdict};
use holdfast_sandbox::{Device, Root, Sandbox, Stream};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

/// The argument by which it is the program that makes the calls.
const WORK: &str = "work";
const ROUNDS: usize = 5;

struct All;

impl Judge for All {
    fn judge(&self, _: &Request<'_>) -> Verdict {
        Verdict { allowed: true, rule: None }
    }
}

/// Makes the calls, and prints nanoseconds of each kind.
fn work(count: u32) -> Result<(), Failure> {
    let path = "/usr/bin/env";
    let mut sink = File::options().write(true).open("/dev/null")?;
    let one = |mut call: Box<dyn FnMut() -> std::io::Result<()>>| -> Result<u128, Failure> {
        let began = Instant::now();
        for _ in 0..count {
            call()?;
        }
        Ok(began.elapsed().as_nanos() / u128::from(count.max(1)))
    };
    let stat = one(Box::new(|| std::fs::metadata(path).map(drop)))?;
    let open = one(Box::new(|| File::open(path).map(drop)))?;
    let write = one(Box::new(move || sink.write_all(b"x")))?;
    println!("{stat} {open} {write}");
    Ok(())
}

fn numbers(text: &str) -> Result<Vec<u64>, Failure> {
    let numbers: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    if numbers.len() == 3 { Ok(numbers) } else { Err(format!("it said {text:?}").into()) }
}

fn natively(words: &[String]) -> Result<Vec<u64>, Failure> {
    numbers(&String::from_utf8(Command::new(&words[0]).args(&words[1..]).output()?.stdout)?)
}

fn brokered(words: &[String]) -> Result<Vec<u64>, Failure> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let mut sandbox = Sandbox::new(words);
    sandbox.root = Root::Host;
    sandbox.devices = vec![Device::Null];
    sandbox.stdin = Stream::Null;
    sandbox.stdout = Stream::Given(write);
    sandbox.notify = calls(&All);
    let mut running = sandbox.start()?;
    let listener = running.take_listener().ok_or("nobody is asked")?;
    let broker = Broker::new(listener, Arc::new(All), Options::default())?;
    let mut text = String::new();
    std::thread::scope(|scope| -> Result<(), Failure> {
        let served = scope.spawn(|| broker.run());
        File::from(read).read_to_string(&mut text)?;
        running.wait()?;
        served.join().map_err(|_| "the broker panicked")??;
        Ok(())
    })?;
    numbers(&text)
}

fn measure(count: u32) -> Result<(), Failure> {
    let own = std::env::current_exe()?.into_os_string().into_string().map_err(|_| "a path that is not text")?;
    let words = [own, WORK.to_owned(), count.to_string()];
    let mut both = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        both[0].push(natively(&words)?);
        both[1].push(brokered(&words)?);
    }
    for (place, call) in ["stat", "open and close", "write"].into_iter().enumerate() {
        let [native, asked] = both.each_ref().map(|rounds| {
            let mut times: Vec<u64> = rounds.iter().map(|round| round[place]).collect();
            times.sort_unstable();
            times[ROUNDS / 2]
        });
        println!("{call:15} {native:6} ns natively, {asked:6} ns under a broker (medians of {ROUNDS} times {count})");
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(10_000);
    let done = if words.first().is_some_and(|word| word == WORK) { work(number(1)) } else { measure(number(0)) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("it did not run: {why}");
            ExitCode::FAILURE
        }
    }
}
