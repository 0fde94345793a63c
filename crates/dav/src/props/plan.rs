//! What a PROPFIND asks of every node, worked out once a request.

use super::live::{ALLPROP, Live};
use crate::multistatus::push_empty_element;
use crate::parse::{PropFind, PropName};

/// One property asked for.
#[derive(Debug)]
pub(crate) enum Item {
    Live(Live),
    Dead {
        name: PropName,
        /// The element without content, for the list of what is missing.
        empty: String,
    },
}

/// The properties to write and what must be fetched to write them.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) items: Vec<Item>,
    /// Items from here on were named: if missing, they are listed as such (those of `allprop` are not).
    pub(crate) named_from: usize,
    /// All dead properties, whatever their names.
    pub(crate) all_dead: bool,
    /// Names without values.
    pub(crate) names_only: bool,
    /// Missing properties are not listed (`Prefer: return=minimal`, RFC 8144; `Brief: t`).
    pub(crate) minimal: bool,
}

impl Plan {
    pub(crate) fn new(find: PropFind, minimal: bool) -> Self {
        let all = || ALLPROP.into_iter().map(Item::Live).collect::<Vec<_>>();
        match find {
            PropFind::Named(names) => Self {
                items: names.into_iter().map(item).collect(),
                named_from: 0,
                all_dead: false,
                names_only: false,
                minimal,
            },
            PropFind::All { include } => {
                let mut items = all();
                // Dead properties are all there anyhow.
                let more = |item: &Item| matches!(item, Item::Live(live) if !ALLPROP.contains(live));
                items.extend(include.into_iter().map(item).filter(more));
                Self { items, named_from: ALLPROP.len(), all_dead: true, names_only: false, minimal }
            }
            PropFind::Names => {
                let items = all();
                Self { named_from: items.len(), items, all_dead: true, names_only: true, minimal }
            }
        }
    }

    fn wants(&self, wanted: &[Live]) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Live(live) if wanted.contains(live)))
    }

    /// Whether dead properties must be fetched. `displayname` may be one.
    pub(crate) fn wants_dead(&self) -> bool {
        self.all_dead || self.items.iter().any(|item| matches!(item, Item::Dead { .. } | Item::Live(Live::DisplayName)))
    }

    pub(crate) fn wants_locks(&self) -> bool {
        self.wants(&[Live::LockDiscovery]) && !self.names_only
    }

    pub(crate) fn wants_quota(&self) -> bool {
        self.wants(&[Live::QuotaAvailable, Live::QuotaUsed])
    }

    pub(crate) fn wants_checksums(&self) -> bool {
        self.wants(&[Live::OcChecksums])
    }
}

fn item(name: PropName) -> Item {
    if let Some(live) = Live::of_name(&name) {
        return Item::Live(live);
    }
    let mut empty = String::new();
    push_empty_element(&mut empty, &name);
    Item::Dead { name, empty }
}
