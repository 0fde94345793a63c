//! Sending again before it is known that something is lost.

use super::Sender;
use crate::whole;
use std::collections::VecDeque;

/// Without a share of loss above this, nothing is sent again before it is known to be lost.
const ECHO_LOSS_MIN: f64 = 0.005;
/// While units are put in, those are sent and nothing again; this long after the last, the sender is held to have no more for now.
const ECHO_AFTER_US: u64 = 20_000;
/// Fragments are sent ahead of news so often that at most this share of them is missing still.
const ECHO_MISSING: f64 = 0.02;

/// Sending again what nobody said is lost, once there is nothing else to send.
#[derive(Debug, Default)]
pub(super) struct Echo {
    at: (u32, usize),
    /// When the last rounds through what is missing began.
    rounds: VecDeque<u64>,
}

impl Sender {
    /// With losses, what is missing is sent again in rounds, without waiting to hear that it is lost: there is room for it, and the end would wait for it.
    pub(super) fn next_echo(&mut self, now_us: u64) -> Option<(u32, u16)> {
        if self.statistics.loss < ECHO_LOSS_MIN || (self.room() > 0 && now_us - self.put_us < ECHO_AFTER_US) {
            return None;
        }
        let rounds = whole((ECHO_MISSING.ln() / self.statistics.loss.min(0.9).ln()).ceil().clamp(1.0, 16.0)) - 1;
        let news_us = whole(self.trip.smooth_us) + self.flights.overtaking_us() + 20_000;
        for _ in 0..2 {
            let found =
                self.units.range(self.echo.at.0..).filter(|(_, unit)| !unit.whole).find_map(|(number, unit)| {
                    let from = if *number == self.echo.at.0 { self.echo.at.1 } else { 0 };
                    unit.arrived.next_missing(from).map(|fragment| (*number, fragment))
                });
            if let Some((unit, fragment)) = found {
                if (unit, fragment) >= self.fresh {
                    return None;
                }
                self.echo.at = (unit, fragment + 1);
                return u16::try_from(fragment).ok().map(|fragment| (unit, fragment));
            }
            while self.echo.rounds.front().is_some_and(|began| began + news_us < now_us) {
                self.echo.rounds.pop_front();
            }
            if self.echo.rounds.len() as u64 >= rounds {
                return None;
            }
            self.echo.rounds.push_back(now_us);
            self.echo.at = (0, 0);
        }
        None
    }
}
