//! What a thread of the load generator does with connections: open, send, read, time out.

use std::time::Instant;

use super::link::{Advance, Exchange, Link, Reply};
use super::poll::Ready as Event;
use super::tally::{ErrorClass, Failure};
use super::user::Phase;
use super::worker::Worker;
use crate::http::HttpError;

impl Worker<'_> {
    /// Which of a user's connections its request goes over.
    fn slot_of(&self, user: usize) -> usize {
        self.run.ready.messages[self.users[user].step].server
    }

    /// Sends the running request on the kept connection, or on a new one.
    pub(super) fn send(&mut self, user: usize, now: Instant) {
        let slot = self.slot_of(user);
        if let Some(link) = &mut self.users[user].slots[slot].link {
            link.begin();
            self.advance(user, slot, false, now);
        } else if let Err(failure) = self.open(user, slot, now) {
            self.not_answered(user, slot, &failure, now);
        }
    }

    fn open(&mut self, user: usize, slot: usize, now: Instant) -> Result<(), Failure> {
        let server = &self.run.ready.servers[slot];
        let address = server.addresses[self.preferred[slot] % server.addresses.len()];
        let link = Link::open(&server.endpoint, address, now)?;
        let place = &mut self.users[user].slots[slot];
        place.generation = place.generation.wrapping_add(1);
        let token = token(user * self.run.ready.servers.len() + slot, place.generation);
        let watched = self.poll.watch(link.socket(), token);
        watched.map_err(|source| HttpError::Io { phase: "watching a socket", source })?;
        place.link = Some(Box::new(link));
        self.tally.connections += 1;
        Ok(())
    }

    /// A request got no answer: tries the name's next address, if that can help, or counts it as failed.
    fn not_answered(&mut self, user: usize, slot: usize, failure: &Failure, now: Instant) {
        let addresses = self.run.ready.servers[slot].addresses.len();
        if failure.class != ErrorClass::Connect || self.users[user].tried >= addresses {
            return self.fail(user, failure);
        }
        self.users[user].tried += 1;
        self.preferred[slot] = (self.preferred[slot] + 1) % addresses;
        self.send(user, now);
    }

    pub(super) fn take_event(&mut self, event: Event, now: Instant) {
        let (place, generation) = untoken(event.token);
        let servers = self.run.ready.servers.len();
        let (user, slot) = (place / servers, place % servers);
        let Some(state) = self.users.get_mut(user) else { return };
        let wanted = state.phase == Phase::Busy && self.run.ready.messages[state.step].server == slot;
        let place = &mut state.slots[slot];
        let Some(link) = place.link.as_mut().filter(|_| place.generation == generation) else { return };
        if event.hung_up {
            link.note_hang_up();
        }
        if wanted {
            self.advance(user, slot, event.settled, now);
        } else if event.hung_up {
            // Between two requests.
            place.link = None;
            self.tally.reopened += 1;
        }
    }

    /// Goes on with a user whose turn was over before its answer was.
    pub(super) fn read_on(&mut self, user: usize, now: Instant) {
        if self.users[user].phase == Phase::Busy {
            self.advance(user, self.slot_of(user), false, now);
        }
    }

    /// Does what can be done for the running request.
    fn advance(&mut self, user: usize, slot: usize, settled: bool, now: Instant) {
        let ready = self.run.ready;
        let state = &mut self.users[user];
        let Some(link) = &mut state.slots[slot].link else { return };
        let step = &ready.plan.steps[state.step];
        let exchange = Exchange {
            message: &ready.messages[state.step].bytes,
            method: step.method,
            expect: &step.expect,
            ask_server: self.tally.server.is_none(),
        };
        state.moved = now;
        let advance = link.advance(&exchange, settled, &mut self.buffer);
        if let Some(time) = link.take_established() {
            self.tally.connected(time);
        }
        match advance {
            Ok(Advance::Blocked) => {}
            Ok(Advance::Again) => self.again.push(user),
            Ok(Advance::Complete(reply)) => self.complete(user, slot, reply),
            Err(failure) => {
                let gone = link.was_stale() && failure.class == ErrorClass::Closed;
                let again = gone && !state.retried && step.method.is_idempotent();
                state.slots[slot].link = None;
                self.tally.reopened += u64::from(gone);
                if again {
                    state.retried = true;
                    self.send(user, now);
                } else {
                    self.not_answered(user, slot, &failure, now);
                }
            }
        }
    }

    fn complete(&mut self, user: usize, slot: usize, reply: Reply) {
        let now = Instant::now();
        let state = &mut self.users[user];
        (state.phase, state.moved) = (Phase::Ended, now);
        if reply.server.is_some() {
            self.tally.server = reply.server;
        }
        self.tally.content_bytes += reply.content_bytes;
        self.tally.reopened += u64::from(reply.dropped);
        if !reply.keep || !self.run.ready.plan.steps[state.step].keep_alive {
            state.slots[slot].link = None;
        }
        match reply.verdict {
            Ok(()) => {
                self.tally.good(state.step, state.due, state.begun, now);
                self.next_request(user, now);
            }
            Err(failure) => self.fail(user, &failure),
        }
    }

    /// Counts the running request as failed; the user goes on with the next.
    fn fail(&mut self, user: usize, failure: &Failure) {
        let now = Instant::now();
        let state = &mut self.users[user];
        (state.phase, state.moved) = (Phase::Ended, now);
        let name = &self.run.ready.plan.steps[state.step].name;
        let message = format!("{name}: {}", failure.message);
        self.tally.failed(state.step, &Failure { class: failure.class, message }, now);
        self.ended.push(user);
    }

    /// Gives up requests that take too long.
    pub(super) fn sweep(&mut self, now: Instant) {
        let limits = self.run.ready.limits;
        for user in 0..self.users.len() {
            let slot = self.slot_of(user);
            let state = &mut self.users[user];
            if state.phase != Phase::Busy {
                continue;
            }
            let connecting = state.slots[slot].link.as_ref().and_then(|link| link.connecting_since());
            let passed = |since: Instant| now.saturating_duration_since(since);
            let error = if connecting.is_some_and(|since| passed(since) >= limits.connect) {
                HttpError::TooSlow { after: limits.connect, phase: "connecting" }
            } else if passed(state.begun) >= limits.total {
                HttpError::TooSlow { after: limits.total, phase: "waiting for the answer" }
            } else if passed(state.moved) >= limits.stall {
                HttpError::Stalled { after: limits.stall, phase: "waiting for the answer" }
            } else {
                continue;
            };
            state.slots[slot].link = None;
            self.fail(user, &error.into());
        }
    }
}

/// The place of a connection and its generation in one number. There are at most users times servers places, far below 2^32.
fn token(place: usize, generation: u32) -> u64 {
    place as u64 | u64::from(generation) << 32
}

fn untoken(token: u64) -> (usize, u32) {
    let half = |half: u64| u32::try_from(half & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    (half(token) as usize, half(token >> 32))
}
