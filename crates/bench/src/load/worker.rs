//! One thread of the load generator: an event loop that drives its share of the users.
//!
//! Everything a request needs exists before it begins: its bytes are made once for the plan, answers are read into one
//! buffer of the thread, latencies go into histograms of fixed size. Time-outs are looked for every [`TICK`] instead of being
//! kept for each request. A thread that has seen [`HOPELESS`] failures and no good answer gives up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::poll::{Batch, Poll};
use super::request::Ready;
use super::schedule::Schedule;
use super::tally::Tally;
use super::user::{Phase, User};
use crate::http::TICK;

/// Read buffer: what a socket usually holds, and small enough for the L2 cache.
const BUFFER_BYTES: usize = 128 * 1024;
/// Failures without a single good answer after which going on tells nothing new.
pub(super) const HOPELESS: u64 = 1_000;

/// What all threads of a run have in common.
pub(super) struct Run<'r> {
    pub(super) ready: &'r Ready<'r>,
    pub(super) seed: u64,
    pub(super) threads: u32,
    pub(super) begun: Instant,
    /// Loops of each user.
    pub(super) loops: Option<u64>,
    /// No request begins from here on.
    pub(super) until: Option<Instant>,
    pub(super) stop: &'r AtomicBool,
}

/// See the module.
pub(super) struct Worker<'r> {
    pub(super) run: &'r Run<'r>,
    pub(super) poll: Poll,
    pub(super) users: Vec<User>,
    /// Users that are not done.
    left: usize,
    /// When waiting users go on.
    alarms: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Users whose request has failed and who have to be sent on.
    pub(super) ended: Vec<usize>,
    /// Users with more to read than one turn allows.
    pub(super) again: Vec<usize>,
    /// Open model only.
    schedule: Option<Schedule>,
    idle: Vec<usize>,
    /// For each server, the address that last worked.
    pub(super) preferred: Vec<usize>,
    pub(super) buffer: Box<[u8]>,
    pub(super) tally: Tally,
}

impl<'r> Worker<'r> {
    /// Thread `index`, with every `threads`-th user.
    pub(super) fn new(run: &'r Run<'r>, index: u32) -> std::io::Result<Self> {
        let plan = run.ready.plan;
        let numbers: Vec<u32> = (index..plan.users).step_by(run.threads as usize).collect();
        let servers = run.ready.servers.len();
        let schedule = plan.rate.map(|rate| {
            let each = run.loops.map(|loops| loops.saturating_mul(plan.steps.len() as u64));
            let total = each.map(|each| each.saturating_mul(u64::from(plan.users)));
            Schedule::new(run.begun, rate, (index, run.threads), total, run.until)
        });
        let loops = if schedule.is_some() { None } else { run.loops };
        let mut worker = Self {
            run,
            poll: Poll::new()?,
            left: numbers.len(),
            users: numbers.iter().map(|&number| User::new(number, run.seed, loops, servers, run.begun)).collect(),
            alarms: BinaryHeap::new(),
            ended: Vec::new(),
            again: Vec::new(),
            schedule,
            idle: Vec::new(),
            preferred: vec![0; servers],
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            tally: Tally::new(plan, run.begun),
        };
        for (user, number) in numbers.into_iter().enumerate() {
            let ramp = plan.ramp_up.mul_f64(f64::from(number) / f64::from(plan.users));
            let think = worker.draw_think(user);
            worker.wait_until(user, run.begun + ramp + think);
        }
        Ok(worker)
    }

    /// Works until all users are done, or the run is stopped.
    pub(super) fn work(mut self) -> std::io::Result<Tally> {
        let (mut batch, mut events) = (Batch::new(), Vec::new());
        let mut now = Instant::now();
        let mut swept = now;
        while self.left > 0 && !self.run.stop.load(Ordering::Relaxed) {
            if self.tally.good_count() == 0 && self.tally.failed_count() >= HOPELESS {
                self.tally.gave_up = true;
                break;
            }
            let waiting = self.ended.is_empty() && self.again.is_empty();
            let most = if waiting { TICK } else { Duration::ZERO };
            self.poll.wait(now, self.next_alarm(), most, &mut batch, &mut events)?;
            now = Instant::now();
            for user in std::mem::take(&mut self.again) {
                self.read_on(user, now);
            }
            for event in events.drain(..) {
                self.take_event(event, now);
            }
            if now.duration_since(swept) >= TICK {
                swept = now;
                self.sweep(now);
            }
            self.send_on(now);
        }
        self.tally.unsent = self.schedule.as_ref().map_or(0, |schedule| schedule.overdue(Instant::now()));
        Ok(self.tally)
    }

    fn next_alarm(&self) -> Option<Instant> {
        let waiting = self.alarms.peek().map(|Reverse((at, _))| *at);
        let due = self.schedule.as_ref().filter(|_| !self.idle.is_empty()).and_then(Schedule::next);
        [waiting, due].into_iter().flatten().min()
    }

    /// Sends on all users who can go on: whose request has failed, whose time has come, for whom a request is due. Those whose
    /// next request fails at once have to wait for the next turn, so that an interrupt is noticed.
    fn send_on(&mut self, now: Instant) {
        for user in std::mem::take(&mut self.ended) {
            self.next_request(user, now.max(self.users[user].moved));
        }
        while let Some(Reverse((at, user))) = self.alarms.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            self.alarms.pop();
            self.start_or_idle(user, now.max(at));
        }
        while self.start_due(now) {}
    }

    /// Open model: gives a due request to a free user; tells whether it did. Ends the free users when no request will follow.
    fn start_due(&mut self, now: Instant) -> bool {
        let Some(schedule) = &mut self.schedule else { return false };
        if schedule.next().is_none() || self.run.until.is_some_and(|until| now >= until) {
            for user in std::mem::take(&mut self.idle) {
                self.end_user(user);
            }
            return false;
        }
        let Some(&user) = self.idle.last() else { return false };
        let Some(due) = schedule.take(now) else { return false };
        self.idle.pop();
        self.start(user, due, now.max(self.users[user].moved));
        true
    }

    /// What a user does after a request that ended at `now`.
    pub(super) fn next_request(&mut self, user: usize, now: Instant) {
        let plan = self.run.ready.plan;
        let Some(new_loop) = self.users[user].go_on(plan.steps.len()) else { return self.end_user(user) };
        if new_loop && plan.fresh_loops {
            self.users[user].close_all();
        }
        let think = self.draw_think(user);
        if think.is_zero() && self.run.until.is_none_or(|until| now < until) {
            self.start_or_idle(user, now);
        } else {
            self.wait_until(user, now + think);
        }
    }

    fn draw_think(&mut self, user: usize) -> Duration {
        let user = &mut self.users[user];
        let thinks = &self.run.ready.plan.steps[user.step].think;
        thinks.iter().map(|think| think.draw(&mut user.random)).sum()
    }

    fn wait_until(&mut self, user: usize, at: Instant) {
        if self.run.until.is_some_and(|until| at >= until) {
            self.end_user(user);
        } else {
            self.users[user].phase = Phase::Waiting;
            self.alarms.push(Reverse((at, user)));
        }
    }

    fn start_or_idle(&mut self, user: usize, now: Instant) {
        if self.schedule.is_some() {
            self.users[user].phase = Phase::Idle;
            self.idle.push(user);
        } else {
            self.start(user, now, now);
        }
    }

    /// Begins a request that was due at `due`.
    fn start(&mut self, user: usize, due: Instant, now: Instant) {
        self.tally.begin(due);
        let state = &mut self.users[user];
        state.phase = Phase::Busy;
        (state.due, state.begun, state.moved) = (due, now, now);
        (state.retried, state.tried) = (false, 1);
        self.send(user, now);
    }

    fn end_user(&mut self, user: usize) {
        let user = &mut self.users[user];
        user.close_all();
        if user.phase != Phase::Done {
            user.phase = Phase::Done;
            self.left -= 1;
        }
    }
}
