//! Senders that take no more than what goes soon: it costs nothing of the link, and what waits in them is little.

use super::*;
use std::time::Duration;

const AHEAD: Duration = Duration::from_millis(500);
const MEBIBYTES: usize = 64;

/// The share of the ceiling, and the most that waited in the sender at any second, in bytes.
fn prompt(network: Network, seed: u64) -> (f64, usize) {
    let mut simulation = Simulation::new(network, seed);
    simulation.flow(0, MEBIBYTES);
    let rtt_us = network.delay_us + network.back_us;
    simulation.flows[0].sender = Sender::new(0, SHAPE, OVERHEAD_BYTES, rtt_us, None, None).prompt(AHEAD);
    let mut most = 0;
    for second in 1..600 {
        simulation.run(second * 1_000_000);
        let flow = &simulation.flows[0];
        if let Some(end_us) = flow.end_us {
            let ceiling = network.rate * (1.0 - network.loss) * 0.945;
            return ((MEBIBYTES * UNIT_BYTES) as f64 / (end_us as f64 / 1e6) / ceiling, most);
        }
        let put_in = (MEBIBYTES - flow.left) * UNIT_BYTES;
        most = most.max(put_in - flow.seen.len() * UNIT_BYTES);
    }
    panic!("it does not end");
}

#[test]
fn who_takes_little_ahead_fills_the_link_as_well() {
    for (name, network, floor) in [
        ("clean", CLEAN, 0.93),
        ("200 ms", Network { delay_us: 200_000, back_us: 500, queue_bytes: 2.6e6, ..CLEAN }, 0.85),
        ("32 % both ways", Network { loss: 0.32, report_loss: 0.32, ..CLEAN }, 0.90),
        ("100 ms with 1 %", Network { delay_us: 100_000, back_us: 500, queue_bytes: 1.3e6, loss: 0.01, ..CLEAN }, 0.85),
    ] {
        for seed in 1..=3 {
            let (share, most) = prompt(network, seed);
            println!("{name}: {share:.3}, {most} bytes ahead at most");
            assert!(share >= floor, "{name}: {share:.3} of the ceiling instead of {floor}");
        }
    }
}

#[test]
fn what_waits_on_a_slow_link_is_little() {
    let network = Network { rate: 1e6, queue_bytes: 50e3, ..CLEAN };
    let (share, most) = prompt(network, 1);
    // A unit that is being sent, one to go on with, and what is on its way.
    assert!(share >= 0.85 && most <= 4 * UNIT_BYTES, "{share:.3}, {most}");
}
