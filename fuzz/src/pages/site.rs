//! A site's sources: configuration, pages, templates, fragments.

use super::parts;
use bytes::Bytes;
use holdfast_site::compose::{Place, Sources, compose, search};
use holdfast_site::settings::{check_host, check_path};

/// What may come out of sources of a few KiB.
const OUTPUT_BYTES_MAX: usize = 64 << 20;
/// Where the parts of the input are in the folder.
const NAMES: [&str; 6] =
    ["site.toml", "index.md", "about.html", "_templates/page.html", "_fragments/nav.html", "de/index.md"];

/// Files, in this order.
pub fn site(data: &[u8]) {
    let files: [&[u8]; NAMES.len()] = parts(data);
    let given = NAMES.iter().zip(files).filter(|(_, bytes)| !bytes.is_empty());
    let texts = given.map(|(name, bytes)| ((*name).to_owned(), Bytes::copy_from_slice(bytes))).collect();
    let plain = [("picture.png".to_owned(), (7, Some(1_000)))].into();
    let place = Place { path: "/docs".to_owned(), url: Some("https://site.example/docs".to_owned()), public: true };
    match compose(Sources { texts, plain }, &place) {
        Err(error) => assert!(!error.message().is_empty()),
        Ok(composed) => {
            let bytes: usize = composed.outputs.iter().map(|output| output.bytes.len()).sum();
            assert!(bytes <= OUTPUT_BYTES_MAX, "{bytes} bytes out of {}", data.len());
            for output in &composed.outputs {
                assert!(output.route.starts_with('/') && !output.route.contains("/../"), "{}", output.route);
                assert!(http::HeaderValue::from_str(&output.kind).is_ok(), "{}", output.kind);
            }
            let query = String::from_utf8_lossy(&data[..data.len().min(100)]);
            let _ = search(&composed.search, &query);
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = (check_host(text), check_path(text));
    }
}
