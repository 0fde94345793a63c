//! What is told of functions and their calls.

use super::function::LogsArgs;
use crate::output::{self, plain, table};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_base::{Error, Result};
use holdfast_function::{Call, End, Limits, Listed, Record, Store};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;

/// A call, as JSON.
pub(super) fn call_json(call: &Call) -> Value {
    json!({
        "id": call.id.to_string(), "ok": call.end == End::Done, "end": call.end.to_string(), "exit": call.end.exit(), "cold": call.cold,
        "waited_us": call.waited_us, "ran_us": call.ran_us, "input_bytes": call.input_bytes,
        "output": STANDARD.encode(&call.output), "log": String::from_utf8_lossy(&call.log), "log_cut": call.log_cut,
    })
}

fn limits_json(limits: &Limits) -> Value {
    json!({
        "seconds": limits.seconds, "input_bytes": limits.input, "output_bytes": limits.output, "log_bytes": limits.log,
        "kept_bytes": limits.kept, "concurrency": limits.concurrency, "waiting": limits.waiting, "warm": limits.warm,
    })
}

fn listed_json(one: &Listed) -> Value {
    let (name, version) = (one.name.as_str(), one.version.to_string());
    let deployed_ms = one.version.made_ms();
    match &one.manifest {
        Ok(manifest) => json!({
            "name": name, "version": version, "deployed_ms": deployed_ms, "command": manifest.command,
            "invoke": manifest.invoke, "limits": limits_json(&manifest.limits),
        }),
        Err(error) => {
            json!({ "name": name, "version": version, "deployed_ms": deployed_ms, "error": error.to_string() })
        }
    }
}

pub(super) fn list(store: &Store, json: bool) -> anyhow::Result<ExitCode> {
    let all = store.list()?;
    let row = |one: &Listed| {
        let mut row = vec![one.name.to_string(), output::time(one.version.made_ms())];
        match &one.manifest {
            Ok(manifest) => {
                let limits = &manifest.limits;
                row.extend([limits.warm.to_string(), limits.concurrency.to_string(), format!("{} s", limits.seconds)]);
                row.push(manifest.command.join(" "));
            }
            Err(error) => row.extend(["-".into(), "-".into(), "-".into(), error.to_string()]),
        }
        row
    };
    output::show(json, &all.iter().map(listed_json).collect::<Vec<_>>(), |_| {
        let rows: Vec<_> = all.iter().map(row).collect();
        table(&["NAME", "DEPLOYED", "WARM", "CONCURRENCY", "TIME", "COMMAND"], &rows)
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn logs(args: &LogsArgs, json: bool) -> anyhow::Result<ExitCode> {
    let store = args.named.store.open()?;
    let name = &args.named.name;
    if store.current(name)?.is_none() {
        return Err(Error::not_found(format!("there is no function {name}")).into());
    }
    let records = store.records(name);
    if let Some(id) = &args.id {
        let record = records.one(id.parse()?)?;
        if args.output {
            let missing = || Error::not_found(format!("the output of call {id} was not kept: {}", why_not(&record)));
            std::io::stdout().write_all(&record.output().ok_or_else(missing)?).map_err(Error::from)?;
        } else {
            output::show(json, &record, words)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let last = || records.last(usize::try_from(args.limit).unwrap_or(usize::MAX), |_| true);
    if !args.follow {
        let last = last()?;
        output::show(json, &last, |last| last.iter().map(words).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let tell = |record: &Record| {
        let text = if json { serde_json::to_string(record).unwrap_or_default() + "\n" } else { words(record) };
        let mut out = std::io::stdout().lock();
        // Whoever reads may have gone, and then it is enough.
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
    };
    let seen = RefCell::new(BTreeSet::new());
    let before = || -> Result<()> {
        for record in last()? {
            // If nobody reads any more, the next finds that out.
            let _ = tell(&record);
            seen.borrow_mut().insert(record.id);
        }
        Ok(())
    };
    // One that ended in this moment is in both.
    records.follow(before, |record| seen.borrow_mut().remove(&record.id) || tell(&record))?;
    Ok(ExitCode::SUCCESS)
}

fn why_not(record: &Record) -> String {
    if record.ok {
        format!("its {} bytes are more than the function keeps", record.output_bytes)
    } else {
        record.end.clone()
    }
}

/// A call in words: a line, and its log below it.
fn words(record: &Record) -> String {
    let ms = |us: u64| us as f64 / 1_000.0;
    let start = if record.cold { "cold" } else { "warm" };
    let mut text = format!(
        "{}  {}  {start}  {:.1} ms  {} B in, {} B out  {}",
        output::time(record.at_ms),
        record.id,
        ms(record.ran_us),
        record.input_bytes,
        record.output_bytes,
        record.end
    );
    if record.waited_us >= 1_000 {
        let _ = write!(text, "  waited {:.1} ms", ms(record.waited_us));
    }
    if !record.by.is_empty() {
        let _ = write!(text, "  by {}", record.by);
    }
    text.push('\n');
    for line in record.log.lines() {
        let _ = writeln!(text, "    {}", plain(&line.replace('\t', "    ")));
    }
    if record.log_cut {
        text.push_str("    … (more was written than is kept)\n");
    }
    text
}
