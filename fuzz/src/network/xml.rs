//! The bodies of PROPFIND, PROPPATCH and LOCK.

use holdfast_dav::limits::{LOCK_OWNER_BYTES_MAX, PROPERTIES_NAMED_MAX};
use holdfast_dav::parse::{Fragment, PropFind, PropPatch, lock_info, prop_find, property_update};

/// How many times longer than its body what is kept of a PROPPATCH may be, and what any body may take besides. A quotation
/// mark is written in six bytes, and each property repeats the declarations it needs; beyond that, a small body makes
/// the server work for it.
const GROWTH_MAX: usize = 32;
const GROWTH_FREE_BYTES: usize = 64 * 1_024;

/// A prefix that no client uses.
const PREFIX: &str = "hfz";

/// One body, read as all three.
pub fn xml(data: &[u8]) {
    match prop_find(data) {
        Ok(PropFind::All { include: names } | PropFind::Named(names)) => assert!(names.len() <= PROPERTIES_NAMED_MAX),
        Ok(PropFind::Names) | Err(_) => {}
    }
    if let Ok(lock) = lock_info(data) {
        assert!(lock.owner_xml.len() <= LOCK_OWNER_BYTES_MAX);
        if !lock.owner_xml.is_empty() {
            // Sound enough to be read back by the reader that is given a whole answer's worth of it.
            assert_eq!(set(&lock.owner_xml).name, "owner");
        }
    }
    if let Ok(updates) = property_update(data) {
        assert!(!updates.is_empty() && updates.len() <= PROPERTIES_NAMED_MAX);
        let set = updates.iter().filter_map(|update| match update {
            PropPatch::Set(fragment) => Some(fragment),
            PropPatch::Remove(_) => None,
        });
        let kept_bytes: usize = set.clone().map(|fragment| fragment.xml.len() + fragment.text.len()).sum();
        assert!(kept_bytes <= GROWTH_FREE_BYTES + GROWTH_MAX * data.len(), "{kept_bytes} bytes of {}", data.len());
        set.for_each(check);
    }
}

/// A kept property stands on its own: put into another document it is the same property.
fn check(fragment: &Fragment) {
    let again = set(&fragment.xml);
    assert_eq!((&again.namespace, &again.name), (&fragment.namespace, &fragment.name));
    assert_eq!(again.text, fragment.text);
    assert!(again.xml == fragment.xml || fragment.xml.contains(PREFIX));
}

/// Reads one property out of a PROPPATCH that sets it.
fn set(property: &str) -> Fragment {
    let body = format!(
        "<{PREFIX}:propertyupdate xmlns:{PREFIX}=\"DAV:\"><{PREFIX}:set><{PREFIX}:prop>{property}</{PREFIX}:prop></{PREFIX}:set></{PREFIX}:propertyupdate>"
    );
    match property_update(body.as_bytes()).map(|mut updates| (updates.pop(), updates.len())) {
        Ok((Some(PropPatch::Set(fragment)), 0)) => fragment,
        other => panic!("a kept element is not one property: {other:?}: {property}"),
    }
}
