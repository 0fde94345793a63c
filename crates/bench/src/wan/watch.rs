//! The runs of a tool in one trial, and what can be seen of them while they last.

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use holdfast_wan::{Direction, Ended, Host, Killer, Wan};

use super::trial::Costs;
use crate::report::{Course, CoursePoint};

/// How soon the user's wish to stop is seen.
const LOOK: Duration = Duration::from_millis(20);
/// What arrives is looked at so often, and ever less often in long trials.
const SAMPLE: Duration = Duration::from_millis(100);
const SAMPLES_MAX: usize = 400;

/// What the link had delivered of files: seconds from the start, and bytes.
pub(super) type Sample = (f64, u64);

/// The runs of a tool in one trial.
pub(super) struct Runs {
    began: Instant,
    limit: Duration,
    count: usize,
    next: AtomicUsize,
    tasks: Mutex<Vec<Running>>,
    over: AtomicBool,
}

/// One that was started.
struct Running {
    id: u32,
    killer: Killer,
    /// CPU seconds when it was last looked at. What is killed takes the account of what it started with it.
    cpu_s: f64,
}

impl Runs {
    /// So many, for which the time begins now.
    pub(super) fn new(count: usize, limit: Duration) -> Self {
        let (next, tasks, over) = (AtomicUsize::new(0), Mutex::default(), AtomicBool::new(false));
        Self { began: Instant::now(), limit, count, next, tasks, over }
    }

    /// The next that nobody has begun.
    pub(super) fn next(&self) -> Option<usize> {
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < self.count)
    }

    /// All are over; answers how long they took, in seconds.
    pub(super) fn end(&self) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64();
        self.over.store(true, Ordering::Relaxed);
        seconds
    }

    /// Runs one command to its end, which comes with the CPU seconds that were seen; `None` if there is no time left for it.
    pub(super) fn one(&self, host: &Host, command: Command) -> io::Result<Option<(Ended, f64)>> {
        let left = self.limit.saturating_sub(self.began.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        let task = host.start(command, Some(left))?;
        let id = task.id();
        self.tasks().push(Running { id, killer: task.killer()?, cpu_s: 0.0 });
        let ended = task.wait()?;
        let mut tasks = self.tasks();
        let place = tasks.iter().position(|running| running.id == id);
        let cpu_s = place.map_or(0.0, |place| tasks.swap_remove(place).cpu_s);
        Ok(Some((ended, cpu_s)))
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<Running>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until it is over: what the link delivered, and the peak of what the processes that run at once have of memory; and the end of all runs,
    /// should anybody wish it: the user, or what ran beside it and has ended.
    pub(super) fn watch(&self, wan: &Wan, stops: &[&AtomicBool]) -> (Vec<Sample>, u64) {
        let (mut samples, mut interval, mut next, mut peak_bytes) = (vec![(0.0, 0)], SAMPLE, SAMPLE, 0);
        let sample = || (self.began.elapsed().as_secs_f64(), wan.forwarded(Direction::ToNear).link.delivered.bytes);
        while !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            if stops.iter().any(|stop| stop.load(Ordering::Relaxed)) {
                // Whoever starts another one meanwhile is met the next time.
                self.next.store(self.count, Ordering::Relaxed);
                self.tasks().iter().for_each(|running| running.killer.kill());
            }
            if self.began.elapsed() < next {
                continue;
            }
            next += interval;
            peak_bytes = peak_bytes.max(self.look());
            samples.push(sample());
            if samples.len() > SAMPLES_MAX {
                // Every second one; the first is the beginning.
                samples = samples.into_iter().step_by(2).collect();
                interval *= 2;
            }
        }
        samples.push(sample());
        (samples, peak_bytes)
    }

    /// Looks at what runs, and answers what it has of memory. Without the lock: it takes a moment, and runs want to begin and end.
    fn look(&self) -> u64 {
        let running: Vec<u32> = self.tasks().iter().map(|running| running.id).collect();
        let found: Vec<Costs> = running.iter().map(|id| Costs::of(&[*id])).collect();
        let mut tasks = self.tasks();
        for (id, costs) in running.iter().zip(&found) {
            if let Some(task) = tasks.iter_mut().find(|task| task.id == *id) {
                task.cpu_s = task.cpu_s.max(costs.cpu_s);
            }
        }
        found.iter().map(|costs| costs.peak_bytes).sum()
    }
}

/// Rates between samples.
pub(super) fn course(samples: &[Sample]) -> Course {
    let piece_s = samples.get(1).map_or(0.0, |sample| sample.0);
    let points = samples.windows(2).filter(|pair| pair[1].0 > pair[0].0).map(|pair| {
        let rate = (pair[1].1 - pair[0].1) as f64 / 1e6 / (pair[1].0 - pair[0].0);
        CoursePoint { at_s: pair[0].0, rate, errors_per_s: 0.0, p50_ms: None, p99_ms: None }
    });
    Course { piece_s, points: points.collect() }
}

/// The rate between the first tenth and the last: without the start and the tail.
pub(super) fn steady(samples: &[Sample]) -> Option<f64> {
    let all = samples.last()?.1;
    // Between two samples it is taken to be even.
    let when = |bytes: f64| {
        let place = samples.iter().position(|sample| sample.1 as f64 >= bytes)?;
        let (before, after) = (samples.get(place.checked_sub(1)?)?, samples[place]);
        let share = (bytes - before.1 as f64) / (after.1 - before.1).max(1) as f64;
        Some(before.0 + share * (after.0 - before.0))
    };
    let (from, to) = (when(all as f64 * 0.1)?, when(all as f64 * 0.9)?);
    (to > from).then(|| all as f64 * 0.8 / 1e6 / (to - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_rate_leaves_start_and_tail_out() {
        // A second of nothing, ten seconds at 10 MB/s, five seconds of nothing.
        let mut samples: Vec<(f64, u64)> =
            (0..=10_u32).map(|second| (1.0 + f64::from(second), 10_000_000 * u64::from(second))).collect();
        samples.insert(0, (0.0, 0));
        samples.push((16.0, 100_000_000));
        assert!((steady(&samples).expect("it moved") - 10.0).abs() < 1e-6);
        assert_eq!(steady(&[(0.0, 0), (1.0, 0)]), None);
        let course = course(&samples);
        assert_eq!(course.points.len(), 12);
        assert!((course.points[5].rate - 10.0).abs() < 1e-9 && course.points[11].rate.abs() < 1e-9);
    }
}
