//! Links that drop what is too much instead of having it wait, or nearly so.

use super::*;

/// What a policer lets pass at once.
pub(super) const BURST_US: f64 = 50_000.0;

#[test]
fn a_short_queue_is_no_reason_to_lose_the_link_or_to_flood_it() {
    for (queue_ms, floor) in [(1.0, 0.7), (3.0, 0.8), (10.0, 0.9)] {
        let network = Network { queue_bytes: 12_500.0 * queue_ms, ..CLEAN };
        for seed in 1..=3 {
            let (share, statistics) = share(network, 256, seed);
            let lost = 1.0 - statistics.arrived as f64 / statistics.sent as f64;
            println!("queue {queue_ms} ms: {share:.3}, lost {lost:.3}");
            assert!(share >= floor && lost < 0.1, "queue {queue_ms} ms: {share:.3}, {lost:.3} lost");
        }
    }
}

#[test]
fn a_policer_is_not_flooded_however_little_it_lets_pass() {
    for (policed, floor) in [(400e3, 0.6), (1e6, 0.7), (4e6, 0.7), (10e6, 0.7)] {
        for loss in [0.0, 0.08] {
            let network = Network { loss, policed, ..CLEAN };
            for seed in 1..=3 {
                let mebibytes = if policed < 4e6 { 24 } else { 128 };
                let (share, statistics) = share(network, mebibytes, seed);
                let share = share * CLEAN.rate / policed;
                let lost = 1.0 - statistics.arrived as f64 / statistics.sent as f64;
                println!("policed at {policed} with {loss}: {share:.3}, lost {lost:.3}");
                // With losses that are not its doing it is less sure which are.
                assert!(share >= floor && lost < 0.25 + 3.0 * loss, "policed at {policed}: {share:.3}, {lost:.3} lost");
            }
        }
    }
}
