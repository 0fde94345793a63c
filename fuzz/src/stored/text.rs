//! Texts of [`holdfast_base`]: paths, names, sizes, ids.

use holdfast_base::limits::{ACCOUNT_NAME_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, PATH_DEPTH_MAX};
use holdfast_base::name::check_account_name;
use holdfast_base::size::{format_bytes, parse_bytes};
use holdfast_base::{BlockId, DrivePath, NodeName, Uid};

/// One text, read as everything a text can be.
pub fn text(data: &[u8]) {
    let uid = Uid::from_slice(data);
    assert_eq!(uid.is_ok(), data.len() == Uid::BYTES);
    let Ok(text) = std::str::from_utf8(data) else { return };
    path(text);
    if let Ok(name) = NodeName::new(text) {
        assert_eq!(name.as_str(), text);
        assert!(text.len() <= NAME_BYTES_MAX && !text.contains(['/', '\0']) && text != "..");
    }
    if check_account_name(text).is_ok() {
        assert!(
            text.len() <= ACCOUNT_NAME_BYTES_MAX && NodeName::new(text).is_ok(),
            "a space's name is a URL's segment"
        );
    }
    if let Ok(bytes) = parse_bytes(text) {
        assert!(parse_bytes(&bytes.to_string()).is_ok_and(|again| again == bytes));
        assert!(!format_bytes(bytes).is_empty());
    }
    if let Ok(id) = text.parse::<BlockId>() {
        assert_eq!(id.to_string(), text.to_ascii_lowercase());
    }
}

/// A path keeps within its limits, never climbs, and reads back from what it prints.
fn path(text: &str) {
    let Ok(path) = DrivePath::parse(text) else { return };
    assert!(text.len() <= PATH_BYTES_MAX && path.names().len() <= PATH_DEPTH_MAX);
    assert!(path.names().iter().all(|name| !matches!(name.as_str(), "" | "." | "..")));
    // A path prints with a slash before its first name, which may be the byte that is too many.
    if let Ok(again) = DrivePath::parse(&path.to_string()) {
        assert_eq!(again, path);
    } else {
        assert_eq!(text.len(), PATH_BYTES_MAX);
    }
    let parent = path.parent().unwrap_or_default();
    assert!(parent.contains(&path) && DrivePath::root().contains(&path));
    if let Some(name) = path.name() {
        assert_eq!(parent.join(name.clone()).expect("was so deep before"), path);
    }
}
