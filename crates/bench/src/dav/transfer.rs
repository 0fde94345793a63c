//! Large files up and down, with what plain commands do with the same data in between.
//!
//! For each size and kind, run i: the file is stamped anew; the baselines run; every target takes the file (timed);
//! every target gives it back (timed). The first run also measures how much disk the file took, and compares what
//! came back with what was sent, after the timed part. Each target keeps one file at a time.

use anyhow::Context;

use super::Workload;
use super::bay::Bay;
use super::lab::{Lab, Outcome};
use super::session::{Failure, ignore};
use crate::baseline;
use crate::data::{DataFile, Kind};
use crate::disk;
use crate::http::HttpError;
use crate::report::{Better, SeriesInfo, StoredRow};
use crate::size::size_label;

/// Bytes in the megabyte all rates use.
const MEGABYTE: f64 = 1e6;

pub(super) fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    for bytes in all_sizes(lab) {
        for kind in Kind::ALL {
            if lab.interrupted() {
                return Ok(());
            }
            lab.say(&format!("test data: {} of {} data", size_label(bytes), kind.title()));
            let data = lab.store.open(kind, bytes).context("cannot make the test data")?;
            lab.note_data(kind, bytes, &data.origin);
            run_file(lab, &data)?;
        }
    }
    Ok(())
}

/// All sizes that any chosen workload needs, smallest first.
fn all_sizes(lab: &Lab<'_>) -> Vec<u64> {
    let options = lab.options;
    let mut sizes = Vec::new();
    if [Workload::Upload, Workload::Download, Workload::Baselines].iter().any(|&workload| options.wants(workload)) {
        sizes.extend(&options.sizes);
    }
    if options.wants(Workload::Report000) {
        sizes.extend(&options.report_sizes);
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// What to do with the file of one size.
struct Steps {
    upload: bool,
    download: bool,
    baselines: bool,
}

impl Steps {
    fn of(lab: &Lab<'_>, bytes: u64) -> Self {
        let options = lab.options;
        let listed = options.sizes.contains(&bytes);
        let reported = options.wants(Workload::Report000) && options.report_sizes.contains(&bytes);
        Self {
            upload: reported || (listed && options.wants(Workload::Upload)),
            download: listed && options.wants(Workload::Download),
            baselines: options.wants(Workload::Baselines),
        }
    }
}

fn run_file(lab: &mut Lab<'_>, data: &DataFile) -> anyhow::Result<()> {
    let steps = Steps::of(lab, data.bytes);
    let mut commands = baseline::Set::new(&lab.options.data_dir, lab.options.baseline_budget);
    // The file each target holds now.
    let mut held: Vec<Option<String>> = vec![None; lab.bays.len()];
    for run in 0..lab.options.runs {
        if lab.interrupted() {
            break;
        }
        data.stamp(u64::from(run)).context("cannot stamp the test data")?;
        if steps.baselines {
            lab.say(&format!("baselines on {} {}", size_label(data.bytes), data.kind.title()));
            commands.run(data, lab.stop_flag(), || lab.prepare(data.bytes));
        }
        if steps.upload || steps.download {
            upload_all(lab, data, run, &steps, &mut held);
        }
        if steps.download {
            download_all(lab, data, run, &held);
        }
        if run == 0 {
            verify_all(lab, data, &held);
        }
    }
    for (target, name) in held.into_iter().enumerate() {
        remove(lab, target, name);
    }
    lab.baselines.extend(commands.finish(data));
    Ok(())
}

fn upload_all(lab: &mut Lab<'_>, data: &DataFile, run: u32, steps: &Steps, held: &mut [Option<String>]) {
    let info = series("upload", "PUT", data);
    for target in lab.order(run) {
        remove(lab, target, held[target].take());
        let name = format!("{}-{run}.{}", size_label(data.bytes), data.kind.ending());
        let before = store_bytes(lab, target, run);
        let done = if steps.upload {
            lab.measure(&info, target, data.bytes, |bay| put(bay, &name, data))
        } else {
            lab.untimed(&info.title, target, |bay| put(bay, &name, data).map(|_| ()))
        };
        if done {
            held[target] = Some(name);
            note_stored(lab, target, data, before);
        }
    }
}

fn put(bay: &Bay, name: &str, data: &DataFile) -> Result<Outcome, Failure> {
    let mut session = bay.session()?;
    let answer = session.put_file(name, data)?;
    let value = data.bytes as f64 / MEGABYTE / answer.total.as_secs_f64();
    Ok(Outcome { value, latencies: None, reopened: session.reopened() })
}

fn download_all(lab: &mut Lab<'_>, data: &DataFile, run: u32, held: &[Option<String>]) {
    let info = series("download", "GET", data);
    for target in lab.order(run) {
        let Some(name) = &held[target] else { continue };
        lab.measure(&info, target, data.bytes, |bay| {
            let mut session = bay.session()?;
            let answer = session.get(name, data.bytes, &mut ignore)?;
            let value = data.bytes as f64 / MEGABYTE / answer.total.as_secs_f64();
            Ok(Outcome { value, latencies: None, reopened: session.reopened() })
        });
    }
}

/// Reads each target's file back, untimed, and compares every byte.
fn verify_all(lab: &mut Lab<'_>, data: &DataFile, held: &[Option<String>]) {
    for (target, name) in held.iter().enumerate() {
        let Some(name) = name else { continue };
        let step = format!("compare {} {}", size_label(data.bytes), data.kind.title());
        lab.untimed(&step, target, |bay| {
            let mut position = 0;
            let mut compare = |bytes: &[u8]| {
                data.compare(position, bytes).map_err(HttpError::Content)?;
                position += bytes.len() as u64;
                Ok(())
            };
            bay.session()?.get(name, data.bytes, &mut compare).map(|_| ())
        });
    }
}

fn remove(lab: &mut Lab<'_>, target: usize, name: Option<String>) {
    if let Some(name) = name {
        lab.untimed("delete", target, |bay| bay.session()?.delete(&name).map(|_| ()));
    }
}

/// Disk used by the target's data folder, in the first run only: later ones overlap with the reclaiming of deleted files.
fn store_bytes(lab: &mut Lab<'_>, target: usize, run: u32) -> Option<u64> {
    let folder = lab.bays[target].spec.store_dir.clone().filter(|_| run == 0)?;
    rustix::fs::sync(); // Delayed allocation: blocks are counted once they are written.
    match disk::used_bytes(&folder) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            lab.warn(format!("no stored size for {}: {}: {error}", lab.bays[target].spec.label, folder.display()));
            None
        }
    }
}

fn note_stored(lab: &mut Lab<'_>, target: usize, data: &DataFile, before: Option<u64>) {
    let Some(before) = before else { return };
    let Some(after) = store_bytes(lab, target, 0) else { return };
    let target = lab.bays[target].spec.label.clone();
    let stored_bytes = after.cast_signed() - before.cast_signed();
    lab.stored.push(StoredRow { target, kind: data.kind, bytes: data.bytes, stored_bytes });
}

fn series(id: &str, verb: &str, data: &DataFile) -> SeriesInfo {
    let label = size_label(data.bytes);
    SeriesInfo {
        id: format!("{id}.{label}.{}", data.kind.ending()),
        title: format!("{verb} {label} {}", data.kind.title()),
        unit: "MB/s".to_owned(),
        better: Better::Higher,
        bytes: Some(data.bytes),
    }
}
