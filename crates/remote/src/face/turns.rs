//! Records of blocks go over a connection a few at a time and in order, whatever number of them was asked for at once.
//!
//! HTTP/2 sends all answers that wait a frame each in turn. So of many blocks that are asked for ahead all would be half there when a connection dies, or
//! many behind one that is missing, and all be fetched again. Here pieces of [`TURN_BYTES`] at most have their turn, and the next when one of them is on its way: one of
//! the answer that has begun, and otherwise, of those that are there, of the first block of those that were asked for together. So there is always something to be sent, and little of it is lost. A connection is known by the
//! name that its client gives it ([`LINE`](crate::wire::LINE)); one without a name has no turns.

use super::Answer;
use bytes::Bytes;
use http::HeaderValue;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

/// Bytes of one connection that have their turn: enough that the connection finds some whenever it can send.
const TURN_BYTES: usize = 2 << 20;
/// Bytes of an answer that have their turn together.
const PIECE_BYTES: usize = 256 << 10;
/// What is asked for together: questions that come at once are begun in any order.
const TOGETHER: u64 = 32;
/// Connections after which those that have nothing to send are forgotten.
const FORGET_AT: usize = 256;

/// Connections that have something to send.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<HeaderValue, Weak<Line>>>);

/// One of them.
#[derive(Default)]
struct Line(Mutex<State>);

#[derive(Default)]
struct State {
    next: u64,
    /// Bytes that have their turn.
    sending: usize,
    /// Answers that wait for theirs, by their place.
    waiting: BTreeMap<Key, Waker>,
}

/// Of what is asked for together the first block comes first, and then whoever was there first.
type Key = (u64, u64, u64);

/// A place among the answers of a connection, if that has a name.
pub(super) struct Place(Option<(Arc<Line>, Key)>);

impl Turns {
    /// A place in the connection of this name, for a block of a content.
    pub(super) fn place(&self, line: Option<&HeaderValue>, block: u64) -> Place {
        let Some(line) = line else { return Place(None) };
        let line = self.of(line);
        let number = {
            let mut state = line.0.lock();
            state.next += 1;
            state.next
        };
        Place(Some((line, (number / TOGETHER, block, number))))
    }

    fn of(&self, name: &HeaderValue) -> Arc<Line> {
        let mut all = self.0.lock();
        if let Some(line) = all.get(name).and_then(Weak::upgrade) {
            return line;
        }
        if all.len() >= FORGET_AT {
            all.retain(|_, line| line.strong_count() > 0);
        }
        let line = Arc::new(Line::default());
        all.insert(name.clone(), Arc::downgrade(&line));
        line
    }
}

impl Place {
    /// The answer with these bytes, when it is its turn.
    pub(super) fn answer(self, bytes: Bytes) -> Answer {
        match self.0 {
            Some((line, key)) => Waiting { bytes: Some(bytes), line, key }.boxed_unsync(),
            None => super::whole(bytes),
        }
    }
}

impl State {
    const fn has_room(&self, bytes: usize) -> bool {
        self.sending == 0 || self.sending + bytes <= TURN_BYTES
    }

    /// Whoever is first looks whether it is its turn.
    fn wake_first(&self) {
        if let Some((_, first)) = self.waiting.first_key_value() {
            first.wake_by_ref();
        }
    }
}

struct Waiting {
    bytes: Option<Bytes>,
    line: Arc<Line>,
    key: Key,
}

impl Body for Waiting {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(mut bytes) = self.bytes.take() else { return Poll::Ready(None) };
        let length = bytes.len().min(PIECE_BYTES);
        let mut state = self.line.0.lock();
        let is_first = state.waiting.first_key_value().is_none_or(|(first, _)| *first >= self.key);
        if !is_first || !state.has_room(length) {
            state.waiting.insert(self.key, context.waker().clone());
            drop(state);
            self.bytes = Some(bytes);
            return Poll::Pending;
        }
        state.waiting.remove(&self.key);
        state.sending += length;
        if length == bytes.len() {
            // Until its end this one comes first, and others when its pieces are on their way.
            state.wake_first();
        }
        drop(state);
        let sending = Sending { bytes: bytes.split_to(length), line: self.line.clone() };
        self.bytes = Some(bytes).filter(|rest| !rest.is_empty());
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(sending)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.bytes.is_some() {
            let mut state = self.line.0.lock();
            state.waiting.remove(&self.key);
            state.wake_first();
        }
    }
}

/// Bytes that have their turn until the last of them went to the connection.
struct Sending {
    bytes: Bytes,
    line: Arc<Line>,
}

impl AsRef<[u8]> for Sending {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let mut state = self.line.0.lock();
        state.sending -= self.bytes.len();
        state.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    const MIB: usize = 1 << 20;

    /// How often somebody was woken.
    #[derive(Debug, Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The next piece of an answer whose turn it is, and otherwise who is woken when it may be.
    fn poll(answer: &mut Answer) -> Result<Bytes, Arc<Count>> {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        match Pin::new(answer).poll_frame(&mut Context::from_waker(&waker)) {
            Poll::Ready(frame) => Ok(frame.expect("has bytes").expect("cannot fail").into_data().expect("bytes")),
            Poll::Pending => Err(count),
        }
    }

    /// All pieces that have their turn at once.
    fn pieces(answer: &mut Answer) -> Vec<Bytes> {
        let mut found = Vec::new();
        while !answer.is_end_stream()
            && let Ok(piece) = poll(answer)
        {
            found.push(piece);
        }
        found
    }

    #[test]
    fn an_answer_waits_until_those_before_it_in_its_connection_are_on_their_way() {
        let turns = Turns::default();
        let (one, other) = (HeaderValue::from_static("a-1"), HeaderValue::from_static("a-2"));
        let places: Vec<Place> = [1, 0, 2, 3].map(|block| turns.place(Some(&one), block)).into();
        let mut answers: Vec<Answer> = places.into_iter().map(|place| place.answer(vec![7; MIB].into())).collect();
        answers.swap(0, 1);
        assert_eq!(answers[0].size_hint().exact(), Some(MIB as u64));
        // What is there first need not be what was asked for first.
        let mut first = pieces(&mut answers[2]);
        let second = pieces(&mut answers[3]);
        assert_eq!((first.len(), second.len()), (MIB / PIECE_BYTES, MIB / PIECE_BYTES), "there is room for two");
        let woken = poll(&mut answers[1]).expect_err("there is none");
        let before = poll(&mut answers[0]).expect_err("there is none");
        // Others do not wait for it, and neither does who has no name.
        for line in [Some(&other), None] {
            let mut answer = turns.place(line, 0).answer(vec![8; MIB].into());
            assert_eq!(pieces(&mut answer).concat(), vec![8; MIB]);
        }
        let piece = first.remove(0);
        let (part, rest) = (piece.slice(..10), piece.slice(10..));
        drop((piece, part));
        assert_eq!(before.0.load(Ordering::Relaxed), 0, "half of it is not on its way");
        drop(rest);
        assert_eq!((before.0.load(Ordering::Relaxed), woken.0.load(Ordering::Relaxed)), (1, 0), "the first of them");
        assert!(poll(&mut answers[1]).is_err(), "another is before it");
        // One that has begun goes on before others begin, and one that is given up keeps nobody.
        let begun = pieces(&mut answers[0]);
        assert_eq!(begun.len(), 1);
        let woken = poll(&mut answers[1]).expect_err("another is before it");
        drop(first.remove(0));
        assert!(poll(&mut answers[1]).is_err(), "another is before it");
        answers.remove(0);
        assert!(woken.0.load(Ordering::Relaxed) <= 1);
        assert_eq!(pieces(&mut answers[0]).len(), 1);
        drop((first, second, begun));
        assert_eq!(pieces(&mut answers[0]).len(), MIB / PIECE_BYTES - 1);
        assert_eq!(turns.of(&one).0.lock().sending, 0);
    }

    #[test]
    fn connections_that_send_nothing_are_forgotten() {
        let turns = Turns::default();
        for number in 0..10 * FORGET_AT {
            let line = HeaderValue::try_from(format!("a-{number}")).expect("a name");
            poll(&mut turns.place(Some(&line), 0).answer(Bytes::from_static(b"x"))).expect("has its turn");
        }
        assert!(turns.0.lock().len() <= FORGET_AT);
    }
}
