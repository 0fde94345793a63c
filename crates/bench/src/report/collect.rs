//! Collects the runs of all series while they come in, and sums them up at the end.

use super::{Better, Row, Series, SeriesInfo};
use crate::stats::{Latencies, Summary};

/// All series, in the order in which they were first measured.
pub(crate) struct Collector {
    labels: Vec<String>,
    series: Vec<(SeriesInfo, Vec<RawRow>)>,
}

/// The runs of one target so far.
pub(crate) struct RawRow {
    pub(crate) values: Vec<f64>,
    pub(crate) latencies: Latencies,
    pub(crate) server_cpu_s: Vec<f64>,
    pub(crate) client_cpu_s: Vec<f64>,
    /// 0 when the server's process id is unknown.
    pub(crate) peak_rss_bytes: u64,
    pub(crate) reopened: u64,
}

impl RawRow {
    fn new() -> Self {
        Self {
            values: Vec::new(),
            latencies: Latencies::new(),
            server_cpu_s: Vec::new(),
            client_cpu_s: Vec::new(),
            peak_rss_bytes: 0,
            reopened: 0,
        }
    }

    fn finish(self, target: &str) -> Row {
        Row {
            target: target.to_owned(),
            summary: Summary::of(&self.values),
            speed: None,
            latency: self.latencies.percentiles(),
            server_cpu_s: Summary::of(&self.server_cpu_s),
            client_cpu_s: Summary::of(&self.client_cpu_s),
            peak_rss_bytes: (self.peak_rss_bytes > 0).then_some(self.peak_rss_bytes),
            reopened: self.reopened,
            values: self.values,
        }
    }
}

impl Collector {
    pub(crate) fn new(labels: Vec<String>) -> Self {
        Self { labels, series: Vec::new() }
    }

    /// The row of one target in the series with this id, which is begun when it is new.
    pub(crate) fn row(&mut self, info: &SeriesInfo, target: usize) -> &mut RawRow {
        let index = self.series.iter().position(|(known, _)| known.id == info.id).unwrap_or_else(|| {
            let rows = self.labels.iter().map(|_| RawRow::new()).collect();
            self.series.push((info.clone(), rows));
            self.series.len() - 1
        });
        &mut self.series[index].1[target]
    }

    pub(crate) fn finish(self) -> Vec<Series> {
        let labels = self.labels;
        self.series
            .into_iter()
            .map(|(info, rows)| {
                let mut rows: Vec<Row> = rows.into_iter().zip(&labels).map(|(row, label)| row.finish(label)).collect();
                compare_with_first(info.better, &mut rows);
                Series { info, rows }
            })
            .collect()
    }
}

/// Sets each row's speed in terms of the first row's median.
fn compare_with_first(better: Better, rows: &mut [Row]) {
    let Some(first) = rows.first().and_then(|row| row.summary).map(|summary| summary.median) else { return };
    for row in rows {
        let ratio = row.summary.map(|summary| match better {
            Better::Higher => summary.median / first,
            Better::Lower => first / summary.median,
        });
        row.speed = ratio.filter(|ratio| ratio.is_finite());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(better: Better) -> Vec<Series> {
        let info = SeriesInfo { id: "x".into(), title: "X".into(), unit: "u".into(), better, bytes: None };
        let mut collector = Collector::new(vec!["a".into(), "b".into(), "c".into()]);
        for (target, value) in [(0, 10.0), (1, 20.0), (0, 30.0), (1, 60.0)] {
            collector.row(&info, target).values.push(value);
        }
        collector.finish()
    }

    #[test]
    fn runs_of_one_series_come_together_by_target() {
        let series = collect(Better::Higher);
        assert_eq!(series.len(), 1);
        assert_eq!(series[0].rows[0].values, [10.0, 30.0]);
        assert_eq!(series[0].rows[2].summary, None);
    }

    #[test]
    fn speed_is_above_one_for_what_is_faster_whichever_way_is_better() {
        let speeds = |better| collect(better)[0].rows.iter().map(|row| row.speed).collect::<Vec<_>>();
        assert_eq!(speeds(Better::Higher), [Some(1.0), Some(2.0), None]);
        assert_eq!(speeds(Better::Lower), [Some(1.0), Some(0.5), None]);
    }
}
