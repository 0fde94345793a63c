//! What servers of others answer that files are pulled from: how they list.

mod mail;

pub use mail::{imap_answers, mime_names};

use holdfast_base::DrivePath;
use holdfast_transfer::ftp::list;
use holdfast_transfer::web::{fixed, page};

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 4] =
    [("ftp_lists", ftp_lists), ("imap_answers", imap_answers), ("mime_names", mime_names), ("web_lists", web_lists)];

/// Lines of MLSD and of LIST: no name leads anywhere, and no time is out of its range.
pub fn ftp_lists(data: &[u8]) {
    for line in data.split(|byte| *byte == b'\n') {
        for entry in [list::facts(line), list::listed(line)].into_iter().flatten().flatten() {
            assert!(!entry.name.as_str().contains('/') && !matches!(entry.name.as_str(), "." | ".."));
            assert!(entry.what == list::What::File || entry.size == 0);
            let Some(modified) = entry.modified.as_deref() else { continue };
            let at = list::moment(modified).expect("only what is a time is kept");
            // What is written reads back, to the second.
            let text = list::moment_text(at).expect("a year of four digits");
            assert_eq!(list::moment(&text), Some(at.div_euclid(1_000_000_000) * 1_000_000_000));
        }
    }
}

/// Pages in HTML and JSON, lists and Metalinks: no more than what they were read from, and no path leads out.
pub fn web_lists(data: &[u8]) {
    let (links, refused) = page::html(data, "/a/b/");
    assert!(links.len() + refused.len() <= data.len());
    assert!(links.keys().all(|name| !name.as_str().contains('/') && name.as_str() != ".."));
    if let Ok((links, refused)) = page::json(data) {
        assert!(links.len() + refused.len() <= data.len());
    }
    for files in [fixed::list(data, None), fixed::metalink(data)].into_iter().flatten() {
        assert!(files.len() <= data.len());
        for (path, file) in files {
            assert!(!path.is_root() && DrivePath::parse(&path.to_string()).is_ok());
            assert!(!file.mirrors.is_empty());
            assert!(file.mirrors.iter().all(|url| matches!(url.scheme_str(), Some("http" | "https"))));
        }
    }
}
