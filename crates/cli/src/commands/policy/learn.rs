//! `holdfast policy learn`: the policy that a program needed.

use super::Text;
use crate::commands::run::{to_its_end, told};
use crate::output;
use clap::Args;
use holdfast_base::{Clock, Error, SystemClock};
use holdfast_confine::control::About;
use holdfast_confine::{Command, Confined, Notes};
use holdfast_policy::Decision;
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// What the program asks for is allowed, so let it do only what it should.
#[derive(Debug, Args)]
pub(crate) struct LearnArgs {
    /// A policy that holds meanwhile, in TOML: what it allows is not learned, what its rules refuse stays refused, and only what none of them speaks of is allowed and
    /// learned. Its network, UNIX sockets, devices, environment and limits are the program's. What is written has its rules, too. Without one, the program has what its account has
    /// at the network.
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// Where the policy is written; - is standard output. A file of this name is not overwritten.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Allow what was seen and nothing else. Without this, folders in which names are made or that are listed are lines, and so are the system's.
    #[arg(long)]
    exact: bool,
    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// It ends as the program does, and writes the policy whichever way that is.
pub(super) fn run(args: &LearnArgs) -> anyhow::Result<ExitCode> {
    let to_stdout = args.output == Path::new("-");
    if !to_stdout && args.output.symlink_metadata().is_ok() {
        let exists = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(Error::from(exists).context(args.output.display()).into());
    }
    let text = args.base.as_deref().map(Text::of).transpose()?;
    let base = text.as_ref().map(Text::policy).transpose()?;
    if base.as_ref().is_some_and(|base| base.default() == Decision::Allow) {
        let why = "a base that allows by default refuses nothing of which the program could be seen to need it";
        return Err(Error::invalid(why).into());
    }
    let folder = std::env::current_dir().map_err(|error| Error::from(error).context("the working directory"))?;
    let notes = Arc::new(Notes::new());
    let policy = match &text {
        Some(text) => text.policy()?,
        None => Notes::base(&folder),
    };
    let about = About {
        command: args.words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        policy: "what is learned".into(),
        since_ms: SystemClock.now_ms(),
    };
    let command = Command {
        words: args.words.clone(),
        folder: folder.clone(),
        terminal: std::io::stdin().is_terminal(),
        ..Command::default()
    };
    let (confined, outcome) = to_its_end(about, || Ok(Confined::learn(policy, &command, notes.clone())?))?;
    confined.finish();
    let written = notes.write(base.as_ref(), &folder, args.exact)?;
    if written.missed > 0 {
        eprintln!("holdfast: {} requests are not in the policy: there were too many names", written.missed);
    }
    if written.exact && !args.exact {
        eprintln!(
            "holdfast: the policy allows exactly what was seen, since anything more general contradicts the base"
        );
    }
    if to_stdout {
        output::print(&written.text);
    } else {
        let at = |error: std::io::Error| Error::from(error).context(args.output.display());
        let mut file = File::create_new(&args.output).map_err(at)?;
        if let Err(error) = file.write_all(written.text.as_bytes()).and_then(|()| file.sync_all()) {
            // Half a policy is none, and would be in the way of the next try.
            let _ = std::fs::remove_file(&args.output);
            return Err(at(error).into());
        }
    }
    Ok(told(outcome))
}
