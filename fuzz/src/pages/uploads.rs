//! The headers of tus.

use super::{parts, value};
use holdfast_api::fuzzed::{tus_checksum, tus_metadata, tus_numbers};
use holdfast_base::limits::FILE_BYTES_MAX;
use http::HeaderMap;

/// Headers, one a line as they are sent.
pub fn tus(data: &[u8]) {
    let [fields, key] = parts(data);
    let mut headers = HeaderMap::new();
    for line in fields.split(|byte| *byte == b'\n').take(32) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = http::HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Some(value)) = (name, value(line[colon + 1..].trim_ascii())) {
            headers.append(name, value);
        }
    }
    let (length, _) = tus_numbers(&headers);
    assert!(length.is_none_or(|length| length <= FILE_BYTES_MAX));
    assert!(tus_checksum(&headers).is_none_or(|bytes| [16, 20, 32].contains(&bytes)));
    for key in ["path", "space", "filename", "conflict", "if_match", "modified_ms", &String::from_utf8_lossy(key)] {
        let found = tus_metadata(&headers, key);
        assert!(found.is_none_or(|found| !found.is_empty() && found.len() <= data.len()), "{key}");
    }
}
