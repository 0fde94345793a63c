//! How fast to send, by what the receiver measured.
//!
//! Sending is cut into epochs, stretches at one rate. What becomes of an epoch is judged a round trip later ([`Rate::judge`]), by three figures: the
//! slope of the delay within it (the link passes `rate / (1 + slope)`), its mean delay above the least of the last half minute (the queue), and how many of its
//! datagrams arrived.
//!
//! - *Starting*: the rate doubles with each judgement until the link is full: a slope, a queue, or fewer arrivals in spite of a greater rate. What a train of
//!   datagrams told of the bottleneck is not doubled, but gone beyond by a quarter.
//! - *Cruising*: the aim is a queue of [`QUEUE_BYTES`] of ours, `delay = K / rate`. What the link passed, less what the queue is above its aim, spread over
//!   twice the time until the next judgement, is the next rate. While there is no queue at all the step doubles.
//! - *Dipping*: now and then, the queue is emptied for a moment. So the least delay stays true, for us and for those who share the link; and what is still there then
//!   belongs to others. If they keep the queue full whatever we do, `K` grows up to [`CROWD_MAX`] times.
//!
//! Arrivals that fall when the rate rises mean a queue too short to be felt. One step back tells: if as many are missing then, it was not us, and the rate is taken up again.
//! Where most are missing from the first on, a dip goes far down for a moment: if as many bytes arrive then as before, something lets so much pass and no more (a policer), and that is the rate.

use crate::frame::EpochSum;
use crate::whole;

/// The queue we keep in the bottleneck, for short round trips: 1.6 ms at 100 Mbit/s. Twice as much leaves CUBIC 0.21 of a link whose queue holds 12 ms, and 12,000 leave us 0.15 of
/// one that holds 50 (in virtual time, `simulation::crowd`).
const QUEUE_BYTES: f64 = 20_480.0;
/// A round trip by which it grows once more: what a step of the rate makes of the queue grows with the round trip.
const QUEUE_RTT_US: f64 = 25_000.0;
/// The aim for the queue's delay is within this, or a quarter of the round trip, or [`QUEUE_DATAGRAMS`].
const QUEUE_US: (f64, f64) = (2_000.0, 40_000.0);
/// A queue of less than this of the aim is none: programs that wait for a processor make as much. Neither is one of a datagram, which takes longer than small ones.
const QUEUE_SHARE_MIN: f64 = 0.0625;
/// A datagram, headers of all layers included.
const DATAGRAM_BYTES: f64 = 1_500.0;
/// Datagrams that may wait however slow the link is.
const QUEUE_DATAGRAMS: f64 = 3.0;
/// No judgement changes the rate by more than this factor, cruising.
const STEP_MAX: f64 = 0.25;
/// Slopes below this are no sign of a full link: clocks and timers make as much.
const SLOPE_MIN: f64 = 0.06;
/// The error of no slope at all.
const SLOPELESS: f64 = 1_000.0;
/// A sign counts if it is so many standard errors from none.
const SURE: f64 = 3.5;
/// The share of arrivals has to fall by this to be a sign.
const FALL_MIN: f64 = 0.05;
/// An epoch of which fewer datagrams arrived is judged together with the next.
pub(crate) const DATAGRAMS_MIN: u32 = 16;
/// What was learnt of arrivals counts as that of so many datagrams.
const TOLD_MAX: f64 = 1_000.0;
/// The first step up, and the only one near a rate that was too much.
const STEP_MIN: f64 = 0.02;
/// The rate changes so that the queue is as it should be after twice this, or twice the time from sending to judging.
const TURN_US: f64 = 50_000.0;
/// After so many judgements without a queue the rate is looked for as at the start.
const EMPTY_MAX: u32 = 8;
/// That it was is believed for so long.
const NEAR_US: u64 = 10_000_000;
/// The least delay is that of two stretches of this.
const BASE_US: u64 = 15_000_000;
/// The most that a train is believed: on faster links the clocks of programs say nothing about single datagrams, and on a busy machine a program finds all of a
/// train waiting.
const TRAIN_MAX: f64 = 60e6;
/// The first rate after one that is not.
const UNTRAINED: f64 = 5e6;
/// From dip to dip.
const DIP_EVERY_US: f64 = 5_000_000.0;
/// Or so many round trips.
const DIP_EVERY_RTT: f64 = 20.0;
/// How much of [`QUEUE_BYTES`] we keep at most beside flows that keep the queue full.
const CROWD_MAX: f64 = 8.0;
/// A queue that stays above this, and a quarter of the round trip, in a dip is not ours.
const CROWD_US: f64 = 25_000.0;
/// Where fewer arrive than this share, it is looked whether more would of less that is sent: of so much of it.
const POLICED: (f64, f64) = (0.5, 0.25);
/// The slowest: some 15 datagrams a second, so that news of a link that is back comes soon.
pub const RATE_MIN: f64 = 20_000.0;

/// What became of an epoch.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// When its first datagram was sent.
    pub began_us: u64,
    /// When its last one was.
    pub ended_us: u64,
    /// Bytes a second it was sent at, headers of all layers included.
    pub rate: f64,
    /// Datagrams that were sent.
    pub sent: u32,
    /// Datagrams that arrived.
    pub arrived: u32,
    /// Whether less was sent than the rate allowed.
    pub limited: bool,
    /// Whether it was sent back to back.
    pub train: bool,
    /// What the receiver measured.
    pub sum: EpochSum,
}

/// How fast to send.
#[derive(Debug)]
pub struct Rate {
    phase: Phase,
    /// Bytes a second.
    now: f64,
    cap: f64,
    /// Judgements are of epochs that began after this.
    changed_us: u64,
    base: Base,
    /// Share of arrivals that is not our doing, and how many datagrams say so.
    arriving: f64,
    told: f64,
    queue_us: f64,
    /// What the link was last seen to pass while there was a queue.
    passes: f64,
    /// From sending to judging.
    turn_us: f64,
    /// The step while there is no queue.
    step: f64,
    /// Judgements in a row without a queue.
    empty: u32,
    crowd: f64,
    dipped_us: u64,
    test: Option<Test>,
    /// A rate that was too much for the queue, and when that was.
    full: Option<(f64, u64)>,
    /// The rate before silence.
    before: Option<f64>,
    /// The rate from which fewer arrivals made it go back.
    fell_from: f64,
    /// What a train was seen to pass the bottleneck at.
    trained: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Starting,
    Cruising,
    /// Emptying the queue until this time.
    Draining {
        until_us: u64,
        back: f64,
    },
    /// Measuring the empty queue from this time on.
    Looking {
        back: f64,
    },
}

/// A step back, to see whether what is missing is our doing.
#[derive(Debug, Clone, Copy)]
struct Test {
    rate: f64,
    arriving: f64,
}

/// The least delay of the last half minute.
#[derive(Debug)]
struct Base {
    now: f64,
    before: f64,
    since_us: u64,
}

impl Base {
    fn note(&mut self, now_us: u64, delay_us: f64) -> f64 {
        if now_us - self.since_us.min(now_us) > BASE_US {
            (self.before, self.now, self.since_us) = (self.now, delay_us, now_us);
        }
        self.now = self.now.min(delay_us);
        self.least()
    }

    fn least(&self) -> f64 {
        self.now.min(self.before)
    }
}

impl Rate {
    /// One that begins with `first` bytes a second and never exceeds `cap`.
    pub fn new(now_us: u64, first: f64, cap: Option<f64>) -> Self {
        let cap = cap.unwrap_or(f64::INFINITY).max(RATE_MIN);
        Self {
            phase: Phase::Starting,
            now: first.clamp(RATE_MIN, cap),
            cap,
            changed_us: now_us,
            base: Base { now: f64::INFINITY, before: f64::INFINITY, since_us: now_us },
            arriving: 1.0,
            told: 0.0,
            queue_us: 0.0,
            passes: 0.0,
            turn_us: 0.0,
            step: STEP_MIN,
            empty: 0,
            crowd: 1.0,
            dipped_us: now_us,
            test: None,
            full: None,
            before: None,
            fell_from: 0.0,
            trained: None,
        }
    }

    /// Bytes a second, headers of all layers included.
    pub fn bytes_per_second(&self) -> f64 {
        self.now
    }

    /// Microseconds that datagrams wait in the link's queue, as last measured.
    pub fn queue_us(&self) -> f64 {
        self.queue_us
    }

    /// Whether the first rate is still being looked for.
    pub fn is_starting(&self) -> bool {
        self.phase == Phase::Starting
    }

    /// How long an epoch is: a round trip, and shorter where the rate is being looked for.
    pub fn epoch_us(&self, rtt_us: f64) -> f64 {
        match self.phase {
            Phase::Starting => (rtt_us / 8.0).max(10_000.0),
            Phase::Cruising => (rtt_us / 2.0).clamp(20_000.0, 200_000.0),
            Phase::Draining { .. } | Phase::Looking { .. } => 20_000.0,
        }
    }

    /// What became of a train of datagrams sent back to back: how many arrived, and what the bottleneck passed. The first rate is three quarters of that, or half
    /// where some are missing, which makes it less sure.
    pub fn train(&mut self, now_us: u64, arrived: u32, sent: u32, bytes_per_second: f64) {
        if self.phase == Phase::Starting {
            self.learn((f64::from(arrived) / f64::from(sent)).min(1.0), sent);
            self.trained = Some(bytes_per_second).filter(|rate| *rate < TRAIN_MAX);
            let part = if arrived == sent { 0.75 } else { 0.5 };
            let first = self.trained.map_or(UNTRAINED, |rate| rate * part);
            self.set(now_us, first.max(self.now / 64.0));
        }
    }

    /// The next rate after one at which nothing said that the link is full. What a train said is gone to at once and beyond it with care, until it was wrong by far.
    fn faster(&self, rate: f64) -> f64 {
        match self.trained {
            Some(trained) if rate < 0.9 * trained => (2.0 * rate).min(0.95 * trained),
            Some(trained) if rate < 1.6 * trained => 1.25 * rate,
            _ => 2.0 * rate,
        }
    }

    /// Nothing was heard for longer than a round trip: sends half as fast.
    pub fn silence(&mut self, now_us: u64) {
        self.before.get_or_insert(self.now);
        self.set(now_us, self.now / 2.0);
        self.phase = Phase::Starting;
        self.test = None;
    }

    /// Datagrams were held to be lost that were only late: what was measured of them was not all. If the rate went back for that, it is taken up again.
    pub fn mistaken(&mut self, now_us: u64) {
        self.changed_us = now_us;
        (self.base.now, self.base.before) = (f64::INFINITY, f64::INFINITY);
        self.queue_us = 0.0;
        self.test = None;
        if self.full.take().is_some() {
            self.phase = Phase::Starting;
            self.set(now_us, self.now.max(self.fell_from));
        }
    }

    /// Something arrived: if that ends a silence, begins again not far below the rate before it. Whether it does.
    pub fn heard(&mut self, now_us: u64) -> bool {
        let Some(before) = self.before.take() else { return false };
        self.phase = Phase::Starting;
        self.set(now_us, self.now.max(before / 4.0));
        true
    }

    /// Passes from emptying the queue to looking at it when it is time.
    pub fn tick(&mut self, now_us: u64) {
        if let Phase::Draining { until_us, back } = self.phase
            && now_us >= until_us
        {
            self.phase = Phase::Looking { back };
            let part = match self.arriving {
                few if few < POLICED.0 => POLICED.1,
                less if less < 0.98 => 0.75,
                _ => 0.9,
            };
            self.set(now_us, back * part);
        }
    }

    /// Looks at an epoch, in the order of their sending. `rtt_us` is the round trip without queues.
    pub fn judge(&mut self, now_us: u64, rtt_us: f64, outcome: &Outcome) {
        let sum = &outcome.sum;
        if sum.datagrams < DATAGRAMS_MIN || outcome.ended_us <= outcome.began_us {
            return;
        }
        let (slope, error) = (f64::from(sum.slope), f64::from(sum.slope_error));
        let long_us = (outcome.ended_us - outcome.began_us) as f64;
        // The regression's error tells how much single delays scatter, and so how far their mean may be off.
        let doubt_us = (2.0 * error * long_us / 12_f64.sqrt()).min(1e6);
        let delay_us = f64::from(sum.delay);
        // Of a stretch without a slope it is not known at all.
        let base_us = if error < SLOPELESS { self.base.note(now_us, delay_us + doubt_us) } else { self.base.least() };
        self.queue_us = (delay_us - doubt_us - base_us).max(0.0);
        let turn_us = (now_us - outcome.began_us.min(now_us)) as f64;
        self.turn_us = if turn_us > self.turn_us { turn_us } else { self.turn_us + (turn_us - self.turn_us) / 16.0 };
        if outcome.began_us < self.changed_us {
            return;
        }
        let grows = slope - SURE * error > SLOPE_MIN;
        if self.queue_us > 0.0 && error < SLOPE_MIN {
            self.passes = outcome.rate / (1.0 + slope.clamp(-0.5, 4.0));
        }
        let slope = if grows { slope } else { 0.0 };
        let arriving = (f64::from(outcome.arrived) / f64::from(outcome.sent.max(1))).min(1.0);
        let fell = self.fell(arriving, outcome.sent);
        match self.phase {
            Phase::Starting => {
                let queued = self.queue_us > self.aim_us(rtt_us).max(rtt_us / 8.0).max(8_000.0);
                if slope > 0.0 || queued || fell {
                    let through = outcome.rate / (1.0 + slope) * if fell { arriving / self.arriving } else { 1.0 };
                    self.phase = Phase::Cruising;
                    self.full = fell.then_some((through, now_us));
                    self.fell_from = self.now;
                    // More went in since.
                    let since_us = (now_us - outcome.ended_us.min(now_us)) as f64;
                    self.queue_us += (outcome.rate / through - 1.0).max(0.0) * since_us;
                    self.drain(now_us, through);
                    return;
                }
                self.learn(arriving, outcome.sent);
                if !outcome.limited {
                    self.set(now_us, self.faster(outcome.rate).max(self.now));
                }
            }
            Phase::Cruising => self.cruise(now_us, rtt_us, outcome, slope, arriving, fell),
            Phase::Draining { .. } => {}
            // Loss that is not our doing takes the same share of any rate, and a policer one that falls with the rate.
            Phase::Looking { back } if outcome.rate < 0.5 * back && arriving > 2.0 * self.arriving => {
                let passes = outcome.rate * arriving;
                self.passes = passes;
                self.told = 0.0;
                self.full = Some((passes, now_us));
                self.phase = Phase::Looking { back: passes };
                self.set(now_us, 0.9 * passes);
            }
            // The dip did not go far enough to tell, for nobody knew that most are missing.
            Phase::Looking { back } if fell && arriving < POLICED.0 && outcome.rate > 0.5 * back => {
                self.told = 0.0;
                self.learn(arriving, outcome.sent);
                self.set(now_us, back * POLICED.1);
            }
            Phase::Looking { back } => {
                let theirs = self.queue_us > CROWD_US.max(rtt_us / 4.0);
                self.crowd = if theirs { (self.crowd * 2.0).min(CROWD_MAX) } else { (self.crowd / 2.0).max(1.0) };
                // What is missing now is missing whatever we do.
                self.learn(arriving, outcome.sent);
                self.phase = Phase::Cruising;
                self.dipped_us = now_us;
                self.set(now_us, back);
            }
        }
    }

    fn cruise(&mut self, now_us: u64, rtt_us: f64, outcome: &Outcome, slope: f64, arriving: f64, fell: bool) {
        if let Some(test) = self.test.take() {
            if arriving < test.arriving + (self.arriving - test.arriving) / 2.0 {
                // As many are missing as before the step back.
                self.arriving = arriving;
                return self.set(now_us, test.rate);
            }
            self.full = Some((test.rate, now_us));
        } else if fell {
            self.test = Some(Test { rate: outcome.rate, arriving });
            self.fell_from = self.now;
            return self.set(now_us, outcome.rate * (arriving / self.arriving).max(0.5) * 0.95);
        }
        let aim_us = self.aim_us(rtt_us);
        if (now_us - self.dipped_us.min(now_us)) as f64 > DIP_EVERY_US.max(DIP_EVERY_RTT * rtt_us) {
            return self.drain(now_us, outcome.rate / (1.0 + slope));
        }
        // Beyond it, without fewer arrivals, it was no limit.
        self.full = self.full.filter(|(rate, at_us)| outcome.rate < 1.06 * rate && now_us - at_us < NEAR_US);
        let near = self.full.is_some_and(|(rate, _)| outcome.rate > 0.8 * rate);
        let seen = f64::from(outcome.sum.slope_error) < SLOPE_MIN;
        if self.queue_us > (aim_us * QUEUE_SHARE_MIN).max(self.datagram_us()) {
            // The queue was that in the middle of the epoch, and the rate has been the same since.
            let since_us = (now_us - u64::midpoint(outcome.began_us, outcome.ended_us)) as f64;
            let passes = if seen { self.passes } else { outcome.rate / (1.0 + slope) };
            let queue_us = (self.queue_us + (outcome.rate / passes - 1.0) * since_us).max(0.0);
            let change = (aim_us - queue_us) / (2.0 * self.turn_us.max(TURN_US));
            (self.step, self.empty) = (STEP_MIN, 0);
            let up = if near { STEP_MIN } else { STEP_MAX };
            return self.set(now_us, passes * (1.0 + change.clamp(-2.0 * STEP_MAX, up)));
        }
        if outcome.limited {
            return;
        }
        self.step = if near { STEP_MIN } else { (self.step * 2.0).min(STEP_MAX) };
        // It passed more before; if it does not now, there is a queue soon.
        let known = self.passes.min(2.0 * outcome.rate);
        self.set(now_us, (outcome.rate * (1.0 + self.step)).max(if near { 0.0 } else { known }));
        self.empty += 1;
        if self.step == STEP_MAX && self.empty > EMPTY_MAX {
            // The link has become much faster.
            (self.phase, self.step) = (Phase::Starting, STEP_MIN);
        }
    }

    /// Half of what the link passes, until the queue is empty; then almost all of it, to look.
    fn drain(&mut self, now_us: u64, passed: f64) {
        let back = passed.clamp(RATE_MIN, self.cap);
        // A queue of others is not worth waiting for.
        let long_us = (2.0 * self.queue_us).clamp(2_000.0, 400_000.0);
        self.phase = Phase::Draining { until_us: now_us + whole(long_us), back };
        self.set(now_us, back / 2.0);
    }

    /// The queue's delay that is aimed at.
    fn aim_us(&self, rtt_us: f64) -> f64 {
        let bytes = QUEUE_BYTES * (1.0 + rtt_us / QUEUE_RTT_US) * self.crowd;
        let most_us = QUEUE_US.1.max(rtt_us / 4.0).max(QUEUE_DATAGRAMS * self.datagram_us());
        (bytes / self.now * 1e6).clamp(QUEUE_US.0, most_us * self.crowd)
    }

    /// How long the link has a datagram.
    fn datagram_us(&self) -> f64 {
        DATAGRAM_BYTES / self.now * 1e6
    }

    /// Whether fewer arrived than do anyway, by more than chance.
    fn fell(&self, arriving: f64, sent: u32) -> bool {
        self.told > 0.0 && self.arriving - arriving > (FALL_MIN * self.arriving).max(SURE * self.chance(sent))
    }

    /// Takes in a share of arrivals that is not our doing. If it is greater than what was thought, that was.
    fn learn(&mut self, arriving: f64, sent: u32) {
        let better = arriving - self.arriving > 3.0 * self.chance(sent);
        self.told = if better { 0.0 } else { self.told.min(TOLD_MAX) } + f64::from(sent);
        self.arriving += (arriving - self.arriving) * f64::from(sent) / self.told;
    }

    /// Standard deviation of the difference between the share of `sent` that arrives and what was learnt.
    fn chance(&self, sent: u32) -> f64 {
        let variance = (self.arriving * (1.0 - self.arriving)).max(0.01);
        (variance * (1.0 / f64::from(sent.max(1)) + 1.0 / self.told.max(1.0))).sqrt()
    }

    fn set(&mut self, now_us: u64, rate: f64) {
        self.now = rate.clamp(RATE_MIN, self.cap);
        self.changed_us = now_us;
    }
}
