//! Compressed forms of content, made once when it is published.
//!
//! gzip is what every client takes; zstd is smaller and faster to open, and current browsers take it. Brotli is left out: it gains
//! a few percent over zstd at these levels and its encoder is the largest dependency this crate would have.

use crate::limits::{VARIANT_BYTES_MAX, VARIANT_BYTES_MIN};
use flate2::Compression;
use flate2::write::GzEncoder;
use holdfast_base::{Error, Result};
use std::io::Write;

/// Level of zstd: published once, read often; 19 takes about a second a megabyte.
const ZSTD_LEVEL: i32 = 19;

/// Encodings in the order in which a client that takes all of them gets one.
pub(crate) const ENCODINGS: [&str; 2] = ["zstd", "gzip"];

/// Whether a type is worth compressing: text of any kind, and the few formats that are text or not compressed themselves.
pub(crate) fn shrinks(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.starts_with("text/")
        || ["+xml", "+json", "/json", "/xml", "/javascript", "/wasm", "/ttf", "/otf", "/bmp", "manifest+json"]
            .iter()
            .any(|end| kind.ends_with(end))
}

/// Whether content of this type and size gets compressed forms.
pub(crate) fn wanted(kind: &str, bytes: u64) -> bool {
    shrinks(kind) && (VARIANT_BYTES_MIN..=VARIANT_BYTES_MAX).contains(&bytes)
}

/// The forms that are smaller than the content by a twentieth at least.
pub(crate) fn compress(content: &[u8]) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(content)?;
    let gzip = gzip.finish()?;
    let zstd = zstd::bulk::compress(content, ZSTD_LEVEL).map_err(Error::from)?;
    let small = |form: &Vec<u8>| form.len() < content.len() - content.len() / 20;
    Ok([("zstd", zstd), ("gzip", gzip)].into_iter().filter(|(_, form)| small(form)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn text_shrinks_and_reads_back_and_noise_is_left_as_it_is() {
        let text = b"the same words again and again, ".repeat(100);
        let forms = compress(&text).expect("compresses");
        assert_eq!(forms.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ENCODINGS);
        assert_eq!(zstd::bulk::decompress(&forms[0].1, text.len()).expect("opens"), text);
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&forms[1].1[..]).read_to_end(&mut back).expect("opens");
        assert_eq!(back, text);
        let mut noise = vec![0; 4_000];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        assert!(compress(&noise).expect("compresses").is_empty());
    }

    #[test]
    fn text_types_are_compressed_and_pictures_are_not() {
        for kind in ["text/html; charset=utf-8", "application/json", "image/svg+xml", "application/wasm"] {
            assert!(wanted(kind, 1_000), "{kind}");
        }
        for kind in ["image/png", "application/zip", "font/woff2", "video/mp4"] {
            assert!(!wanted(kind, 1_000), "{kind}");
        }
        assert!(!wanted("text/html", 10) && !wanted("text/html", VARIANT_BYTES_MAX + 1));
    }
}
