//! Drawing the state that one power cut leaves.
//!
//! Each cut has its own weather: how likely unsynced pages and names are to have reached the disk.
//! Extremes are drawn often, because the bugs live there: names without data, data without names,
//! everything, nothing.

use std::collections::BTreeMap;

use super::config::{Config, Profile};
use super::file::{garbage, tear};
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

    /// What the disk holds of a dirty page.
    pub(crate) fn survivor<P>(
        &self,
        rng: &mut Prng,
        durable: &Option<P>,
        versions: &[Option<P>],
        grown: bool,
    ) -> Option<P>
    where
        P: Clone,
        Option<P>: PageVersion,
    {
        let one = self.choose(rng, durable, versions);
        if rng.chance(self.tear) {
            let other = match rng.index(versions.len() + 1) {
                0 => durable,
                n => &versions[n - 1],
            };
            return one.torn(rng, other);
        }
        if one.is_none() && grown && self.garbage {
            return one.left_behind(rng);
        }
        one.clone()
    }
}

/// What can be done to a version of a page; exists so that the choice above stays free of pages.
pub(crate) trait PageVersion: Sized {
    /// Sectors of this version and of `other`.
    fn torn(&self, rng: &mut Prng, other: &Self) -> Self;
    /// What an earlier owner of the block wrote.
    fn left_behind(&self, rng: &mut Prng) -> Self;
}

impl PageVersion for Option<std::sync::Arc<[u8; 4096]>> {
    fn torn(&self, rng: &mut Prng, other: &Self) -> Self {
        tear(rng, self, other)
    }

    fn left_behind(&self, rng: &mut Prng) -> Self {
        garbage(rng)
    }
}
