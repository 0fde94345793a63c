//! What is kept of calls: when, how long, how it ended, its log and its output, up to bounds.
//!
//! A record is a line of JSON, appended in one write under a lock, by however many processes call the function. When a file has [`COUNT_MAX`] lines or
//! [`BYTES_MAX`] bytes it becomes the older one, and the older one before goes: two files are kept. The count is in the lock file.
//!
//! A record is written before the call is told, and outlives the process; it is not synced, so after a loss of power the last ones may be missing, and a line that broke off is
//! passed over.

mod follow;

use crate::call::{Call, End};
use crate::id::Id;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_base::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Most records of a file; twice as many are kept at most.
pub const COUNT_MAX: u64 = 10_000;
/// Most bytes of a file, but for its last record.
pub const BYTES_MAX: u64 = 16 << 20;
/// Longest line that is read: log and output of the largest bounds, escaped and encoded.
const LINE_BYTES_MAX: u64 = 12 << 20;

const NEW: &str = "records.jsonl";
const OLD: &str = "records.1.jsonl";
const LOCK: &str = "lock";

/// What is kept of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The call.
    pub id: String,
    /// The version that was called.
    pub version: String,
    /// When it was asked for, in milliseconds since 1970.
    pub at_ms: i64,
    /// The account that asked, if it came through a server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Whether it was started for this call, rather than ahead of it.
    pub cold: bool,
    /// Microseconds until it had its turn.
    pub waited_us: u64,
    /// Microseconds from then until all of it had ended.
    pub ran_us: u64,
    /// Whether the function did its work: it ended with 0.
    pub ok: bool,
    /// How it ended, in words.
    pub end: String,
    /// Its exit code, if it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Bytes of input that it was given.
    pub input_bytes: u64,
    /// Bytes of output.
    pub output_bytes: u64,
    /// What it wrote to standard error, with what is no text replaced.
    pub log: String,
    /// Whether more was written than is kept.
    pub log_cut: bool,
    /// The output, in Base64; absent if it is larger than is kept, or the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

impl Record {
    pub(crate) fn of(call: &Call, version: Id, by: &str, kept_max: u64) -> Self {
        let ok = call.end == End::Done;
        let kept = ok && call.output.len() as u64 <= kept_max;
        Self {
            id: call.id.to_string(),
            version: version.to_string(),
            at_ms: call.id.made_ms(),
            by: by.to_owned(),
            cold: call.cold,
            waited_us: call.waited_us,
            ran_us: call.ran_us,
            ok,
            end: call.end.to_string(),
            exit: call.end.exit(),
            input_bytes: call.input_bytes,
            output_bytes: call.output.len() as u64,
            log: String::from_utf8_lossy(&call.log).into_owned(),
            log_cut: call.log_cut,
            output: kept.then(|| STANDARD.encode(&call.output)),
        }
    }

    /// The output, if it was kept.
    pub fn output(&self) -> Option<Vec<u8>> {
        STANDARD.decode(self.output.as_ref()?).ok()
    }
}

/// The records of a function.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

impl Records {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Adds one.
    pub(crate) fn add(&self, record: &Record) -> Result<()> {
        self.append(record, COUNT_MAX, BYTES_MAX).map_err(|error| Error::from(error).context(self.folder.display()))
    }

    fn append(&self, record: &Record, count_max: u64, bytes_max: u64) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let lock = match self.lock() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Not with those above it: where the function was removed meanwhile, nothing is kept.
                DirBuilder::new()
                    .mode(0o700)
                    .create(&self.folder)
                    .or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })?;
                self.lock()?
            }
            other => other?,
        };
        flock(&lock, FlockOperation::LockExclusive)?;
        let mut number = [0; 8];
        // A new one is empty.
        let read = lock.read_at(&mut number, 0)?;
        let mut count = if read == number.len() { u64::from_le_bytes(number) } else { 0 };
        let mut file = self.new_file()?;
        let bytes = file.metadata()?.len();
        if bytes >= bytes_max || (count >= count_max && bytes > 0) {
            fs::rename(self.folder.join(NEW), self.folder.join(OLD))?;
            (file, count) = (self.new_file()?, 0);
        }
        file.write_all(&line)?;
        lock.write_all_at(&(count + 1).to_le_bytes(), 0)
    }

    fn lock(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(self.folder.join(LOCK))
    }

    fn new_file(&self) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(self.folder.join(NEW))
    }

    /// The last records of those that are wanted, the oldest first.
    pub fn last(&self, limit: usize, mut wanted: impl FnMut(&Record) -> bool) -> Result<Vec<Record>> {
        let mut found = std::collections::VecDeque::new();
        for file in [OLD, NEW] {
            let path = self.folder.join(file);
            each(&path, |record| {
                if wanted(&record) {
                    found.push_back(record);
                    if found.len() > limit {
                        found.pop_front();
                    }
                }
            })
            .map_err(|error| Error::from(error).context(path.display()))?;
        }
        Ok(found.into())
    }

    /// The record of a call.
    ///
    /// # Errors
    /// `NotFound` if there is none, or none any more.
    pub fn one(&self, id: Id) -> Result<Record> {
        let id = id.to_string();
        let found = self.last(1, |record| record.id == id)?.pop();
        found.ok_or_else(|| Error::not_found(format!("no call {id} of this function is kept")))
    }
}

fn each(path: &Path, mut take: impl FnMut(Record)) -> io::Result<()> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        // What is no record broke off.
        if let Ok(record) = serde_json::from_slice(&line) {
            take(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u32) -> Record {
        Record {
            id: format!("{number:020x}"),
            version: String::new(),
            at_ms: i64::from(number),
            by: String::new(),
            cold: true,
            waited_us: 0,
            ran_us: 1,
            ok: true,
            end: "done".into(),
            exit: Some(0),
            input_bytes: 0,
            output_bytes: 0,
            log: "a\nb".into(),
            log_cut: false,
            output: None,
        }
    }

    fn numbers(records: &[Record]) -> Vec<i64> {
        records.iter().map(|record| record.at_ms).collect()
    }

    #[test]
    fn two_files_are_kept_by_count_and_by_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::new(folder.path().join("calls"));
        for number in 0..25 {
            records.append(&record(number), 10, u64::MAX).expect("added");
        }
        assert_eq!(numbers(&records.last(1_000, |_| true).expect("read")), (10..25).collect::<Vec<_>>());
        assert_eq!(numbers(&records.last(2, |_| true).expect("read")), [23, 24]);
        for number in 25..40 {
            records.append(&record(number), u64::MAX, 1_000).expect("added");
        }
        let bytes: u64 = [NEW, OLD]
            .map(|name| fs::metadata(folder.path().join("calls").join(name)).expect("there").len())
            .iter()
            .sum();
        assert!(bytes < 2_500, "{bytes}");
        assert_eq!(numbers(&records.last(1, |_| true).expect("read")), [39]);
    }

    #[test]
    fn a_line_that_broke_off_is_passed_over_and_a_missing_call_is_said_to_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::new(folder.path().to_owned());
        records.add(&record(1)).expect("added");
        let mut file = OpenOptions::new().append(true).open(folder.path().join(NEW)).expect("opens");
        file.write_all(b"{\"id\":\"x\n").expect("writes");
        records.add(&record(2)).expect("added");
        assert_eq!(numbers(&records.last(9, |_| true).expect("read")), [1, 2]);
        assert_eq!(records.one(format!("{:020x}", 2).parse().expect("an id")).expect("kept").at_ms, 2);
        assert!(records.one(Id::new()).is_err());
    }

    #[test]
    fn many_writers_lose_and_mix_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::new(folder.path().join("calls"));
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let records = records.clone();
                scope.spawn(move || {
                    for number in 0..50 {
                        records.add(&record(writer * 50 + number)).expect("added");
                    }
                });
            }
        });
        let mut all = numbers(&records.last(10_000, |_| true).expect("read"));
        all.sort_unstable();
        assert_eq!(all, (0..400).collect::<Vec<_>>());
    }
}
