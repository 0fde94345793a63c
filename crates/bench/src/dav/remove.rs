//! Deleting a folder with everything in it, also on servers that refuse to do that in one request.
//!
//! RFC 4918 section 9.6.1 makes DELETE of a folder delete what is in it. Where a server answers with an error instead,
//! its content is listed and deleted piece by piece.

use quick_xml::Reader;
use quick_xml::events::Event;
use url::Url;

use super::listing::NAMED;
use super::session::{Failure, Session};

/// Folders below the bench folder: one level.
const MAX_DEPTH: u32 = 3;

/// Deletes the folder `name`, which ends with a slash. The session's base must be the root, `/`.
pub(super) fn tree(session: &mut Session<'_>, name: &str, depth: u32) -> Result<(), Failure> {
    let refused = match delete_if_there(session, name) {
        Ok(()) => return Ok(()),
        Err(failure @ Failure::Status { .. }) if depth < MAX_DEPTH => failure,
        Err(failure) => return Err(failure),
    };
    let mut listing = Vec::new();
    session.propfind(name, "1", NAMED, &mut listing)?;
    let inside = children(&listing, name);
    if inside.is_empty() {
        return Err(refused);
    }
    for child in inside {
        if child.ends_with('/') {
            tree(session, &child, depth + 1)?;
        } else {
            delete_if_there(session, &child)?;
        }
    }
    delete_if_there(session, name)
}

/// A 404 is success here: the first attempt may have deleted a part.
fn delete_if_there(session: &mut Session<'_>, name: &str) -> Result<(), Failure> {
    match session.delete(name) {
        Ok(_) | Err(Failure::Status { status: 404, .. }) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// The entries of a folder, relative to the root like its own name; folders end with a slash if the server says so.
fn children(listing: &[u8], folder: &str) -> Vec<String> {
    let mut reader = Reader::from_reader(listing);
    let mut found = Vec::new();
    let mut in_href = false;
    loop {
        match reader.read_event() {
            Ok(Event::Start(element)) => in_href = element.local_name().as_ref() == "href",
            Ok(Event::Text(text)) if in_href => {
                let path = path_of(&text);
                // Only what is below the folder: a server's mistake must not delete anything else.
                if path.starts_with(folder) && path.len() > folder.len() {
                    found.push(path);
                }
            }
            Ok(Event::Eof) | Err(_) => return found,
            Ok(_) => in_href = false,
        }
    }
}

/// An href as a path from the root, without its leading slash; it may be a whole URL (RFC 4918 section 8.3).
fn path_of(href: &str) -> String {
    let path = Url::parse(href).map_or_else(|_| href.to_owned(), |url| url.path().to_owned());
    path.trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::children;

    #[test]
    fn children_are_what_is_below_the_folder_and_nothing_else() {
        let xml = r#"<D:multistatus xmlns:D="DAV:">
            <D:response><D:href>/dav/bench/</D:href><D:prop>/dav/bench/not-a-href</D:prop></D:response>
            <D:response><D:href>/dav/bench/file</D:href></D:response>
            <D:response><D:href>http://host:1/dav/bench/folder/</D:href></D:response>
            <D:response><D:href>/dav/other</D:href></D:response></D:multistatus>"#;
        assert_eq!(children(xml.as_bytes(), "dav/bench/"), ["dav/bench/file", "dav/bench/folder/"]);
        assert_eq!(children(b"<broken", "dav/"), Vec::<String>::new());
    }
}
