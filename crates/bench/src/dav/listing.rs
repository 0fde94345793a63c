//! PROPFIND depth 1 of folders with thousands of entries: five named properties, and all of them.
//!
//! Timed to the last byte of the answer. Afterwards, untimed, the XML is parsed: it must be well formed and hold one
//! response for the folder and one for each entry, each file with its length.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::Workload;
use super::bay::Bay;
use super::lab::{Lab, Outcome};
use super::session::Failure;
use super::small;
use crate::report::{Better, SeriesInfo};

/// What a file manager asks for.
pub(super) const NAMED: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<D:propfind xmlns:D="DAV:"><D:prop><D:resourcetype/><D:getcontentlength/><D:getlastmodified/><D:getetag/><D:displayname/></D:prop></D:propfind>"#;
const ALL: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<D:propfind xmlns:D="DAV:"><D:allprop/></D:propfind>"#;

/// Size of the listed files; their content is never read.
const ENTRY_BYTES: usize = 16;

/// Memory to warm per entry: the XML of one is about 1 KB, held by both sides.
const WARM_BYTES_PER_ENTRY: u64 = 4096;

pub(super) fn run(lab: &mut Lab<'_>) {
    if !lab.options.wants(Workload::Propfind) {
        return;
    }
    for entries in lab.options.entries.clone() {
        run_folder(lab, entries);
    }
}

fn run_folder(lab: &mut Lab<'_>, entries: u64) {
    let folder = format!("list-{entries}/");
    let mut ready = vec![false; lab.bays.len()];
    lab.say(&format!("filling folders with {entries} entries"));
    for target in lab.order(0) {
        ready[target] = small::fill(lab, target, &folder, entries, ENTRY_BYTES);
    }
    let mut listing = Vec::new();
    for (id, what, query) in [("named", "5 named properties", NAMED), ("all", "allprop", ALL)] {
        let info = SeriesInfo {
            id: format!("propfind.{entries}.{id}"),
            title: format!("PROPFIND depth 1 of {entries} entries, {what}"),
            unit: "ms".to_owned(),
            better: Better::Lower,
            bytes: None,
        };
        for run in 0..lab.options.runs {
            for target in lab.order(run) {
                if ready[target] {
                    let warm_bytes = entries * WARM_BYTES_PER_ENTRY;
                    lab.measure(&info, target, warm_bytes, |bay| list(bay, &folder, query, entries, &mut listing));
                }
            }
        }
    }
}

fn list(bay: &Bay, folder: &str, query: &str, entries: u64, listing: &mut Vec<u8>) -> Result<Outcome, Failure> {
    listing.clear();
    let mut session = bay.session()?;
    let answer = session.propfind(folder, "1", query, listing)?;
    let found = Listing::parse(listing).map_err(|why| Failure::Wrong { what: format!("PROPFIND {folder}"), why })?;
    found.check(entries).map_err(|why| Failure::Wrong { what: format!("PROPFIND {folder}"), why })?;
    let value = answer.total.as_secs_f64() * 1e3;
    Ok(Outcome { value, latencies: None, reopened: session.reopened() })
}

/// What a multistatus holds.
#[derive(Debug, PartialEq, Eq, Default)]
struct Listing {
    responses: u64,
    lengths: u64,
}

impl Listing {
    fn parse(xml: &[u8]) -> Result<Self, String> {
        let mut reader = Reader::from_reader(xml);
        reader.config_mut().check_end_names = true;
        let mut found = Self::default();
        let mut depth = 0_u64;
        loop {
            match reader.read_event().map_err(|error| format!("the XML is not well formed: {error}"))? {
                Event::Start(element) => {
                    depth += 1;
                    found.count(element.local_name().as_ref());
                }
                Event::Empty(element) => found.count(element.local_name().as_ref()),
                Event::End(_) => depth = depth.saturating_sub(1),
                Event::Eof if depth > 0 => return Err("the XML ends before its last element does".to_owned()),
                Event::Eof => return Ok(found),
                _ => {}
            }
        }
    }

    fn count(&mut self, name: &str) {
        match name {
            "response" => self.responses += 1,
            "getcontentlength" => self.lengths += 1,
            _ => {}
        }
    }

    fn check(&self, entries: u64) -> Result<(), String> {
        if self.responses != entries + 1 {
            return Err(format!("{} responses for a folder of {entries} entries", self.responses));
        }
        if self.lengths < entries {
            return Err(format!("{} lengths for {entries} files", self.lengths));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Listing;

    const GOOD: &str = r#"<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">
        <D:response><D:href>/a/</D:href></D:response>
        <D:response><D:href>/a/b</D:href><D:propstat><D:prop><lp1:getcontentlength xmlns:lp1="DAV:">16</lp1:getcontentlength></D:prop></D:propstat></D:response>
        </D:multistatus>"#;

    #[test]
    fn responses_and_lengths_are_counted_whatever_their_prefix() {
        let found = Listing::parse(GOOD.as_bytes()).expect("well-formed XML");
        assert_eq!(found, Listing { responses: 2, lengths: 1 });
        assert_eq!(found.check(1), Ok(()));
        assert!(found.check(2).is_err());
    }

    #[test]
    fn xml_that_is_cut_or_mismatched_is_an_error() {
        for xml in [&GOOD[..GOOD.len() - 20], "<a><b></a></b>", "<a"] {
            assert!(Listing::parse(xml.as_bytes()).is_err(), "{xml}");
        }
    }
}
