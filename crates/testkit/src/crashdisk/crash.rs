//! Drawing the state that one power cut leaves.
//!
//! Each cut has its own weather: how likely unsynced pages and names are to have reached the disk.
//! Extremes are drawn often, because the bugs live there: names without data, data without names,
//! everything, nothing.

use std::collections::BTreeMap;

use super::config::{Config, Profile};
use super::journal::survivors;
use super::state::{Ino, Node, ROOT, State};
use crate::rng::Prng;

/// Chances that a cut's weather draws from.
const CHANCES: [f64; 6] = [0.0, 0.1, 0.5, 0.9, 1.0, 1.0];

/// How one power cut treats what was not synced.
#[derive(Debug)]
pub(crate) struct Weather {
    /// Chance that the newest version of a page or size is the one on the disk.
    keep_data: f64,
    /// Chance that a pending operation on names reached the disk.
    keep_names: f64,
    /// Chance that a dirty page is torn between two versions.
    tear: f64,
    /// Whether a grown file that lost its data shows garbage instead of zeros.
    garbage: bool,
    /// Whether a file that grew holds the data it grew by.
    pub(crate) ordered_data: bool,
}

impl Weather {
    fn draw(rng: &mut Prng, config: &Config) -> Self {
        let strict = config.profile == Profile::Strict;
        Self {
            keep_data: *rng.pick(&CHANCES),
            keep_names: *rng.pick(&CHANCES),
            tear: *rng.pick(&[0.0, 0.1, 0.5]),
            garbage: strict && config.garbage && rng.chance(0.5),
            ordered_data: !strict,
        }
    }

    /// The newest version, or any of the older ones.
    pub(crate) fn choose<'a, T>(&self, rng: &mut Prng, durable: &'a T, newer: &'a [T]) -> &'a T {
        match newer.last() {
            None => durable,
            Some(newest) if rng.chance(self.keep_data) => newest,
            Some(_) => match rng.index(newer.len()) {
                0 => durable,
                n => &newer[n - 1],
            },
        }
    }

    /// Whether this dirty page is torn between two of its versions.
    pub(crate) fn tears(&self, rng: &mut Prng) -> bool {
        rng.chance(self.tear)
    }

    /// Whether pages that a file grew by, and whose data was lost, show garbage.
    pub(crate) fn leaves_garbage(&self) -> bool {
        self.garbage
    }
}

/// Draws the state of the disk after a power cut.
pub(crate) fn crash(state: &State, seed: u64) -> State {
    let mut rng = Prng::new(seed);
    let weather = Weather::draw(&mut rng, &state.config);
    let mut folders = state.durable_folders();
    let kept = survivors(&state.pending, &mut rng, weather.keep_names, state.config.profile);
    for (operation, _) in state.pending.iter().zip(kept).filter(|(_, kept)| *kept) {
        for change in &operation.changes {
            let Some(entries) = folders.get_mut(&change.folder) else {
                continue;
            };
            match change.target {
                Some(target) => entries.insert(change.name.clone(), target),
                None => entries.remove(&change.name),
            };
        }
    }
    rebuild(state, &folders, &mut rng, &weather)
}

/// Walks the surviving names from the root and keeps what they reach.
fn rebuild(
    state: &State,
    folders: &BTreeMap<Ino, BTreeMap<std::ffi::OsString, Ino>>,
    rng: &mut Prng,
    weather: &Weather,
) -> State {
    let mut after = State::empty(state.config);
    let mut to_visit = vec![ROOT];
    while let Some(folder) = to_visit.pop() {
        let Some(entries) = folders.get(&folder) else {
            continue;
        };
        for (name, &ino) in entries {
            let Some(inode) = state.inodes.get(&ino) else {
                continue;
            };
            let first_visit = !after.inodes.contains_key(&ino);
            if first_visit {
                let node = match &inode.node {
                    Node::File(file) => Node::File(file.crash(rng, weather)),
                    Node::Folder(_) => Node::Folder(Box::default()),
                    Node::Link(target) => Node::Link(target.clone()),
                };
                let is_folder = matches!(node, Node::Folder(_));
                after.restore(ino, inode, node);
                if is_folder {
                    to_visit.push(ino);
                }
            }
            after.restore_entry(folder, name, ino);
        }
    }
    after.finish_restore(state.next_ino);
    after
}
