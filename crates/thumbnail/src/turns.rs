//! Turns at the workers, fair between those who ask.
//!
//! Who asks waits in a line of their own, and the lines take turns: whoever opens a folder of ten thousand pictures delays somebody else's
//! first picture by one of theirs, not by all. When all places to wait are taken, a place is given to whoever has fewer than the one with the most,
//! whose last is told to come back.

use crate::WAITING_MAX;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Whose line a request stands in: an account, and the share it comes through (0: none), so that the visitors of a link have one together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Asker {
    /// The account.
    pub account: i64,
    /// The share.
    pub share: i64,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Shared>);

struct Shared {
    all: usize,
    state: Mutex<State>,
}

struct State {
    free: usize,
    waiting: usize,
    /// Those who wait, the next first.
    order: VecDeque<Asker>,
    lines: HashMap<Asker, VecDeque<oneshot::Sender<Turn>>>,
}

/// A turn, until it is dropped.
pub(crate) struct Turn(Option<Arc<Shared>>);

impl Turns {
    pub(crate) fn new(all: usize) -> Self {
        let state = State { free: all, waiting: 0, order: VecDeque::new(), lines: HashMap::new() };
        Self(Arc::new(Shared { all, state: Mutex::new(state) }))
    }

    /// How many have a turn now.
    pub(crate) fn taken(&self) -> usize {
        self.0.all - self.0.state.lock().free
    }

    /// A turn, when it comes; none if there is no place to wait, or another needed it more. Whoever stops waiting leaves the line.
    pub(crate) async fn take(&self, asker: Asker) -> Option<Turn> {
        if self.0.all == 0 {
            return None;
        }
        let receiver = {
            let mut state = self.0.state.lock();
            state.forget_those_who_left();
            if state.free > 0 {
                state.free -= 1;
                return Some(Turn(Some(Arc::clone(&self.0))));
            }
            if state.waiting == WAITING_MAX && !state.make_place(asker) {
                return None;
            }
            let (sender, receiver) = oneshot::channel();
            state.enter(asker, sender);
            receiver
        };
        receiver.await.ok()
    }
}

impl State {
    fn enter(&mut self, asker: Asker, sender: oneshot::Sender<Turn>) {
        let line = self.lines.entry(asker).or_default();
        if line.is_empty() {
            self.order.push_back(asker);
        }
        line.push_back(sender);
        self.waiting += 1;
    }

    /// Whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let asker = self.order.pop_front()?;
        let line = self.lines.get_mut(&asker)?;
        let sender = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&asker);
        } else {
            self.order.push_back(asker);
        }
        self.waiting -= 1;
        sender
    }

    /// Sends the last of the longest line away, unless that would be longer by it than `asker`'s own.
    fn make_place(&mut self, asker: Asker) -> bool {
        let own = self.lines.get(&asker).map_or(0, VecDeque::len);
        let Some((longest, line)) = self.lines.iter_mut().max_by_key(|(_, line)| line.len()) else { return false };
        if *longest == asker || line.len() <= own + 1 {
            return false;
        }
        // It has at least two.
        line.pop_back();
        self.waiting -= 1;
        true
    }

    fn forget_those_who_left(&mut self) {
        let Self { lines, order, waiting, .. } = self;
        lines.retain(|_, line| {
            let before = line.len();
            line.retain(|sender| !sender.is_closed());
            *waiting -= before - line.len();
            !line.is_empty()
        });
        order.retain(|asker| lines.contains_key(asker));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = shared.state.lock();
                let next = state.next();
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(Self(Some(Arc::clone(&shared)))) {
                Ok(()) => return,
                // They left meanwhile. The turn is still ours to give, and dropping it would give it from within.
                Err(mut turn) => drop(turn.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    type Wait = BoxFuture<'static, Option<Turn>>;

    fn ask(turns: &Turns, account: i64) -> Wait {
        let turns = turns.clone();
        let mut wait = async move { turns.take(Asker { account, share: 0 }).await }.boxed();
        // Once polled it stands in its line.
        match (&mut wait).now_or_never() {
            Some(turn) => std::future::ready(turn).boxed(),
            None => wait,
        }
    }

    /// Gives turns back one by one; who got them.
    fn served(mut holder: Option<Turn>, mut waits: Vec<(i64, Wait)>) -> Vec<i64> {
        let mut order = Vec::new();
        while let Some(turn) = holder.take() {
            drop(turn);
            let got = waits.iter_mut().enumerate().find_map(|(at, (_, wait))| Some((at, wait.now_or_never()?)));
            let Some((at, turn)) = got else { break };
            order.push(waits.swap_remove(at).0);
            holder = turn;
        }
        order
    }

    #[test]
    fn who_asks_for_one_waits_for_one_of_another_s_many() {
        let turns = Turns::new(1);
        let holder = ask(&turns, 1).now_or_never().expect("at once");
        let mut waits: Vec<(i64, Wait)> = (0..40).map(|_| (1, ask(&turns, 1))).collect();
        waits.push((2, ask(&turns, 2)));
        waits.push((2, ask(&turns, 2)));
        let order = served(holder, waits);
        assert_eq!((order.len(), &order[..5]), (42, [1, 2, 1, 2, 1].as_slice()));
        assert_eq!(turns.taken(), 0);
    }

    #[test]
    fn a_full_hall_has_room_for_somebody_else() {
        let turns = Turns::new(1);
        let holder = ask(&turns, 1).now_or_never().expect("at once");
        let mut many: Vec<Wait> = (0..WAITING_MAX).map(|_| ask(&turns, 1)).collect();
        assert!(ask(&turns, 1).now_or_never().expect("at once").is_none(), "no more of the same");
        let mut other = ask(&turns, 2);
        assert!((&mut other).now_or_never().is_none(), "waits");
        let mut away = many.pop().expect("the last");
        assert!((&mut away).now_or_never().expect("was told").is_none(), "in the place of the last of the many");
        drop(holder);
        assert!((&mut many[0]).now_or_never().expect("is next").is_some());
        assert!(other.now_or_never().expect("is after that").is_some());
    }

    #[test]
    fn whoever_leaves_keeps_no_turn_and_no_place() {
        let turns = Turns::new(1);
        let holder = ask(&turns, 1).now_or_never().expect("at once");
        drop((0..WAITING_MAX).map(|_| ask(&turns, 1)).collect::<Vec<_>>());
        let mut mine = ask(&turns, 1);
        assert!((&mut mine).now_or_never().is_none(), "there are places again");
        let given = ask(&turns, 2);
        drop(holder);
        // It was given a turn and left without looking.
        drop(mine);
        let turn = given.now_or_never().expect("passed on").expect("a turn");
        assert_eq!(turns.taken(), 1);
        drop(turn);
        assert_eq!(turns.taken(), 0);
        assert!(ask(&Turns::new(0), 1).now_or_never().expect("at once").is_none(), "without workers there are none");
    }
}
