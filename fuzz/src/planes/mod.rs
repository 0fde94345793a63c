//! What ends of the QUIC plane send each other, by the datagram.

use bytes::{Bytes, BytesMut};
use holdfast_plane::frame::{DATA_HEADER_BYTES, Frame};
use holdfast_plane::{Poll, Receiver, Sender, Shape};

/// What both ends agreed on.
const SHAPE: Shape = Shape { fragment_bytes: 100, window_units: 128, unit_bytes: 1_000 };
/// A report fits a datagram that any path passes.
const REPORT_BYTES_MAX: usize = 1_100;
/// Datagrams that are sent after each that comes.
const SENT_AT_ONCE: usize = 16;

/// Datagrams, each after its length in two bytes: read or refused, and what was read is written the same. An end that takes them neither ends nor grows, sends
/// nothing but what it was given, and tells what it has in a report that can be read.
pub fn plane(data: &[u8]) {
    let mut ends = Ends::new();
    let mut rest = data;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let (datagram, behind) = behind.split_at(behind.len().min(usize::from(u16::from_be_bytes(*length))));
        ends.take(&Bytes::copy_from_slice(datagram));
        rest = behind;
    }
}

/// Opened packets of QUIC, whose datagrams came late: no more is found than there is.
pub fn late(data: &[u8]) {
    let found: usize = holdfast_plane::quic::datagrams(data).iter().map(Bytes::len).sum();
    assert!(found <= data.len(), "{found} bytes of {}", data.len());
}

struct Ends {
    now_us: u64,
    sender: Sender,
    receiver: Receiver,
}

impl Ends {
    fn new() -> Self {
        let mut sender = Sender::new(0, SHAPE, 70, 10_000, None, None);
        for unit in 0..8 {
            sender.put(0, Bytes::from(vec![unit; 950]));
        }
        Self { now_us: 0, sender, receiver: Receiver::new(SHAPE, 0) }
    }

    fn take(&mut self, datagram: &Bytes) {
        self.now_us += 7_000;
        match Frame::decode(datagram.clone()) {
            Ok(Frame::Report(report)) => {
                let mut written = BytesMut::new();
                report.encode(&mut written);
                assert_eq!(Frame::decode(written.freeze()), Ok(Frame::Report(report.clone())));
                // It may say what no honest end does.
                let _ = self.sender.report(self.now_us, &report);
            }
            Ok(Frame::Data(data)) => {
                let mut written = BytesMut::new();
                data.encode(&mut written);
                assert_eq!(written, *datagram);
                if let Ok(Some(unit)) = self.receiver.receive(self.now_us, &data) {
                    assert!(unit.bytes.len() <= SHAPE.unit_bytes);
                    self.receiver.done(unit.number);
                }
            }
            Err(_) => {}
        }
        self.send();
        self.tell();
    }

    fn send(&mut self) {
        for _ in 0..SENT_AT_ONCE {
            let Poll::Send(data) = self.sender.poll(self.now_us) else { break };
            assert!(data.unit < 8 && data.unit_bytes == 950 && data.bytes.len() <= SHAPE.fragment_bytes);
            assert!(data.bytes.iter().all(|byte| u32::from(*byte) == data.unit), "bytes of another unit");
        }
        let seen = self.sender.statistics();
        assert!(seen.rate.is_finite() && seen.rate > 0.0 && seen.queue_us.is_finite(), "{seen:?}");
        assert!(self.sender.room() <= SHAPE.window_units as usize);
        while self.sender.event().is_some() {}
    }

    fn tell(&mut self) {
        let Some(report) = self.receiver.report(self.now_us) else { return };
        let mut written = BytesMut::new();
        report.encode(&mut written);
        assert!(written.len() <= REPORT_BYTES_MAX && written.len() > DATA_HEADER_BYTES, "{} bytes", written.len());
        assert_eq!(Frame::decode(written.freeze()), Ok(Frame::Report(report)));
    }
}

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 2] = [("plane", plane), ("late", late)];
