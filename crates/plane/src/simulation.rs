//! Ends and a link between them in virtual time: what the plane makes of bad networks, without one.

mod crowd;
mod prompt;
mod short;
use crate::frame::{Data, Report};
use crate::{Event, Poll, Receiver, Sender, Shape, Statistics};
use bytes::Bytes;
use crowd::Filler;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};

const FRAGMENT_BYTES: usize = 1_380;
/// QUIC, UDP, IP and Ethernet.
const OVERHEAD_BYTES: usize = 70;
const UNIT_BYTES: usize = 1 << 20;

const SHAPE: Shape = Shape { fragment_bytes: FRAGMENT_BYTES, window_units: 64, unit_bytes: UNIT_BYTES };

#[derive(Clone, Copy)]
struct Network {
    /// Bytes a second.
    rate: f64,
    /// Of the queue before the bottleneck.
    queue_bytes: f64,
    /// There, and of reports back.
    delay_us: u64,
    back_us: u64,
    loss: f64,
    report_loss: f64,
    /// Share of datagrams that skip the delay.
    overtaking: f64,
    doubled: f64,
    jitter_us: u64,
    /// Bytes a second that a policer before the queue lets pass.
    policed: f64,
}

const CLEAN: Network = Network {
    rate: 12_500_000.0,
    queue_bytes: 1_250_000.0,
    delay_us: 10_000,
    back_us: 10_000,
    loss: 0.0,
    report_loss: 0.0,
    overtaking: 0.0,
    doubled: 0.0,
    jitter_us: 0,
    policed: f64::INFINITY,
};

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn chance(&mut self, p: f64) -> bool {
        ((self.next() >> 11) as f64) < p * (1_u64 << 53) as f64
    }
}

enum What {
    Poll(usize),
    Report(usize),
    Arrives(usize, Box<Data>),
    Told(usize, Box<Report>),
    /// A segment of the loss-based flow, and its acknowledgement.
    Segment(u64),
    Acknowledged(u64),
}

struct Flow {
    sender: Sender,
    receiver: Receiver,
    left: usize,
    /// Small units before those, each when the one before is done: questions and answers.
    words: usize,
    begin_us: u64,
    end_us: Option<u64>,
    seen: HashSet<u32>,
    polled_us: u64,
    /// Bytes that arrived, by second.
    seconds: Vec<f64>,
}

struct Simulation {
    network: Network,
    random: Random,
    now_us: u64,
    order: u64,
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    whats: std::collections::HashMap<u64, What>,
    free_us: f64,
    policed_us: f64,
    flows: Vec<Flow>,
    filler: Filler,
    /// Whether nothing passes between these times.
    down: Option<(u64, u64)>,
}

impl Simulation {
    fn new(network: Network, seed: u64) -> Self {
        Self {
            network,
            random: Random(seed),
            now_us: 0,
            order: 0,
            heap: BinaryHeap::new(),
            whats: std::collections::HashMap::new(),
            free_us: 0.0,
            policed_us: 0.0,
            flows: Vec::new(),
            filler: Filler::default(),
            down: None,
        }
    }

    fn flow(&mut self, begin_us: u64, units: usize) {
        let (shape, at) = (SHAPE, self.flows.len());
        // Clocks that have nothing to do with each other.
        let sender =
            Sender::new(begin_us, shape, OVERHEAD_BYTES, self.network.delay_us + self.network.back_us, None, None);
        self.flows.push(Flow {
            sender,
            receiver: Receiver::new(shape, begin_us + OTHER_CLOCK_US),
            left: units,
            words: 0,
            begin_us,
            end_us: None,
            seen: HashSet::new(),
            polled_us: 0,
            seconds: Vec::new(),
        });
        self.at(begin_us, What::Poll(at));
        self.at(begin_us, What::Report(at));
    }

    fn at(&mut self, time_us: u64, what: What) {
        self.order += 1;
        self.heap.push(Reverse((time_us.max(self.now_us), self.order)));
        self.whats.insert(self.order, what);
    }

    fn is_down(&self) -> bool {
        self.down.is_some_and(|(from, to)| (from..to).contains(&self.now_us))
    }

    /// When something of `bytes` that is sent now arrives at the other end, if it does.
    fn passes(&mut self, bytes: usize) -> Option<u64> {
        let network = self.network;
        let now = self.now_us as f64;
        let policed_us = self.policed_us.max(now);
        if policed_us > now + short::BURST_US {
            return None;
        }
        self.policed_us = policed_us + bytes as f64 / network.policed * 1e6;
        let waiting = (self.free_us - now).max(0.0) * network.rate / 1e6;
        if waiting + bytes as f64 > network.queue_bytes || self.is_down() {
            return None;
        }
        self.free_us = self.free_us.max(now) + bytes as f64 / network.rate * 1e6;
        if self.random.chance(network.loss) {
            return None;
        }
        let delay_us = if self.random.chance(network.overtaking) { 0 } else { network.delay_us };
        let jitter_us = if network.jitter_us > 0 { self.random.next() % network.jitter_us } else { 0 };
        Some(crate::whole(self.free_us) + delay_us + jitter_us)
    }

    fn run(&mut self, until_us: u64) {
        while let Some(&Reverse((time_us, order))) = self.heap.peek() {
            if time_us > until_us || (!self.filler.active && self.flows.iter().all(|flow| flow.end_us.is_some())) {
                return;
            }
            (self.now_us, _) = (time_us, self.heap.pop());
            match self.whats.remove(&order).expect("put in with its number") {
                What::Poll(at) => self.poll(at),
                What::Report(at) => self.tell(at),
                What::Arrives(at, data) => self.arrives(at, &data),
                What::Told(at, report) => {
                    self.flows[at].sender.report(self.now_us, &report).expect("sound");
                    while let Some(Event::Done(_)) = self.flows[at].sender.event() {}
                    self.at(self.now_us, What::Poll(at));
                }
                What::Segment(number) => self.at(self.now_us + self.network.back_us, What::Acknowledged(number)),
                What::Acknowledged(number) => self.acknowledged(number),
            }
        }
    }

    fn poll(&mut self, at: usize) {
        let now_us = self.now_us;
        loop {
            let flow = &mut self.flows[at];
            if flow.end_us.is_some() {
                return;
            }
            if flow.words > 0 && flow.sender.is_idle() {
                flow.sender.put(now_us, Bytes::from_static(&[1; 100]));
                flow.words -= 1;
            }
            while flow.left > 0 && flow.words == 0 && flow.sender.room() > 0 {
                let bytes = vec![u8::try_from(flow.left % 251).expect("small"); UNIT_BYTES];
                flow.sender.put(now_us, Bytes::from(bytes));
                flow.left -= 1;
            }
            if flow.left == 0 && flow.words == 0 && flow.sender.is_idle() {
                flow.end_us = Some(now_us);
                return;
            }
            match flow.sender.poll(now_us) {
                Poll::Send(data) => {
                    let bytes = data.bytes.len() + crate::frame::DATA_HEADER_BYTES + OVERHEAD_BYTES;
                    let copies = if self.random.chance(self.network.doubled) { 2 } else { 1 };
                    for _ in 0..copies {
                        if let Some(time_us) = self.passes(bytes) {
                            self.at(time_us, What::Arrives(at, Box::new(data.clone())));
                        }
                    }
                }
                Poll::Wait(until_us) => {
                    // One wake-up at a time is enough.
                    let flow = &mut self.flows[at];
                    if flow.polled_us <= now_us || until_us < flow.polled_us {
                        flow.polled_us = until_us.max(now_us + 1);
                        let until_us = flow.polled_us;
                        self.at(until_us, What::Poll(at));
                    }
                    return;
                }
            }
        }
    }

    fn arrives(&mut self, at: usize, data: &Data) {
        let now_us = self.now_us;
        let flow = &mut self.flows[at];
        let second = usize::try_from(now_us / 1_000_000).expect("small");
        flow.seconds.resize(flow.seconds.len().max(second + 1), 0.0);
        flow.seconds[second] += data.bytes.len() as f64;
        if let Some(unit) = flow.receiver.receive(now_us + OTHER_CLOCK_US, data).expect("sound") {
            assert!(flow.seen.insert(unit.number), "a unit is told once");
            assert!(unit.bytes.iter().all(|byte| *byte == unit.bytes[0]), "bytes of another unit");
            flow.receiver.done(unit.number);
        }
        let report_us = flow.receiver.report_at_us() - OTHER_CLOCK_US;
        if report_us <= now_us {
            self.tell(at);
        }
    }

    fn tell(&mut self, at: usize) {
        let now_us = self.now_us;
        let flow = &mut self.flows[at];
        let report = flow.receiver.report(now_us + OTHER_CLOCK_US);
        let next_us = flow.receiver.report_at_us() - OTHER_CLOCK_US;
        if flow.end_us.is_none() && (report.is_some() || next_us > now_us) {
            self.at(next_us.min(now_us + 10_000).max(now_us + 1), What::Report(at));
        }
        let lost = self.random.chance(self.network.report_loss) || self.is_down();
        if let Some(report) = report.filter(|_| !lost) {
            self.at(now_us + self.network.back_us, What::Told(at, Box::new(report)));
        }
    }
}

const OTHER_CLOCK_US: u64 = 77_777_777_777;

/// What a transfer of `mebibytes` over `network` reaches of `rate * (1 - loss) * header efficiency`, and what its sender saw.
fn share(network: Network, mebibytes: usize, seed: u64) -> (f64, Statistics) {
    let mut simulation = Simulation::new(network, seed);
    simulation.flow(0, mebibytes);
    simulation.run(3_600_000_000);
    let flow = &simulation.flows[0];
    let took_us = flow.end_us.expect("it ends") - flow.begin_us;
    assert_eq!(flow.seen.len(), mebibytes);
    let ceiling = network.rate * (1.0 - network.loss) * 0.945;
    let share = (mebibytes * UNIT_BYTES) as f64 / (took_us as f64 / 1e6) / ceiling;
    let statistics = flow.sender.statistics();
    println!("{share:.3} in {:.2} s, {statistics:?}", took_us as f64 / 1e6);
    (share, statistics)
}

fn holds(name: &str, network: Network, mebibytes: usize, floor: f64) {
    for seed in 1..=3 {
        print!("{name}: ");
        let (share, _) = share(network, mebibytes, seed);
        assert!(share >= floor, "{name}: {share:.3} of the ceiling instead of {floor}");
    }
}

#[test]
fn a_clean_link_is_filled() {
    holds("clean", CLEAN, 128, 0.93);
    holds("1 Gbit/s", Network { rate: 125e6, queue_bytes: 4e6, ..CLEAN }, 512, 0.90);
    holds("2 Mbit/s", Network { rate: 250e3, queue_bytes: 50e3, ..CLEAN }, 4, 0.95);
    holds("320 kbit/s", Network { rate: 40e3, queue_bytes: 500e3, ..CLEAN }, 4, 0.85);
}

#[test]
fn delay_costs_little_more_than_its_round_trips() {
    for (delay_ms, floor) in [(100, 0.90), (200, 0.90), (400, 0.85), (800, 0.78), (1_600, 0.65)] {
        // One way delayed, as in the report; the queue holds the delay's worth.
        let network = Network {
            delay_us: delay_ms * 1_000,
            back_us: 500,
            queue_bytes: 12_500.0 * delay_ms as f64 + 100_000.0,
            ..CLEAN
        };
        holds(&format!("{delay_ms} ms"), network, 128, floor);
    }
}

#[test]
fn questions_and_answers_before_the_content_do_not_slow_its_start() {
    let network = Network { delay_us: 50_000, back_us: 50_000, ..CLEAN };
    let took_us = |words: usize| {
        let mut simulation = Simulation::new(network, 1);
        simulation.flow(0, 8);
        simulation.flows[0].words = words;
        simulation.run(600_000_000);
        simulation.flows[0].end_us.expect("all arrived")
    };
    let (silent, talked) = (took_us(0), took_us(12));
    println!("8 MiB after 0 and 12 questions: {silent} and {talked} µs");
    assert!(talked < silent + 12 * 130_000 + 200_000, "{silent} {talked}");
}

#[test]
fn where_the_bottleneck_is_known_before_the_content_a_round_trip_less_is_taken() {
    let network = Network { delay_us: 400_000, back_us: 400_000, queue_bytes: 12e6, ..CLEAN };
    let took_us = |fills: bool, loss: f64| {
        let mut simulation = Simulation::new(Network { loss, ..network }, 1);
        simulation.flow(0, 64);
        let flow = &mut simulation.flows[0];
        flow.words = 2;
        if fills {
            let sender = std::mem::replace(&mut flow.sender, Sender::new(0, SHAPE, OVERHEAD_BYTES, 1, None, None));
            flow.sender = sender.filling(800_000);
        }
        simulation.run(600_000_000);
        let flow = &simulation.flows[0];
        assert_eq!(flow.seen.len(), 66, "all units, and no filler");
        println!("{:?}", flow.sender.statistics());
        flow.end_us.expect("all arrived")
    };
    // With losses the end of it is a matter of chance.
    for (loss, less_us) in [(0.0, 600_000), (0.02, 200_000)] {
        let (without, with) = (took_us(false, loss), took_us(true, loss));
        println!("64 MiB at {loss}: {without} µs, with fillers {with} µs");
        assert!(with + less_us < without, "{with} {without}");
    }
}

#[test]
fn loss_takes_what_it_takes_and_no_more() {
    for (loss, floor) in [(0.01, 0.90), (0.08, 0.88), (0.16, 0.85), (0.32, 0.75), (0.64, 0.5), (0.7, 0.45)] {
        holds(&format!("loss {loss}"), Network { loss, ..CLEAN }, 128, floor);
        holds(&format!("loss {loss} both ways"), Network { loss, report_loss: loss, ..CLEAN }, 128, floor);
    }
    let far = Network { delay_us: 50_000, back_us: 50_000, ..CLEAN };
    holds("100 ms, 1 %", Network { loss: 0.01, ..far }, 128, 0.85);
    holds("100 ms, 32 %", Network { loss: 0.32, report_loss: 0.32, ..far }, 128, 0.70);
}

#[test]
fn overtaking_and_doubling_cost_little() {
    for overtaking in [0.001, 0.01, 0.08, 0.32, 0.64] {
        let network = Network { overtaking, delay_us: 100_000, back_us: 500, ..CLEAN };
        for seed in 1..=3 {
            let (share, seen) = share(network, 128, seed);
            println!("overtaking {overtaking}: {share:.3}, {seen:?}");
            assert!(share >= 0.90, "overtaking {overtaking}: {share:.3} of the ceiling");
            let again = seen.sent as f64 / (seen.arrived - seen.needless) as f64 - 1.0;
            assert!(again <= 0.02, "overtaking {overtaking}: {again:.3} of all was sent again");
        }
    }
    // The link carries the second copies, too.
    let (share, _) = share(Network { doubled: 0.32, ..CLEAN }, 128, 1);
    assert!(share >= 0.85 / 1.32, "{share}");
    holds("jitter", Network { jitter_us: 20_000, ..CLEAN }, 128, 0.85);
}

#[test]
fn two_flows_share_and_the_second_one_is_let_in() {
    let mut simulation = Simulation::new(CLEAN, 1);
    simulation.flow(0, 400);
    simulation.flow(5_000_000, 400);
    simulation.run(45_000_000);
    let part = |flow: &Flow| flow.seconds[10..40].iter().sum::<f64>();
    let (a, b) = (part(&simulation.flows[0]), part(&simulation.flows[1]));
    let jain = (a + b).powi(2) / (2.0 * (a * a + b * b));
    println!("{:.2} and {:.2} Mbit/s, Jain {jain:.3}", a * 8.0 / 30e6, b * 8.0 / 30e6);
    assert!(jain >= 0.9 && a + b > 30.0 * 0.85 * CLEAN.rate, "{a} {b} {jain}");
}

#[test]
fn a_link_that_was_down_is_filled_again() {
    let mut simulation = Simulation::new(CLEAN, 1);
    simulation.down = Some((3_000_000, 1_203_000_000));
    simulation.flow(0, 128);
    simulation.run(1_300_000_000);
    let flow = &simulation.flows[0];
    let after_us = flow.end_us.expect("it ends") - 1_203_000_000;
    println!("{after_us} us after the link came back, {:?}", flow.sender.statistics());
    assert!(after_us < 12_000_000, "{after_us}");
    assert!(
        flow.sender.statistics().sent < 140_000,
        "it does not shout at a dead link: {:?}",
        flow.sender.statistics()
    );
}

/// What is on its way is bounded by the window.
#[test]
fn memory_is_bounded_by_the_window() {
    let mut simulation = Simulation::new(Network { loss: 0.64, report_loss: 0.64, ..CLEAN }, 5);
    simulation.flow(0, 200);
    let mut queue: VecDeque<u64> = (0..200).map(|at| at * 100_000).collect();
    while let Some(until) = queue.pop_front() {
        simulation.run(until);
        let flow = &simulation.flows[0];
        assert!(200 - flow.left <= flow.seen.len() + 64 + 64);
    }
}
