//! How many requests a server had, by its metrics in Prometheus' text format.
//!
//! Source: "Exposition formats", text format 0.0.4, of Prometheus' documentation.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use url::Url;

use crate::http::{Body, Connection, Endpoint, HttpError, Limits, Request, Trust};

/// The counter of a holdfast server.
pub(super) const OURS: &str = "holdfast_request_seconds_count";
/// A page of metrics that is larger than this is none.
const PAGE_BYTES_MAX: usize = 16 << 20;
const LIMITS: Limits =
    Limits { connect: Duration::from_secs(5), stall: Duration::from_secs(10), total: Duration::from_secs(30) };

/// A counter of a server, summed over its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Its page of metrics.
    pub page: Url,
    /// Its name.
    pub name: String,
}

impl Counter {
    /// Reads `URL` or `URL#NAME`.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut page = Url::parse(text).with_context(|| format!("{text:?} is no URL"))?;
        ensure!(matches!(page.scheme(), "http" | "https"), "{text:?} is neither http nor https");
        let name = page.fragment().filter(|name| !name.is_empty()).unwrap_or(OURS).to_owned();
        page.set_fragment(None);
        Ok(Self { page, name })
    }

    /// What it is at.
    pub(super) fn read(&self) -> anyhow::Result<f64> {
        let stop = Arc::new(AtomicBool::new(false));
        let endpoint = Endpoint::new(&self.page, None, &Trust::System, LIMITS, stop)?;
        let mut text = Vec::new();
        let request = Request { method: "GET", path: self.page.path(), headers: &[], body: Body::None };
        let answer = Connection::open(&endpoint)?.send(&request, &mut |piece| {
            if text.len() + piece.len() > PAGE_BYTES_MAX {
                return Err(HttpError::Malformed("a page of metrics of more than 16 MiB".into()));
            }
            text.extend_from_slice(piece);
            Ok(())
        })?;
        if answer.status != 200 {
            bail!("{} answered {}", self.page, answer.status);
        }
        sum(&String::from_utf8_lossy(&text), &self.name).with_context(|| format!("{} has no {}", self.page, self.name))
    }
}

/// The sum of a metric over its labels; none if there is none of that name.
fn sum(text: &str, name: &str) -> Option<f64> {
    text.lines()
        .filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            // Values of labels may contain anything, a brace too.
            let value = match rest.strip_prefix('{') {
                Some(labels) => labels.rsplit_once('}')?.1,
                None => rest.strip_prefix(' ')?,
            };
            value.split_whitespace().next()?.parse().ok()
        })
        .fold(None, |sum, value: f64| Some(sum.unwrap_or(0.0) + value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels_and_not_over_others() {
        let text = "# TYPE a counter\na{x=\"1} 7\"} 2\na{x=\"2\"} 3 1700000000\na 1\na_total 9\n";
        assert_eq!(sum(text, "a"), Some(6.0));
        assert_eq!(sum(text, "b"), None);
    }

    #[test]
    fn a_counter_is_ours_unless_it_is_named() -> anyhow::Result<()> {
        let ours = Counter::parse("http://127.0.0.1:9/metrics")?;
        assert_eq!((ours.page.as_str(), ours.name.as_str()), ("http://127.0.0.1:9/metrics", OURS));
        assert_eq!(Counter::parse("http://h/m#x_total")?.name, "x_total");
        assert!(Counter::parse("ftp://h/m").is_err() && Counter::parse("x").is_err());
        Ok(())
    }
}
