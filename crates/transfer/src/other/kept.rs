//! Listings of servers that list a folder whole and in an order of their own: sorted, and told some at a time.
//!
//! A walk lists a folder in pages and comes back for more after it has been in the folders between, so what is left of a listing is kept until it is used
//! up: [`KEPT_MAX`] members of all folders together, the one listed longest ago let go of first, which costs asking again. One folder may have
//! more members than that only once, alone.

use crate::site::{Item, Listed};
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use parking_lot::Mutex;

/// Members that are told at a time.
const PAGE: usize = 512;
/// Members of listings that are kept.
const KEPT_MAX: usize = 200_000;
/// Members that one folder may have: 2 million are some 400 MB while they are listed.
pub(crate) const MEMBERS_MAX: usize = 2_000_000;

/// What is left of listings.
#[derive(Debug, Default)]
pub struct KeptListings(Mutex<Vec<Kept>>);

#[derive(Debug)]
struct Kept {
    folder: DrivePath,
    /// In falling order of name, so that the next are at the end.
    rest: Vec<Item>,
    last: NodeName,
}

impl KeptListings {
    /// The next members of a folder after `after`, if its listing is kept.
    pub fn next(&self, folder: &DrivePath, after: Option<&NodeName>) -> Option<Listed> {
        let mut kept = self.0.lock();
        let at = kept.iter().position(|kept| kept.folder == *folder && Some(&kept.last) == after)?;
        let Kept { rest, .. } = kept.remove(at);
        Some(Self::page(&mut kept, folder, rest, Vec::new()))
    }

    /// Takes a listing, sorts it, and answers the first members after `after`. Of two with one name the first stays.
    pub fn begin(
        &self,
        folder: &DrivePath,
        after: Option<&NodeName>,
        items: Vec<Item>,
        refused: Vec<(String, Error)>,
    ) -> Result<Listed> {
        if items.len() > MEMBERS_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("{folder} has more than {MEMBERS_MAX} members")));
        }
        let mut rest = items;
        rest.retain(|item| after.is_none_or(|after| item.name > *after));
        rest.sort_by(|a, b| b.name.cmp(&a.name));
        rest.dedup_by(|a, b| a.name == b.name);
        Ok(Self::page(&mut self.0.lock(), folder, rest, refused))
    }

    fn page(kept: &mut Vec<Kept>, folder: &DrivePath, mut rest: Vec<Item>, refused: Vec<(String, Error)>) -> Listed {
        let mut items = rest.split_off(rest.len().saturating_sub(PAGE));
        items.reverse();
        let more = !rest.is_empty();
        if let Some(last) = items.last().filter(|_| more) {
            kept.retain(|kept| kept.folder != *folder);
            kept.push(Kept { folder: folder.clone(), rest, last: last.name.clone() });
            while kept.len() > 1 && kept.iter().map(|kept| kept.rest.len()).sum::<usize>() > KEPT_MAX {
                kept.remove(0);
            }
        }
        Listed { items, refused, more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{Kind, Version};

    fn item(number: usize) -> Item {
        let name = NodeName::new(&format!("{number:07}")).expect("a name");
        Item { name, kind: Kind::File, size: 0, modified_ns: None, mode: None, version: Version(String::new()) }
    }

    #[test]
    fn a_listing_is_told_in_order_and_folders_between_do_not_disturb_it() {
        let (kept, a, b) =
            (KeptListings::default(), DrivePath::parse("a").expect("a"), DrivePath::parse("b").expect("b"));
        let mut page = kept.begin(&a, None, (0..2_000).rev().map(item).collect(), Vec::new()).expect("lists");
        let mut names: Vec<String> = Vec::new();
        loop {
            assert!(kept.begin(&b, None, (0..600).map(item).collect(), Vec::new()).expect("lists").more);
            names.extend(page.items.iter().map(|item| item.name.to_string()));
            if !page.more {
                break;
            }
            page = kept.next(&a, page.items.last().map(|item| &item.name)).expect("it is kept");
        }
        assert_eq!(names, (0..2_000).map(|number| item(number).name.to_string()).collect::<Vec<_>>());
        assert!(kept.next(&a, None).is_none(), "nothing is left of it");
    }

    #[test]
    fn of_many_listings_the_oldest_is_let_go_of() {
        let kept = KeptListings::default();
        let folders: Vec<DrivePath> = (0..3).map(|n| DrivePath::parse(&format!("f{n}")).expect("a path")).collect();
        for folder in &folders {
            assert!(kept.begin(folder, None, (0..100_000).map(item).collect(), Vec::new()).expect("lists").more);
        }
        let last = item(PAGE - 1).name;
        assert!(kept.next(&folders[0], Some(&last)).is_none());
        assert!(kept.next(&folders[2], Some(&last)).is_some());
    }

    #[test]
    fn after_a_name_the_rest_is_told_anew() {
        let kept = KeptListings::default();
        let page = kept.begin(&DrivePath::root(), Some(&item(7).name), (0..10).map(item).collect(), Vec::new());
        assert_eq!(page.expect("lists").items, vec![item(8), item(9)]);
    }
}
