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

/// Where the queue is long, a start that is too fast costs nobody a byte, and whoever asks waits behind all of it. What was said before makes the first round trips look shorter or longer
/// than they are.
#[test]
fn the_start_does_not_fill_the_queue_of_a_slow_link() {
    for (rate, delay_us) in [(40e3, 15_000), (40e3, 1_000), (125e3, 100_000), (1e6, 15_000)] {
        for (words, told_us) in [(0, 2 * delay_us), (1, 2 * delay_us), (12, 4 * delay_us), (30, 100_000)] {
            let network = Network { rate, delay_us, back_us: delay_us, queue_bytes: 2e6, ..CLEAN };
            let mut simulation = Simulation::new(network, 1);
            simulation.flow(0, 4);
            let flow = &mut simulation.flows[0];
            let sender = Sender::new(0, SHAPE, OVERHEAD_BYTES, told_us, None, None);
            (flow.sender, flow.words) = (sender.prompt(AHEAD).filling(told_us), words);
            let mut longest_us = 0.0_f64;
            for step in 1..3_000 {
                simulation.run(step * 10_000);
                longest_us = longest_us.max(simulation.free_us - simulation.now_us as f64);
            }
            println!("{rate} bytes/s, {delay_us} us, {words} words: {longest_us:.0} us at most in the queue");
            assert!(longest_us < 2.5e6, "{rate} bytes/s, {delay_us} us, {words} words: {longest_us:.0} us");
        }
    }
}

/// Small datagrams pass a slow link sooner than large ones, which is no queue.
#[test]
fn a_slow_link_is_filled_after_questions_and_answers() {
    for queue_bytes in [12.5e3, 50e3, 2e6] {
        for words in [0, 1, 4, 12, 30] {
            let network = Network { rate: 40e3, delay_us: 15_000, back_us: 15_000, queue_bytes, ..CLEAN };
            let mut simulation = Simulation::new(network, 1);
            simulation.flow(0, 2);
            let flow = &mut simulation.flows[0];
            let sender = Sender::new(0, SHAPE, OVERHEAD_BYTES, 106_000, None, None);
            (flow.sender, flow.words) = (sender.prompt(AHEAD).filling(106_000), words);
            simulation.run(600_000_000);
            let flow = &simulation.flows[0];
            let (took_us, statistics) = (flow.end_us.expect("all arrived"), flow.sender.statistics());
            let share = (2 * UNIT_BYTES) as f64 / (took_us as f64 / 1e6) / (network.rate * 0.945);
            let lost = 1.0 - statistics.arrived as f64 / statistics.sent as f64;
            println!("{queue_bytes} bytes, {words} words: {share:.3}, {lost:.3} lost");
            assert!(share >= 0.9 && lost < 0.4, "{queue_bytes} bytes, {words} words: {share:.3}, {lost:.3} lost");
        }
    }
}
