//! Connections whose client has made another in their place: they are ended.
//!
//! When a client's address changes, nothing ends the connection it had: what is on its way to it waits for acknowledgements until the limit on writes that
//! are stuck, and keeps memory that the client's next connection asks for. So clients number the connections they make one after the other, and say so
//! with each request ([`LINE`]): a later one ends the one before.
//!
//! A balancer puts requests of several clients on one connection, and those of one client on several. A connection that carried requests of two
//! lines is never ended for that, and a line's number says nothing about another connection with the same number. Who does not know a line, which is random, cannot end
//! its connection.

use holdfast_remote::wire::LINE;
use http::HeaderMap;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// The connections that carry one line each: no more than there are connections.
#[derive(Default)]
pub(super) struct Lines(Mutex<HashMap<u128, Entry>>);

struct Entry {
    number: u64,
    end: Arc<Notify>,
}

/// What a connection carried so far.
enum Carried {
    Nothing,
    One(u128, u64),
    Several,
}

/// A connection among the others; it leaves when this is dropped.
pub(super) struct Seat {
    lines: Arc<Lines>,
    carried: Mutex<Carried>,
    end: Arc<Notify>,
}

impl Seat {
    pub(super) fn new(lines: &Arc<Lines>) -> Self {
        Self { lines: lines.clone(), carried: Mutex::new(Carried::Nothing), end: Arc::default() }
    }

    /// Another connection was made in place of this one.
    pub(super) async fn replaced(&self) {
        self.end.notified().await;
    }

    /// A request came by this connection.
    pub(super) fn hear(&self, headers: &HeaderMap) {
        let told = headers.get(LINE).and_then(|value| value.to_str().ok()).and_then(read);
        let Some((line, number)) = told else { return };
        let mut carried = self.carried.lock();
        match *carried {
            Carried::One(known, last) if known == line && last >= number => {}
            Carried::Several => {}
            Carried::One(known, _) if known != line => {
                *carried = Carried::Several;
                self.leave(known);
            }
            Carried::Nothing | Carried::One(..) => {
                *carried = Carried::One(line, number);
                self.enter(line, number);
            }
        }
    }

    fn enter(&self, line: u128, number: u64) {
        let mut all = self.lines.0.lock();
        let before = all.get(&line);
        if before.is_some_and(|before| before.number >= number) {
            return;
        }
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(&before.end, &self.end)) {
            before.end.notify_one();
        }
        all.insert(line, Entry { number, end: self.end.clone() });
    }

    fn leave(&self, line: u128) {
        let mut all = self.lines.0.lock();
        if all.get(&line).is_some_and(|entry| Arc::ptr_eq(&entry.end, &self.end)) {
            all.remove(&line);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Carried::One(line, _) = *self.carried.get_mut() {
            self.leave(line);
        }
    }
}

/// Reads `LINE-NUMBER`: a line in 32 hexadecimal digits, a number in decimal.
fn read(text: &str) -> Option<(u128, u64)> {
    let (line, number) = text.split_once('-').filter(|(line, _)| line.len() == 32)?;
    Some((u128::from_str_radix(line, 16).ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn told(line: u128, number: u64) -> HeaderMap {
        let value = format!("{line:032x}-{number}").parse().expect("a value");
        HeaderMap::from_iter([(http::HeaderName::from_static(LINE), value)])
    }

    fn is_replaced(seat: &Seat) -> bool {
        seat.replaced().now_or_never().is_some()
    }

    #[test]
    fn a_later_connection_of_a_line_ends_the_one_before_and_no_other() {
        let lines = Arc::default();
        let [first, other, second] = [(); 3].map(|()| Seat::new(&lines));
        first.hear(&told(1, 1));
        other.hear(&told(2, 1));
        second.hear(&told(1, 2));
        assert_eq!([&first, &other, &second].map(is_replaced), [true, false, false]);
        // A word that was late.
        first.hear(&told(1, 1));
        assert!(!is_replaced(&second));
        drop((first, other));
        assert_eq!(lines.0.lock().len(), 1);
        drop(second);
        assert!(lines.0.lock().is_empty());
    }

    #[test]
    fn what_a_balancer_mixes_and_spreads_is_never_ended() {
        let lines = Arc::default();
        let [mixed, spread, second] = [(); 3].map(|()| Seat::new(&lines));
        mixed.hear(&told(1, 1));
        mixed.hear(&told(2, 1));
        spread.hear(&told(3, 1));
        second.hear(&told(3, 1));
        second.hear(&told(1, 2));
        Seat::new(&lines).hear(&told(3, 2));
        assert_eq!([&mixed, &second].map(is_replaced), [false, false]);
    }

    #[test]
    fn what_cannot_be_read_says_nothing() {
        for bad in ["", "-1", "1-1", &format!("{:032x}-", 1), &format!("{:032x}-x", 1), &format!("{:033x}-1", 1)] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(read(&format!("{:032x}-7", 5)), Some((5, 7)));
    }
}
