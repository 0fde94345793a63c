//! For how long what is known is believed for sure: see [`super::super::word`].

use super::Names;
use super::known::Known;
use std::time::Duration;
use tokio::time::Instant;

/// A mount of which nobody has asked anything for so long believes nothing for sure any more, so that nobody waits for it, and it has nothing to say. Longer than the kernel
/// believes.
pub(super) const IDLE: Duration = Duration::from_mins(2);

/// What the server is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) enum Say {
    Nothing,
    /// What was heard of, and whether all was forgotten since it last answered that.
    Heard(bool),
    /// That nothing is believed for sure any more.
    Forgot,
}

/// A time that comes, however long the machine sleeps until then, which its usual clock does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) struct Until {
    awake: Instant,
    /// Since the machine started.
    started: Duration,
}

impl Until {
    /// So long from now.
    pub(in crate::client) fn after(time: Duration) -> Self {
        Self { awake: Instant::now() + time, started: since_start() + time }
    }

    fn is_past(self) -> bool {
        Instant::now() >= self.awake || since_start() >= self.started
    }
}

fn since_start() -> Duration {
    // Never fails: the clock is there (clock_gettime(2)).
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Boottime)).unwrap_or(Duration::MAX)
}

impl Known {
    /// Whether what is known may be what was before a change that was answered.
    pub(super) fn is_loose(&self) -> bool {
        self.until.is_none_or(Until::is_past)
    }
}

impl Names {
    /// See [`Remote::answers_first`](super::super::Remote::answers_first).
    pub(in crate::client) fn answers_first(&self) {
        self.known.lock().believes_free = true;
    }

    /// Answers what the server is to be told now. If that is that nothing is believed for sure any more, it is so from here on.
    pub(in crate::client) fn begin_word(&self) -> Say {
        let mut known = self.known.lock();
        let forgot = known.word.take().is_some_and(|told| told != known.told);
        if known.trusted && known.is_asked && known.used.elapsed() < IDLE {
            Say::Heard(forgot)
        } else if known.until.take().is_some() {
            Say::Forgot
        } else {
            Say::Nothing
        }
    }

    /// It has answered, and what is known may be believed until then, if it took that. Answers whether what was known before may not.
    pub(in crate::client) fn end_word(&self, until: Option<Until>) -> bool {
        let mut known = self.known.lock();
        let is_anew = until.is_some() && known.is_loose();
        if is_anew {
            // It may have given this mount up.
            known.forget();
            known.told += 1;
        }
        known.until = until.or(known.until);
        known.word = Some(known.told);
        is_anew
    }

    /// It waits for nobody to hear of changes. Answers whether that is new.
    pub(in crate::client) fn is_not_asked(&self) -> bool {
        let mut known = self.known.lock();
        known.until = None;
        std::mem::take(&mut known.is_asked)
    }

    /// Whether what is known may be what was before a change that was answered.
    pub(in crate::client) fn is_loose(&self) -> bool {
        self.known.lock().is_loose()
    }
}
