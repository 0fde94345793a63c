//! A place in the drive as the path of a URL writes it: a space, then names.
//!
//! The path is split at its slashes first and percent-decoded after, once, so an encoded slash never makes a segment; decoded segments
//! must be UTF-8 and pass the rules of [`NodeName`] (no NUL or control character, no `.` and `..`). Doubled slashes count as
//! one. Nothing is normalised: what a client writes is what it finds.

use holdfast_base::limits::{PATH_BYTES_MAX, PATH_DEPTH_MAX};
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use percent_encoding::percent_decode_str;

/// Reads `/space/name/name`; none if there is no space. Over a length limit is `TooLarge`.
pub fn place(path: &str) -> Result<Option<(String, DrivePath)>> {
    let too_long = || Error::new(ErrorKind::TooLarge, format!("a path can have {PATH_BYTES_MAX} bytes at most"));
    if path.len() > 3 * PATH_BYTES_MAX {
        return Err(too_long());
    }
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let Some(space) = segments.next() else { return Ok(None) };
    let space = decode(space)?.as_str().to_owned();
    let mut names = Vec::new();
    for segment in segments {
        if names.len() == PATH_DEPTH_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("a path can be {PATH_DEPTH_MAX} levels deep at most")));
        }
        names.push(decode(segment)?);
    }
    if names.iter().map(|name| name.as_str().len() + 1).sum::<usize>() > PATH_BYTES_MAX {
        return Err(too_long());
    }
    Ok(Some((space, DrivePath::from_names(names)?)))
}

fn decode(segment: &str) -> Result<NodeName> {
    let bytes = segment.as_bytes();
    let escapes_are_whole = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').all(|(index, _)| {
        bytes.get(index + 1..index + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    if !escapes_are_whole {
        return Err(Error::invalid("a percent sign in a path is followed by two hexadecimal digits; write % as %25"));
    }
    let text = percent_decode_str(segment)
        .decode_utf8()
        .map_err(|_| Error::invalid("a name in the path is not UTF-8 after percent-decoding"))?;
    NodeName::new(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> (String, String) {
        let (space, path) = place(path).expect("reads").expect("names a space");
        (space, path.to_string())
    }

    #[test]
    fn names_are_decoded_once_and_after_the_path_is_split() {
        assert_eq!(read("/ana/a%20b/%C3%A9%2525"), ("ana".into(), "/a b/é%25".into()));
        assert_eq!(read("ana//a/"), ("ana".into(), "/a".into()));
        assert_eq!(read("/ana").1, "/");
        assert!(place("/").expect("reads").is_none());
    }

    #[test]
    fn what_climbs_or_cannot_be_a_name_is_refused() {
        for bad in ["/a/..", "/a/%2e%2E/b", "/a/b%2Fc", "/a/%00", "/a/%0a", "/a/%", "/a/%4", "/a/%FF", "/../a"] {
            assert_eq!(place(bad).expect_err(bad).kind(), ErrorKind::InvalidInput, "{bad}");
        }
        assert_eq!(place(&"/a".repeat(PATH_BYTES_MAX)).expect_err("deep").kind(), ErrorKind::TooLarge);
    }
}
