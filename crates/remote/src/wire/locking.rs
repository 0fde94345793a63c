//! Values of the calls about locks.

use super::cbor::{Reader, Writer};
use super::values::{Value, choice, record};
use holdfast_base::{Error, Result};
use holdfast_drive::posix_locks::{Held, Kept, LockAnswer, LockAsk, LockKey, Patience};

choice! {
    Patience { Try = 0, Wait = 1, Probe = 2 }
}

record! {
    LockKey: 2 { node, flock }
    Held: 3 { owner, range, exclusive }
    LockAsk: 5 { key, held, patience, ticket, wait_ms }
    Kept: 3 { key, whole, held }
}

impl Value for LockAnswer {
    fn put(&self, out: &mut Writer) {
        let none = (None::<u64>, None::<Held>);
        match self {
            Self::Exact => (0_u64, none.0, none.1).put(out),
            Self::Whole(number) => (1_u64, Some(*number), none.1).put(out),
            Self::Free => (2_u64, none.0, none.1).put(out),
            Self::Busy(held) => (3_u64, none.0, *held).put(out),
            Self::Later => (4_u64, none.0, none.1).put(out),
            Self::Deadlock => (5_u64, none.0, none.1).put(out),
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self> {
        match <(u64, Option<u64>, Option<Held>)>::get(from)? {
            (0, None, None) => Ok(Self::Exact),
            (1, Some(number), None) => Ok(Self::Whole(number)),
            (2, None, None) => Ok(Self::Free),
            (3, None, held) => Ok(Self::Busy(held)),
            (4, None, None) => Ok(Self::Later),
            (5, None, None) => Ok(Self::Deadlock),
            _ => Err(Error::invalid("no such answer about a lock")),
        }
    }
}
