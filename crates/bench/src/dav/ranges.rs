//! Ranges out of the largest file: 1 MiB in its middle, and many random pieces of 64 KiB.
//!
//! The pieces' places come from the seed and the run, the same for all targets. Each answer must be 206 with the right
//! `Content-Range`, and is compared with the file between two timed requests.

use anyhow::Context;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::Workload;
use super::bay::Bay;
use super::lab::{Lab, Outcome};
use super::session::Failure;
use crate::data::{DataFile, Kind};
use crate::http::HttpError;
use crate::report::{Better, SeriesInfo};
use crate::size::size_label;
use crate::stats::Latencies;

const MIDDLE_BYTES: u64 = 1 << 20;
const PIECE_BYTES: u64 = 64 << 10;

pub(super) fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    if !lab.options.wants(Workload::Ranges) || lab.interrupted() {
        return Ok(());
    }
    let Some(&bytes) = lab.options.sizes.iter().max() else { return Ok(()) };
    let data = lab.store.open(Kind::Bin, bytes).context("cannot make the test data")?;
    // A stamp of its own: this content was never uploaded by another workload.
    data.stamp(u64::from(lab.options.runs)).context("cannot stamp the test data")?;
    let name = format!("ranges-{}.{}", size_label(bytes), data.kind.ending());
    let mut ready = vec![false; lab.bays.len()];
    lab.say(&format!("uploading {} for ranges", size_label(bytes)));
    for target in lab.order(0) {
        ready[target] =
            lab.untimed("upload for ranges", target, |bay| bay.session()?.put_file(&name, &data).map(|_| ()));
    }
    let middle = middle_info(bytes);
    let random = random_info(bytes, lab.options.random_ranges);
    for run in 0..lab.options.runs {
        let places = places(lab.options.seed ^ u64::from(run), bytes, lab.options.random_ranges);
        for target in lab.order(run) {
            if ready[target] {
                let length = MIDDLE_BYTES.min(bytes);
                let place = [((bytes - length) / 2, length)];
                lab.measure(&middle, target, MIDDLE_BYTES, |bay| read(bay, &name, &data, &place));
                lab.measure(&random, target, MIDDLE_BYTES, |bay| read(bay, &name, &data, &places));
            }
        }
    }
    Ok(())
}

/// Offset and length of each random range.
fn places(seed: u64, bytes: u64, count: u32) -> Vec<(u64, u64)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let length = PIECE_BYTES.min(bytes);
    (0..count).map(|_| (random.random_range(0..=bytes - length), length)).collect()
}

/// Reads the ranges one after the other on one connection; the figure is the median time to the last byte.
fn read(bay: &Bay, name: &str, data: &DataFile, places: &[(u64, u64)]) -> Result<Outcome, Failure> {
    let mut session = bay.session()?;
    let mut latencies = Latencies::new();
    let mut got = Vec::new();
    for &place in places {
        got.clear();
        let mut keep = |bytes: &[u8]| {
            if (got.len() + bytes.len()) as u64 > place.1 {
                return Err(HttpError::Content("more bytes than the range asked for".to_owned()));
            }
            got.extend_from_slice(bytes);
            Ok(())
        };
        let answer = session.get_range(name, place, data.bytes, &mut keep)?;
        latencies.record(answer.total);
        data.compare(place.0, &got).map_err(|why| Failure::Wrong { what: format!("range of {name}"), why })?;
    }
    Ok(Outcome { value: latencies.median_ms(), latencies: Some(latencies), reopened: session.reopened() })
}

fn middle_info(bytes: u64) -> SeriesInfo {
    SeriesInfo {
        id: "range.middle".to_owned(),
        title: format!("GET 1 MiB in the middle of {}", size_label(bytes)),
        unit: "ms".to_owned(),
        better: Better::Lower,
        bytes: None,
    }
}

fn random_info(bytes: u64, count: u32) -> SeriesInfo {
    SeriesInfo {
        id: "range.random".to_owned(),
        title: format!("GET {count} random ranges of 64 KiB out of {}, median", size_label(bytes)),
        unit: "ms".to_owned(),
        better: Better::Lower,
        bytes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn random_places_are_inside_the_file_and_the_same_for_the_same_seed() {
        let found = places(5, 1 << 20, 1000);
        assert_eq!(found, places(5, 1 << 20, 1000));
        assert_ne!(found, places(6, 1 << 20, 1000));
        assert!(found.iter().all(|(offset, length)| offset + length <= 1 << 20));
        assert_eq!(places(5, 10, 2), [(0, 10), (0, 10)]);
    }
}
