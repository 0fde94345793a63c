use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::settings::{Chance, Loss, Queue};

const MS: Nanos = 1_000_000;
/// A byte on the link takes 80 ns.
const MBIT_100: Option<u64> = Some(12_500_000);

fn link(impairments: Impairments) -> Link {
    Link::new(impairments, 42).expect("it makes sense")
}

/// A packet that a number can be read from, as long as one of a full frame.
fn packet(number: u32) -> Vec<u8> {
    let mut packet = vec![0; 1500];
    packet[..4].copy_from_slice(&number.to_be_bytes());
    packet
}

fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[..4].try_into().expect("four bytes"))
}

/// Everything that comes out, with the time at which it does.
fn drain(link: &mut Link) -> Vec<(Nanos, Vec<u8>)> {
    let mut out = Vec::new();
    while let Some(at) = link.next_due() {
        out.extend(link.pop(at).map(|packet| (at, packet)));
    }
    out
}

fn numbers(link: &mut Link) -> Vec<(Nanos, u32)> {
    drain(link).iter().map(|(at, packet)| (*at, number(packet))).collect()
}

fn both() -> [Impairments; 2] {
    [Mode::True, Mode::Netem].map(|mode| Impairments { mode, ..Impairments::default() })
}

#[test]
fn a_perfect_link_passes_everything_at_once_and_in_order() {
    for impairments in both() {
        let mut link = link(impairments);
        (0..100).for_each(|number| link.push(7, packet(number)));
        assert_eq!(link.held(), 100);
        let out: Vec<_> = std::iter::from_fn(|| link.pop(7)).map(|packet| number(&packet)).collect();
        assert_eq!(out, (0..100).collect::<Vec<_>>());
        assert_eq!(link.counters().delivered, link.counters().offered);
        assert_eq!(link.counters().offered.bytes, 151_400, "14 bytes with each");
    }
}

#[test]
fn a_packet_leaves_after_the_delay_and_not_before() {
    for impairments in both() {
        let mut link = link(Impairments { delay: Duration::from_millis(100), ..impairments });
        link.push(5 * MS, packet(1));
        assert_eq!((link.pop(105 * MS - 1), link.next_due()), (None, Some(105 * MS)));
        assert_eq!(link.pop(105 * MS).map(|packet| number(&packet)), Some(1));
    }
}

#[test]
fn slots_follow_each_other_and_idle_time_is_not_saved_up() {
    for impairments in both() {
        let mut link = link(Impairments { rate: MBIT_100, delay: Duration::from_millis(10), ..impairments });
        // 1,514 bytes take 121,120 ns. Three at once, then one after a second of silence.
        (0..3).for_each(|number| link.push(0, packet(number)));
        let slot = 121_120;
        let out = numbers(&mut link);
        assert_eq!(out, [(10 * MS + slot, 0), (10 * MS + 2 * slot, 1), (10 * MS + 3 * slot, 2)]);
        (3..5).for_each(|number| link.push(1_000 * MS, packet(number)));
        assert_eq!(numbers(&mut link), [(1_010 * MS + slot, 3), (1_010 * MS + 2 * slot, 4)]);
    }
}

#[test]
fn the_rate_holds_for_small_packets_with_their_overhead() {
    for impairments in both() {
        let mut link = link(Impairments { rate: MBIT_100, ..impairments });
        (0..1000).for_each(|_| link.push(0, vec![0; 40]));
        let last = drain(&mut link).last().map(|(at, _)| *at);
        assert_eq!(last, Some(1000 * 54 * 80));
    }
}

#[test]
fn netems_queue_counts_what_is_delayed_and_the_wires_only_what_waits() {
    let queue = Queue { packets: 10, bytes: None };
    for (impairments, arrive) in both().into_iter().zip([20, 10]) {
        let mut link = link(Impairments { rate: MBIT_100, delay: Duration::from_millis(100), queue, ..impairments });
        // Slower than the rate: nothing waits for it, all is on its way.
        for number in 0..20 {
            link.push(Nanos::from(number) * MS, packet(number));
        }
        assert_eq!(link.held(), arrive, "{:?}", impairments.mode);
        assert_eq!(link.counters().overflowed.packets, 20 - arrive as u64);
    }
}

#[test]
fn a_queue_is_limited_in_packets_and_bytes() {
    for (queue, fits) in [(Queue { packets: 5, bytes: None }, 5), (Queue { packets: 100, bytes: Some(4_600) }, 3)] {
        let mut link = link(Impairments { rate: MBIT_100, queue, ..Impairments::default() });
        (0..20).for_each(|number| link.push(0, packet(number)));
        assert_eq!((link.held(), link.counters().overflowed.packets), (fits, 20 - fits as u64));
        // A slot later there is room for one again.
        link.push(121_120, packet(20));
        link.push(121_120, packet(21));
        assert_eq!(link.held(), fits + 1);
    }
}

#[test]
fn a_packet_larger_than_the_queue_passes_an_empty_one() {
    let queue = Queue { packets: 100, bytes: Some(100) };
    let mut link = link(Impairments { rate: MBIT_100, queue, ..Impairments::default() });
    link.push(0, packet(0));
    link.push(0, packet(1));
    assert_eq!(link.held(), 1);
}

#[test]
fn what_is_held_is_bounded_without_a_queue() {
    let queue = Queue { packets: 1_000_000, bytes: None };
    let mut link = link(Impairments { delay: Duration::from_secs(1), queue, ..Impairments::default() });
    (0..200_000).for_each(|number| link.push(0, packet(number)));
    assert_eq!(link.held() as u64, HELD_BYTES_MAX / 1514);
    assert_eq!(link.counters().overflowed.packets, 200_000 - HELD_BYTES_MAX / 1514);
}

#[test]
fn lost_packets_use_the_wire_but_not_netems_rate() {
    for (impairments, used) in both().into_iter().zip([1.0, 0.5]) {
        let loss = Loss::Random(Chance::percent(50.0));
        let queue = Queue { packets: 100_000, bytes: None };
        let mut link = link(Impairments { rate: MBIT_100, loss, queue, ..impairments });
        (0..10_000).for_each(|number| link.push(0, packet(number)));
        let out = drain(&mut link);
        assert_eq!(out.len() as u64, 10_000 - link.counters().loss.hits);
        let seconds = out.last().expect("half of them").0 as f64 / 1e9;
        assert!((seconds / (10_000.0 * 121_120e-9) - used).abs() < 0.02, "{:?}: {seconds}", impairments.mode);
    }
}

#[test]
fn a_corrupted_packet_differs_in_one_bit_and_the_others_in_none() {
    for impairments in both() {
        let queue = Queue { packets: 10_000, bytes: None };
        let mut link = link(Impairments { corruption: Chance::percent(30.0), queue, ..impairments });
        (0..2_000).for_each(|_| link.push(0, vec![0xa5; 100]));
        let flipped = |packet: &[u8]| packet.iter().map(|byte| (byte ^ 0xa5).count_ones()).sum::<u32>();
        let flips: Vec<u32> = drain(&mut link).iter().map(|(_, packet)| flipped(packet)).collect();
        assert!(flips.iter().all(|&bits| bits <= 1));
        assert_eq!(flips.iter().map(|&bits| u64::from(bits)).sum::<u64>(), link.counters().corruption.hits);
        assert!((500..700).contains(&link.counters().corruption.hits), "{:?}", link.counters().corruption);
    }
}

#[test]
fn every_bit_of_a_packet_can_be_the_one_that_flips() {
    let mut link = link(Impairments { corruption: Chance::percent(100.0), ..Impairments::default() });
    (0..1_000).for_each(|_| link.push(0, vec![0; 4]));
    let mut seen: Vec<u32> = drain(&mut link).iter().map(|(_, packet)| number(packet)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 32);
}

#[test]
fn a_doubled_packet_arrives_twice_and_no_copy_is_copied() {
    for impairments in both() {
        let mut link = link(Impairments { duplication: Chance::percent(100.0), ..impairments });
        (0..3).for_each(|number| link.push(0, packet(number)));
        let out: Vec<u32> = numbers(&mut link).into_iter().map(|(_, number)| number).collect();
        assert_eq!(out, [0, 0, 1, 1, 2, 2]);
    }
}

#[test]
fn netems_loss_and_duplication_at_once_are_one_packet_and_copies_are_judged_again() {
    let loss = Loss::Random(Chance::percent(50.0));
    let mode = Mode::Netem;
    let queue = Queue { packets: 100_000, bytes: None };
    let mut link =
        link(Impairments { duplication: Chance::percent(100.0), loss, mode, queue, ..Impairments::default() });
    (0..20_000).for_each(|number| link.push(0, packet(number)));
    let out = drain(&mut link).len();
    // Half are lost and doubled: one arrives. Half are doubled: one arrives, and half of the copies.
    assert!((24_500..25_500).contains(&out), "{out}");
    let judged = link.counters().loss.trials;
    assert!((29_500..30_500).contains(&judged), "originals and half as many copies: {judged}");
}

#[test]
fn copies_use_netems_rate_but_not_the_wires() {
    for (impairments, slots) in both().into_iter().zip([1, 2]) {
        let mut link = link(Impairments { duplication: Chance::percent(100.0), rate: MBIT_100, ..impairments });
        (0..100).for_each(|number| link.push(0, packet(number)));
        assert_eq!(drain(&mut link).last().map(|(at, _)| *at), Some(slots * 100 * 121_120));
    }
}

#[test]
fn a_reordered_packet_skips_the_delay_and_with_netem_the_rate() {
    for (impairments, at) in both().into_iter().zip([121_120, 0]) {
        let reordering = Chance::percent(100.0);
        let delay = Duration::from_millis(100);
        let mut link = link(Impairments { reordering, gap: 5, delay, rate: MBIT_100, ..impairments });
        for number in 0..10 {
            link.push(0, packet(number));
            if number % 5 == 4 {
                // The wire gave a slot to all before it as well.
                let slots = if at == 0 { 0 } else { u64::from(number) + 1 };
                assert_eq!(link.next_due(), Some(at * slots), "{:?}", impairments.mode);
                assert_eq!(link.pop(at * slots).map(|packet| super::tests::number(&packet)), Some(number));
            }
        }
        assert_eq!(link.counters().reordering, crate::count::Tally { trials: 2, hits: 2 }, "once in a gap of five");
        assert_eq!(link.held(), 8);
    }
}

#[test]
fn jitter_spreads_delays_evenly_on_both_sides() {
    for impairments in both() {
        let (delay, jitter) = (Duration::from_millis(50), Duration::from_millis(20));
        let queue = Queue { packets: 100_000, bytes: None };
        let mut link = link(Impairments { queue, delay, jitter, ..impairments });
        (0..10_000).for_each(|number| link.push(0, packet(number)));
        let at: Vec<Nanos> = drain(&mut link).into_iter().map(|(at, _)| at).collect();
        let (least, most) = (at[0], at[at.len() - 1]);
        assert!((30 * MS..30 * MS + MS / 10).contains(&least) && (70 * MS - MS / 10..70 * MS).contains(&most));
        let mean = at.iter().sum::<u64>() / at.len() as u64;
        assert!((49 * MS..51 * MS).contains(&mean), "{mean}");
    }
}

/// What the schedulers do to twelve packets with this seed, kept so that a release that does something else is noticed.
#[test]
fn a_known_seed_has_a_known_outcome() {
    let all = |mode| Impairments {
        mode,
        rate: MBIT_100,
        delay: Duration::from_millis(1),
        jitter: Duration::from_micros(200),
        loss: Loss::Random(Chance::percent(20.0)),
        corruption: Chance::percent(20.0),
        duplication: Chance::percent(20.0),
        reordering: Chance { probability: 0.4, correlation: 0.25 },
        ..Impairments::default()
    };
    let outcome = |mode| -> Vec<String> {
        let mut link = link(all(mode));
        let mut out = Vec::new();
        let mut take = |link: &mut Link, now| {
            while let Some(at) = link.next_due().filter(|at| *at <= now) {
                let packet = link.pop(at).expect("it is due");
                let flipped = packet[4..].iter().position(|byte| *byte != 0).map(|at| format!(" byte {}", at + 4));
                out.push(format!("{} at {at}{}", number(&packet), flipped.unwrap_or_default()));
            }
        };
        for number in 0..12 {
            link.push(Nanos::from(number) * 100_000, packet(number));
            take(&mut link, Nanos::from(number) * 100_000);
        }
        take(&mut link, Nanos::MAX);
        out
    };
    let known = |text: &str| text.split(", ").map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(outcome(Mode::True), known(TRUE_OUTCOME));
    assert_eq!(outcome(Mode::Netem), known(NETEM_OUTCOME));
}

const TRUE_OUTCOME: &str = "0 at 121120, 0 at 121120 byte 862, 1 at 242240 byte 779, 2 at 363360, 6 at 847840, 7 at 968960, \
    7 at 968960, 8 at 1090080, 9 at 1211200, 9 at 1211200, 3 at 1285543, 3 at 1285543, 10 at 1332320, 4 at 1603508, 11 at 2609843";
const NETEM_OUTCOME: &str = "0 at 0 byte 862, 1 at 0 byte 779, 4 at 0, 5 at 0, 6 at 0, 7 at 0, 9 at 0, 10 at 0, 0 at 922183, \
    11 at 0, 2 at 1319028, 3 at 1577523, 6 at 1698643, 8 at 1884480, 8 at 2005600, 11 at 2126720";

fn chances() -> impl Strategy<Value = Chance> {
    (0.0..=1.0_f64, prop_oneof![Just(0.0), 0.0..0.99_f64])
        .prop_map(|(probability, correlation)| Chance { probability, correlation })
}

proptest! {
    /// Whatever the settings and the times: nothing appears from nowhere, nothing is forgotten, nothing leaves before it came or
    /// faster than the rate, and the same seed does the same again.
    #[test]
    fn packets_are_conserved_and_rates_are_kept(
        mode in prop_oneof![Just(Mode::True), Just(Mode::Netem)],
        (loss, corruption, duplication, reordering) in (chances(), chances(), chances(), chances()),
        (delay_us, jitter_us, rate) in (1..5_000_u64, 0..5_000_u64, prop_oneof![Just(None), (100_000..100_000_000_u64).prop_map(Some)]),
        gap in 1..4_u32,
        offers in proptest::collection::vec((0..200_000_u64, 1..1500_usize), 1..200),
        seed: u64,
    ) {
        let impairments = Impairments {
            mode, rate, gap, corruption, duplication, reordering,
            loss: Loss::Random(loss),
            delay: Duration::from_micros(delay_us),
            jitter: Duration::from_micros(jitter_us),
            queue: Queue { packets: 50, bytes: None },
            ..Impairments::default()
        };
        let run = || {
            let mut link = Link::new(impairments, seed).expect("it makes sense");
            let (mut now, mut out) = (0, Vec::new());
            for (wait, length) in &offers {
                now += wait;
                link.push(now, vec![0; *length]);
                while let Some(packet) = link.pop(now) {
                    out.push((now, packet));
                }
            }
            out.extend(drain(&mut link));
            (out, *link.counters(), link.held_bytes)
        };
        let (out, counters, held) = run();
        prop_assert_eq!(&run().0, &out);
        prop_assert_eq!(held, 0);
        prop_assert_eq!(counters.delivered.packets, out.len() as u64);
        if mode == Mode::True {
            let arrived = counters.offered.packets - counters.overflowed.packets - counters.loss.hits + counters.duplication.hits;
            prop_assert_eq!(counters.delivered.packets, arrived);
        } else {
            prop_assert!(counters.delivered.packets <= counters.offered.packets + counters.duplication.hits);
            prop_assert!(counters.delivered.packets + counters.overflowed.packets + counters.loss.hits >= counters.offered.packets);
        }
        let flips: u64 = out.iter().flat_map(|(_, packet)| packet).map(|byte| u64::from(byte.count_ones())).sum();
        prop_assert!(flips <= counters.corruption.hits);
        prop_assert!(out.windows(2).all(|pair| pair[0].0 <= pair[1].0 || pair[1].0 == 0));
    }
}
