//! `holdfast run logs`: what a confined program was refused so far, and what happens from now on. And what another policy has ended.

use crate::output::{self, plain};
use holdfast_base::Error;
use holdfast_confine::control::{self, Log, Reply, Request, Seen};
use holdfast_confine::{Decided, Ended, Revoked};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

/// Shows the last decisions about a program; with `follow`, goes on to its end.
pub(crate) fn show(id: u32, follow: bool, json: bool) -> anyhow::Result<ExitCode> {
    let found = control::one(id)?;
    if !follow {
        let Reply::Log(log) = control::ask(&found, &Request::Log { follow: false })? else {
            return Err(Error::invalid("the supervisor answers something else").into());
        };
        note(&log.seen);
        output::show(json, &log, words)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut first = true;
    control::follow(&found, |log| {
        if std::mem::take(&mut first) {
            note(&log.seen);
        }
        let text = if json { lines(&log) } else { page(&log) };
        let mut out = std::io::stdout().lock();
        // Whoever reads may have gone, and then it is enough.
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What is not among it.
fn note(seen: &Seen) {
    match seen {
        Seen::Everywhere => {}
        Seen::In(folders) => {
            let folders: Vec<_> = folders.iter().map(|folder| plain(&folder.display().to_string())).collect();
            let folders = folders.join(", ");
            eprintln!(
                "holdfast: refusals are seen in {folders}; of those elsewhere the kernel tells the program alone"
            );
        }
        Seen::Nowhere => eprintln!(
            "holdfast: mounts hold its policy, and of what they refuse the kernel tells the program alone; started with --audit or --kill-after, a broker would hold it and see that"
        ),
    }
}

fn words(log: &Log) -> String {
    page(log) + &total(log)
}

/// Decisions, and at the end of the program the sum.
fn page(log: &Log) -> String {
    let missed =
        if log.missed > 0 { format!("{} before these are not kept any more\n", log.missed) } else { String::new() };
    let end = if log.ended { total(log) } else { String::new() };
    missed + &log.records.iter().map(line).collect::<String>() + &end
}

fn line(one: &Decided) -> String {
    let Decided { time_ms, pid, program, operation, path, allowed, rule, mechanism, .. } = one;
    let time = output::time(i64::try_from(*time_ms).unwrap_or(i64::MAX));
    let decision = if *allowed { "allowed" } else { "refused" };
    let by = rule.as_ref().map_or("the default".into(), |rule| format!("rule {} ({})", rule.number, plain(&rule.text)));
    format!("{time}  {decision}  {operation} {}  by {} ({pid}): {by}, {mechanism}\n", plain(path), plain(program))
}

fn total(log: &Log) -> String {
    log.counters.map_or_else(String::new, |counters| {
        let control::Counts { calls, allowed, denied, unserved, killed } = counters;
        format!("{denied} refused, {allowed} allowed, {unserved} not served, {killed} killed, of {calls} calls\n")
    })
}

/// Decisions as they are in the file of --audit, a line each; at the end of the program the sum.
fn lines(log: &Log) -> String {
    let missed = (log.missed > 0).then(|| json!({ "missed": log.missed }).to_string() + "\n");
    let records = log.records.iter().map(|one| serde_json::to_string(one).unwrap_or_default() + "\n");
    let end = log.ended.then(|| json!({ "counters": log.counters, "ended": true }).to_string() + "\n");
    missed.into_iter().chain(records).chain(end).collect()
}

/// What was ended because of what it had open.
pub(crate) fn ended(revoked: &Revoked) -> String {
    if revoked.count() == 0 {
        return "nothing that it refuses was open".into();
    }
    let line = |one: &Ended| format!("ended {} {}: {}\n", one.pid, plain(&one.program), plain(&one.had.join("; ")));
    let more = if revoked.more > 0 { format!("and {} more\n", revoked.more) } else { String::new() };
    revoked.ended.iter().map(line).collect::<String>() + &more
}
