//! Checksums that clients send and ask for.

use holdfast_dav::parse::{DigestField, content_md5, digest, oc_checksum, repr_digest, want_digest, want_repr_digest};

/// One header's value, in all four spellings.
pub fn digests(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = (want_digest(text), want_repr_digest(text));
    for (field, read) in [(DigestField::Digest, digest as fn(&str) -> _), (DigestField::ReprDigest, repr_digest)] {
        for expected in read(text).unwrap_or_default() {
            assert_eq!(read(&field.write(expected.0, &expected.1)).expect("reads what was written"), [expected]);
        }
    }
    for (_, digest) in oc_checksum(text).unwrap_or_default().into_iter().chain(content_md5(text).unwrap_or_default()) {
        assert!(matches!(digest.len(), 16 | 20 | 32));
    }
}
