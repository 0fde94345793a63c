//! What a peer says of units that were never sent.

use super::Sender;
use crate::frame::{Range, Report};
use crate::{Poll, Shape};
use bytes::Bytes;
use std::time::Duration;

fn report(number: u64, done_below: u32, ranges: Vec<Range>) -> Report {
    Report {
        number,
        newest: 0,
        newest_sent: 0,
        held: 0,
        arrived: 0,
        needless: 0,
        granted: 64,
        done_below,
        words: Vec::new(),
        ranges,
        epochs: Vec::new(),
    }
}

#[test]
fn what_was_never_sent_is_not_done_whatever_the_peer_says() {
    let shape = Shape { fragment_bytes: 1_000, window_units: 64, unit_bytes: 10_000 };
    let mut sender = Sender::new(0, shape, 70, 20_000, None, None).prompt(Duration::from_millis(500));
    let unit = || Bytes::from(vec![1; 10_000]);
    (0..2).for_each(|_| assert!(sender.room() > 0 && sender.put(0, unit()) < 2));
    assert_eq!(sender.room(), 0, "as much waits as may");
    assert!(sender.report(1, &report(1, 1, Vec::new())).is_err());
    sender.report(1, &report(2, 0, vec![Range { first: 0, units: 2, done: true }])).expect("of nothing that there is");
    assert_eq!((sender.event(), sender.statistics().done_bytes), (None, 0));
    assert!(matches!(sender.poll(2), Poll::Send(data) if data.unit == 0));
    // Of what was begun it is the peer's word.
    sender.report(3, &report(3, 1, Vec::new())).expect("it may have it");
    assert_eq!(sender.statistics().done_bytes, 10_000);
    assert!(matches!(sender.poll(4), Poll::Send(data) if data.unit == 1));
    assert!(sender.room() > 0, "nothing waits any more");
}
