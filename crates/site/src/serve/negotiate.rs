//! `Accept-Encoding` (RFC 9110 section 12.5.3), for the two encodings there are.

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// What a client takes, in thousandths; 0 is not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Accepted {
    pub(crate) zstd: u16,
    pub(crate) gzip: u16,
}

impl Accepted {
    /// How much an encoding is wanted.
    pub(crate) fn of(self, encoding: &str) -> u16 {
        match encoding {
            "zstd" => self.zstd,
            "gzip" => self.gzip,
            _ => 0,
        }
    }
}

/// Reads the header. Without one, the content is sent as it is, which every client takes.
pub(crate) fn accepted(headers: &HeaderMap) -> Accepted {
    accepted_of(headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()))
}

/// The same from the header's values.
pub(crate) fn accepted_of<'a>(values: impl IntoIterator<Item = &'a str>) -> Accepted {
    let (mut zstd, mut gzip, mut rest) = (None, None, 0);
    for text in values {
        for item in text.split(',') {
            let (name, weight) = item.split_once(';').map_or((item, 1_000), |(name, more)| (name, weight(more)));
            let name = name.trim();
            if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
                gzip = Some(weight);
            } else if name.eq_ignore_ascii_case("zstd") {
                zstd = Some(weight);
            } else if name == "*" {
                rest = weight;
            }
        }
    }
    Accepted { zstd: zstd.unwrap_or(rest), gzip: gzip.unwrap_or(rest) }
}

/// A weight (RFC 9110 section 12.4.2); a broken one counts as none at all, so that nobody gets what they cannot read.
fn weight(text: &str) -> u16 {
    let Some(value) = text.trim().strip_prefix("q=").or_else(|| text.trim().strip_prefix("Q=")) else { return 0 };
    match value.trim().parse::<f32>() {
        Ok(q) if (0.0..=1.0).contains(&q) => (0..=1_000).rev().find(|n| f32::from(*n) <= q * 1_000.0).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> (u16, u16) {
        let headers = std::iter::once((ACCEPT_ENCODING, text.parse().expect("a value"))).collect();
        let Accepted { zstd, gzip } = accepted(&headers);
        (zstd, gzip)
    }

    #[test]
    fn weights_names_and_stars_are_read() {
        assert_eq!(of("gzip, deflate, br, zstd"), (1_000, 1_000));
        assert_eq!(of("GZIP;q=0.5 , zstd; q=0"), (0, 500));
        assert_eq!(of("*;q=0.1, gzip"), (100, 1_000));
        assert_eq!(of("identity"), (0, 0));
        assert_eq!(of("gzip;q=2, zstd;level=3"), (0, 0));
        assert_eq!(accepted(&HeaderMap::new()), Accepted::default());
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[a-z*;=q0-9., ]{0,40}") {
            let _ = of(&text);
        }
    }
}
