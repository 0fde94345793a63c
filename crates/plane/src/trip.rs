//! Round trips that were seen.

/// Round trips.
#[derive(Debug)]
pub(crate) struct Trip {
    least: (f64, f64),
    since_us: u64,
    pub(crate) smooth_us: f64,
}

/// The first round trip is held to be no shorter, whatever the handshake took: what it was measured by may have overtaken the rest, all of which would be lost by it.
const FIRST_ROUND_US: f64 = 250_000.0;

impl Trip {
    /// None yet but this one, of a handshake.
    pub(crate) fn new(now_us: u64, rtt_us: f64) -> Self {
        Self { least: (f64::INFINITY, rtt_us), since_us: now_us, smooth_us: rtt_us.max(FIRST_ROUND_US) }
    }

    /// A round trip was seen.
    pub(crate) fn note(&mut self, now_us: u64, sample_us: f64) {
        if now_us - self.since_us > 15_000_000 {
            (self.least, self.since_us) = ((self.least.1, sample_us), now_us);
        }
        self.least.1 = self.least.1.min(sample_us);
        // Up at once: what is believed to be shorter than it is, makes everything look lost.
        self.smooth_us =
            if sample_us > self.smooth_us { sample_us } else { self.smooth_us + (sample_us - self.smooth_us) / 32.0 };
    }

    /// The least of some ten seconds.
    pub(crate) fn least_us(&self) -> f64 {
        self.least.0.min(self.least.1)
    }
}
