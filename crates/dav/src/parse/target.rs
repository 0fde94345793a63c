//! Paths and URIs: the request target, `Destination`, and the resource tags of `If`.
//!
//! What is below the face's prefix is read by [`place`].

use holdfast_base::{Error, Result};
use holdfast_drive::Location;
use holdfast_http::place;

/// What a path below the face's prefix names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The list of spaces.
    Spaces,
    /// A place in a space.
    At {
        /// Where.
        at: Location,
        /// Whether the path ended in a slash, which says that the client means a collection.
        slash: bool,
    },
}

/// What a URI in a header names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// A target of this face.
    Here(Target),
    /// Another host, or a path outside this face.
    Elsewhere,
}

/// Reads the path of a request, with `prefix` (such as `/dav`) before it. A path outside the prefix is `NotFound`; one over a
/// length limit `TooLarge`.
pub fn target(prefix: &str, path: &str) -> Result<Target> {
    let rest = below(prefix, path).ok_or_else(|| Error::not_found(format!("WebDAV is below {prefix}/")))?;
    let Some((space, path)) = place(rest)? else { return Ok(Target::Spaces) };
    Ok(Target::At { at: Location { space, path }, slash: rest.ends_with('/') })
}

/// The path below the prefix, which ends where a segment ends.
fn below<'a>(prefix: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Resolves a URI of a header: absolute (`http://host/dav/…`) or a path. `hosts` are the names under which this request or
/// the operator says the drive is reached; with none, every host is taken for ours. A query or fragment is refused,
/// since it most likely is an unencoded `?` or `#` of a name.
pub fn resolve(prefix: &str, hosts: &[&str], uri: &str) -> Result<Resolved> {
    let uri = uri.trim();
    if uri.contains(['?', '#']) {
        return Err(Error::invalid("a URI with a query or fragment names nothing here; write ? as %3F and # as %23"));
    }
    let path = if let Some((scheme, rest)) = uri.split_once("://") {
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Ok(Resolved::Elsewhere);
        }
        let (authority, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        if !hosts.is_empty() && !hosts.iter().any(|own| same_host(own, host)) {
            return Ok(Resolved::Elsewhere);
        }
        path
    } else if uri.starts_with('/') && !uri.starts_with("//") {
        uri
    } else {
        return Err(Error::invalid("write the URI as http://host/path or as a path that begins with a slash"));
    };
    if below(prefix, path).is_none() {
        return Ok(Resolved::Elsewhere);
    }
    target(prefix, path).map(Resolved::Here)
}

/// Whether two authorities name one host. Ports are compared only if both have one: a proxy that ends TLS changes the
/// scheme's default port, and it is not known here.
fn same_host(left: &str, right: &str) -> bool {
    let (left_name, left_port) = split_port(left);
    let (right_name, right_port) = split_port(right);
    left_name.eq_ignore_ascii_case(right_name)
        && (left_port.is_none() || right_port.is_none() || left_port == right_port)
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => (name, Some(port)),
        _ => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::ErrorKind;
    use proptest::prelude::*;

    fn kind(path: &str) -> ErrorKind {
        target("/dav", path).expect_err(path).kind()
    }

    #[test]
    fn paths_that_climb_hide_or_break_are_refused() {
        for bad in ["..", "a/../b", "a/%2e%2e", "%2E", "a%2Fb", "a%00b", "%ff", "%c3%28", "a%0ab", "100%", "%4", "%zz"]
        {
            assert_eq!(kind(&format!("/dav/ana/{bad}")), ErrorKind::InvalidInput, "{bad}");
        }
        assert_eq!(kind("/dav/%2e%2e/x"), ErrorKind::InvalidInput);
        assert_eq!(kind("/davx/ana"), ErrorKind::NotFound);
        assert_eq!(kind(&format!("/dav/ana/{}", "x".repeat(256))), ErrorKind::TooLarge);
        assert_eq!(kind(&format!("/dav/ana/{}", "x/".repeat(1_025))), ErrorKind::TooLarge);
    }

    #[test]
    fn the_prefix_alone_is_the_list_of_spaces() {
        for path in ["/dav", "/dav/", "/dav//"] {
            assert_eq!(target("/dav", path).expect(path), Target::Spaces);
        }
    }

    #[test]
    fn names_are_decoded_once_and_plus_is_a_plus() {
        let Target::At { at, slash } = target("/dav", "/dav/ana//a%2520b/c+d/").expect("parses") else {
            panic!("a place")
        };
        assert_eq!((at.to_string().as_str(), slash), ("/ana/a%20b/c+d", true));
    }

    #[test]
    fn another_host_is_elsewhere_and_another_port_of_a_proxy_is_not() {
        let at = |uri| resolve("/dav", &["drive.example:8443"], uri).expect(uri);
        assert_eq!(at("http://other.example/dav/a/b"), Resolved::Elsewhere);
        assert_eq!(at("http://drive.example:80/dav/a/b"), Resolved::Elsewhere);
        assert_eq!(at("ftp://drive.example/dav/a/b"), Resolved::Elsewhere);
        assert_eq!(at("/other/a"), Resolved::Elsewhere);
        for ours in ["https://DRIVE.example/dav/a", "http://me@drive.example:8443/dav/a", "/dav/a"] {
            assert!(matches!(at(ours), Resolved::Here(_)), "{ours}");
        }
        for bad in ["dav/a", "", "//drive.example/dav/a", "/dav/a?b", "/dav/a#b"] {
            assert!(resolve("/dav", &[], bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_read_or_refused(path in ".{0,200}") {
            let _ = target("/dav", &path);
            let _ = target("/dav", &format!("/dav/{path}"));
            let _ = resolve("/dav", &["h"], &path);
            let _ = resolve("/dav", &["h"], &format!("http://{path}"));
        }
    }
}
