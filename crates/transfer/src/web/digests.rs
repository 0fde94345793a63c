//! Sums of files in the heads of answers: `Repr-Digest` and `Content-Digest` (RFC 9530), `Digest` (RFC 3230) and `Content-MD5` (RFC 2616), and in files
//! beside files.

use crate::sum::{Sum, SumKind};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;

/// The strongest sum of the whole file that an answer tells. Some fields are of what the answer itself holds, which is the file only if it is
/// `whole`.
pub fn sum(headers: &HeaderMap, whole: bool) -> Option<Sum> {
    let fields = |name: &str| headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>();
    let mut sums = Vec::new();
    for name in ["repr-digest", "content-digest"].into_iter().filter(|name| whole || *name == "repr-digest") {
        for value in fields(name) {
            sums.extend(pairs(value).filter_map(|(kind, sum)| {
                of(kind, sum.split(';').next()?.trim().strip_prefix(':')?.strip_suffix(':')?)
            }));
        }
    }
    for value in fields("digest") {
        sums.extend(pairs(value).filter_map(|(kind, sum)| of(kind, sum)));
    }
    for value in fields("content-md5").into_iter().filter(|_| whole) {
        sums.extend(of("md5", value));
    }
    sums.into_iter().max_by_key(|sum| sum.kind().size())
}

fn pairs(value: &str) -> impl Iterator<Item = (&str, &str)> {
    value.split(',').filter_map(|pair| pair.trim().split_once('='))
}

fn of(kind: &str, base64: &str) -> Option<Sum> {
    Sum::new(kind_of(kind)?, &BASE64_STANDARD.decode(base64.trim()).ok()?).ok()
}

/// The kind of a sum by the names that headers and Metalinks have for it.
pub(super) fn kind_of(name: &str) -> Option<SumKind> {
    match name.trim().to_ascii_lowercase().as_str() {
        "md5" => Some(SumKind::Md5),
        "sha" | "sha1" | "sha-1" => Some(SumKind::Sha1),
        "sha256" | "sha-256" => Some(SumKind::Sha256),
        "sha384" | "sha-384" => Some(SumKind::Sha384),
        "sha512" | "sha-512" => Some(SumKind::Sha512),
        _ => None,
    }
}

/// The strongest of some sums in hexadecimal digits.
pub(super) fn strongest(sums: &[(String, String)]) -> Option<Sum> {
    let sums = sums.iter().filter_map(|(kind, digits)| Sum::from_hex(kind_of(kind)?, digits).ok());
    sums.max_by_key(|sum| sum.kind().size())
}

/// The SHA-256 of a file in a file `NAME.sha256`, as `sha256sum` writes it: the digits, and perhaps a name, of which the last part counts.
pub fn side_file(text: &[u8], name: &str) -> Option<Sum> {
    let text = std::str::from_utf8(text).ok()?;
    text.lines().find_map(|line| {
        let (digits, of) = line.trim().split_once([' ', '\t']).unwrap_or((line.trim(), ""));
        let of = of.trim_start().trim_start_matches('*').rsplit('/').next().unwrap_or_default();
        if of.is_empty() || of == name { Sum::from_hex(SumKind::Sha256, digits).ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY_256: &str = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    const EMPTY_MD5: &str = "1B2M2Y8AsgTpgAmY7PhCfg==";

    fn told(name: &'static str, value: &str, whole: bool) -> Option<SumKind> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a value"));
        let sum = sum(&headers, whole)?;
        assert_eq!(sum, Sum::of(sum.kind(), b""), "{value}");
        Some(sum.kind())
    }

    #[test]
    fn the_strongest_sum_of_the_whole_file_counts() {
        let both = format!("md5=:{EMPTY_MD5}:, sha-256=:{EMPTY_256}:");
        assert_eq!(told("repr-digest", &both, false), Some(SumKind::Sha256));
        assert_eq!(told("content-digest", &both, true), Some(SumKind::Sha256));
        assert_eq!(told("content-digest", &both, false), None, "of a part");
        assert_eq!(told("digest", &format!("MD5={EMPTY_MD5},SHA-256={EMPTY_256}"), false), Some(SumKind::Sha256));
        assert_eq!(told("content-md5", EMPTY_MD5, true), Some(SumKind::Md5));
        for bad in ["", "sha-256", "sha-256=:x:", "sha-256=::", "crc32=:AAAA:", "sha-512=:1B2M2Y8AsgTpgAmY7PhCfg==:"] {
            assert_eq!(told("repr-digest", bad, true), None, "{bad}");
        }
    }

    #[test]
    fn files_beside_files_are_read_as_they_are_written() {
        let digits = Sum::of(SumKind::Sha256, b"x").to_string();
        for text in [
            digits.clone(),
            format!("{digits}  a b\n"),
            format!("{digits} *dist/a b\n"),
            format!("0 other\n{digits}  a b"),
        ] {
            assert_eq!(side_file(text.as_bytes(), "a b"), Some(Sum::of(SumKind::Sha256, b"x")), "{text}");
        }
        assert_eq!(side_file(format!("{digits}  other").as_bytes(), "a b"), None);
        assert_eq!(side_file(b"<html>\xff", "a b"), None);
    }
}
