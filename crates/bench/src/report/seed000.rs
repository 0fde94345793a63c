//! The figures of the CESNET test of `CloudDrive`, and the same transfers measured here.
//!
//! Source: report 000, "Basic performance tests by CESNET": uploads with the cadaver client over WebDAV to one
//! application node with 1 vCPU (Intel Xeon X5650, 2.666 GHz) and 1 GB of memory, gzip on the same node. The report
//! does not say what the files contained, so both kinds stand beside it here. Its hardware was another one: the
//! `gzip` rows show how much of a factor is the machine.

use serde::{Deserialize, Serialize};

use super::{Kind, Series};
use crate::baseline::BaselineRow;
use crate::size::size_label;
use crate::stats::Summary;

/// Sizes of the two files: 100 MiB, and 1,048,576,000 bytes, which the report calls 1 GB.
pub const SIZES: [u64; 2] = [104_857_600, 1_048_576_000];

/// Seconds of the uploads (`real` of `time cadaver`).
const UPLOAD_SECONDS: [f64; 2] = [13.859, 138.505];
/// Seconds of `gzip -c FILE >COPY` (`real`).
const GZIP_SECONDS: [f64; 2] = [4.751, 59.194];

/// One transfer, theirs and ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seed000Row {
    /// What was done.
    pub what: String,
    /// Size of the file.
    pub bytes: u64,
    /// Kind of our file.
    pub kind: Kind,
    /// Who did it here: a target's label, or the command.
    pub who: String,
    /// Their seconds.
    pub their_s: f64,
    /// Our median, in seconds.
    pub our_s: f64,
    /// How often faster ours is.
    pub factor: f64,
}

impl Seed000Row {
    /// Their rate in MB/s.
    pub fn their_rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.their_s
    }

    /// Our rate in MB/s.
    pub fn our_rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.our_s
    }
}

/// Finds the same transfers among what was measured.
pub(crate) fn rows(series: &[Series], baselines: &[BaselineRow]) -> Vec<Seed000Row> {
    let mut found = Vec::new();
    for (index, bytes) in SIZES.into_iter().enumerate() {
        for kind in Kind::ALL {
            let id = format!("upload.{}.{}", size_label(bytes), kind.ending());
            for series in series.iter().filter(|series| series.info.id == id) {
                for row in &series.rows {
                    if let Some(rate) = row.summary {
                        let our_s = bytes as f64 / 1e6 / rate.median;
                        found.push(compare(
                            "upload over WebDAV",
                            bytes,
                            kind,
                            &row.target,
                            UPLOAD_SECONDS[index],
                            our_s,
                        ));
                    }
                }
            }
            for row in baselines.iter().filter(|row| row.id == "gzip" && row.bytes == bytes && row.kind == kind) {
                if let Some(seconds) = Summary::of(&row.seconds) {
                    found.push(compare("gzip -c", bytes, kind, "this machine", GZIP_SECONDS[index], seconds.median));
                }
            }
        }
    }
    found
}

fn compare(what: &str, bytes: u64, kind: Kind, who: &str, their_s: f64, our_s: f64) -> Seed000Row {
    Seed000Row { what: what.to_owned(), bytes, kind, who: who.to_owned(), their_s, our_s, factor: their_s / our_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_the_report_follows_from_its_seconds() {
        let row = compare("upload", SIZES[1], Kind::Bin, "x", UPLOAD_SECONDS[1], 2.0);
        assert!((row.their_rate() - 7.57).abs() < 0.01, "7.2 MiB/s, which the report calls Mbytes");
        assert!((row.factor - 69.2525).abs() < 1e-9);
        assert!((row.our_rate() - 524.288).abs() < 1e-9);
    }

    #[test]
    fn only_the_same_sizes_are_set_beside_each_other() {
        let report = super::super::testing::example();
        let found = rows(&report.series, &report.baselines);
        assert_eq!(found.len(), 3, "two targets and gzip");
        assert!(found.iter().all(|row| row.bytes == SIZES[0]));
    }
}
