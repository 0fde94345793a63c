//! Traffic per account: summed here, added to the catalogue at intervals and when the server stops.
//!
//! One map under one lock, touched once a request; what a crash loses is at most one interval of counting, never content.

use holdfast_base::{AccountId, Clock, SystemClock};
use holdfast_meta::{Catalogue, Traffic};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How often sums are written: rare enough to cost nothing, often enough to be of use on the same day.
pub(crate) const FLUSH_EVERY: Duration = Duration::from_secs(30);

/// The sums since the last flush.
#[derive(Default)]
pub struct Meter(Mutex<HashMap<AccountId, Traffic>>);

impl Meter {
    /// Adds one request.
    pub fn add(&self, account: AccountId, bytes_in: u64, bytes_out: u64) {
        self.merge(account, Traffic { requests: 1, bytes_in, bytes_out });
    }

    fn merge(&self, account: AccountId, more: Traffic) {
        let mut sums = self.0.lock();
        let sum = sums.entry(account).or_default();
        sum.requests += more.requests;
        sum.bytes_in += more.bytes_in;
        sum.bytes_out += more.bytes_out;
    }

    /// Writes the sums. On failure they are kept for the next time.
    pub async fn flush(&self, catalogue: &Arc<dyn Catalogue>) {
        let sums: Vec<(AccountId, Traffic)> = std::mem::take(&mut *self.0.lock()).into_iter().collect();
        if sums.is_empty() {
            return;
        }
        if let Err(error) = catalogue.add_traffic(sums.clone(), SystemClock.now_ms()).await {
            tracing::warn!(%error, "traffic could not be written and is kept for the next time");
            for (account, traffic) in sums {
                self.merge(account, traffic);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_one_account_add_up() {
        let meter = Meter::default();
        meter.add(AccountId(1), 10, 1);
        meter.add(AccountId(1), 5, 2);
        meter.add(AccountId(2), 0, 7);
        let sums = meter.0.lock();
        assert_eq!(sums[&AccountId(1)], Traffic { requests: 2, bytes_in: 15, bytes_out: 3 });
        assert_eq!(sums[&AccountId(2)], Traffic { requests: 1, bytes_in: 0, bytes_out: 7 });
    }
}
