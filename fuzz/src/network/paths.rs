//! Request targets, and the URIs of `Destination` and `If`.

use holdfast_base::NodeName;
use holdfast_base::limits::{PATH_BYTES_MAX, PATH_DEPTH_MAX};
use holdfast_dav::parse::{Resolved, Target, resolve, target};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

const PREFIX: &str = "/dav";

/// One text, as a path and as a URI.
pub fn paths(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(target) = target(PREFIX, text) {
        assert!(text.starts_with(PREFIX));
        check(&target);
    }
    let _ = target("", text);
    let anywhere = resolve(PREFIX, &[], text);
    let ours = resolve(PREFIX, &["drive.example:8443", "[::1]"], text);
    if let Ok(Resolved::Here(found)) = &anywhere {
        check(found);
    }
    if let Ok(Resolved::Here(found)) = ours {
        assert_eq!(anywhere.expect("is ours if every host is"), Resolved::Here(found));
    }
}

/// A target keeps within the limits, never climbs, and reads back when every byte of it is encoded.
fn check(found: &Target) {
    let Target::At { at, slash } = found else { return };
    let names = || std::iter::once(at.space.as_str()).chain(at.path.names().iter().map(NodeName::as_str));
    assert!(names().all(|name| !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])));
    assert!(at.path.names().len() <= PATH_DEPTH_MAX && at.path.to_string().len() <= PATH_BYTES_MAX);
    let encoded: Vec<String> = names().map(|name| utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()).collect();
    let written = format!("{PREFIX}/{}{}", encoded.join("/"), if *slash { "/" } else { "" });
    match target(PREFIX, &written) {
        Ok(again) => assert_eq!(again, *found),
        // Encoded it may be longer than a path can be.
        Err(_) => assert!(written.len() > 3 * PATH_BYTES_MAX),
    }
}
