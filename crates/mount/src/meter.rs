//! What a mount does: how often, how long, how it ends, and what is under way.
//!
//! Counting costs an operation some tens of nanoseconds and no lock: sums are atomic, and so is the table of what is under way ([`crate::under_way`]). Times
//! are counted in buckets of which four double them, so a percentile is at most a quarter too large, over the whole life of the mount.

use crate::errno::Answer;
use crate::status::{Operation, Rates, UnderWay};
use crate::under_way::{Running, Table, Taken, Wait};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Buckets of times: up to 2^36 microseconds, which is 19 hours.
const BUCKETS: usize = 4 * 36;
/// Numbers of errors (errno(3)) are below this.
const ERRORS_END: usize = 134;
/// Time between two looks that rates are made of.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Looks that are kept: of an hour, and the one it began with.
const LOOKS_MAX: usize = 361;
/// Operations under way that are told, the oldest first.
const TOLD_MAX: usize = 200;

macro_rules! kinds {
    ($($name:ident $text:literal)*) => {
        /// Operations of the kernel's, as they are counted: by the names of FUSE.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Kind { $($name),* }

        impl Kind {
            const ALL: &[Self] = &[$(Self::$name),*];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// The kind of a number.
            pub(crate) fn of(number: u8) -> Option<Self> {
                Self::ALL.get(usize::from(number)).copied()
            }
        }
    };
}

kinds! {
    Lookup "lookup" Attributes "getattr" SetAttributes "setattr" Access "access" ReadLink "readlink" Special "mknod" Folder "mkdir" Unlink "unlink"
    RemoveFolder "rmdir" Link "symlink" Rename "rename" Open "open" Create "create" Read "read" Write "write" Flush "flush" Sync "fsync"
    Release "release" Seek "lseek" Copy "copy_file_range" Allocate "fallocate" List "readdir" SyncFolder "fsyncdir" Room "statfs"
    SetXattr "setxattr" RemoveXattr "removexattr" Xattr "getxattr" ListXattr "listxattr"
    Lock "setlk" TestLock "getlk" HardLink "link"
}

/// Sums of one kind.
struct Sums {
    sum_us: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
    errors: [AtomicU64; ERRORS_END],
    seconds: metrics::Histogram,
}

impl Sums {
    fn new(kind: Kind) -> Self {
        Self {
            sum_us: AtomicU64::new(0),
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            errors: std::array::from_fn(|_| AtomicU64::new(0)),
            seconds: metrics::histogram!("holdfast_mount_operation_seconds", "operation" => kind.name()),
        }
    }

    fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// The time within which so many of a thousand operations ended.
    fn within_us(&self, of_thousand: u64) -> u64 {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let rank = (counts.iter().sum::<u64>() * of_thousand).div_ceil(1_000).max(1);
        let mut seen = 0;
        let found = counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map_or(0, last_of)
    }
}

/// The bucket of a time.
fn bucket_of(us: u64) -> usize {
    let bucket = match us.checked_ilog2() {
        // The two bits after the first say which quarter it is.
        Some(power @ 2..) => 4 * u64::from(power - 1) + ((us >> (power - 2)) & 3),
        _ => us,
    };
    usize::try_from(bucket).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
}

/// The longest time of a bucket.
const fn last_of(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (power, quarter) = (bucket as u64 / 4 + 1, bucket as u64 % 4);
    ((5 + quarter) << (power - 2)) - 1
}

/// How many of each kind there had been, and when.
type Look = (Instant, Vec<u64>);

/// What a mount does.
pub(crate) struct Meter {
    sums: Vec<Sums>,
    table: Table,
    looks: Mutex<VecDeque<Look>>,
    under_way: metrics::Gauge,
}

impl Meter {
    pub(crate) fn new() -> Self {
        metrics::describe_histogram!("holdfast_mount_operation_seconds", "From a request of the kernel to its answer");
        metrics::describe_counter!("holdfast_mount_errors_total", "Requests of the kernel that ended in an error");
        metrics::describe_gauge!("holdfast_mount_operations_under_way", "Requests of the kernel being worked on");
        Self {
            sums: Kind::ALL.iter().map(|kind| Sums::new(*kind)).collect(),
            table: Table::new(),
            looks: Mutex::new(VecDeque::from([(Instant::now(), vec![0; Kind::ALL.len()])])),
            under_way: metrics::gauge!("holdfast_mount_operations_under_way"),
        }
    }

    /// An operation begins.
    pub(crate) fn begin(self: &Arc<Self>, kind: Kind, process: u32, inode: u64, name: Option<&std::ffi::OsStr>) -> Op {
        let since = Instant::now();
        self.under_way.increment(1.0);
        Op { taken: self.table.take(kind, process, inode, name, since), meter: self.clone(), kind, since }
    }

    fn ended(&self, kind: Kind, since: Instant, error: Option<fuser::Errno>) {
        let took = since.elapsed();
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let sums = &self.sums[kind as usize];
        sums.sum_us.fetch_add(us, Ordering::Relaxed);
        sums.buckets[bucket_of(us)].fetch_add(1, Ordering::Relaxed);
        sums.seconds.record(took.as_secs_f64());
        if let Some(error) = error {
            let number = usize::try_from(i32::from(error)).unwrap_or(0).min(ERRORS_END - 1);
            sums.errors[number].fetch_add(1, Ordering::Relaxed);
            let labels = [("operation", kind.name().to_owned()), ("error", name_of(number))];
            metrics::counter!("holdfast_mount_errors_total", &labels).increment(1);
        }
    }

    /// To be called every [`LOOK_EVERY`]: rates are made of it.
    pub(crate) fn look(&self) {
        let mut looks = self.looks.lock();
        if looks.len() >= LOOKS_MAX {
            looks.pop_front();
        }
        looks.push_back((Instant::now(), self.counts()));
    }

    fn counts(&self) -> Vec<u64> {
        self.sums.iter().map(Sums::count).collect()
    }

    /// Everything that was ever done.
    pub(crate) fn operations(&self) -> Vec<Operation> {
        let (now, counts) = (Instant::now(), self.counts());
        let looks: Vec<Look> = self.looks.lock().iter().cloned().collect();
        let rate = |kind: usize, seconds: u64| {
            // From the last look that is that old, or the first there is.
            let long_ago = |look: &&Look| now.duration_since(look.0) >= Duration::from_secs(seconds);
            let (from, before) = looks.iter().rev().find(long_ago).or_else(|| looks.first())?;
            let time = now.duration_since(*from).as_secs_f64();
            (time > 0.0).then(|| counts[kind].saturating_sub(before[kind]) as f64 / time)
        };
        let all = Kind::ALL.iter().enumerate().filter(|(kind, _)| counts[*kind] > 0);
        let tell = |(number, kind): (usize, &Kind)| {
            let sums = &self.sums[number];
            let rate = |seconds| rate(number, seconds).unwrap_or(0.0);
            let error = |(number, count): (usize, &AtomicU64)| (name_of(number), count.load(Ordering::Relaxed));
            Operation {
                operation: kind.name().to_owned(),
                count: counts[number],
                errors: sums.errors.iter().enumerate().map(error).filter(|(_, count)| *count > 0).collect(),
                mean_us: sums.sum_us.load(Ordering::Relaxed) / counts[number],
                half_within_us: sums.within_us(500),
                p99_us: sums.within_us(990),
                per_second: Rates {
                    last_10_s: rate(10),
                    last_minute: rate(60),
                    last_5_minutes: rate(300),
                    last_hour: rate(3_600),
                },
            }
        };
        all.map(tell).collect()
    }

    /// What is under way, the oldest first, and how much there is of it.
    pub(crate) fn under_way(&self) -> (u64, Vec<UnderWay>) {
        let (count, mut all) = self.table.look();
        all.sort_by_key(|running| std::cmp::Reverse(running.since));
        all.truncate(TOLD_MAX);
        let tell = |running: Running| UnderWay {
            operation: running.kind.name().to_owned(),
            inode: running.inode,
            name: running.name,
            process: running.process,
            ms: u64::try_from(running.since.as_millis()).unwrap_or(u64::MAX),
            waits_for: running.waits_for.map(ToOwned::to_owned),
        };
        (count, all.into_iter().map(tell).collect())
    }
}

/// What an error is called.
fn name_of(number: usize) -> String {
    let known = i32::try_from(number).ok().and_then(|number| KNOWN_ERRORS.iter().find(|(other, _)| *other == number));
    known.map_or_else(|| format!("errno {number}"), |(_, name)| (*name).to_owned())
}

/// The errors of [`crate::errno`] and of the requests.
const KNOWN_ERRORS: [(i32, &str); 24] = [
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::EIO, "EIO"),
    (libc::EBADF, "EBADF"),
    (libc::ENXIO, "ENXIO"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::EACCES, "EACCES"),
    (libc::EBUSY, "EBUSY"),
    (libc::EEXIST, "EEXIST"),
    (libc::EXDEV, "EXDEV"),
    (libc::ENOTDIR, "ENOTDIR"),
    (libc::EISDIR, "EISDIR"),
    (libc::EINVAL, "EINVAL"),
    (libc::EFBIG, "EFBIG"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::ERANGE, "ERANGE"),
    (libc::ENAMETOOLONG, "ENAMETOOLONG"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::ENOTEMPTY, "ENOTEMPTY"),
    (libc::ENODATA, "ENODATA"),
    (libc::EILSEQ, "EILSEQ"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (libc::ESTALE, "ESTALE"),
];

/// An operation; as long as it is there, it is under way.
pub(crate) struct Op {
    meter: Arc<Meter>,
    taken: Taken,
    kind: Kind,
    since: Instant,
}

tokio::task_local! {
    static RUNNING: Op;
}

impl Op {
    /// Works it out and counts it.
    pub(crate) async fn run<T>(self, work: impl Future<Output = Answer<T>>) -> Answer<T> {
        let mut scoped = pin!(RUNNING.scope(self, work));
        let answer = scoped.as_mut().await;
        if let Some(op) = scoped.take_value() {
            op.meter.ended(op.kind, op.since, answer.as_ref().err().copied());
        }
        answer
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        self.meter.table.give(self.taken);
        self.meter.under_way.decrement(1.0);
    }
}

/// Says what the operation of this task waits for while it waits for it.
pub(crate) async fn waits_for<T>(what: Wait, work: impl Future<Output = T>) -> T {
    let tell = |wait| RUNNING.try_with(|op| op.meter.table.waits_for(op.taken, wait)).unwrap_or(Wait::None);
    let before = tell(what);
    let done = work.await;
    tell(before);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuser::Errno;
    use std::collections::BTreeMap;

    #[test]
    fn buckets_follow_one_another_and_none_is_wider_than_a_quarter_of_its_times() {
        let mut last = None;
        for us in (0..100_000).chain([1 << 30, u64::MAX]) {
            let bucket = bucket_of(us);
            assert!(last.is_none_or(|last| bucket == last || bucket == last + 1 || us >= 1 << 30), "{us}");
            assert!(last_of(bucket) >= us || us == u64::MAX, "{us}: {}", last_of(bucket));
            assert!(us < 4 || us == u64::MAX || last_of(bucket) <= us + us / 4, "{us}: {}", last_of(bucket));
            last = Some(bucket);
        }
    }

    #[tokio::test]
    async fn what_is_under_way_says_what_it_waits_for_and_then_counts() {
        let meter = Arc::new(Meter::new());
        let op = meter.begin(Kind::Lookup, 7, 1, Some("a".as_ref()));
        let inner = meter.clone();
        let answer: Answer<()> = op
            .run(async move {
                assert_eq!(inner.under_way().1[0].waits_for, None);
                waits_for(Wait::Room, async {
                    let (count, told) = inner.under_way();
                    assert_eq!(
                        (count, told[0].waits_for.as_deref(), told[0].process),
                        (1, Some("room in the journal"), 7)
                    );
                    assert_eq!((told[0].operation.as_str(), told[0].name.as_deref()), ("lookup", Some("a")));
                })
                .await;
                assert_eq!(inner.under_way().1[0].waits_for, None);
                Err(Errno::ENOENT)
            })
            .await;
        assert!(answer.is_err());
        drop(meter.begin(Kind::Read, 7, 1, None));
        assert_eq!(meter.under_way().0, 0, "what was given up is not under way");
        let operations = meter.operations();
        assert_eq!(operations.len(), 1, "nor does it count");
        assert_eq!(operations[0].errors, BTreeMap::from([("ENOENT".to_owned(), 1)]));
        assert!(operations[0].p99_us >= operations[0].half_within_us);
        assert!(operations[0].per_second.last_10_s > 0.0);
    }
}
