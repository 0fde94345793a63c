//! Checksums that clients send and ask for, in the four spellings in use.
//!
//! `OC-Checksum: SHA1:<hex>` (ownCloud, rclone), `Content-MD5: <base64>` (RFC 1864), `Digest: sha-256=<base64>` (RFC 3230) and
//! `Repr-Digest: sha-256=:<base64>:` (RFC 9530). Algorithms this drive does not compute are passed over, as all four have
//! it; a value that is broken or of the wrong length is refused, since its sender wanted to be protected by it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_base::{Error, Result};
use holdfast_drive::DigestAlgorithm;

/// In which field an answer's digest goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestField {
    /// `Digest` (RFC 3230).
    Digest,
    /// `Repr-Digest` (RFC 9530).
    ReprDigest,
}

impl DigestField {
    /// Writes the field's value.
    pub fn write(self, algorithm: DigestAlgorithm, digest: &[u8]) -> String {
        let name = registered_name(algorithm);
        let value = STANDARD.encode(digest);
        match self {
            Self::Digest => format!("{name}={value}"),
            Self::ReprDigest => format!("{name}=:{value}:"),
        }
    }
}

type Expected = (DigestAlgorithm, Vec<u8>);

/// Reads `OC-Checksum`.
pub fn oc_checksum(text: &str) -> Result<Vec<Expected>> {
    let mut expected = Vec::new();
    for entry in text.split_ascii_whitespace() {
        let (name, value) = entry.split_once(':').ok_or_else(|| bad("OC-Checksum", "SHA1:<hexadecimal>"))?;
        let Some(algorithm) = algorithm(name) else { continue };
        let digest = from_hex(value).filter(|digest| digest.len() == length(algorithm));
        expected.push((algorithm, digest.ok_or_else(|| bad("OC-Checksum", "SHA1:<hexadecimal>"))?));
    }
    Ok(expected)
}

/// Reads `Content-MD5`.
pub fn content_md5(text: &str) -> Result<Vec<Expected>> {
    let digest = decode(DigestAlgorithm::Md5, text.trim()).ok_or_else(|| bad("Content-MD5", "<base64>"))?;
    Ok(vec![(DigestAlgorithm::Md5, digest)])
}

/// Reads `Digest`.
pub fn digest(text: &str) -> Result<Vec<Expected>> {
    list(text, "Digest", "sha-256=<base64>", |value| Some(value))
}

/// Reads `Repr-Digest` (and `Content-Digest`, which is the same for a whole file sent without content coding).
pub fn repr_digest(text: &str) -> Result<Vec<Expected>> {
    list(text, "Repr-Digest", "sha-256=:<base64>:", |value| value.strip_prefix(':')?.strip_suffix(':'))
}

fn list(text: &str, header: &str, form: &str, unwrap: impl Fn(&str) -> Option<&str>) -> Result<Vec<Expected>> {
    let mut expected = Vec::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, value) = entry.split_once('=').ok_or_else(|| bad(header, form))?;
        let Some(algorithm) = algorithm(name.trim()) else { continue };
        let digest = unwrap(value.trim()).and_then(|value| decode(algorithm, value));
        expected.push((algorithm, digest.ok_or_else(|| bad(header, form))?));
    }
    Ok(expected)
}

/// Reads `Want-Digest` (`sha-256;q=1, md5;q=0.3`): the algorithm wanted most of those computed here.
pub fn want_digest(text: &str) -> Option<DigestAlgorithm> {
    most_wanted(text.split(',').map(|entry| {
        let (name, parameters) = entry.split_once(';').unwrap_or((entry, ""));
        let quality = parameters.trim().strip_prefix("q=").map_or(Some(1.0), |q| q.trim().parse::<f32>().ok());
        (name, quality.unwrap_or(0.0))
    }))
}

/// Reads `Want-Repr-Digest` (`sha-256=10, sha=1`): the algorithm wanted most of those computed here.
pub fn want_repr_digest(text: &str) -> Option<DigestAlgorithm> {
    most_wanted(text.split(',').map(|entry| {
        let (name, weight) = entry.split_once('=').unwrap_or((entry, ""));
        (name, weight.trim().parse::<f32>().unwrap_or(0.0))
    }))
}

fn most_wanted<'a>(entries: impl Iterator<Item = (&'a str, f32)>) -> Option<DigestAlgorithm> {
    let known = entries.filter_map(|(name, weight)| Some((algorithm(name.trim())?, weight)));
    let mut best: Option<(DigestAlgorithm, f32)> = None;
    for (algorithm, weight) in known {
        if weight > 0.0 && best.is_none_or(|(_, least)| weight > least) {
            best = Some((algorithm, weight));
        }
    }
    best.map(|(algorithm, _)| algorithm)
}

/// Algorithms by the names of both registries and of ownCloud.
fn algorithm(name: &str) -> Option<DigestAlgorithm> {
    match name.to_ascii_lowercase().as_str() {
        "md5" => Some(DigestAlgorithm::Md5),
        "sha" | "sha1" | "sha-1" => Some(DigestAlgorithm::Sha1),
        "sha-256" | "sha256" => Some(DigestAlgorithm::Sha256),
        "blake3" => Some(DigestAlgorithm::Blake3),
        _ => None,
    }
}

const fn registered_name(algorithm: DigestAlgorithm) -> &'static str {
    match algorithm {
        DigestAlgorithm::Md5 => "md5",
        DigestAlgorithm::Sha1 => "sha",
        DigestAlgorithm::Sha256 => "sha-256",
        DigestAlgorithm::Blake3 => "blake3",
    }
}

const fn length(algorithm: DigestAlgorithm) -> usize {
    match algorithm {
        DigestAlgorithm::Md5 => 16,
        DigestAlgorithm::Sha1 => 20,
        DigestAlgorithm::Sha256 | DigestAlgorithm::Blake3 => 32,
    }
}

fn decode(algorithm: DigestAlgorithm, value: &str) -> Option<Vec<u8>> {
    STANDARD.decode(value).ok().filter(|digest| digest.len() == length(algorithm))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn bad(header: &str, form: &str) -> Error {
    Error::invalid(format!("the {header} header is written {form}, with a digest of the algorithm's length"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_four_spellings_mean_the_same() {
        let base64 = STANDARD.encode([0xab; 16]);
        for read in [
            oc_checksum(&format!("ADLER32:1 MD5:{}", "aB".repeat(16))),
            content_md5(&base64),
            digest(&format!("crc32c=x, MD5={base64}")),
            repr_digest(&format!("md5=:{base64}:")),
        ] {
            assert_eq!(read.expect("reads"), [(DigestAlgorithm::Md5, vec![0xab; 16])]);
        }
    }

    #[test]
    fn a_broken_digest_is_refused_and_an_unknown_one_passed_over() {
        assert!(oc_checksum("MD5:abc").is_err() && oc_checksum("MD5").is_err() && content_md5("!").is_err());
        assert!(digest("md5=AAAA").is_err() && repr_digest("md5=AAAA").is_err());
        assert_eq!(digest("unixsum=30637").expect("passed over"), []);
    }

    #[test]
    fn the_most_wanted_algorithm_is_taken() {
        assert_eq!(want_digest("sha-512, md5;q=0.3, sha;q=0.5"), Some(DigestAlgorithm::Sha1));
        assert_eq!(want_digest("md5;q=0"), None);
        assert_eq!(want_repr_digest("md5=1, sha-256=10"), Some(DigestAlgorithm::Sha256));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(md5|sha|sha-256|MD5)?[=:;]{0,2}.{0,40}") {
            let _ = (oc_checksum(&text), content_md5(&text), digest(&text), repr_digest(&text));
            let _ = (want_digest(&text), want_repr_digest(&text));
        }
    }
}
