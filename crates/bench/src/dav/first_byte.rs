//! Time to the first byte of small answers on one kept-alive connection.
//!
//! A server that sends an answer's head and body as two segments without switching off Nagle's algorithm waits for
//! the client's delayed acknowledgement, about 40 ms, on every request but the first. The first byte can then come in
//! time while the last one is late, so a stall is looked for in the time to the last byte.

use super::Workload;
use super::bay::Bay;
use super::lab::{Lab, Outcome};
use super::listing::NAMED;
use super::session::{Failure, ignore};
use super::small;
use crate::report::{Better, SeriesInfo};
use crate::stats::Latencies;

/// Linux delays an acknowledgement by at least 40 ms; answers of this kind take 1 ms.
const STALL_MS: f64 = 35.0;
const FOLDER: &str = "first-byte/";

#[derive(Clone, Copy)]
enum Ask {
    Get,
    Propfind,
}

pub(super) fn run(lab: &mut Lab<'_>) {
    if !lab.options.wants(Workload::FirstByte) {
        return;
    }
    let bytes = lab.options.file_bytes;
    let mut ready = vec![false; lab.bays.len()];
    for target in lab.order(0) {
        ready[target] = small::fill(lab, target, FOLDER, 1, bytes);
    }
    let get = info("first-byte.get", &format!("GET of {bytes} bytes, kept connection, first byte"));
    let propfind = info("first-byte.propfind", "PROPFIND depth 0, kept connection, first byte");
    for run in 0..lab.options.runs {
        for target in lab.order(run) {
            if !ready[target] {
                continue;
            }
            for (info, ask) in [(&get, Ask::Get), (&propfind, Ask::Propfind)] {
                let mut stalled = None;
                let count = lab.options.small_answers;
                lab.measure(info, target, bytes as u64, |bay| {
                    let (outcome, last_ms) = ask_often(bay, ask, bytes as u64, count)?;
                    stalled = (last_ms >= STALL_MS).then_some(last_ms);
                    Ok(outcome)
                });
                if stalled.is_some() {
                    let label = lab.bays[target].spec.label.clone();
                    lab.warn(format!("{label} stalls: {} takes 35 ms or more to its last byte (Nagle's algorithm against delayed acknowledgement?)", info.title));
                }
            }
        }
    }
}

/// Asks `count` times; gives the median time to the first byte, and that to the last byte in ms.
fn ask_often(bay: &Bay, ask: Ask, bytes: u64, count: u32) -> Result<(Outcome, f64), Failure> {
    let mut session = bay.session()?;
    let (mut first, mut last) = (Latencies::new(), Latencies::new());
    let mut listing = Vec::new();
    let name = small::file_name(FOLDER, 0);
    for _ in 0..count {
        listing.clear();
        let answer = match ask {
            Ask::Get => session.get(&name, bytes, &mut ignore)?,
            Ask::Propfind => session.propfind(&name, "0", NAMED, &mut listing)?,
        };
        first.record(answer.first_byte);
        last.record(answer.total);
    }
    let outcome = Outcome { value: first.median_ms(), latencies: Some(first), reopened: session.reopened() };
    Ok((outcome, last.median_ms()))
}

fn info(id: &str, title: &str) -> SeriesInfo {
    SeriesInfo { id: id.to_owned(), title: title.to_owned(), unit: "ms".to_owned(), better: Better::Lower, bytes: None }
}
