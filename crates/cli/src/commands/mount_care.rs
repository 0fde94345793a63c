//! `holdfast mount status`, `flush`, `evict`, `pin` and `unpin`, and `holdfast umount`: looking after mounts, through their sockets and never through the folders themselves.

use super::mount::{self, MountArgs};
use crate::output::{self, table};
use clap::{Args, Subcommand};
use holdfast_base::size::format_bytes;
use holdfast_base::{Clock, Error, SystemClock};
use holdfast_mount::control::{self, Reply, Request, unexpected};
use holdfast_mount::status::{DiskCacheStatus, Status};
use serde_json::json;
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Operations under way that are shown to people; JSON has more.
const UNDER_WAY_SHOWN: usize = 20;
/// The same of refused changes.
const REFUSED_SHOWN: usize = 20;

/// The same of what is pinned.
const PINS_SHOWN: usize = 50;

/// Without a command of its own, it mounts.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct MountLine {
    #[command(subcommand)]
    command: Option<MountCommand>,
    #[command(flatten)]
    begin: Option<MountArgs>,
}

/// Looking after mounts. A data directory with such a name is written ./status.
#[derive(Debug, Subcommand)]
enum MountCommand {
    /// Say how this account's mounts do: what waits, what is under way and what it waits for, what was done and how long it took.
    Status {
        /// One mount's folder; without it, all are shown.
        #[arg(value_name = "MOUNTPOINT")]
        at: Option<PathBuf>,
    },
    /// Have everything that was written so far on disk.
    Flush {
        /// The mount's folder.
        #[arg(value_name = "MOUNTPOINT")]
        at: PathBuf,
    },
    /// Let go of content in memory and in the cache: it is read anew. What is pinned stays.
    Evict {
        /// The mount's folder.
        #[arg(value_name = "MOUNTPOINT")]
        at: PathBuf,
        /// A file or folder in it, from the mount's root on; without it, everything.
        #[arg(value_name = "PATH")]
        path: Option<String>,
        /// Of what is pinned, too; it is fetched again.
        #[arg(long)]
        pinned: bool,
    },
    /// Keep files and everything below folders on this machine, for when the server is away: they are fetched in the background, and stay in the cache
    /// (--cache) until they are unpinned. What is made in a pinned folder later is kept as well. `holdfast mount status` says how far that is.
    Pin {
        /// Files and folders in mounts.
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
    },
    /// Let files and folders go from the cache again when there is no room.
    Unpin {
        /// What was pinned.
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
    },
}

/// Options of `holdfast umount`.
#[derive(Debug, Args)]
pub(crate) struct UmountArgs {
    /// The mount's folder.
    #[arg(value_name = "MOUNTPOINT")]
    at: PathBuf,
    /// Though programs use it or not everything can be saved: the folder is free at once, and what they do there from now on ends in an error. The mount saves
    /// what it can before it ends.
    #[arg(long)]
    force: bool,
}

/// Mounts, or looks after mounts.
pub(crate) fn run(line: &MountLine, json: bool) -> anyhow::Result<ExitCode> {
    match (&line.command, &line.begin) {
        (Some(MountCommand::Status { at }), _) => status(at.as_deref(), json),
        (Some(MountCommand::Flush { at }), _) => flush(at, json),
        (Some(MountCommand::Evict { at, path, pinned }), _) => evict(at, path.as_deref(), *pinned, json),
        (Some(MountCommand::Pin { paths }), _) => pin(paths, true, json),
        (Some(MountCommand::Unpin { paths }), _) => pin(paths, false, json),
        (None, Some(begin)) => mount::run(begin, json),
        (None, None) => Err(Error::invalid("what is to be mounted, and where?").into()),
    }
}

fn status(at: Option<&Path>, json: bool) -> anyhow::Result<ExitCode> {
    let found = match at {
        Some(at) => vec![control::one(at)?],
        None => control::find(None)?,
    };
    // One that does not answer must not hide the others.
    let (answers, silent): (Vec<_>, Vec<_>) = found.iter().map(control::status).partition(Result::is_ok);
    let all: Vec<Status> = answers.into_iter().flatten().flatten().collect();
    output::show(json, &all, |all| {
        if all.is_empty() {
            return "This account has no mounts.".into();
        }
        all.iter().map(words).collect::<Vec<_>>().join("\n")
    })?;
    match silent.into_iter().find_map(Result::err) {
        Some(error) => Err(error.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn flush(at: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let (reply, _) = control::ask(&control::one(at)?, &Request::Flush)?;
    let Reply::Flushed { files } = reply else { return Err(unexpected().into()) };
    output::show(json, &json!({"saved_files": files}), |_| {
        format!("Everything is on disk; {files} open files had something to be saved.")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn evict(at: &Path, path: Option<&str>, pinned: bool, json: bool) -> anyhow::Result<ExitCode> {
    let path = path.map(ToOwned::to_owned);
    let (reply, _) = control::ask(&control::one(at)?, &Request::Evict { path, pinned })?;
    let Reply::Evicted { files } = reply else { return Err(unexpected().into()) };
    output::show(json, &json!({"evicted_files": files}), |_| format!("The content of {files} files was let go of."))?;
    Ok(ExitCode::SUCCESS)
}

/// Pins or unpins paths, in the order they are given, up to the first that is refused.
fn pin(paths: &[PathBuf], pinned: bool, json: bool) -> anyhow::Result<ExitCode> {
    for path in paths {
        let (found, inside) = control::within(path)?;
        let request = if pinned { Request::Pin { path: inside } } else { Request::Unpin { path: inside } };
        let (reply, _) = control::ask(&found, &request).map_err(|error| error.context(path.display()))?;
        let Reply::Pinned = reply else { return Err(unexpected().into()) };
        let shown = path.display().to_string();
        let event = if pinned { "pinned" } else { "unpinned" };
        output::show(json, &json!({"event": event, "path": shown}), |_| {
            if pinned {
                format!("{shown} is pinned, and is being fetched; `holdfast mount status` says how far it is.")
            } else {
                format!("{shown} is not pinned any more.")
            }
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes a mount away.
pub(crate) fn umount(args: &UmountArgs, json: bool) -> anyhow::Result<ExitCode> {
    let asked = control::one(&args.at).and_then(|found| control::ask(&found, &Request::Unmount { force: args.force }));
    let unsaved = match asked {
        Ok((Reply::Unmounted { unsaved }, mut stream)) => {
            // The connection ends with the mount; by force, nobody waits for a drive that may be away.
            let time = args.force.then_some(Duration::from_secs(1));
            stream.set_read_timeout(time).map_err(Error::from)?;
            let _ = stream.read(&mut [0]);
            unsaved
        }
        Ok(_) => return Err(unexpected().into()),
        Err(error) if args.force => {
            control::unmount_lazily(&args.at)?;
            Some(format!("the mount did not answer ({error})"))
        }
        Err(_) if control::sweep(&args.at)? => {
            Some("its mount had been killed; what was closed is in the drive, or in a journal that the next mount hands over".into())
        }
        Err(error) => return Err(error.into()),
    };
    let at = args.at.display().to_string();
    output::show(json, &json!({"event": "unmounted", "at": at, "unsaved": unsaved}), |_| match &unsaved {
        None => format!("{at} is unmounted, and everything in it is on disk."),
        Some(why) => format!("{at} is free. Not everything was saved by then: {why}."),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn words(status: &Status) -> String {
    let mut text = format!("{}\n", status.at);
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<12}  {value}");
    };
    let read_only = if status.read_only { ", for reading only" } else { "" };
    line("drive", format!("{}, space {}{read_only}", status.target, status.space));
    let up = span(u64::try_from(SystemClock.now_ms() - status.since_ms).unwrap_or(0));
    line("mounted", format!("since {} ({up}), process {}", output::time(status.since_ms), status.process));
    if status.target.contains("://") {
        let words = status.away_ms.map_or_else(|| "is there".into(), |ms| format!("has been away for {}", span(ms)));
        line("server", words);
    }
    let unsaved = match status.unsaved_files {
        0 => "nothing unsaved".into(),
        files => format!("{files} with unsaved content, {}", format_bytes(status.unsaved_bytes)),
    };
    line("open files", format!("{}, {unsaved}", status.open_files));
    if let Some(bytes) = status.cache_bytes {
        line("in memory", format!("{} of content, to be read again", format_bytes(bytes)));
    }
    if let Some(disk) = &status.disk_cache {
        disk_cache(disk, &mut line);
    }
    if let Some(journal) = &status.journal {
        let age = journal.oldest_ms.map_or_else(String::new, |ms| format!(", the oldest for {}", span(ms)));
        let unsynced = match journal.unsynced_bytes {
            0 => String::new(),
            bytes => format!(", and {} of content", format_bytes(bytes)),
        };
        let bytes = format_bytes(journal.bytes);
        line("journal", format!("{} changes wait{age}; they have {bytes}{unsynced}", journal.changes));
        if let Some(failure) = &journal.failure {
            line("", format!("cannot be handed over: {failure}"));
        }
        if journal.refused > 0 {
            line("refused", format!("{} changes, which are tried again:", journal.refused));
        }
        for refused in journal.reasons.iter().take(REFUSED_SHOWN) {
            line("", format!("{}: {}", refused.name, refused.reason));
        }
    }
    if status.operations_under_way == 0 {
        line("under way", "nothing".into());
    } else {
        line("under way", format!("{} operations", status.operations_under_way));
        let _ = write!(text, "\n{}", under_way(status));
    }
    if !status.operations.is_empty() {
        let _ = write!(text, "\n{}", operations(status));
    }
    text
}

fn disk_cache(disk: &DiskCacheStatus, line: &mut impl FnMut(&str, String)) {
    let [bytes, most, pinned, hit] = [disk.bytes, disk.bytes_max, disk.pinned_bytes, disk.hit_bytes].map(format_bytes);
    line("cache", format!("{bytes} of {most} in {}, {pinned} pinned", disk.folder));
    line(
        "",
        format!(
            "{} blocks read from it ({hit}), {} were not in it; {} things went for others",
            disk.hits, disk.misses, disk.evicted
        ),
    );
    if disk.damaged > 0 {
        line("", format!("{} files of it were damaged, and are fetched again", disk.damaged));
    }
    if let Some(trouble) = &disk.trouble {
        line("", format!("keeps nothing at present: {trouble}"));
    }
    for pin in disk.pins.iter().take(PINS_SHOWN) {
        let far = format!(
            "{} of {} files, {} of {}",
            pin.files_here,
            pin.files,
            format_bytes(pin.bytes_here),
            format_bytes(pin.bytes)
        );
        let why = pin.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        line("pinned", format!("{}  {}, {far}{why}", pin.path, pin.state));
    }
    if disk.pins.len() > PINS_SHOWN {
        line("", format!("and {} more", disk.pins.len() - PINS_SHOWN));
    }
}

fn under_way(status: &Status) -> String {
    let drive = if status.target.contains("://") { "the server" } else { "the catalogue" };
    let row = |it: &holdfast_mount::status::UnderWay| {
        let about = it.name.as_ref().map_or_else(|| format!("#{}", it.inode), |name| format!("#{}/{name}", it.inode));
        let process = if it.process == 0 { "the kernel".into() } else { it.process.to_string() };
        vec![it.operation.clone(), span(it.ms), about, process, it.waits_for.clone().unwrap_or_else(|| drive.into())]
    };
    let rows: Vec<Vec<String>> = status.under_way.iter().take(UNDER_WAY_SHOWN).map(row).collect();
    table(&["UNDER WAY", "FOR", "NODE", "PROCESS", "WAITS FOR"], &rows)
}

fn operations(status: &Status) -> String {
    let row = |it: &holdfast_mount::status::Operation| {
        let rates = it.per_second;
        let rates = [rates.last_10_s, rates.last_minute, rates.last_5_minutes, rates.last_hour];
        let milliseconds = |us: u64| format!("{:.2}", us as f64 / 1e3);
        let errors: Vec<String> = it.errors.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let mut row = vec![it.operation.clone(), it.count.to_string()];
        row.extend(rates.iter().map(|rate| format!("{rate:.1}")));
        row.extend([milliseconds(it.mean_us), milliseconds(it.half_within_us), milliseconds(it.p99_us)]);
        row.push(errors.join(", "));
        row
    };
    let mut all: Vec<_> = status.operations.iter().collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.count));
    let rows: Vec<Vec<String>> = all.into_iter().map(row).collect();
    let head = ["OPERATION", "COUNT", "10 S", "1 MIN", "5 MIN", "1 H", "MEAN MS", "50 % IN MS", "99 % IN MS", "ERRORS"];
    format!("{}Rates are a second.\n", table(&head, &rows))
}

/// A time for people.
fn span(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{:.1} s", ms as f64 / 1e3),
        10_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        7_200_000..172_800_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} days", ms / 86_400_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn what_mounts_is_told_from_what_looks_after_mounts() {
        let read = |line: &str| Cli::try_parse_from(line.split(' ')).map(|cli| format!("{:?}", cli.command));
        for (line, shown) in [
            ("holdfast mount /data /mnt --user ann", "begin: Some"),
            ("holdfast mount https://drive.example /mnt --token-file t", "begin: Some"),
            ("holdfast mount ./status /mnt --user ann", "begin: Some"),
            ("holdfast mount /data status --user ann", "begin: Some"),
            ("holdfast mount status", "begin: None"),
            ("holdfast mount status /mnt --json", "command: Some(Status"),
            ("holdfast mount flush /mnt", "command: Some(Flush"),
            ("holdfast mount evict /mnt a/b", "command: Some(Evict"),
            ("holdfast mount pin /mnt/a /mnt/b", "command: Some(Pin"),
            ("holdfast mount unpin /mnt/a", "command: Some(Unpin"),
            ("holdfast umount --force /mnt", "Umount"),
        ] {
            let parsed = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(parsed.contains(shown), "{line}: {parsed}");
        }
        for bad in [
            "holdfast mount",
            "holdfast mount /data",
            "holdfast mount flush",
            "holdfast mount evict",
            "holdfast mount pin",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_said_shortly() {
        let said = [0, 9_999, 10_000, 119_999, 120_000, 7_200_000, 172_800_000].map(span);
        assert_eq!(said, ["0.0 s", "10.0 s", "10 s", "119 s", "2 min", "2 h", "2 days"]);
    }
}
