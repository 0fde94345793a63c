//! Writing hrefs.

use holdfast_drive::Location;
pub(crate) use holdfast_http::push_segment;

/// The href of a location: a collection's ends in a slash.
pub(crate) fn of(prefix: &str, at: &Location, collection: bool) -> String {
    of_names(prefix, &at.space, at.path.names().iter().map(AsRef::as_ref), collection)
}

/// The href of `names` below a space.
pub(crate) fn of_names<'a>(
    prefix: &str,
    space: &str,
    names: impl Iterator<Item = &'a str>,
    collection: bool,
) -> String {
    let mut out = String::with_capacity(64);
    out.push_str(prefix);
    out.push('/');
    push_segment(&mut out, space);
    for name in names {
        out.push('/');
        push_segment(&mut out, name);
    }
    if collection {
        out.push('/');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Target, target};
    use holdfast_base::{DrivePath, NodeName};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_href_reads_back_as_the_same_location(names in prop::collection::vec(".{1,20}", 0..5), collection: bool) {
            let names = names.iter().map(|name| NodeName::new(name)).collect::<Result<Vec<_>, _>>();
            prop_assume!(names.is_ok());
            let path = DrivePath::from_names(names.expect("checked")).expect("short");
            let at = Location { space: "ana.müller@lab".into(), path };
            let href = of("/dav", &at, collection);
            prop_assert!(href.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(target("/dav", &href).expect("own output"), Target::At { at, slash: collection });
        }
    }
}
