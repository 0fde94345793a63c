//! Two paths of different length, and which of them a datagram took.
//!
//! Where some datagrams overtake others by a fixed time, the mean delay of a stretch tells how many of it took which path, and drowns what it should tell: whether a queue grows.
//! So what the longer path takes more is taken off ([`Paths::level`]). Which path it was is known of datagrams that others overtook. Of the rest, the delay tells,
//! since a queue changes little from one datagram to the next, and a path by all of the difference.
//!
//! Where delays scatter evenly (jitter) there are no two paths, and nothing is taken off.

/// Datagrams that have to be overtaken before anything is believed.
const OVERTAKEN_MIN: u32 = 8;
/// Means are over so many of them.
const OVERTAKEN_TOLD: u32 = 4_096;
/// Smaller differences are none.
const MORE_MIN_US: f64 = 5_000.0;
/// A difference is one of paths if it is so many times what it varies by.
const CLEAR: f64 = 4.0;

/// What was seen of them.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// How much later than the newest before them those come that it overtook, in the mean.
    more_us: f64,
    /// How much that varies.
    scatter_us: f64,
    overtaken: u32,
    /// What was made of the newest datagram, and of the last.
    newest_us: f64,
    last_us: f64,
}

impl Paths {
    /// The delay that a datagram would have had on the shorter path. `was_overtaken` by one that was sent later.
    pub(crate) fn level(&mut self, delay: i32, was_overtaken: bool) -> i32 {
        let delay_us = f64::from(delay);
        if was_overtaken {
            self.overtaken = (self.overtaken + 1).min(OVERTAKEN_TOLD);
            let (more_us, count) = (delay_us - self.newest_us, f64::from(self.overtaken));
            self.more_us += (more_us - self.more_us) / count;
            self.scatter_us += ((more_us - self.more_us).abs() - self.scatter_us) / count;
        }
        let are_two = self.overtaken >= OVERTAKEN_MIN && self.more_us > MORE_MIN_US.max(CLEAR * self.scatter_us);
        let jump_us = delay_us - self.last_us;
        let level_us =
            if are_two && (was_overtaken || jump_us > self.more_us / 2.0) { delay_us - self.more_us } else { delay_us };
        self.last_us = level_us;
        if !was_overtaken {
            self.newest_us = level_us;
        }
        #[allow(clippy::cast_possible_truncation, reason = "it saturates")]
        let level = level_us as i32;
        level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR_US: i32 = 100_000;

    /// Levels of datagrams, one each millisecond, of which each `every`th takes the short path, while the queue grows by `growth` µs with each.
    fn levels(paths: &mut Paths, range: std::ops::Range<i32>, every: i32, growth: i32) -> Vec<i32> {
        let is_short = |sent: i32| sent % every == 0;
        let mut arrivals: Vec<(i32, i32)> = range
            .map(|sent| (sent, growth * sent + if is_short(sent) { 0 } else { FAR_US }))
            .map(|(sent, delay)| (sent * 1_000 + delay, sent))
            .collect();
        arrivals.sort_unstable();
        let mut newest = -1;
        let level = |(at, sent): (i32, i32)| {
            let was_overtaken = sent < newest;
            newest = newest.max(sent);
            paths.level(at - sent * 1_000, was_overtaken) - growth * sent
        };
        arrivals.into_iter().map(level).collect()
    }

    #[test]
    fn the_longer_path_is_taken_off_however_few_take_the_shorter() {
        for every in [2, 7, 50, 400] {
            let mut paths = Paths::default();
            levels(&mut paths, 0..2_000, every, 0);
            let settled = levels(&mut paths, 2_000..6_000, every, 0);
            assert!(
                settled.iter().all(|level| level.abs() < FAR_US / 50),
                "every {every}th: {:?}",
                settled.iter().max()
            );
        }
    }

    #[test]
    fn a_queue_that_grows_is_not_taken_off() {
        let mut paths = Paths::default();
        levels(&mut paths, 0..2_000, 10, 0);
        let grown = levels(&mut paths, 0..2_000, 10, 100);
        assert!(grown.iter().all(|level| level.abs() < FAR_US / 5), "{:?}", grown.iter().max());
    }

    #[test]
    fn of_delays_that_scatter_nothing_is_taken_off() {
        let mut paths = Paths::default();
        let mut random = 1_u32;
        for at in 0..5_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let delay = (random >> 17).cast_signed();
            assert_eq!(paths.level(delay, at % 2 == 1), delay);
        }
    }
}
