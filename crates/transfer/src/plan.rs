//! What is to be done about one file or link, from what both sides say of it. Nothing is asked or done here, so what a dry run shows is what a run decides.

use crate::options::{Compare, IfExists, Options};
use crate::site::{Item, Kind};
use holdfast_base::{Error, ErrorKind};

/// Precisions of times: those of file systems and protocols.
const GRANULES_NS: [i64; 4] = [1_000_000_000, 1_000_000, 1_000, 1];

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It is moved, in place of what is there.
    Move {
        /// Whether that stands in its place.
        replaces: bool,
    },
    /// It is moved under the next free name.
    Beside,
    /// It is there.
    Same,
    /// Contents decide between [`Self::Same`] and what [`differing`] says.
    Look,
    /// It is left out, for this reason.
    Skip(&'static str),
    /// It fails.
    Refuse(Error),
}

/// Decides about a file or link of the source, with what is under its name at the destination.
pub(crate) fn decide(item: &Item, there: Option<&Item>, options: &Options) -> Decision {
    let Some(there) = there else { return Decision::Move { replaces: false } };
    match (&item.kind, &there.kind) {
        (_, Kind::Folder) => {
            let what = "there is a folder of that name at the destination: move or remove it first";
            Decision::Refuse(Error::new(ErrorKind::WrongKind, what))
        }
        (Kind::Link(a), Kind::Link(b)) if a == b => Decision::Same,
        (Kind::File, Kind::File) if item.size == there.size => match options.compare {
            // What is removed from the source afterwards must be there, and not only look like it.
            Compare::SizeAndTime if same_time(item, there) && !options.delete_source => Decision::Same,
            Compare::SizeAndTime if !same_time(item, there) => differing(item, there, options),
            _ => Decision::Look,
        },
        _ => differing(item, there, options),
    }
}

/// Decides where something else is under that name.
pub(crate) fn differing(item: &Item, there: &Item, options: &Options) -> Decision {
    if options.update && !is_newer(item, there) {
        return Decision::Skip("what is there is not older");
    }
    match options.if_exists {
        IfExists::Replace => Decision::Move { replaces: true },
        IfExists::Skip => Decision::Skip("something is there"),
        IfExists::KeepBoth => Decision::Beside,
        IfExists::Fail => {
            let what = "something else of that name is at the destination";
            Decision::Refuse(Error::new(ErrorKind::AlreadyExists, what))
        }
    }
}

/// Whether two times are the same as far as both sides keep them: the coarser precision is that in which one of them is a whole number.
pub(crate) fn same_time(a: &Item, b: &Item) -> bool {
    let (Some(a), Some(b)) = (a.modified_ns, b.modified_ns) else { return false };
    let granule = granule(a).max(granule(b));
    a.div_euclid(granule) == b.div_euclid(granule)
}

fn is_newer(item: &Item, there: &Item) -> bool {
    match (item.modified_ns, there.modified_ns) {
        (Some(a), Some(b)) => a > b && !same_time(item, there),
        // Nobody can say.
        _ => false,
    }
}

fn granule(time_ns: i64) -> i64 {
    GRANULES_NS.into_iter().find(|granule| time_ns % granule == 0).unwrap_or(1)
}

#[cfg(test)]
mod tests;
