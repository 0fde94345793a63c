//! A flow that fills queues, as those of TCP do, beside ours.

use super::{CLEAN, Network, Simulation, What};
use std::collections::HashSet;

/// CUBIC (RFC 9438, 4.1 to 4.3 and 4.6), or a window that grows by a segment a round trip and loses three tenths, standing for all that fill queues; without slow start.
#[derive(Default)]
pub(super) struct Filler {
    window: f64,
    /// The window at the last loss, and when that was.
    most: f64,
    lost_us: u64,
    cubic: bool,
    /// The window that grows by a number of segments a round trip.
    reno: f64,
    next: u64,
    pub(super) acknowledged: u64,
    out: HashSet<u64>,
    lost_until: u64,
    segments: u64,
    pub(super) active: bool,
}

impl Simulation {
    fn crowd(&mut self, cubic: bool) {
        self.filler = Filler { window: 10.0, reno: 10.0, active: true, cubic, ..Filler::default() };
        self.fill();
    }

    fn fill(&mut self) {
        while (self.filler.out.len() as f64) < self.filler.window {
            let number = self.filler.next;
            self.filler.next += 1;
            self.filler.out.insert(number);
            self.filler.segments += 1;
            match self.passes(1_514) {
                Some(time_us) => self.at(time_us, What::Segment(number)),
                // Three later ones tell, some round trip later.
                None => self
                    .at(crate::whole(self.free_us) + 2 * self.network.delay_us, What::Acknowledged(u64::MAX - number)),
            }
        }
    }

    pub(super) fn acknowledged(&mut self, number: u64) {
        if number > u64::MAX / 2 {
            self.filler.out.remove(&(u64::MAX - number));
            if u64::MAX - number >= self.filler.lost_until {
                let filler = &mut self.filler;
                filler.most = if filler.window < filler.most { filler.window * 0.85 } else { filler.window };
                filler.window = (filler.window * 0.7).max(2.0);
                (filler.reno, filler.lost_us, filler.lost_until) = (filler.window, self.now_us, filler.next);
            }
        } else {
            self.filler.out.remove(&number);
            self.filler.acknowledged += 1;
            let filler = &mut self.filler;
            let wanted = if filler.cubic {
                let back = (filler.most * 0.3 / 0.4).cbrt();
                filler.reno += 0.53 / filler.window;
                0.4 * ((self.now_us - filler.lost_us) as f64 / 1e6 - back).powi(3) + filler.most
            } else {
                filler.reno += 1.0 / filler.window;
                0.0
            };
            let wanted = wanted.max(filler.reno).clamp(filler.window, 1.5 * filler.window);
            filler.window +=
                if filler.cubic { (wanted - filler.window) / filler.window } else { wanted - filler.window };
        }
        self.fill();
    }
}

/// Shares of the link, ours and theirs, after 20 s and until 60 s; `first` is whether they begin 5 s before us.
fn shares(network: Network, cubic: bool, first: bool) -> (f64, f64) {
    let mut simulation = Simulation::new(network, 1);
    if first {
        simulation.crowd(cubic);
        simulation.run(5_000_000);
    }
    simulation.flow(simulation.now_us, 4_000);
    if !first {
        simulation.crowd(cubic);
    }
    simulation.run(20_000_000);
    let before = simulation.filler.acknowledged;
    simulation.run(60_000_000);
    let ours = simulation.flows[0].seconds[20..60].iter().sum::<f64>() / 40.0 / (CLEAN.rate * 0.93);
    let theirs = (simulation.filler.acknowledged - before) as f64 * 1_514.0 / 40.0 / CLEAN.rate;
    println!("ours {ours:.2} of the link, theirs {theirs:.2}");
    (ours, theirs)
}

#[test]
fn a_flow_that_fills_queues_keeps_its_part_and_leaves_us_ours() {
    for first in [false, true] {
        let (ours, _) = shares(CLEAN, false, first);
        assert!((0.1..=0.7).contains(&ours), "{ours}");
    }
    // One way, and what the queue holds.
    for (delay_ms, queue_ms) in [(0.25, 12.0), (0.25, 50.0), (0.25, 120.0), (10.0, 100.0), (25.0, 12.0), (50.0, 100.0)]
    {
        let (delay_us, queue_bytes) = (crate::whole(delay_ms * 1e3), queue_ms / 1e3 * CLEAN.rate);
        for first in [false, true] {
            println!("CUBIC, {delay_ms} ms, a queue of {queue_ms} ms:");
            let (ours, theirs) = shares(Network { delay_us, back_us: delay_us, queue_bytes, ..CLEAN }, true, first);
            assert!(theirs >= 0.3 && ours >= 0.2, "{ours} {theirs}");
        }
    }
}
