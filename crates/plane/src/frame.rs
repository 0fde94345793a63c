//! What two ends say to each other: data one way, reports the other. Numbers are big-endian.
//!
//! ```text
//! data    1 | sequence 6 | sent 4 | epoch 2 | unit 4 | length of the unit 3 | fragment 2 | bytes
//! report  2 | number 6 | newest 6 | its time 4 | held 4 | arrived 6 | needless 6 | granted 4 | done below 4
//!           | words 1 | words of 8 | ranges 1 | (first 2, length 2, done 1) | epochs 1 | (epoch 2, datagrams 4, delay 4, slope 4, error 4, span 4, distance 4)
//! ```
//!
//! Data of the unit after the last is a *filler*: its bytes mean nothing, and only when it arrives does. Ends of the first protocol know none.
//!
//! A report is complete in itself and replaces all before it, so that any may be lost, doubled or late.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes of a data frame before the fragment.
pub const DATA_HEADER_BYTES: usize = 22;
/// Words of 64 datagrams that a report tells of, at most.
pub const WORDS_MAX: usize = 64;
/// Ranges of units that a report tells of, at most.
pub const RANGES_MAX: usize = 32;
/// Epochs that a report tells of, at most.
pub const EPOCHS_MAX: usize = 8;
/// Sequence numbers end here; some 10^15 bytes.
pub const SEQUENCE_MAX: u64 = (1 << 48) - 1;

const DATA: u8 = 1;
const REPORT: u8 = 2;

/// Why a frame cannot be one of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It ends before it should, or goes on after it.
    #[error("a frame of the wrong length")]
    Length,
    /// It begins with a number nobody gave.
    #[error("a frame of an unknown kind")]
    Kind,
    /// It says something that cannot be.
    #[error("a frame that says {0}")]
    Nonsense(&'static str),
}

/// A frame that came in.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// A fragment.
    Data(Data),
    /// What the receiver knows.
    Report(Report),
}

/// A fragment of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Of this sending; never used twice.
    pub sequence: u64,
    /// When it was sent, in microseconds of the sender's clock, modulo 2^32.
    pub sent: u32,
    /// The stretch of sending it belongs to, modulo 2^16.
    pub epoch: u16,
    /// The unit.
    pub unit: u32,
    /// Length of the whole unit in bytes.
    pub unit_bytes: u32,
    /// Which fragment of the unit.
    pub fragment: u16,
    /// Its bytes.
    pub bytes: Bytes,
}

/// A run of units that are whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first, counted from [`Report::done_below`].
    pub first: u16,
    /// How many.
    pub units: u16,
    /// Whether they are done, too.
    pub done: bool,
}

/// What arrived of an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpochSum {
    /// Its number, modulo 2^16.
    pub epoch: u16,
    /// Datagrams that arrived.
    pub datagrams: u32,
    /// Mean of the time they took, in microseconds, less an amount that is the same for all of a connection.
    pub delay: i32,
    /// By how much that grew with each microsecond of sending.
    pub slope: f32,
    /// Standard error of the slope.
    pub slope_error: f32,
    /// Microseconds from each that arrived to the next, where that was sent later.
    pub span: u32,
    /// Sequence numbers from each of those to the next.
    pub distance: u32,
}

/// What the receiver knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Grows with each report.
    pub number: u64,
    /// The greatest sequence number that arrived.
    pub newest: u64,
    /// When that was sent, in its sender's time.
    pub newest_sent: u32,
    /// Microseconds since it arrived.
    pub held: u32,
    /// Datagrams that arrived, doubled ones not counted.
    pub arrived: u64,
    /// Of those, with a fragment that was there.
    pub needless: u64,
    /// Units below this may be sent.
    pub granted: u32,
    /// Units below this are done.
    pub done_below: u32,
    /// Which datagrams arrived: the last bit of the last word is that of the word of `newest` (so `newest / 64` is the last word), earlier words before it.
    pub words: Vec<u64>,
    /// Units from `done_below` on that are whole.
    pub ranges: Vec<Range>,
    /// The last epochs.
    pub epochs: Vec<EpochSum>,
}

impl Data {
    /// The unit that no bytes are of.
    pub const FILLER: u32 = u32::MAX;

    /// Whether its bytes mean nothing.
    pub const fn is_filler(&self) -> bool {
        self.unit == Self::FILLER
    }

    /// Writes it.
    pub fn encode(&self, to: &mut BytesMut) {
        to.reserve(DATA_HEADER_BYTES + self.bytes.len());
        to.put_u8(DATA);
        to.put_uint(self.sequence, 6);
        to.put_u32(self.sent);
        to.put_u16(self.epoch);
        to.put_u32(self.unit);
        to.put_uint(u64::from(self.unit_bytes), 3);
        to.put_u16(self.fragment);
        to.put_slice(&self.bytes);
    }
}

impl Report {
    /// Writes it; what exceeds the limits is left out.
    pub fn encode(&self, to: &mut BytesMut) {
        to.put_u8(REPORT);
        to.put_uint(self.number, 6);
        to.put_uint(self.newest, 6);
        to.put_u32(self.newest_sent);
        to.put_u32(self.held);
        to.put_uint(self.arrived, 6);
        to.put_uint(self.needless, 6);
        to.put_u32(self.granted);
        to.put_u32(self.done_below);
        let words = &self.words[self.words.len().saturating_sub(WORDS_MAX)..];
        put_count(to, words.len());
        for word in words {
            to.put_u64(*word);
        }
        let ranges = &self.ranges[..self.ranges.len().min(RANGES_MAX)];
        put_count(to, ranges.len());
        for range in ranges {
            to.put_u16(range.first);
            to.put_u16(range.units);
            to.put_u8(u8::from(range.done));
        }
        let epochs = &self.epochs[self.epochs.len().saturating_sub(EPOCHS_MAX)..];
        put_count(to, epochs.len());
        for sum in epochs {
            to.put_u16(sum.epoch);
            to.put_u32(sum.datagrams);
            to.put_i32(sum.delay);
            to.put_f32(sum.slope);
            to.put_f32(sum.slope_error);
            to.put_u32(sum.span);
            to.put_u32(sum.distance);
        }
    }
}

/// All counts are bounded by the limits above, which fit a byte.
fn put_count(to: &mut BytesMut, count: usize) {
    to.put_u8(u8::try_from(count).unwrap_or(u8::MAX));
}

impl Frame {
    /// Reads a datagram.
    pub fn decode(mut from: Bytes) -> Result<Self, FrameError> {
        match take(&mut from, 1)?.get_u8() {
            DATA => decode_data(from).map(Self::Data),
            REPORT => decode_report(from).map(Self::Report),
            _ => Err(FrameError::Kind),
        }
    }
}

fn take(from: &mut Bytes, bytes: usize) -> Result<Bytes, FrameError> {
    if from.len() < bytes { Err(FrameError::Length) } else { Ok(from.split_to(bytes)) }
}

fn decode_data(mut from: Bytes) -> Result<Data, FrameError> {
    let mut head = take(&mut from, DATA_HEADER_BYTES - 1)?;
    let data = Data {
        sequence: head.get_uint(6),
        sent: head.get_u32(),
        epoch: head.get_u16(),
        unit: head.get_u32(),
        unit_bytes: u32::from(head.get_u8()) << 16 | u32::from(head.get_u16()),
        fragment: head.get_u16(),
        bytes: from,
    };
    if data.is_filler() && (data.unit_bytes, data.fragment) != (0, 0) {
        return Err(FrameError::Nonsense("that it is of the unit after the last"));
    }
    Ok(data)
}

fn decode_report(mut from: Bytes) -> Result<Report, FrameError> {
    let mut head = take(&mut from, 40)?;
    let mut report = Report {
        number: head.get_uint(6),
        newest: head.get_uint(6),
        newest_sent: head.get_u32(),
        held: head.get_u32(),
        arrived: head.get_uint(6),
        needless: head.get_uint(6),
        granted: head.get_u32(),
        done_below: head.get_u32(),
        words: Vec::new(),
        ranges: Vec::new(),
        epochs: Vec::new(),
    };
    for mut word in items(&mut from, WORDS_MAX, 8)? {
        report.words.push(word.get_u64());
    }
    for mut range in items(&mut from, RANGES_MAX, 5)? {
        report.ranges.push(Range { first: range.get_u16(), units: range.get_u16(), done: range.get_u8() == 1 });
    }
    for mut sum in items(&mut from, EPOCHS_MAX, 26)? {
        let sum = EpochSum {
            epoch: sum.get_u16(),
            datagrams: sum.get_u32(),
            delay: sum.get_i32(),
            slope: sum.get_f32(),
            slope_error: sum.get_f32(),
            span: sum.get_u32(),
            distance: sum.get_u32(),
        };
        if !sum.slope.is_finite() || !sum.slope_error.is_finite() {
            return Err(FrameError::Nonsense("that a slope is no number"));
        }
        report.epochs.push(sum);
    }
    if !from.is_empty() {
        return Err(FrameError::Length);
    }
    if report.words.len() as u64 > report.newest / 64 + 1 {
        return Err(FrameError::Nonsense("that datagrams arrived that have no number"));
    }
    Ok(report)
}

/// A count and so many items of `bytes` each.
fn items(from: &mut Bytes, max: usize, bytes: usize) -> Result<Vec<Bytes>, FrameError> {
    let count = usize::from(take(from, 1)?.get_u8());
    if count > max {
        return Err(FrameError::Nonsense("more than there may be"));
    }
    (0..count).map(|_| take(from, bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report() -> Report {
        Report {
            number: 7,
            newest: 200,
            newest_sent: 5,
            held: 6,
            arrived: 190,
            needless: 3,
            granted: 64,
            done_below: 2,
            words: vec![u64::MAX, 1, 2, 0x1ff],
            ranges: vec![Range { first: 1, units: 2, done: true }],
            epochs: vec![EpochSum {
                epoch: 9,
                datagrams: 30,
                delay: -4,
                slope: 0.5,
                slope_error: 0.1,
                span: 3_000,
                distance: 31,
            }],
        }
    }

    fn encoded(write: impl Fn(&mut BytesMut)) -> Bytes {
        let mut bytes = BytesMut::new();
        write(&mut bytes);
        bytes.freeze()
    }

    #[test]
    fn what_is_written_is_read() {
        let data = Data {
            sequence: 1 << 40,
            sent: 9,
            epoch: 3,
            unit: 8,
            unit_bytes: 70_000,
            fragment: 2,
            bytes: Bytes::from_static(b"abc"),
        };
        let bytes = encoded(|to| data.encode(to));
        assert_eq!(bytes.len(), DATA_HEADER_BYTES + 3);
        assert_eq!(Frame::decode(bytes), Ok(Frame::Data(data)));
        assert_eq!(Frame::decode(encoded(|to| report().encode(to))), Ok(Frame::Report(report())));
    }

    #[test]
    fn a_filler_is_of_no_unit_and_has_no_place_in_one() {
        let filler = |unit_bytes, fragment| {
            let bytes = Bytes::from_static(&[0; 40]);
            encoded(|to| {
                Data { sequence: 3, sent: 9, epoch: 0, unit: Data::FILLER, unit_bytes, fragment, bytes: bytes.clone() }
                    .encode(to);
            })
        };
        assert!(
            matches!(Frame::decode(filler(0, 0)), Ok(Frame::Data(data)) if data.is_filler() && data.bytes.len() == 40)
        );
        assert!(Frame::decode(filler(40, 0)).is_err() && Frame::decode(filler(0, 1)).is_err());
    }

    #[test]
    fn a_full_report_fits_the_smallest_datagram_quic_allows() {
        let mut full = report();
        full.newest = 1 << 40;
        full.words = vec![0; WORDS_MAX];
        full.ranges = vec![full.ranges[0]; RANGES_MAX];
        full.epochs = vec![full.epochs[0]; EPOCHS_MAX];
        let bytes = encoded(|to| full.encode(to));
        assert!(bytes.len() <= 1_100, "{} bytes", bytes.len());
    }

    #[test]
    fn a_cut_report_is_refused() {
        let bytes = encoded(|to| report().encode(to));
        (0..bytes.len()).for_each(|len| assert!(Frame::decode(bytes.slice(..len)).is_err(), "{len} bytes"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let bytes = Bytes::from(bytes);
            if let Ok(Frame::Report(report)) = Frame::decode(bytes.clone()) {
                prop_assert_eq!(encoded(|to| report.encode(to)).len(), bytes.len());
            }
        }
    }
}
