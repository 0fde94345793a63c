//! What `push`, `pull` and `sync` say, in words and in JSON.

use crate::output::plain;
use holdfast_base::size::format_bytes;
use holdfast_transfer::{Act, Counts, Event, Failure, Report, UnderWay, What};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Failures that the summary names; each was told when it happened.
const FAILURES_NAMED: usize = 20;

/// Bytes a second.
pub(super) fn per_second(bytes: u64, time: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000 / time.as_millis().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

pub(super) fn failed_words(failure: &Failure) -> String {
    plain(&format!("{}: {}", failure.path, failure.message))
}

/// Of what a person should hear while it goes on.
pub(super) fn trouble_words(event: &Event) -> Option<String> {
    match event {
        Event::Failed(failure) => Some(failed_words(failure)),
        Event::Retry { path, why, wait } => {
            let again = time_words(*wait);
            Some(plain(&format!("{path}: {why}; trying again in {again}")))
        }
        _ => None,
    }
}

pub(super) fn would_words(act: &Act, root: &str) -> String {
    let path = plain(&format!("{root}{}", act.path));
    match &act.what {
        What::Folder => format!("make folder    {path}"),
        What::File { bytes, replaces: false } => format!("copy           {path} ({})", format_bytes(*bytes)),
        What::File { bytes, replaces: true } => format!("replace        {path} ({})", format_bytes(*bytes)),
        What::Link { to, .. } => format!("link           {path} -> {}", plain(to)),
        What::Delete => format!("delete         {path}"),
        What::DeleteSource => format!("delete source  {}", plain(&act.path.to_string())),
    }
}

fn act_json(event: &str, act: &Act) -> Value {
    let mut value = json!({ "event": event, "path": act.path.to_string() });
    let (what, more) = match &act.what {
        What::Folder => ("folder", json!({})),
        What::File { bytes, replaces } => ("file", json!({ "bytes": bytes, "replaces": replaces })),
        What::Link { to, replaces } => ("link", json!({ "to": to, "replaces": replaces })),
        What::Delete => ("delete", json!({})),
        What::DeleteSource => ("delete-source", json!({})),
    };
    value["what"] = what.into();
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

pub(super) fn event_json(event: &Event) -> Value {
    match event {
        Event::Would(act) => act_json("plan", act),
        Event::Did(act) => act_json("done", act),
        Event::Skipped(path, why) => json!({ "event": "skipped", "path": path.to_string(), "why": why }),
        Event::Retry { path, why, wait } => {
            json!({ "event": "retry", "path": path.to_string(), "why": why, "after_s": wait.as_secs_f64() })
        }
        Event::Failed(failure) => failure_json(failure),
    }
}

fn failure_json(failure: &Failure) -> Value {
    let Failure { path, kind, message } = failure;
    json!({ "event": "failed", "path": path, "exit_code": kind.exit_code(), "message": message })
}

fn counts_json(counts: &Counts) -> Value {
    counts
        .each()
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count.into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

pub(super) fn progress_json(counts: &Counts, under_way: &[UnderWay], rate: u64, left_s: Option<u64>) -> Value {
    let files = under_way.iter().map(|file| {
        json!({ "path": file.path.to_string(), "bytes": file.size, "arrived": file.arrived.load(Ordering::Relaxed) })
    });
    let mut value = counts_json(counts);
    value["event"] = "progress".into();
    value["bytes_per_second"] = rate.into();
    value["left_s"] = left_s.into();
    value["under_way"] = files.collect();
    value
}

pub(super) fn end_json(report: &Report) -> Value {
    let mut value = counts_json(&report.counts);
    value["event"] = "end".into();
    value["took_s"] = report.took.as_secs_f64().into();
    value["bytes_per_second"] = per_second(report.counts.moved_bytes, report.took).into();
    value["stopped"] = report.stopped.into();
    value["nothing_removed_because"] = report.kept.clone().into();
    value["network"] = json!(report.network);
    value
}

pub(super) fn end_words(report: &Report, dry_run: bool) -> String {
    let counts = &report.counts;
    if dry_run {
        let (same, skipped, failed) = (counts.same, counts.skipped, counts.failed);
        return format!(
            "Would move {} of {}; {same} are there already, {skipped} skipped, {failed} cannot be moved.",
            counts.files + counts.links,
            number_of(counts.found, "file", "files")
        );
    }
    let mut lines = vec![format!(
        "{} moved, {} in {} ({}/s); {} were there already, {} skipped, {} failed.",
        number_of(counts.files + counts.links, "file", "files"),
        format_bytes(counts.moved_bytes),
        time_words(report.took),
        format_bytes(per_second(counts.moved_bytes, report.took)),
        counts.same,
        counts.skipped,
        counts.failed,
    )];
    let more = [
        (counts.folders, "folder made", "folders made"),
        (counts.deleted, "removed at the destination", "removed at the destination"),
        (counts.deleted_source, "removed at the source", "removed at the source"),
        (counts.retries, "try repeated", "tries repeated"),
    ];
    let some = more.iter().filter(|(count, ..)| *count > 0);
    lines.extend(some.map(|&(count, one, more)| format!("{}.", number_of(count, one, more))));
    if counts.stood_bytes > 0 {
        lines.push(format!("{} had been brought by an earlier try.", format_bytes(counts.stood_bytes)));
    }
    lines.extend(report.network.map(|network| format!("Network: {network}.")));
    lines.extend(report.kept.iter().map(|why| format!("Nothing was removed: {why}.")));
    if report.stopped {
        lines.push("Stopped before its end; the same command goes on from here.".into());
    }
    if !report.failures.is_empty() {
        lines.push("Failed:".into());
        let named = report.failures.iter().take(FAILURES_NAMED);
        lines.extend(named.map(|failure| format!("  {}", failed_words(failure))));
        let rest = counts.failed.saturating_sub(FAILURES_NAMED as u64);
        lines.extend((rest > 0).then(|| format!("  and {rest} more")));
    }
    lines.join("\n")
}

fn number_of(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

pub(super) fn time_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::DrivePath;

    #[test]
    fn an_event_is_one_line_of_json() {
        let path = DrivePath::parse("a/b").expect("a path");
        let act = Act { path: path.clone(), what: What::File { bytes: 7, replaces: true } };
        let value = event_json(&Event::Did(act));
        assert_eq!(value, json!({"event": "done", "path": "/a/b", "what": "file", "bytes": 7, "replaces": true}));
        assert!(!event_json(&Event::Skipped(path, "it is there")).to_string().contains('\n'));
    }

    #[test]
    fn rates_and_times_are_what_was_seen() {
        assert_eq!(per_second(3_000, Duration::from_millis(1_500)), 2_000);
        assert_eq!(time_words(Duration::from_millis(1_500)), "1.5 s");
        assert_eq!(time_words(Duration::from_secs(3_700)), "1 h 1 min");
    }
}
